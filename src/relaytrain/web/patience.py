"""Long readings beside the questions: a page that would have to wait for one says so, and asks again by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any, TypeVar, cast

from ..core.errors import RelayTrainError

PATIENCE_S = 0.4
"""How long a page waits before it says that something is still being read."""
AT_ONCE = 2
"""Readings at the same time; the others wait for them."""
MOST_WAITING = 32

T = TypeVar("T")


class StillReading(RelayTrainError):
    """Not an error: what was asked for is being read, and will be there when it is asked for again."""


class Readings:
    """Readings by what they read, each begun once however often it is asked for."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.patience_s = patience_s
        self._begun: dict[str, Future[Any]] = {}
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(AT_ONCE)

    def ask(self, what: str, read: Callable[[], T]) -> T:
        """What `read` gives, if it does within the time that a page waits.

        Raises:
            StillReading: it goes on, beside; the same question will find it.
        """
        with self._lock:
            reading = self._begun.get(what)
            if reading is None:
                if len(self._begun) >= MOST_WAITING:
                    raise StillReading(f"{what}, after {len(self._begun)} others")
                reading = self._begun[what] = Future()
                threading.Thread(target=self._go, args=(reading, read), daemon=True).start()
        try:
            found = reading.result(timeout=self.patience_s)
        except NotYet:
            if not reading.done():
                raise StillReading(what) from None
            found = reading.result()
        finally:
            if reading.done():
                with self._lock:
                    if self._begun.get(what) is reading:
                        del self._begun[what]
        return cast(T, found)

    def _go(self, reading: Future[Any], read: Callable[[], Any]) -> None:
        with self._places:
            try:
                reading.set_result(read())
            except BaseException as error:  # it belongs to whoever asked
                reading.set_exception(error)
