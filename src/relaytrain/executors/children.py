"""A worker process and the two pipes to it, however it was started: forked where that is sound, else by a command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Protocol, cast

from ..core.errors import WorkerLost
from ..launcher import launcher

MODULE = "relaytrain.executors.worker"
COMMAND: Sequence[str] | None = None if sys.platform == "linux" else (sys.executable, "-m", MODULE)
"""What starts a worker; None: the launcher forks it. Elsewhere system libraries do not bear a fork."""


class ChildProcess(Protocol):
    """What a transport needs of a worker: frames go in at `tasks` and come out at `results`."""

    tasks: BinaryIO
    results: BinaryIO

    @property
    def pid(self) -> int:
        """Its process."""

    def end(self) -> str:
        """Kill it unless it has ended; how it ended, in words."""


def start(environment: Mapping[str, str]) -> ChildProcess:
    """A new worker."""
    return ForkedChild(environment) if COMMAND is None else CommandedChild(COMMAND, environment)


class ForkedChild:
    """A worker forked by this process's launcher."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        read_tasks, write_tasks = os.pipe()
        read_results, write_results = os.pipe()
        try:
            self._forked = launcher(MODULE).fork((), (read_tasks, write_results), environment)
        except BaseException:
            os.close(write_tasks)
            os.close(read_results)
            raise
        finally:
            os.close(read_tasks)
            os.close(write_results)
        self.tasks: BinaryIO = os.fdopen(write_tasks, "wb")
        self.results: BinaryIO = os.fdopen(read_results, "rb")

    @property
    def pid(self) -> int:
        """Its process; waits until the launcher has started."""
        return self._forked.pid

    def end(self) -> str:
        """Kill it unless it has ended; one whose launcher is gone ends as its pipes do."""
        try:
            return _words(self._forked.end())
        except WorkerLost:
            return "with the process that started it"


class CommandedChild:
    """A worker started by a command of its own."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **environment}
        )
        self.tasks, self.results = cast(BinaryIO, self._process.stdin), cast(BinaryIO, self._process.stdout)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def end(self) -> str:
        """Kill it unless it has ended."""
        self._process.kill()  # also ends one that is stopped
        return _words(self._process.wait())


def _words(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"
