"""How nodes are divided among processes that play several of them."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.errors import UsageError


def divide(sizes: Mapping[str, int], workers: int) -> list[tuple[str, ...]]:
    """Nodes among workers, the largest first, each to the worker that has least; the same way every time."""
    if workers < 1:
        raise UsageError(f"workers: got {workers}, expected at least 1")
    shares: list[list[str]] = [[] for _ in range(min(workers, len(sizes)))]
    for node in sorted(sizes, key=lambda node: (-sizes[node], node)):
        min(shares, key=lambda share: sum(sizes[n] for n in share)).append(node)
    return [tuple(sorted(share)) for share in shares]
