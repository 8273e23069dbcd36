"""How nodes are divided among processes that play several of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..core.errors import UsageError


def divide(sizes: Mapping[str, int], workers: int, apart: Collection[Collection[str]] = ()) -> list[tuple[str, ...]]:
    """Nodes among workers, the largest first, each to the worker that has least; the same way every time.

    Args:
        sizes: by node.
        workers: how many there may be.
        apart: nodes of one of these work at the same time, so no worker has two of them.

    Raises:
        UsageError: too few workers for that.
    """
    if workers < 1:
        raise UsageError(f"workers: got {workers}, expected at least 1")
    shares: list[list[str]] = [[] for _ in range(min(workers, len(sizes)))]
    for node in sorted(sizes, key=lambda node: (-sizes[node], node)):
        beside = {other for group in apart if node in group for other in group}
        free = [share for share in shares if not beside & set(share)]
        if not free:
            raise UsageError(
                f"{workers} nodes on Flower are too few: {', '.join(sorted(beside))} are stages of a pipeline, run at "
                "the same time and need one each"
            )
        min(free, key=lambda share: sum(sizes[n] for n in share)).append(node)
    return [tuple(sorted(share)) for share in shares]
