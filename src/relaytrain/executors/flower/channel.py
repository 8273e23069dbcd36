"""Words and signals between the command line and the ServerApp that it has submitted: frames on a Unix socket.

| to the ServerApp | keys |
|---|---|
| program | module, arguments, folder, environment |
| signal | number |

| from it | keys |
|---|---|
| hello | pid |
| out, err | the body is text |
| status | status |
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, cast

from ..frames import read_frame, write_frame

GRACE_S = 2.0
"""Between the first signal and the second, when nobody is at the other end any more."""


class ProgramEnd:
    """The ServerApp's end."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._stream = cast(BinaryIO, self._socket.makefile("rwb"))
        self._lock = threading.Lock()
        self._done = threading.Event()

    def receive(self) -> dict[str, Any]:
        """The program that is to run; afterwards signals are heard."""
        self.send("hello", pid=os.getpid())
        frame = read_frame(self._stream)
        if frame is None:
            raise ConnectionError("whoever submitted this run has gone")
        threading.Thread(target=self._hear, daemon=True).start()
        return frame[0]

    def send(self, kind: str, body: bytes = b"", **header: Any) -> None:
        """A frame; nobody has to be there to hear it."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            write_frame(self._stream, kind, body, **header)

    def text(self, kind: str) -> io.TextIOWrapper:
        """A text stream whose lines go out as frames of `kind`."""
        return io.TextIOWrapper(io.BufferedWriter(_Raw(self, kind)), encoding="utf-8", line_buffering=True)

    def end(self, status: int) -> None:
        """The outcome, and the end."""
        self._done.set()
        self.send("status", status=status)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def _hear(self) -> None:
        with contextlib.suppress(Exception):
            while (frame := read_frame(self._stream)) is not None:
                if frame[0].get("kind") == "signal":
                    os.kill(os.getpid(), signal.Signals(frame[0]["number"]))
        for _ in range(2):  # nobody is there: end, and drop the epoch
            if self._done.is_set():
                return
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(GRACE_S)


class _Raw(io.RawIOBase):
    def __init__(self, end: ProgramEnd, kind: str) -> None:
        self._end, self._kind = end, kind

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._end.send(self._kind, bytes(data))
        return len(data)


class CallerEnd:
    """The command line's end: listens, and hears one ServerApp."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            self._listener.bind(str(path))
        finally:
            os.umask(before)
        self._listener.listen(1)
        self._listener.settimeout(0.2)
        self._stream: BinaryIO | None = None
        self._socket: socket.socket | None = None
        self.pid: int | None = None
        self.status: int | None = None
        self.over = threading.Event()

    def accept(self, program: dict[str, Any], out: BinaryIO, err: BinaryIO) -> bool:
        """Whether the ServerApp has come by now; then it is told what to run, and its words go to `out` and `err`."""
        try:
            self._socket, _ = self._listener.accept()
        except TimeoutError:
            return False
        self._socket.settimeout(None)
        self._stream = cast(BinaryIO, self._socket.makefile("rwb"))
        write_frame(self._stream, "program", **program)
        threading.Thread(target=self._hear, args=(out, err), daemon=True).start()
        return True

    def signal(self, number: int) -> None:
        """A signal for the ServerApp."""
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError):
                write_frame(self._stream, "signal", number=int(number))

    def close(self) -> None:
        """Hear no more."""
        self._listener.close()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()

    def _hear(self, out: BinaryIO, err: BinaryIO) -> None:
        assert self._stream is not None
        with contextlib.suppress(Exception):
            while (frame := read_frame(self._stream)) is not None:
                header, body = frame
                kind = header.get("kind")
                if kind == "hello":
                    self.pid = int(header["pid"])
                elif kind in ("out", "err"):
                    stream = out if kind == "out" else err
                    with contextlib.suppress(OSError, ValueError):
                        stream.write(body)
                        stream.flush()
                elif kind == "status":
                    self.status = int(header["status"])
        self.over.set()
