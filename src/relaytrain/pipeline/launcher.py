"""A process that has imported torch once and forks a worker whenever asked: stages start in milliseconds, not seconds.

    supervisor  -- fork JOB RANK STORE (+ a socket) -->  launcher  -- fork -->  worker
                <-- started PID, ended PID STATUS   --

It computes nothing itself and has no threads, so a fork of it is as good as a fresh process. It ends with its
supervisor, and takes its workers along.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..core.errors import WorkerLost

START_S = 180.0
"""Importing torch takes seconds, on a busy machine many."""
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "FATAL",
}  # fmt: skip
"""One compute thread a worker; gloo's own complaints about dead neighbours are the supervisor's to make."""


def environment() -> dict[str, str]:
    """What a process that computes for a pipeline finds around it: ours, with one thread and the same modules."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, **ENVIRONMENT, "PYTHONPATH": path}


ENDED = (
    "the process that starts the pipeline's stages has ended (somebody killed it, or memory ran out); the next attempt "
    "starts another"
)


class Launcher:
    """The supervisor's end."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "relaytrain.pipeline.launcher", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=environment(),
        )
        theirs.close()
        self._socket, self._lines = ours, ours.makefile("rb")
        self._answer()  # it has imported all it needs

    def fork(self, job: Path, rank: int, store: str) -> tuple[int, socket.socket]:
        """A new worker: its process and our end of its socket."""
        ours, theirs = socket.socketpair()
        request = {"do": "fork", "job": str(job), "rank": rank, "store": store}
        try:
            with theirs:
                socket.send_fds(self._socket, [json.dumps(request).encode()], [theirs.fileno()])
            return int(self._answer()["pid"]), ours
        except (OSError, WorkerLost):
            ours.close()
            raise WorkerLost(ENDED) from None

    def end(self, pid: int) -> int:
        """End a worker by force, if it has not ended; its wait status as `os.waitstatus_to_exitcode` has it."""
        try:
            self._socket.sendall(json.dumps({"do": "end", "pid": pid}).encode())
        except OSError:
            raise WorkerLost(ENDED) from None
        return int(self._answer()["status"])

    def close(self) -> None:
        """End the launcher and with it all workers."""
        self._lines.close()
        self._socket.close()
        self._process.wait()

    @property
    def alive(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except OSError:  # reset, not closed
            line = b""
        if not line:
            raise WorkerLost(ENDED)
        answer: dict[str, Any] = json.loads(line)
        return answer


def main() -> None:
    """Serve the supervisor at the socket named by the first argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    supervisor = socket.socket(fileno=int(sys.argv[1]))
    os.dup2(2, 1)
    from .worker import supervised

    gc.collect()
    gc.freeze()  # or the first collection in a worker would copy the pages it shares with its parent
    children: dict[int, int | None] = {}
    _say(supervisor, ready=True)
    while True:
        data, descriptors, _, _ = socket.recv_fds(supervisor, 65536, 1)
        if not data:
            break
        request = json.loads(data)
        if request["do"] == "fork":
            control = socket.socket(fileno=descriptors[0])
            pid = os.fork()
            if pid == 0:
                supervisor.close()
                status = 1
                try:
                    status = supervised(Path(request["job"]), request["rank"], request["store"], control)
                finally:
                    os._exit(status)
            control.close()
            children[pid] = None
            _say(supervisor, pid=pid)
        else:
            _say(supervisor, status=_ended(children, request["pid"]))
    for pid in children:
        _ended(children, pid)


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


def _say(supervisor: socket.socket, **values: Any) -> None:
    supervisor.sendall(json.dumps(values).encode() + b"\n")


if __name__ == "__main__":
    main()
