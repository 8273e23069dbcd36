"""A run of the store written to another tool's log, from its first event; what is there already is left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..core.errors import RelayTrainError, UsageError
from ..store import RunStore
from .log_entries import EntryReader
from .log_kinds import LogTarget


@dataclass(frozen=True)
class Logged:
    """What came of it: `events` read, `new` entries written, `where` to point the tool at."""

    run: str
    target: LogTarget
    events: int
    new: int
    where: str


class LogFailed(UsageError):
    """The other tool refused; the run itself is untouched."""


def log_run(store: RunStore, run: str, target: LogTarget) -> Logged:
    """Write `run` to `target`.

    Raises:
        LogFailed: the tool's own words.
    """
    store.sound(run)
    follower = LogFollower(store, run, target)
    try:
        follower.step()
    finally:
        follower.close()
    return follower.logged


class LogFollower:
    """Follows one run: every `step` reads the events since the last one and writes them."""

    def __init__(self, store: RunStore, run: str, target: LogTarget) -> None:
        self.store, self.run, self.target = store, run, target
        self.reader, self.seq = EntryReader(), 0
        with _explained(target):
            self.log = target.open(run)

    def step(self) -> None:
        """What is new in the store."""
        events = self.store.events(self.run, after=self.seq)
        if events:
            with _explained(self.target):
                self.log.write(self.reader.read(events))
            self.seq = events[-1].seq

    def close(self) -> None:
        """Let the tool finish."""
        with _explained(self.target):
            self.log.close()

    @property
    def logged(self) -> Logged:
        """So far."""
        return Logged(self.run, self.target, self.seq, self.log.new, self.log.where)


@contextmanager
def _explained(target: LogTarget) -> Iterator[None]:
    """What other people's code raises becomes one sentence."""
    try:
        yield
    except RelayTrainError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())[:300]
        raise LogFailed(f"{target}: {type(error).__name__}: {words}; the run itself is untouched") from error
