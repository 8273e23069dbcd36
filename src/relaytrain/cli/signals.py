"""Ctrl-C and SIGTERM: one pair of handlers for the whole of a command, which ends it with exit status 6.

A verb is interrupted where it stands. `run` and `resume` are asked to stop instead (`relay/stopping.py`), and once
their outcome stands, nothing changes it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from .output import note, talk

if TYPE_CHECKING:
    from ..relay.stopping import Stop

NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """What was heard of them, and who is to be told."""

    def __init__(self) -> None:
        self.heard = 0
        self.settled = False
        self._run: Stop | None = None

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.heard += 1
        if self.settled:
            return
        if self._run is None:
            raise KeyboardInterrupt
        if self.heard == 1:
            _shout("stopping after this epoch; Ctrl-C again drops it")
        self._run.ask()

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Hear signals inside the block; only the main thread of a process can."""
        self.__init__()  # type: ignore[misc]
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        unraisable, sys.unraisablehook = sys.unraisablehook, _again(sys.unraisablehook)
        before = [(number, signal.signal(number, self._hear)) for number in NUMBERS if _wanted(number)]
        try:
            yield
        finally:
            self.settled = True
            for number, handler in before:
                signal.signal(number, handler)
            sys.unraisablehook = unraisable

    @contextmanager
    def stopping(self) -> Iterator[Stop]:
        """A run inside the block is asked to stop; what it ends with stands."""
        from ..relay.stopping import Stop

        self._run = Stop()
        try:
            yield self._run
        finally:
            self.settled = True


signals = Signals()


def _again(otherwise: Callable[[sys.UnraisableHookArgs], object]) -> Callable[[sys.UnraisableHookArgs], object]:
    """What hears of errors that Python drops, in destructors and callbacks: a signal that hit one is sent once more."""

    def hook(dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        else:
            otherwise(dropped)

    return hook


def _wanted(number: int) -> bool:
    """Whether whoever started us lets us hear it: `nohup` and shells in the background do not."""
    return signal.getsignal(number) is not signal.SIG_IGN


def deafen() -> None:
    """From now on signals are for whoever hears them next, and for nobody until then."""
    for number in NUMBERS:
        if _wanted(number):
            signal.signal(number, lambda number, frame: None)


def _shout(words: str) -> None:
    """A line on stderr from inside a handler, where the stream itself may be in the middle of another line."""
    if talk.quiet:
        return
    try:
        os.write(sys.stderr.fileno(), f"{words}\n".encode())
    except (OSError, ValueError, AttributeError):  # a stream without a file
        note(words)
