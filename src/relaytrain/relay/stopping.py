"""How a run is asked to end from outside: once, in order; again, at once. What is being written is written whole.

A request may come at any moment, from a signal that interrupts any line. It raises `KeyboardInterrupt` only inside
blocks that the loop has marked as `droppable`, where planning or training is all that is lost; elsewhere it is
remembered, and the loop ends at its next step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from ..core.errors import interrupted
from .job import StopAsked

NEVER = 1 << 30


class Stop:
    """Requests to end a run, counted: the first ends it after its epoch, the second drops the epoch too."""

    def __init__(self) -> None:
        self.asked = 0
        self.dropped = False
        """Something was dropped: whatever it raises, code that was hit may have made it of that."""
        self._enough = NEVER

    def __call__(self) -> bool:
        """Whether to end."""
        return self.asked > 0

    def ask(self) -> None:
        """One request more; raises `KeyboardInterrupt` where what is under way may be dropped for it."""
        self.asked += 1
        self._drop()

    def _drop(self) -> None:
        if self.asked >= self._enough:
            self.dropped = True
            raise KeyboardInterrupt

    @contextmanager
    def droppable(self, requests: int) -> Iterator[None]:
        """From so many requests on, what happens inside the block ends at once."""
        try:
            self._enough = requests
            self._drop()
            yield
        finally:
            self._enough = NEVER


def dropped(stop: StopAsked | None, error: BaseException) -> bool:
    """Whether an error comes of a request to end."""
    return interrupted(error) or (isinstance(stop, Stop) and stop.dropped)


def droppable(stop: StopAsked | None, requests: int) -> AbstractContextManager[None]:
    """`Stop.droppable` where a `Stop` was handed in; other functions are only asked between epochs."""
    return stop.droppable(requests) if isinstance(stop, Stop) else nullcontext()
