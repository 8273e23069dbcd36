"""What a damaged database has lost: readers compare it with the trails and say so, rather than show less."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..core.errors import StoreDamaged
from . import database, events, trail
from .events import Event


def lost(connection: sqlite3.Connection, store: Path, run: str) -> str | None:
    """What the trail of `run` acknowledges and the database does not hold, in words; None when it holds all of it.

    `connection` must not be inside a transaction: the trail is read first, the database after it.
    """
    mark = trail.mark(store, run)
    last = connection.execute("SELECT max(seq) FROM event WHERE run = ?", (run,)).fetchone()[0]
    # readers walk along the rows: a damaged key ends their walk early, although a row behind it can still be looked up
    count = connection.execute("SELECT count(*) FROM event WHERE run = ?", (run,)).fetchone()[0]
    short = isinstance(last, int) and count < last
    if mark is None:
        return f"{last - count} of {last} events cannot be found in the database" if short else None
    row = connection.execute("SELECT crc FROM event WHERE run = ? AND seq = ?", (run, mark.seq)).fetchone()
    if row is not None and row[0] == mark.crc and count >= mark.seq and not short:
        return None
    known = trail.read(store, run)
    if known.removed:
        return None
    held = dict(connection.execute("SELECT seq, crc FROM event WHERE run = ?", (run,)).fetchall())
    words = describe(row for seq, row in sorted(known.rows.items()) if held.get(seq) != row[8])
    return words or (f"{last - count} of {last} events cannot be found in the database" if short else None)


def describe(rows: Iterable[Sequence[object]]) -> str | None:
    """Lost events in words: how many, and which epochs are among them."""
    gone = list(rows)
    if not gone:
        return None
    epochs = [row[3] for row in gone if row[2] == "epoch_done" and isinstance(row[3], int)]
    which = f"epoch {spans(epochs)}" if epochs else "no epoch among them"
    return f"the database has lost {len(gone)} acknowledged event(s), {which}; the run's trail still has them"


def spans(numbers: Iterable[int]) -> str:
    """Numbers in words: `3, 5-18`."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def check(connection: sqlite3.Connection, store: Path, run: str) -> None:
    """Refuse to go on with a run of which the database has lost a part.

    Raises:
        StoreDamaged: with the epochs lost, and the way out.
    """
    words = lost(connection, store, run)
    if words is not None:
        raise StoreDamaged(f"run {run}: {words}; {database.way_out(store)}")


def whole_events(rows: Iterable[Sequence[object]], store: Path, *, after: int | None = 0) -> Iterator[Event]:
    """The events of `rows`, without a gap from `after` on (None: gaps are meant).

    Raises:
        StoreDamaged: one of them is damaged or missing; what and where, and the way out.
    """
    for number, row in enumerate(rows, 1 + (after or 0)):
        try:
            event = events.from_row(row)
        except StoreDamaged as error:
            raise StoreDamaged(f"{error}; {database.way_out(store)}") from None
        if after is not None and event.seq != number:
            raise StoreDamaged(f"run {event.run}: event {number} is missing; {database.way_out(store)}")
        yield event


def bring_up(store: Path, run: str, rows: Sequence[trail.Row]) -> None:
    """Make the trail say what the database holds: add what a crash kept from it, or write a damaged one anew."""
    known = trail.read(store, run)
    missing = [row for row in rows if row[1] not in known.rows]
    short = [row[1] for row in missing] == list(range(len(known.rows) + 1, len(rows) + 1))
    if known.bad_lines or not known.begun or known.removed or not short:
        trail.begin(store, run, rows)
    else:
        trail.add(store, run, missing)
