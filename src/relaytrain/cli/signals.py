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

AGAIN_S = 0.01
Unraisable = Callable[["sys.UnraisableHookArgs"], object]
NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """What was heard of them, and who is to be told."""

    def __init__(self) -> None:
        self.heard = 0
        self.settled = False
        self.broke = False
        """A verb was interrupted where it stood: whatever it raises, code that was hit may have made it of that."""
        self._held = False
        self._run: Stop | None = None
        self._says = True

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.settled:
            return
        if self._held or _inside_numba(frame):
            self._send_later()
            return
        self.heard += 1
        if self._run is None:
            self.broke = True
            raise KeyboardInterrupt
        if self.heard == 1 and self._says:
            _shout("stopping after this epoch; Ctrl-C again drops it")
        self._run.ask()

    def _again(self, otherwise: Unraisable) -> Unraisable:
        """What hears of errors that Python drops, in destructors and callbacks: a signal that hit one is sent again."""

        def hook(dropped: sys.UnraisableHookArgs) -> None:
            self._held = True  # here it would be dropped again
            try:
                if not issubclass(dropped.exc_type, KeyboardInterrupt):
                    otherwise(dropped)
                    return
                self._send_later()
            finally:
                self._held = False

        return hook

    def _send_later(self) -> None:
        later = threading.Timer(AGAIN_S, self._send)
        later.daemon = True
        later.start()

    def _send(self) -> None:
        if not self.settled:
            os.kill(os.getpid(), signal.SIGINT if _wanted(signal.SIGINT) else signal.SIGTERM)

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Hear signals inside the block; only the main thread of a process can."""
        self.__init__()  # type: ignore[misc]
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        unraisable, sys.unraisablehook = sys.unraisablehook, self._again(sys.unraisablehook)
        before = [(number, signal.signal(number, self._hear)) for number in NUMBERS if _wanted(number)]
        try:
            yield
        finally:
            self.settled = True
            for number, handler in before:
                signal.signal(number, handler)
            sys.unraisablehook = unraisable

    @contextmanager
    def stopping(self, *, says: bool = True) -> Iterator[Stop]:
        """A run inside the block is asked to stop; what it ends with stands. `says`: and we say so."""
        from ..relay.stopping import Stop

        self._run, self._says = Stop(), says
        try:
            yield self._run
        finally:
            self.settled = True


signals = Signals()


def _inside_numba(frame: FrameType | None) -> bool:
    """Whether compiled code is being entered or left. An exception there ends in a SystemError, or the interpreter
    crashes: results that are named tuples are made by Python code, and its failure is not looked for."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(("numba.", "namedtuple_")):
            return True
        frame = frame.f_back
    return False


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
