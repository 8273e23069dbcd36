"""Whether this process is the ServerApp, and the grid it was given. Imports nothing of Flower's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...core.errors import UsageError

_grids: list[Any] = []


@contextmanager
def having(grid: Any) -> Iterator[None]:
    """Inside the block this process is a ServerApp with `grid`."""
    _grids.append(grid)
    try:
        yield
    finally:
        _grids.pop()


def is_serverapp() -> bool:
    """Whether there is a grid."""
    return bool(_grids)


def the_grid() -> Any:
    """Flower's grid.

    Raises:
        UsageError: this process is no ServerApp.
    """
    if not _grids:
        raise UsageError(
            'transport: "flower" needs a SuperLink: `relaytrain run ... --transport flower --local-flower 3`, or '
            "--superlink ADDRESS"
        )
    return _grids[-1]
