"""`check`: every promise about a store, tested on the store itself; the same function judges the crash tests.

Sequence gap-free, rules of `store/rules.py` (decision before work, one epoch_done an epoch, useful + wasted = total,
verdict last), rows and checkpoints as they were written, no non-finite number, needed checkpoints present.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..core.errors import RelayTrainError, StoreDamaged
from . import blobs, database, events, files, lost_events, thinning, trail
from .events import Event
from .rules import Progress
from .runs import known_runs
from .writer import RESERVE_NAME


@dataclass(frozen=True)
class Damage:
    """Something to know about a store. Only `error` breaks a promise; a `note` is litter that `store gc` removes."""

    level: Literal["error", "note"]
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.what}"


def check(store: str | Path) -> list[Damage]:
    """What is wrong with the store in folder `store`; empty when all is well."""
    folder = Path(store)
    try:
        with database.reading(folder) as connection:
            runs = known_runs(connection, folder)
            lost = {run: lost_events.lost(connection, folder, run) for run in runs}
            connection.execute("BEGIN")
            findings = list(_check_file(connection, folder, set(runs)))
            for run in runs:
                findings += _check_run(connection, folder, run, lost[run])
    except StoreDamaged as error:
        return [Damage("error", str(folder / database.FILE_NAME), str(error))]
    root = folder / blobs.FOLDER
    if os.path.lexists(root) and not files.is_folder(root):
        return [*findings, Damage("error", str(root), "not a folder; a link is not followed")]
    known = set(runs)
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if path.name not in known:
            findings.append(Damage("note", str(path), "belongs to no run"))
    return findings


def errors(findings: list[Damage]) -> list[Damage]:
    """Only those that break a promise."""
    return [f for f in findings if f.level == "error"]


def _check_file(connection: sqlite3.Connection, folder: Path, known: set[str]) -> Iterator[Damage]:
    path = str(folder / database.FILE_NAME)
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield Damage("error", path, str(line))
    for (name,) in connection.execute("SELECT DISTINCT run FROM event"):
        if name not in known:
            yield Damage("error", path, f"rows under the name {name!r}, which is no run's")


def _check_run(connection: sqlite3.Connection, folder: Path, run: str, lost: str | None) -> Iterator[Damage]:
    progress = Progress()
    whole: list[Event] = []
    expected, followed = 1, True
    if lost is not None:
        yield Damage("error", f"run {run}", lost)
    for row in events.rows(connection, run):
        where = f"run {run}, event {row[1]}"
        if row[1] != expected:
            yield Damage("error", where, f"expected event {expected}: the sequence has a gap")
            followed = False
        expected = row[1] + 1 if isinstance(row[1], int) else expected + 1
        try:
            event = events.from_row(row)
        except RelayTrainError as error:
            yield Damage("error", where, str(error))
            followed = False
            continue
        if followed:  # after a gap every rule would be broken
            wrong = progress.feed(event.kind, event.epoch, event.body, event.fence)
            if wrong:
                yield Damage("error", where, wrong)
        whole.append(event)
    yield from _check_trail(folder, run)
    yield from _check_blobs(folder, run, whole)


def _check_trail(folder: Path, run: str) -> Iterator[Damage]:
    try:
        path = trail.path_of(folder, run)
    except StoreDamaged:
        return  # said of the folder
    if os.path.lexists(path):
        bad = trail.read(folder, run).bad_lines
        if bad:
            words = f"{bad} damaged line(s) in the trail; `relaytrain resume` and `store repair` write it anew"
            yield Damage("note", str(path), words)


def _check_blobs(folder: Path, run: str, whole: list[Event]) -> Iterator[Damage]:
    try:
        present = blobs.names(folder, run)
    except StoreDamaged as error:
        yield Damage("error", f"run {run}", str(error))
        return
    named = {e.blob for e in whole if e.blob}
    for digest in sorted(thinning.needed(whole) | (named & present)):
        try:
            blobs.get(folder, run, digest)
        except StoreDamaged as error:
            yield Damage("error", f"run {run}, checkpoint {digest[:12]}", str(error))
    for name in sorted(present - named - {RESERVE_NAME}):
        kind = "unfinished file" if name.startswith(files.TEMP_PREFIX) else "named by no event"
        yield Damage("note", str(blobs.folder_of(folder, run) / name), kind)
