"""`repair`: what is left of a damaged store is put together again, from the database and from the trails.

Every row whose CRC holds counts, wherever it stands. A lost decision is replaced by a stand-in, for the epoch it led to
says what it was; behind a lost epoch a run is cut, and goes on from the newest whole checkpoint before the cut. The
damaged files are put aside, never deleted.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ..core.errors import RelayTrainError, StoreDamaged, UsageError
from . import blobs, database, events, files, lease, trail
from .check import check, errors
from .events import Event
from .rules import Body, Progress
from .trail import Row

ASIDE = "damaged-{}"
_MAKING = f"{files.TEMP_PREFIX}repair.sqlite"


@dataclass(frozen=True)
class SalvagedRun:
    """What is left of a run.

    `acknowledged` is the last epoch that any row tells of, `epoch` the last that stands after the repair. `restored`
    events come from the trail alone; `lost` ones are in neither, or do not fit behind such a gap; `stand_ins` are
    decisions put in for lost ones. `checkpoint` is the epoch of the newest whole checkpoint, None without one.
    """

    run: str
    rows: tuple[Row, ...]
    acknowledged: int
    epoch: int
    restored: int
    lost: int
    stand_ins: int
    checkpoint: int | None

    @property
    def lost_epochs(self) -> tuple[int, ...]:
        """The epochs that are gone."""
        return tuple(range(self.epoch + 1, self.acknowledged + 1))


@dataclass(frozen=True)
class Salvage:
    """What is left of a store, and whether it had to be put together; `aside` is where the damaged files are."""

    runs: tuple[SalvagedRun, ...]
    damaged: bool
    aside: Path | None = None

    @property
    def without_loss(self) -> bool:
        """Whether everything that was ever acknowledged is there."""
        return not any(run.lost or run.lost_epochs for run in self.runs)


def salvage(store: str | Path, *, write: bool = True, force: bool = False) -> Salvage:
    """List what is left of the store in `store`, and with `write` put it together when it is damaged.

    Raises:
        UsageError: no store, or a run of it is being written (`force` does not ask).
        ScenarioError: a newer RelayTrain wrote it.
    """
    folder = Path(store)
    if not database.exists(folder):
        raise UsageError(f"{folder}: no RelayTrain store here; give its folder")
    database.check_files(folder)
    if write and not force:
        _check_nobody_writes(folder)
    held = _database_rows(folder)
    trails = {run: trail.read(folder, run) for run in sorted(trail.runs(folder))}
    runs = []
    for name in sorted(set(held) | {name for name, known in trails.items() if known.rows}):
        rows = held.get(name, {})
        runs.append(_assemble(folder, name, {**rows, **trails.get(name, trail.Trail()).rows}, rows))
    findings = check(folder)
    broken = [finding for finding in errors(findings) if ", checkpoint " not in finding.where]
    damaged = bool(broken) or any(known.bad_lines for known in trails.values())
    result = Salvage(tuple(runs), damaged)
    if not (write and damaged):
        return result
    kept = [run for run in runs if run.rows]
    aside = _rebuild(folder, kept) if broken else None
    for run in kept:
        trail.begin(folder, run.run, run.rows)
    return replace(result, aside=aside)


def _check_nobody_writes(folder: Path) -> None:
    now, live = lease.Moment.now(), set()
    for run in blobs.runs(folder):
        heard = lease.last_heard(folder, run)
        if heard is not None and heard.silence_s(now) <= lease.SILENT_S:
            live.add(run)
    with suppress(RelayTrainError, sqlite3.Error), closing(database.raw(folder)) as connection:
        for (run,) in connection.execute("SELECT run FROM lease").fetchall():
            if isinstance(run, str) and lease.read(connection, folder, run).live:
                live.add(run)
    if live:
        raise UsageError(f"{', '.join(sorted(live))}: being written; stop it before the store is repaired, or --force")


def _database_rows(folder: Path) -> dict[str, dict[int, Row]]:
    """All rows that can be read, from both ends of the table towards the damage."""
    rows: dict[str, dict[int, Row]] = {}
    for direction in ("ASC", "DESC"):
        with suppress(sqlite3.Error, StoreDamaged, UsageError), closing(database.raw(folder)) as connection:
            for row in events.all_rows(connection, direction):
                if not events.is_run_id(row[0]):
                    continue
                try:
                    event = events.from_row(row)
                except StoreDamaged:
                    continue
                rows.setdefault(event.run, {})[event.seq] = row
    return rows


def _assemble(folder: Path, run: str, both: Mapping[int, Row], held: Mapping[int, Row]) -> SalvagedRun:
    progress, stand_ins = Progress(), 0
    kept: list[Row] = []
    events_left = [events.from_row(both[seq]) for seq in sorted(both)]
    lost = events_left[-1].seq - len(events_left)
    decisions = {e.epoch: e.body["decision"] for e in events_left if e.kind == "epoch_done" and "decision" in e.body}
    for event in events_left:
        for fitting in _fitting(progress, event, decisions):
            progress.feed(fitting.kind, fitting.epoch, fitting.body, fitting.fence)
            stand_ins += fitting is not event and fitting.kind == "planned"
            kept.append(_numbered(fitting, len(kept) + 1, both))
            if fitting is event or fitting.kind == "verdict":
                break
        else:
            lost += 1
    whole = [events.from_row(row) for row in kept]
    acknowledged = 0
    for event in events_left:
        if event.kind in ("epoch_done", "rolled_back"):
            acknowledged = event.epoch or 0
        elif event.kind == "planned":
            acknowledged = max(acknowledged, (event.epoch or 1) - 1)
    return SalvagedRun(
        run,
        tuple(kept),
        acknowledged,
        progress.epoch,
        sum(seq not in held for seq in both),
        lost,
        stand_ins,
        _newest_checkpoint(folder, run, whole),
    )


def _fitting(progress: Progress, event: Event, decisions: Mapping[int | None, object]) -> Iterator[Event]:
    """What to write for `event`: itself where it fits, a stand-in for its lost decision before it, or nothing."""
    if progress.problem(event.kind, event.epoch, event.body, event.fence) is None:
        yield event
        return
    if event.kind in ("handover", "epoch_done", "node_failed") and progress.planned is None:
        known = event.epoch in decisions or event.kind == "epoch_done"
        body: Body = {"repaired": True, "decision": decisions[event.epoch]} if event.epoch in decisions else {}
        if known and progress.problem("planned", event.epoch, body, event.fence) is None:
            yield replace(event, kind="planned", body=body)
            if progress.problem(event.kind, event.epoch, event.body, event.fence) is None:
                yield event
    elif event.kind == "verdict":
        body = {**event.body, **progress.totals.to_dict(), "repaired": True}
        if progress.problem("verdict", event.epoch, body, event.fence) is None:
            yield replace(event, body=body)


def _numbered(event: Event, seq: int, both: Mapping[int, Row]) -> Row:
    """The row of `event` as number `seq`: the one that was written, where nothing had to be changed."""
    written = both.get(event.seq)
    if written is not None and event.seq == seq and events.from_row(written) == event:
        return written
    return events.to_row(replace(event, seq=seq), events.encode(event.body))


def _newest_checkpoint(folder: Path, run: str, whole: Sequence[Event]) -> int | None:
    for event in reversed(events.standing(whole)):
        with suppress(StoreDamaged):
            blobs.get(folder, run, event.blob or "")
            return event.epoch or 0
    return None


def _rebuild(folder: Path, runs: Sequence[SalvagedRun]) -> Path:
    """A new database of what is left, in the place of the damaged one, which is put aside."""
    making = folder / _MAKING
    for name in (making, Path(f"{making}-wal"), Path(f"{making}-shm")):
        files.remove(name)
    files.make_dir(folder, private=True)
    database.build(making, [row for run in runs for row in run.rows])
    number = 1
    while os.path.lexists(aside := folder / ASIDE.format(number)):
        number += 1
    files.move_into([folder / name for name in database.FILES], aside)
    files.put_in_place(making, folder / database.FILE_NAME)
    return aside
