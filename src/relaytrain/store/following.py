"""Runs followed while others write them: readers that ask often, and read only what is new since they asked last.

`RunTail` is one run's events as they come; `Glances` are all runs at a glance. Both hold no open file between two
questions and never keep a writer waiting. What they say on the first look is checked as everywhere; later looks trust
what was checked before.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from sqlite3 import Connection

from ..core.errors import StoreDamaged, UsageError
from . import database, events, lease, lost_events, trail
from .events import Event
from .rules import VERDICTS, Totals
from .runs import RunStore, RunSummary, SummaryFold

Sign = tuple[tuple[int, int], ...]

_RUNS = """WITH RECURSIVE name(run) AS (
    SELECT min(run) FROM event
    UNION ALL
    SELECT (SELECT min(run) FROM event WHERE run > name.run) FROM name WHERE name.run IS NOT NULL LIMIT 100000)
SELECT run FROM name WHERE run IS NOT NULL"""
"""All runs by looking each up: to go along all rows would read every plan."""


def sign_of(folder: Path) -> Sign:
    """Changes whenever somebody has written: sizes and times of the database's files, which cost nothing to ask."""
    stamps = []
    for name in database.FILES[:2]:
        try:
            entry = os.stat(folder / name, follow_symlinks=False)
        except OSError:
            stamps.append((0, 0))
        else:
            stamps.append((entry.st_mtime_ns, entry.st_size))
    return tuple(stamps)


class RunTail:
    """The events of one run as they come. Not for several threads at once."""

    def __init__(self, store: RunStore, run: str) -> None:
        self.folder, self.run = store.folder, events.check_run_id(run)
        self.seq = 0
        self._sign: Sign | None = None

    def more(self) -> tuple[Event, ...]:
        """The events since the last time; on the first all of them, held against the run's trail.

        Raises:
            StoreDamaged: some of them are gone or not as they were written.
        """
        if self._sign is not None and sign_of(self.folder) == self._sign:
            return ()
        if not database.exists(self.folder):
            return ()
        sign = sign_of(self.folder)
        with database.reading(self.folder) as connection:
            if self.seq == 0:
                lost_events.check(connection, self.folder, self.run)
            rows = list(events.rows(connection, self.run, after=self.seq))
        news = tuple(lost_events.whole_events(rows, self.folder, after=self.seq))
        self._sign = sign
        self.seq += len(news)
        return news

    def at(self, seq: int) -> Event:
        """One event."""
        with database.reading(self.folder) as connection:
            row = events.row_at(connection, self.run, seq)
        if row is None:
            raise UsageError(f"run {self.run}: no event {seq}")
        return events.from_row(row)

    def live(self) -> bool:
        """Whether somebody writes the run now."""
        if not database.exists(self.folder):
            return False
        with database.reading(self.folder) as connection:
            return lease.read(connection, self.folder, self.run).live


@dataclass(frozen=True)
class Glance:
    """A run as far as it was read: `whole` says whether all of its epochs were, or only how it began and ended."""

    summary: RunSummary
    whole: bool


class Glances:
    """All runs at a glance, at once however long they are: what is not read yet is read between two questions.

    A finished run's last event says what it came to. Runs that are going on, and the best loss of any, need all of
    their epochs: those are read within the time that is given, or by `read_all` beside the questions.
    """

    def __init__(self, store: RunStore) -> None:
        self.folder = store.folder
        self._folds: dict[str, SummaryFold] = {}
        self._lock = threading.Lock()

    def now(self, budget_s: float = 0.25) -> tuple[Glance, ...]:
        """Every run, the one written last first; at most about `budget_s` is spent on reading long ones."""
        if not database.exists(self.folder):
            return ()
        until_s = time.monotonic() + budget_s
        with self._lock, database.reading(self.folder) as connection:
            rows = [self._glance(connection, run, until_s) for run in self._names(connection)]
        glances = [row for row in rows if row is not None]
        return tuple(sorted(glances, key=lambda row: (-row.summary.updated_wall_s, row.summary.run)))

    def read_all(self) -> None:
        """Read every run to its end, a part at a time so that questions come between."""
        if not database.exists(self.folder):
            return
        with self._lock, database.reading(self.folder) as connection:
            names = self._names(connection)
        for run in names:
            reading = True
            while reading:
                with self._lock, database.reading(self.folder) as connection:
                    reading = self._read_part(connection, run)

    def _read_part(self, connection: Connection, run: str) -> bool:
        """Go on with a run; whether some of it is left."""
        fold = self._folds.get(run)
        if fold is None:
            fold = self._folds[run] = SummaryFold(run, lost_events.lost(connection, self.folder, run))
        before = fold.seq
        fold.read(connection, PART)
        return fold.seq - before == PART

    def _names(self, connection: Connection) -> list[str]:
        named = {row[0] for row in connection.execute(_RUNS) if events.is_run_id(row[0])}
        self._folds = {run: fold for run, fold in self._folds.items() if run in named}  # some may have been removed
        return sorted(named | trail.runs(self.folder))

    def _glance(self, connection: Connection, run: str, until_s: float) -> Glance | None:
        held = lease.read(connection, self.folder, run)
        last = events.last_row(connection, run)
        fold = self._folds.get(run)
        newest = last[1] if last is not None and isinstance(last[1], int) else 0
        if fold is not None and fold.seq > newest:  # removed, and another of that name begun
            del self._folds[run]
            fold = None
        if fold is None or not (fold.broken or fold.seq == newest):
            new = newest - (0 if fold is None else fold.seq)
            if new > MANY or (time.monotonic() > until_s and not (new <= FEW and fold)):
                return self._ends(connection, run, last, held)
            if fold is None:
                fold = self._folds[run] = SummaryFold(run, lost_events.lost(connection, self.folder, run))
            fold.read(connection)
        return None if fold.empty else Glance(fold.summary(held), whole=True)

    def _ends(
        self, connection: Connection, run: str, last: Sequence[object] | None, held: lease.Lease
    ) -> Glance | None:
        """From the first and the last event alone."""
        first = events.row_at(connection, run, 1)
        if first is None or last is None:
            return None
        try:
            begun, ended = events.from_row(first), events.from_row(last)
        except StoreDamaged as error:
            fold = SummaryFold(run, str(error))
            return Glance(fold.summary(held), whole=False)
        plain = SummaryFold(run).summary(held)
        verdict = ended.body.get("verdict") if ended.kind == "verdict" else None
        figures = {key: ended.body.get(key) for key in ("useful_j", "wasted_j", "useful_s", "wasted_s")}
        has_totals = verdict in VERDICTS and all(isinstance(value, int | float) for value in figures.values())
        totals = Totals(**{key: float(value or 0.0) for key, value in figures.items()}) if has_totals else Totals()
        known = ended.body.get("loss")
        return Glance(
            replace(
                plain,
                status=str(verdict) if verdict in VERDICTS else plain.status,
                epoch=ended.epoch or _whole(ended.body.get("epochs")),
                loss=float(known) if isinstance(known, int | float) else None,
                totals=totals,
                started=begun.body,
                started_wall_s=begun.wall_s,
                updated_wall_s=ended.wall_s,
                events=ended.seq,
            ),
            whole=False,
        )


PART = 500
"""Events that are read before somebody else may ask."""
FEW, MANY = 200, 2000
"""New events of a run that was read already are read at once, whatever the time; so many only by `read_all`."""


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
