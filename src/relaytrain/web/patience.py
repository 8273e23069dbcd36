"""Long readings beside the questions: a page that would have to wait for one says so, and asks again by itself."""

from __future__ import annotations

import math
import threading
import time
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
KEPT_S = 30.0
"""How long what was read waits for its page to ask again; the page asks every second. Later it is read anew."""

T = TypeVar("T")


class StillReading(RelayTrainError):
    """Not an error: what was asked for is being read, and will be there when it is asked for again."""


class _Reading:
    """One under way, or done since `done_s`."""

    def __init__(self) -> None:
        self.answer: Future[Any] = Future()
        self.done_s = math.inf


class Readings:
    """Readings by what they read, each begun once however often it is asked for."""

    def __init__(self, patience_s: float = PATIENCE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self.patience_s, self._clock = patience_s, clock
        self._begun: dict[str, _Reading] = {}
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(AT_ONCE)

    def ask(self, what: str, read: Callable[[], T]) -> T:
        """What `read` gives, if it does within the time that a page waits.

        Raises:
            StillReading: it goes on, beside; the same question will find it.
        """
        reading = self._reading(what, read)
        try:
            answer = reading.answer.result(timeout=self.patience_s)
        except NotYet:
            if not reading.answer.done():
                raise StillReading(what) from None
            answer = reading.answer.result()
        finally:
            if reading.answer.done():
                with self._lock:
                    if self._begun.get(what) is reading:
                        del self._begun[what]
        return cast(T, answer)

    def _reading(self, what: str, read: Callable[[], Any]) -> _Reading:
        """The one that was begun, or another; what nobody has come back for is forgotten."""
        with self._lock:
            now_s = self._clock()
            self._begun = {name: each for name, each in self._begun.items() if now_s - each.done_s <= KEPT_S}
            reading = self._begun.get(what)
            if reading is None:
                waiting = sum(not each.answer.done() for each in self._begun.values())
                if waiting >= MOST_WAITING:
                    raise StillReading(f"{what}, after {waiting} others")
                reading = self._begun[what] = _Reading()
                threading.Thread(target=self._go, args=(reading, read), daemon=True).start()
            return reading

    def _go(self, reading: _Reading, read: Callable[[], Any]) -> None:
        with self._places:
            try:
                answer = read()
            except BaseException as error:  # it belongs to whoever asked
                reading.done_s = self._clock()
                reading.answer.set_exception(error)
            else:
                reading.done_s = self._clock()
                reading.answer.set_result(answer)
