"""`check`: every promise about a store, tested on the store itself; the same function judges the crash tests.

Sequence gap-free, rules of `store/rules.py` (decision before work, one epoch_done an epoch, useful + wasted = total,
verdict last), rows and checkpoints as they were written, no non-finite number, needed checkpoints present.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..core.errors import RelayTrainError, StoreDamaged
from . import blobs, database, events, files, gc
from .events import Event
from .rules import Progress
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
            connection.execute("BEGIN")
            findings = list(_check_file(connection, folder))
            runs = [row[0] for row in connection.execute("SELECT DISTINCT run FROM event ORDER BY run")]
            for run in runs:
                findings += _check_run(connection, folder, run)
    except StoreDamaged as error:
        return [Damage("error", str(folder / database.FILE_NAME), str(error))]
    root = folder / blobs.FOLDER
    known = set(runs)
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if path.name not in known:
            findings.append(Damage("note", str(path), "belongs to no run"))
    return findings


def errors(findings: list[Damage]) -> list[Damage]:
    """Only those that break a promise."""
    return [f for f in findings if f.level == "error"]


def _check_file(connection: sqlite3.Connection, folder: Path) -> Iterator[Damage]:
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield Damage("error", str(folder / database.FILE_NAME), line)


def _check_run(connection: sqlite3.Connection, folder: Path, run: str) -> Iterator[Damage]:
    progress = Progress()
    whole: list[Event] = []
    for number, row in enumerate(events.rows(connection, run), 1):
        where = f"run {run}, event {row[1]}"
        if row[1] != number:
            yield Damage("error", where, f"expected event {number}: the sequence has a gap")
            return
        try:
            event = events.from_row(row)
        except RelayTrainError as error:
            yield Damage("error", where, str(error))
            return
        wrong = progress.feed(event.kind, event.epoch, event.body, event.fence)
        if wrong:
            yield Damage("error", where, wrong)
        whole.append(event)
    yield from _check_blobs(folder, run, whole)


def _check_blobs(folder: Path, run: str, whole: list[Event]) -> Iterator[Damage]:
    present = blobs.names(folder, run)
    named = {e.blob for e in whole if e.blob}
    for digest in sorted(gc.needed(whole) | (named & present)):
        try:
            blobs.get(folder, run, digest)
        except StoreDamaged as error:
            yield Damage("error", f"run {run}, checkpoint {digest[:12]}", str(error))
    for name in sorted(present - named - {RESERVE_NAME}):
        kind = "unfinished file" if name.startswith(files.TEMP_PREFIX) else "named by no event"
        yield Damage("note", str(blobs.folder_of(folder, run) / name), kind)
