"""The store of runs: a folder with one database of events and the checkpoints they name. Everybody starts here."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ..core.errors import StoreDamaged, UsageError
from . import blobs, database, events, files, lease, lost_events, thinning, trail
from .events import Event
from .rules import KINDS, Body, Progress, Totals
from .thinning import Removed
from .writer import Clock, RunWriter

DEFAULT_FOLDER = "relaytrain-runs"
SCRATCH = "scratch"
"""Folder of what runs under way have not finished: nothing that is acknowledged."""


@dataclass(frozen=True)
class RunSummary:
    """A run at a glance.

    `status` is the verdict (met, missed, stopped, failed); without one it is *running* while its writer lives and
    *interrupted* when nobody is left who could write one. It is *damaged* when the database does not hold what it held;
    `damage` then says what is wrong, and the other figures are of what can be read.
    `loss` and `best_loss` are None before the first epoch; `started` is the body of `run_started`.
    """

    run: str
    status: str
    epoch: int
    loss: float | None
    best_loss: float | None
    totals: Totals
    started: Body
    started_wall_s: float
    updated_wall_s: float
    events: int
    stop_requested: bool = False
    damage: str | None = None


@dataclass(frozen=True)
class KeptCheckpoint:
    """The newest usable checkpoint: `data` as it was after `epoch` (or after the handover into it, see `event.kind`).

    `skipped` says, newest first, which ones were damaged.
    """

    event: Event
    data: bytes
    skipped: tuple[str, ...] = ()


def store_path(option: str | Path | None = None) -> Path:
    """The store's folder: the option, else `$RELAYTRAIN_STORE`, else `./relaytrain-runs`."""
    return Path(option or os.environ.get("RELAYTRAIN_STORE") or DEFAULT_FOLDER)


class RunStore:
    """All runs of one folder. Holds no open file: every question opens, reads one moment in time, and closes."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self._clock = clock

    @classmethod
    def open(cls, path: str | Path | None = None, *, clock: Clock | None = None) -> RunStore:
        """The store in `path` (see `store_path`). A missing one is empty, and made by the first run."""
        store = cls(store_path(path), clock or Clock())
        if database.exists(store.folder):
            database.connect(store.folder).close()  # a newer format, or no store at all, is refused here
        return store

    def create_run(self, run: str, body: Mapping[str, Any], *, start: bytes | None = None) -> RunWriter:
        """Start a run: `run_started` with `body` is recorded, and this process is its writer.

        `start` is the checkpoint before epoch 1; the event names it as its `blob`.
        """
        return RunWriter.begin(self.folder, run, body, start=start, clock=self._clock)

    def resume_run(self, run: str, *, force: bool = False) -> RunWriter:
        """Become the writer of an interrupted, stopped or failed run.

        Raises:
            LeaseHeld: another process writes it; `force` takes over.
            UsageError: no such run, or it has ended.
        """
        return RunWriter.resume(self.folder, run, force=force, clock=self._clock)

    def events(self, run: str, *, after: int = 0, kinds: Sequence[str] = KINDS) -> tuple[Event, ...]:
        """The events of `run` numbered above `after`, in order; a run that is not there has none."""
        events.check_run_id(run)
        if not database.exists(self.folder):
            return ()
        with database.reading(self.folder) as connection:
            lost_events.check(connection, self.folder, run)
            rows = list(events.rows(connection, run, after=after, kinds=kinds))
        return tuple(lost_events.whole_events(rows, self.folder, after=after if kinds is KINDS else None))

    def get_blob(self, run: str, digest: str) -> bytes:
        """The bytes of a checkpoint, checked; StoreDamaged when they are not what was written."""
        return blobs.get(self.folder, events.check_run_id(run), digest)

    def latest_checkpoint(self, run: str) -> KeptCheckpoint | None:
        """The newest checkpoint that stands and is whole; None when the run has recorded none yet.

        Raises:
            StoreDamaged: none of those recorded is left; the message lists those tried.
        """
        tried: list[str] = []
        for event in reversed(events.standing(self.events(run, kinds=events.CHECKPOINT_KINDS))):
            try:
                return KeptCheckpoint(event, self.get_blob(run, event.blob or ""), tuple(tried))
            except StoreDamaged as error:
                tried.append(f"{event.kind} of epoch {event.epoch}: {error}")
        if not tried:
            return None
        listing = "".join(f"\n  {line}" for line in tried)
        raise StoreDamaged(f"run {run}: no usable checkpoint is left; tried:{listing}")

    def runs(self) -> tuple[RunSummary, ...]:
        """Every run, the one written last first."""
        if not database.exists(self.folder):
            return ()
        with database.reading(self.folder) as connection:
            names = known_runs(connection, self.folder)
            lost = {name: lost_events.lost(connection, self.folder, name) for name in names}
            held = {name: lease.read(connection, self.folder, name) for name in names}
            connection.execute("BEGIN")
            summaries = [_summary(connection, name, lost[name], held[name]) for name in names]
        return tuple(sorted((s for s in summaries if s is not None), key=lambda s: (-s.updated_wall_s, s.run)))

    @property
    def folder_to_name(self) -> Path | None:
        """Its folder, if a command has to name it to find it."""
        folder = self.folder.resolve()
        return None if folder == store_path().resolve() else folder

    def summary(self, run: str) -> RunSummary:
        """One run at a glance."""
        events.check_run_id(run)
        if database.exists(self.folder):
            with database.reading(self.folder) as connection:
                lost, held = lost_events.lost(connection, self.folder, run), lease.read(connection, self.folder, run)
                connection.execute("BEGIN")
                if summary := _summary(connection, run, lost, held):
                    return summary
        raise UsageError(f"no run {run} in {self.folder}; `relaytrain ls` lists the runs")

    def sound(self, run: str) -> RunSummary:
        """One run at a glance, for those who want to go on with it: a damaged one is refused.

        Raises:
            StoreDamaged: what is wrong with it, and the way out.
        """
        summary = self.summary(run)
        if summary.damage:
            raise StoreDamaged(f"run {run}: {summary.damage}; {database.way_out(self.folder)}")
        return summary

    def request_stop(self, run: str) -> None:
        """Ask the writer of `run`, in whatever process, to stop in order after its epoch."""
        self.summary(run)
        with database.opened(self.folder) as connection, database.transaction(connection, self.folder):
            lease.ask_to_stop(connection, self.folder, run)

    def gc(self) -> Removed:
        """Thin every run that nobody writes (see `thinning.needed`), and remove what runs that are gone have left."""
        if not database.exists(self.folder):
            return Removed()
        removed = Removed()
        with database.opened(self.folder) as connection:
            for run in sorted(set(known_runs(connection, self.folder)) | blobs.runs(self.folder)):
                removed += self._gc_free(connection, run)
        return removed

    def _gc_free(self, connection: sqlite3.Connection, run: str) -> Removed:
        try:
            if lost_events.lost(connection, self.folder, run):
                return Removed(skipped_runs=(run,))
            lease.check_free(connection, self.folder, run)
            # the write lock keeps a new writer of this run out; one run at a time, for live writers need it too
            with database.transaction(connection, self.folder):
                return self._gc_run(connection, run)
        except (lease.LeaseHeld, StoreDamaged):
            return Removed(skipped_runs=(run,))

    def _gc_run(self, connection: sqlite3.Connection, run: str) -> Removed:
        held = lease.read(connection, self.folder, run)
        summary = _summary(connection, run, None, held)
        if held.live or (summary is not None and summary.damage):
            return Removed(skipped_runs=(run,))
        rows = list(events.rows(connection, run, kinds=events.CHECKPOINT_KINDS))
        whole = [events.from_row(row) for row in rows]
        keep = thinning.needed(whole)
        if thinning.damaged(self.folder, run, keep):  # an older checkpoint may be the only good one
            return Removed(skipped_runs=(run,))
        # without a trail nobody knows whether events were lost that named what is there
        has_trail = files.is_regular(trail.path_of(self.folder, run))
        named = None if has_trail else {event.blob for event in whole if event.blob}
        removed = thinning.thin(self.folder, run, keep, named)
        lease.forget(self.folder, run)
        if not rows:
            trail.remove(self.folder, run)
            files.remove_dir(blobs.folder_of(self.folder, run))
        return removed

    def rm(self, run: str) -> None:
        """Remove a run, its events first: a checkpoint without events is litter, events without one are damage.

        The trail says before all that the run is being removed, so that nobody takes its events for lost.
        """
        self.summary(run)
        blobs.real_folder(self.folder, run)
        with database.opened(self.folder) as connection:
            seen = lease.check_free(connection, self.folder, run)
            with database.transaction(connection, self.folder):
                lease.unchanged(connection, run, seen)
                trail.begin(self.folder, run, removed=True)
                connection.execute("DELETE FROM event WHERE run = ?", (run,))
                connection.execute("UPDATE lease SET holder = NULL, fence = fence + 1 WHERE run = ?", (run,))
            with database.transaction(connection, self.folder):
                self._gc_run(connection, run)  # unless somebody took the name meanwhile
        shutil.rmtree(self.folder / SCRATCH / run, ignore_errors=True)


def known_runs(connection: sqlite3.Connection, folder: Path) -> list[str]:
    """The runs that the database or a trail knows; rows under names that are none belong to nobody."""
    named = {row[0] for row in connection.execute("SELECT DISTINCT run FROM event") if events.is_run_id(row[0])}
    return sorted(named | trail.runs(folder))


def _summary(connection: sqlite3.Connection, run: str, damage: str | None, held: lease.Lease) -> RunSummary | None:
    """A run at a glance, checked as far as it is shown; None when nothing was ever acknowledged of it."""
    fold = SummaryFold(run, damage)
    fold.read(connection)
    return None if fold.empty else fold.summary(held)


class SummaryFold:
    """A run's rows taken in as they come, plans without their bodies, and what they come to."""

    def __init__(self, run: str, damage: str | None = None) -> None:
        self.run, self.damage = run, damage
        self.seq = 0
        self.broken = False  # at the row after `seq`, and nothing behind it is read
        self._latest: tuple[tuple[Any, ...], RunSummary] | None = None
        self._progress = Progress()
        self._started: Body = {}
        self._first_s = self._last_s = 0.0

    @property
    def empty(self) -> bool:
        """Nothing was ever acknowledged of it."""
        return self.seq == 0 and self.damage is None

    def read(self, connection: sqlite3.Connection, most: int | None = None) -> None:
        """Take in what is new, at most so many rows of it."""
        rows = () if self.broken else events.summary_rows(connection, self.run, after=self.seq)
        for row in islice(rows, most):
            if not self._take(row):
                self.broken = True
                return

    def _take(self, row: Sequence[Any]) -> bool:
        number = self.seq + 1
        kind, epoch, fence, wall_s = row[2:6]
        body: Body = {}
        if row[1] != number or not events.has_types(row):
            self.damage = self.damage or f"event {number} is missing or damaged"
            return False
        if row[7] is not None or kind != "planned":  # plans carry whole loss laws: not read for a summary
            try:
                body = events.from_row(row).body
            except StoreDamaged as error:
                self.damage = self.damage or str(error)
                return False
        if kind == "run_started":
            self._started = body
        wrong = self._progress.feed(kind, epoch, body, fence)
        self.damage = self.damage or (wrong and f"event {number}: {wrong}")
        self._first_s, self._last_s = wall_s if number == 1 else self._first_s, wall_s
        self.seq = number
        return True

    def summary(self, held: lease.Lease) -> RunSummary:
        """The run so far, by whoever holds it."""
        key = self.seq, held.live, held.stop, self.damage
        if self._latest is None or self._latest[0] != key:
            self._latest = key, self._summary(held)
        return self._latest[1]

    def _summary(self, held: lease.Lease) -> RunSummary:
        progress, live = self._progress, held.live
        losses = [done.loss for done in progress.done]
        return RunSummary(
            self.run,
            "damaged" if self.damage else progress.verdict or ("running" if live else "interrupted"),
            progress.epoch,
            losses[-1] if losses else None,
            min(losses, default=None),
            progress.totals,
            self._started,
            self._first_s,
            self._last_s,
            progress.events,
            held.stop and live,
            self.damage,
        )
