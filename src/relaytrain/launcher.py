"""A process that has imported what its workers need, once, and forks one whenever asked: in milliseconds, not seconds.

    caller  -- fork WORDS (+ descriptors) -->  launcher (python -m relaytrain.launcher FD MODULE)  -- fork -->  worker
            <-- pid, status               --                                     MODULE.forked(words, descriptors)

MODULE is one of ours: its `prepare()` imports what is heavy. A launcher computes nothing itself and has no threads, so
a fork of it is as good as a fresh process; modules of the user's are imported by workers alone, which find the caller's
present environment, folder, import path and stderr. It ends with its caller, and takes its workers along.
"""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from .core.errors import WorkerLost
from .crew import ONE_THREAD

ENVIRONMENT = {**ONE_THREAD, "TORCH_CPP_LOG_LEVEL": "FATAL"}
"""One compute thread a worker; gloo's own complaints about dead neighbours are the supervisor's to make."""
MOST_BYTES, MOST_DESCRIPTORS = 2**20, 8
ENDED = (
    "the process that starts workers has ended (somebody killed it, or memory ran out); the next attempt starts another"
)
_launchers: dict[tuple[int, str], Launcher] = {}


def environment() -> dict[str, str]:
    """What a process that computes finds around it: ours, with one thread and the same modules."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, **ENVIRONMENT, "PYTHONPATH": path}


def launcher(module: str) -> Launcher:
    """This process's launcher for a module, started when first needed and kept: importing torch costs seconds."""
    mine = os.getpid(), module  # a fork of this process has none of its own yet
    kept = _launchers.get(mine)
    if kept is None or not kept.alive:
        kept = _launchers[mine] = Launcher(module)
        atexit.register(kept.close)
    return kept


class Launcher:
    """The caller's end; several threads may use it. It answers in the order in which it is asked."""

    def __init__(self, module: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "relaytrain.launcher", str(theirs.fileno()), module],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment(),
            )
        self._owner = os.getpid()
        self._attach(ours)

    def _attach(self, ours: socket.socket) -> None:
        self._socket, self._lock = ours, threading.Lock()
        self._asked, self._heard = 0, 0
        self._answers: dict[int, dict[str, Any]] = {}

    def fork(
        self, words: Sequence[Any], descriptors: Sequence[int] = (), environment: Mapping[str, str] | None = None
    ) -> Forked:
        """A new worker with these words and descriptors; at once, also while the launcher itself still starts."""
        request = {
            "do": "fork",
            "words": list(words),
            "environment": {**os.environ, **(environment or {})},
            "folder": os.getcwd(),
            "path": [entry for entry in sys.path if entry],
        }
        return Forked(self, self._ask(request, (2, *descriptors)))

    def close(self) -> None:
        """End the launcher and with it all workers."""
        self._socket.close()
        if os.getpid() == self._owner:
            self._process.wait()

    @property
    def alive(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def _ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> int:
        """The number of a request that was sent."""
        data = json.dumps(request).encode()
        with self._lock:
            try:
                socket.send_fds(self._socket, [data], list(descriptors))
            except OSError as error:
                if error.errno in (errno.EPIPE, errno.ECONNRESET):
                    raise WorkerLost(ENDED) from None
                words = f"{error.strerror} ({len(data):,} bytes, with the environment and the import path)"
                raise WorkerLost(f"the process that starts workers cannot be asked: {words}") from None
            self._asked += 1
            return self._asked

    def _answer(self, number: int) -> dict[str, Any]:
        """What it says to a request, once."""
        with self._lock:
            while self._heard < number:
                try:
                    data = self._socket.recv(MOST_BYTES)
                except OSError:  # reset, not closed
                    data = b""
                if not data:
                    raise WorkerLost(ENDED)
                self._heard += 1
                self._answers[self._heard] = json.loads(data)
            return self._answers.pop(number)


class Forked:
    """A worker, as its caller has it."""

    def __init__(self, launcher: Launcher, number: int) -> None:
        self._launcher, self._number = launcher, number
        self._pid: int | None = None
        self._status: int | None = None

    @property
    def pid(self) -> int:
        """Its process; waits for the launcher to have started.

        Raises:
            WorkerLost: the launcher is gone.
        """
        if self._pid is None:
            self._pid = int(self._launcher._answer(self._number)["pid"])
        return self._pid

    def end(self) -> int:
        """End it by force if it has not ended; its wait status as `os.waitstatus_to_exitcode` has it.

        Raises:
            WorkerLost: the launcher is gone, and took it along or left it to see that its caller is.
        """
        if self._status is None:
            number = self._launcher._ask({"do": "end", "pid": self.pid})
            self._status = int(self._launcher._answer(number)["status"])
        return self._status


def main() -> None:
    """Serve the caller at the socket named by the first argument with workers of the module named by the second."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    caller = socket.socket(fileno=int(sys.argv[1]))
    os.dup2(2, 1)
    module = importlib.import_module(sys.argv[2])
    module.prepare()
    gc.collect()
    gc.freeze()  # or the first collection in a worker would copy the pages it shares with its parent
    children: dict[int, int | None] = {}
    while True:
        data, descriptors, _, _ = socket.recv_fds(caller, MOST_BYTES, MOST_DESCRIPTORS)
        if not data:
            break
        request = json.loads(data)
        if request["do"] == "fork":
            pid = os.fork()
            if pid == 0:
                caller.close()
                _work(module, request, *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            children[pid] = None
            _say(caller, pid=pid)
        else:
            _say(caller, status=_ended(children, request["pid"]))
    for pid in children:
        _ended(children, pid)


def _work(module: Any, request: dict[str, Any], stderr: int, *descriptors: int) -> NoReturn:
    """A worker's whole life."""
    status = 1
    try:
        os.dup2(stderr, 2)
        os.dup2(stderr, 1)
        os.close(stderr)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        sys.path[:] = request["path"]
        status = module.forked(request["words"], descriptors)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _ended(children: dict[int, int | None], pid: int) -> int:
    """Only this process reaps, so a number in `children` without a status is still the worker's own."""
    status = children.get(pid, 0)
    if status is None:
        finished, raw = os.waitpid(pid, os.WNOHANG)
        if not finished:
            os.kill(pid, signal.SIGKILL)
            _, raw = os.waitpid(pid, 0)
        status = children[pid] = os.waitstatus_to_exitcode(raw)
    return status


def _say(caller: socket.socket, **values: Any) -> None:
    caller.sendall(json.dumps(values).encode())


if __name__ == "__main__":
    main()
