"""Processes of Flower's that are ours: started on a leash, watched, and ended to the last of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...store.files import ops
from .environment import environment, forking, program
from .tether import descendants_of
from .trainer_link import TrainerPlace

STOP_S = 60.0
LIVES = 5
"""How often a SuperNode that has ended is started anew."""
TETHER = (sys.executable, "-m", "relaytrain.executors.flower.tether")


class Tethered:
    """A command that lives as long as this process, with what it says in a file."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
        self.name, self.log = name, log
        fd = ops().append(log, 0o600)
        try:
            self.process = subprocess.Popen(
                [*TETHER, *command], stdin=subprocess.PIPE, stdout=fd, stderr=fd, env=dict(env), start_new_session=True
            )
        finally:
            os.close(fd)

    def ended(self) -> str | None:
        """How it ended, in words; None while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        how = f"signal {code - 128}" if code > 128 else f"status {code}"
        return f"{self.name} ended ({how})"

    def ask_to_end(self) -> None:
        """Let go of the leash."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def end(self) -> None:
        """Wait until all of it is gone."""
        self.ask_to_end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_S)
            return
        while left := descendants_of(self.process.pid):  # before their leash, which would leave them behind
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self.process.poll() is not None:
                return
            time.sleep(0.1)
        self.process.kill()
        self.process.wait()


class NodeHere:
    """A SuperNode and its resident trainer, as processes of ours.

    Args:
        name: for messages.
        place: what it plays, and where its trainer listens.
        superlink: HOST:PORT.
        port: of loopback, for the SuperNode's own use.
        room: a private folder for its files.
        security: the SuperNode's arguments for TLS and keys; `--insecure` on loopback.
        aloud: what the trainer says goes to our stderr, not to a file.
    """

    def __init__(
        self,
        name: str,
        place: TrainerPlace,
        *,
        superlink: str,
        port: int,
        room: Path,
        security: Sequence[str] = ("--insecure",),
        aloud: bool = False,
    ) -> None:
        self.name, self.place, self._room = name, place, room
        self._env = environment(room / "flwr")
        self._lives = LIVES
        self._aloud = aloud
        self.trainer = self._trainer()
        self._command = [*forking("flwr-clientapp", f"127.0.0.1:{port}"), program("flower-supernode"), *security]
        self._command += ["--superlink", superlink]
        self._command += ["--host", "127.0.0.1", "--port", str(port), "--node-config", place.node_config()]
        self.supernode = self._supernode()

    def _trainer(self) -> subprocess.Popen[bytes]:
        if self._aloud:
            return self.place.start(os.getpid(), stdout=subprocess.DEVNULL, env=self._env)
        fd = ops().append(self._room / "trainer.log", 0o600)
        try:
            return self.place.start(os.getpid(), stdout=fd, stderr=fd, env=self._env)
        finally:
            os.close(fd)

    def is_joined(self) -> bool:
        """Whether the SuperLink has taken it."""
        try:
            return "SuperNode ID: " in self.supernode.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False

    def _supernode(self) -> Tethered:
        return Tethered(f"SuperNode {self.name}", self._command, self._room / "supernode.log", self._env)

    def revive(self, *, always: bool = False) -> bool:
        """Start another SuperNode in the place of one that has ended, unless that has happened too often."""
        self._lives -= not always
        if self._lives >= 0:
            self.supernode.end()
            self.supernode = self._supernode()
        return self._lives >= 0

    def ask_to_end(self) -> None:
        """Begin to end."""
        self.supernode.ask_to_end()

    def end(self) -> None:
        """Until both are gone; a trainer that a task has started ends with its SuperNode."""
        self.supernode.end()
        self.trainer.kill()
        self.trainer.wait()
