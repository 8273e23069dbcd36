"""Runs on a Flower of our own, as a user starts them; and who is left of it afterwards."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from relaytrain.executors.flower.tether import descendants_of

WAIT_S = 900.0
NAME = 15
"""Characters that Linux keeps of a process's name."""
MISSED = 5
"""Exit status of a run that ended above its target."""


def as_json(value: Any) -> Any:
    """Infinity as a scenario's JSON has it."""
    if isinstance(value, dict):
        return {key: as_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_json(one) for one in value]
    return None if isinstance(value, float) and math.isinf(value) else value


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "relaytrain", *map(str, arguments)]


class CliRun:
    """`relaytrain ARGUMENTS` as a process, its words line by line."""

    def __init__(self, *arguments: str | Path, cwd: Path | None = None, on: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [*on, *command(*arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=cwd,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._guard = threading.Timer(WAIT_S, self._too_late)
        self._guard.daemon = True
        self._guard.start()

    def _too_late(self) -> None:
        """Against hangs: whoever reads its words comes to their end."""
        self.lines.append(f"(killed by the test after {WAIT_S:g} s)\n")
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def __iter__(self) -> Iterator[str]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            yield line

    def until(self, start: str) -> str:
        """The first line that begins so."""
        for line in self:
            if line.startswith(start):
                return line
        self.status()
        raise AssertionError(f"no line begins with {start!r}:\n{self.said}")

    def status(self) -> int:
        """How it ended, once it has said all."""
        for _ in self:
            pass
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._guard.cancel()
        return self.process.wait(WAIT_S)

    @property
    def said(self) -> str:
        return "".join(self.lines)

    def pids(self, word: str) -> list[int]:
        """Its processes, and theirs, with that name or, if `word` is a module of ours, running that."""
        found = {pid: words_of(pid) for pid in descendants_of(self.process.pid)}
        if "." not in word:
            return [pid for pid, words in found.items() if words.endswith(f"({word[:NAME]})")]
        started = ["-m", f"relaytrain.executors.{word}"]
        return [p for p, words in found.items() if words.split()[1:3] == started and words.endswith("(python)")]

    def cpu_s(self, word: str) -> float:
        """Of all `pids(word)` so far."""
        return sum(cpu_s_of(pid) for pid in self.pids(word))

    def wait_for(self, happens: Callable[[], object], *, wait_s: float = WAIT_S) -> bool:
        """Until `happens()`; False when the run is over before."""
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            if self.process.poll() is not None:
                return False
            if happens():
                return True
            time.sleep(0.02)
        raise AssertionError(f"nothing happened within {wait_s:g} s:\n{self.said}")

    def kill_one(self, word: str, which: Callable[[list[int]], int] = min, *, wait_s: float = WAIT_S) -> int | None:
        """kill -9 for one of `pids(word)`, as soon as there is one; None when the run is over before."""
        found: list[int] = []

        def there() -> bool:
            found[:] = self.pids(word)
            return bool(found)

        if not self.wait_for(there, wait_s=wait_s):
            return None
        pid = which(found)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return pid


def words_of(pid: int) -> str:
    """A process's command line, and its name: Flower's programs are forks and have only a name of their own."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return f"{words}({Path(f'/proc/{pid}/comm').read_text().strip()})" if words else ""
    except OSError:
        return ""


def cpu_s_of(pid: int) -> float:
    """CPU seconds of a process; 0 of one that has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def left_behind(mark: str) -> list[str]:
    """Command lines of processes, of whomever, that hold `mark` in command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                around = (entry / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            words = words_of(int(entry.name))
            if words and (mark in words or mark in around):
                found.append(words)
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def write_scenario(path: Path, tables: dict[str, Any]) -> Path:
    path.write_text(json.dumps(as_json(tables)))
    return path
