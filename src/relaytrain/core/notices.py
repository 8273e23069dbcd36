"""Words for whoever watches, from places that know no screen: whoever has one hears them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Hear = Callable[[str], None]
_hearer: ContextVar[Hear | None] = ContextVar("relaytrain_notices", default=None)


def say(words: str) -> None:
    """Tell whoever watches; nobody may."""
    hear = _hearer.get()
    if hear is not None:
        hear(words)


@contextmanager
def hearing(hear: Hear) -> Iterator[None]:
    """Let `hear` be told inside the block."""
    token = _hearer.set(hear)
    try:
        yield
    finally:
        _hearer.reset(token)
