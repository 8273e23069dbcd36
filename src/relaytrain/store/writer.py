"""The one writer of a run: holds the lease, keeps checkpoints, appends events. A `with` block gives the lease back."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from ..core.errors import NoSpace, RelayTrainError, StoreDamaged, UsageError
from . import blobs, database, events, files, lease, lost_events, thinning, trail
from .events import Event
from .rules import CAN_GO_ON, Body, Kind, Progress

T = TypeVar("T")

RESERVE_NAME = "reserve"
RESERVE_BYTES = 1 << 18
"""Kept aside while a run is written, freed when the disk is full, so that the verdict still finds room."""


@dataclass(frozen=True)
class Clock:
    """Where times come from: `wall_s` for display, `monotonic_s` for durations."""

    wall_s: Callable[[], float] = time.time
    monotonic_s: Callable[[], float] = time.monotonic


class RunWriter:
    """Appends to one run. Made by `RunStore.create_run` and `RunStore.resume_run`; for one thread at a time.

    The order that makes `kill -9` harmless::

        append("planned", ...) -> the work -> put_blob(checkpoint) -> append("epoch_done", {"blob": digest, ...})
    """

    def __init__(self, folder: Path, run: str, *, clock: Clock, create: bool) -> None:
        self.run = run
        self._folder = folder
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self._fence = 0
        self._progress = Progress()
        self._heart: lease.Heartbeat | None = None
        self._fresh: set[str] = set()  # checkpoints that no event names yet
        self._untrailed: list[trail.Row] = []  # events that are in the database and not yet in the trail
        self._trailed = 0  # the last one that is in both
        self._connection = database.connect(folder, create=create, write=True)

    @classmethod
    def begin(cls, folder: Path, run: str, body: Mapping[str, Any], *, start: bytes | None, clock: Clock) -> Self:
        """Start a new run: lease and `run_started` in one transaction, the start checkpoint written inside it."""
        events.check_run_id(run)
        text = events.encode(body if start is None else {**body, "blob": blobs.digest_of(start)})
        writer = cls(folder, run, clock=clock, create=True)
        try:
            with database.transaction(writer._connection, folder) as connection:
                if connection.execute("SELECT 1 FROM event WHERE run = ? LIMIT 1", (run,)).fetchone():
                    raise UsageError(f"run {run} exists already; choose another name, or `relaytrain resume {run}`")
                if trail.mark(folder, run) is not None:
                    way_out = database.way_out(folder)
                    raise StoreDamaged(f"run {run}: the database has lost it, its trail has not; {way_out}")
                trail.begin(folder, run)
                writer._fence = lease.take(connection, run)
                if start is not None:  # under the write lock, so that no clean-up takes it for litter
                    blobs.put(folder, run, start)
                event = writer._event("run_started", 0, text)
                writer._untrailed = [events.insert(connection, event, text)]
            writer._feed(event)
            writer._trail()
            writer._tidy()
        except BaseException:
            writer.close()
            raise
        return writer

    @classmethod
    def resume(cls, folder: Path, run: str, *, force: bool, clock: Clock) -> Self:
        """Go on with a run that has no final verdict."""
        events.check_run_id(run)
        writer = cls(folder, run, clock=clock, create=False)
        try:
            blobs.real_folder(folder, run)
            with database.sqlite_explained(folder):
                lost_events.check(writer._connection, folder, run)
                seen = None if force else lease.check_free(writer._connection, folder, run)
            with database.transaction(writer._connection, folder) as connection:
                rows = writer._refold()
                if not writer._progress.events:
                    raise UsageError(f"no run {run} in {folder}; `relaytrain ls` lists the runs")
                verdict = writer._progress.verdict
                if verdict is not None and verdict not in CAN_GO_ON:
                    raise UsageError(f"run {run} has ended (verdict: {verdict}); there is nothing to resume")
                writer._fence = lease.take(connection, run, seen=seen, above=writer._progress.fence)
            lost_events.bring_up(folder, run, rows)
            writer._tidy()
        except BaseException:
            writer.close()
            raise
        return writer

    @property
    def progress(self) -> Progress:
        """Where the events have brought the run; a verdict carries its `totals.to_dict()`."""
        return self._progress

    @property
    def planned(self) -> Body | None:
        """The decision recorded for the next epoch (the body of `planned`), if there is one: it is kept on resume."""
        return self._progress.planned

    @property
    def now_s(self) -> float:
        """What the clock on the wall says, in the seconds of events' `wall_s`."""
        return self._clock.wall_s()

    def append(self, kind: Kind, body: Mapping[str, Any], epoch: int | None = None) -> Event:
        """Add an event; when this returns, it survives `kill -9` and a power cut.

        Raises:
            LeaseLost: another writer took over; nothing was added.
            NoSpace: the disk is full; nothing was added.
            RelayTrainError: the event breaks a rule of `store/rules.py`; nothing was added.
        """
        text = events.encode(body)
        event = self._with_room(kind, lambda: self._append(kind, epoch, text))
        if kind != "planned":  # a decision without its epoch can be made again: it goes with the next event
            self._with_room(kind, self._trail)
            self._fresh.clear()
        return event

    def put_blob(self, data: bytes) -> str:
        """Keep a checkpoint durably; the digest by which an event may name it."""
        digest = self._with_room("blob", lambda: blobs.put(self._folder, self.run, data))
        self._fresh.add(digest)
        return digest

    def stop_requested(self) -> bool:
        """Whether somebody asked this run to stop (`RunStore.request_stop`)."""
        with database.sqlite_explained(self._folder):
            return lease.verify(self._connection, self.run, self._fence).stop

    def thin(self) -> thinning.Removed:
        """Remove checkpoints that no longer matter: all but the last two epochs, the best and the handovers."""
        with database.sqlite_explained(self._folder):
            lease.verify(self._connection, self.run, self._fence)
            rows = events.rows(self._connection, self.run, kinds=events.CHECKPOINT_KINDS)
            keep = thinning.needed(map(events.from_row, rows)) | {RESERVE_NAME} | self._fresh
        return thinning.thin(self._folder, self.run, keep)

    def close(self) -> None:
        """Give the lease back. A process that dies without this loses it all the same."""
        if self._heart is not None:
            self._heart.stop()
            self._heart = None
        if self._fence:
            with suppress(RelayTrainError):
                files.remove(self._reserve)
            with suppress(RelayTrainError), database.transaction(self._connection, self._folder) as connection:
                lease.release(connection, self.run, self._fence)
            self._fence = 0
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _reserve(self) -> Path:
        return blobs.folder_of(self._folder, self.run) / RESERVE_NAME

    def _append(self, kind: str, epoch: int | None, text: str) -> Event:
        event = self._event(kind, epoch, text)
        with database.transaction(self._connection, self._folder) as connection:
            lease.verify(connection, self.run, self._fence)
            last = connection.execute("SELECT max(seq) FROM event WHERE run = ?", (self.run,)).fetchone()[0]
            if last != self._progress.events:  # a commit that reported failure had reached the disk after all
                self._untrailed = [row for row in self._refold() if row[1] > self._trailed]
                event = self._event(kind, epoch, text)
            wrong = self._progress.problem(kind, epoch, event.body, self._fence)
            if wrong:
                raise RelayTrainError(f"run {self.run}: {wrong}")
            row = events.insert(connection, event, text)
        self._untrailed.append(row)
        self._feed(event)
        return event

    def _trail(self) -> None:
        """Acknowledge: what the database holds is in the trail too when this returns."""
        trail.add(self._folder, self.run, self._untrailed)
        self._trailed = self._progress.events
        self._untrailed = []

    def _with_room(self, kind: str, do: Callable[[], T]) -> T:
        """What `do` gives. On a full disk checkpoints are thinned, and a verdict takes the reserve; then once more."""
        try:
            return do()
        except NoSpace as error:
            if not (kind == "verdict" and files.remove(self._reserve)) and not (_full(error) and self.thin().files):
                raise
        return do()

    def _event(self, kind: str, epoch: int | None, text: str) -> Event:
        seq = self._progress.events + 1
        body = events.decode(text, f"run {self.run}, event {seq}")
        wall_s, session_s = self._clock.wall_s(), self._clock.monotonic_s() - self._began_s
        return Event(self.run, seq, kind, epoch, body, self._fence, wall_s, session_s)

    def _feed(self, event: Event) -> None:
        self._progress.feed(event.kind, event.epoch, event.body, event.fence)

    def _refold(self) -> list[trail.Row]:
        rows = list(events.rows(self._connection, self.run))
        self._progress = events.fold(lost_events.whole_events(rows, self._folder))
        return rows

    def _tidy(self) -> None:
        """Under the lease the folder is ours: unfinished files in it belong to a dead writer."""
        folder = files.make_dir(blobs.real_folder(self._folder, self.run), private=True)
        for name in blobs.names(self._folder, self.run):
            if name.startswith(files.TEMP_PREFIX) and files.is_regular(folder / name):
                files.remove(folder / name)
        if not files.is_regular(self._reserve):
            files.write_atomic(self._reserve, os.urandom(RESERVE_BYTES), private=True)
        self._trailed = self._progress.events
        self._heart = lease.Heartbeat(self._folder, self.run, self._fence)


def _full(error: NoSpace) -> bool:
    """Whether room is what is missing; a disk that fails or may not be written is not helped by thinning."""
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
