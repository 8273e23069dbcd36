"""Faults for the store: file steps that count, kill the process, fail like a full disk or forget like a lost write.

Processes that are to die are forked, so that a death is real (SIGKILL to oneself) and costs milliseconds.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import stub_run

from relaytrain.store import RunStore, check
from relaytrain.store.check import errors
from relaytrain.store.files import TEMP_PREFIX, FileOps

RUN = "stub-run-1"
LIMIT_S = 300  # no child outlives this, whatever hangs
STEPS = ("create", "append", "write", "sync", "rename", "sync_dir", "remove", "make_dir", "commit")


def soak() -> bool:
    return os.environ.get("RELAYTRAIN_TIER") == "soak"


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder in memory where there is one: what dies here is a process, not the machine."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="relaytrain-chaos-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Counting(FileOps):
    """Counts the steps and calls `at_step(number, name, do)`, which may do it, or something else."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def at_step(self, name: str, do: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        self.steps.append(name)
        return self.act(len(self.steps), name, do, arguments)

    def act(self, number: int, name: str, do: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        return do()


def _counted(name: str) -> Callable[..., Any]:
    plain = getattr(FileOps, name)

    def step(self: Counting, *arguments: Any) -> Any:
        return self.at_step(name, lambda: plain(self, *arguments), arguments)

    return step


for _name in STEPS:
    setattr(Counting, _name, _counted(_name))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class CrashAt(Counting):
    """SIGKILL at step `number`: before it, after it, or torn, that is in the middle of what it writes."""

    def __init__(self, number: int, mode: str, wal: Path) -> None:
        super().__init__()
        self.number, self.mode, self.wal = number, mode, wal

    def act(self, number: int, name: str, do: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if number != self.number:
            return do()
        if self.mode == "torn" and name == "write":
            fd, data = arguments
            os.write(fd, data[: len(data) // 2])
        elif self.mode == "torn" and name == "commit":
            tear_commit(self.wal, do)
        elif self.mode != "before":
            do()
        return die()


def tear_commit(wal: Path, commit: Callable[[], Any]) -> None:
    """Half of what a commit appends to the log reaches it."""
    before = wal.stat().st_size if wal.exists() else 0
    commit()
    if wal.exists() and wal.stat().st_size > before:
        os.truncate(wal, (before + wal.stat().st_size) // 2)


class FailFrom(Counting):
    """Steps that need room fail with `code`: the n-th alone, or all from the n-th on; removing always works."""

    def __init__(self, number: int, code: int, *, lasting: bool) -> None:
        super().__init__()
        self.number, self.code, self.lasting = number, code, lasting

    def act(self, number: int, name: str, do: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        hit = number >= self.number if self.lasting else number == self.number
        if not hit or name == "remove":
            return do()
        if name == "write":
            os.write(arguments[0], arguments[1][: len(arguments[1]) // 2])
        raise OSError(self.code, os.strerror(self.code))


class PowerCut(Counting):
    """Dies at step `number` and takes along what was not synced: bytes of files, and renames in folders.

    `forget` says which of the renames that were not made durable are undone: all, none or a random half.
    """

    def __init__(self, number: int, forget: str, seed: int = 0) -> None:
        super().__init__()
        self.number, self.forget, self.random = number, forget, random.Random(seed)
        self.paths: dict[int, Path] = {}
        self.unsynced: dict[Path, int] = {}
        self.renames: list[tuple[Path, bytes | None]] = []

    def act(self, number: int, name: str, do: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if number == self.number:
            self.cut()
        if name == "rename":
            source, target = arguments
            self.renames.append((target, target.read_bytes() if target.exists() else None))
            if source in self.unsynced:
                self.unsynced[target] = self.unsynced.pop(source)
        result = do()
        if name == "create":
            self.paths[result] = arguments[0]
            self.unsynced[arguments[0]] = 0
        elif name == "append":
            self.paths[result] = arguments[0]
            self.unsynced[arguments[0]] = arguments[0].stat().st_size
        elif name == "sync":
            self.unsynced.pop(self.paths[arguments[0]], None)
        elif name == "sync_dir":
            self.renames = [r for r in self.renames if r[0].parent != arguments[0]]
        return result

    def cut(self) -> None:
        for path, size in self.unsynced.items():
            if path.exists():
                os.truncate(path, size)
        for target, old in reversed(self.renames):
            if self.forget == "all" or (self.forget == "some" and self.random.random() < 0.5):
                target.unlink() if old is None else target.write_bytes(old)
        die()


@dataclass(frozen=True)
class Death:
    """How a forked process ended, and what it had said by then."""

    code: int
    killed: bool
    said: tuple[tuple[str, int], ...]

    @property
    def acknowledged(self) -> list[int]:
        return [epoch for what, epoch in self.said if what == "done"]


class Child:
    """A forked process. Its work gets a function `say(what, number)`, heard by the parent even after a SIGKILL."""

    def __init__(self, work: Callable[[Callable[[str, int], None]], int]) -> None:
        self.read_fd, write_fd = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads: the child only does this work
            self.pid = os.fork()
        if self.pid == 0:
            code = 99
            signal.alarm(LIMIT_S)
            try:
                os.close(self.read_fd)
                code = work(lambda what, number: void(os.write(write_fd, f"{what} {number}\n".encode())))
            finally:
                os._exit(code)
        os.close(write_fd)
        self.heard = b""

    def hear(self, lines: int) -> bool:
        """Wait until so many lines were said; False when it ended before."""
        while self.heard.count(b"\n") < lines:
            chunk = os.read(self.read_fd, 65536)
            if not chunk:
                return False
            self.heard += chunk
        return True

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> Death:
        while chunk := os.read(self.read_fd, 65536):
            self.heard += chunk
        os.close(self.read_fd)
        _, status = os.waitpid(self.pid, 0)
        said = [line.split() for line in self.heard.decode().splitlines()]
        return Death(
            os.waitstatus_to_exitcode(status), os.WIFSIGNALED(status), tuple((what, int(n)) for what, n in said)
        )


def void(_: object) -> None:
    return None


def litter(folder: Path) -> list[str]:
    """Unfinished files."""
    return [str(p) for p in folder.rglob("*") if p.name.startswith(TEMP_PREFIX)]


def assert_sound(folder: Path, acknowledged: list[int]) -> None:
    """The checker finds no error, and every epoch whose end was told is there."""
    if not (folder / "runs.sqlite").exists():
        assert not acknowledged
        return
    assert errors(check(folder)) == []
    events = RunStore.open(folder).events(RUN)
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    done = [e.epoch for e in events if e.kind == "epoch_done"]
    assert set(acknowledged) <= set(done), f"lost: {set(acknowledged) - set(done)}"
    assert len(done) == len(set(done)) or any(e.kind == "rolled_back" for e in events)


def assert_finished(folder: Path, epochs: int) -> None:
    """The run has its verdict, the weights of an undisturbed run bit for bit, its sums, and left no litter."""
    store = RunStore.open(folder)
    assert store.summary(RUN).status == "met"
    assert errors(check(folder)) == []
    checkpoint = store.latest_checkpoint(RUN)
    assert checkpoint is not None and checkpoint.skipped == ()
    epoch, weights = stub_run.unpack(checkpoint.data)
    assert epoch == epochs
    assert np.array_equal(weights, stub_run.expected_weights(epochs))
    assert store.summary(RUN).totals.useful_j == epochs * (epochs + 1)
    assert litter(folder) == []


def wal_of(folder: Path) -> Path:
    return folder / "runs.sqlite-wal"


def status(folder: Path) -> str:
    """How the run is shown: absent before its first event; without a verdict and a living writer it is interrupted."""
    shown = [summary.status for summary in RunStore.open(folder).runs()]
    assert shown in ([], ["met"], ["interrupted"], ["failed"]), shown
    return shown[0] if shown else "absent"
