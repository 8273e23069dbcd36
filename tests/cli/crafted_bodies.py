"""Bodies of events that no RelayTrain writes, with every checksum right: values of other types, missing, huge, none."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from relaytrain.store import events, trail

ODD: tuple[Any, ...] = (
    None, True, False, "", "x", "\x1b[31m", "../../x", -1, 0, 1, 0.5, -1e308, 1e308, 10**18, -(10**18), 10**400, [], {},
    [[]], [None], [1, 2, 3], {"a": 1}, {"version": 1}, ["x"] * 3, "NaN", float("nan"), float("-inf"), "9" * 5000,
)  # fmt: skip


class Crafted(NamedTuple):
    """What was done to which event."""

    seq: int
    kind: str
    where: str
    value: str


def craft(folder: Path, run: str, seed: int) -> Crafted:
    """Change one to three values of one event, in the database and in the trail."""
    chance = random.Random(seed)
    with closing(sqlite3.connect(folder / "runs.sqlite")) as db:
        rows = list(events.rows(db, run))
        kinds = sorted({row[2] for row in rows})
        kind = kinds[seed % len(kinds)]
        row = chance.choice([row for row in rows if row[2] == kind])
        body = json.loads(row[7])
        told = [_change(body, chance) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
        text = json.dumps(body, separators=(",", ":"))
        whole = events.to_row(events.Event(*row[:4], {}, *row[4:7]), text)
        db.execute("UPDATE event SET body = ?, crc = ? WHERE run = ? AND seq = ?", (text, whole[8], run, row[1]))
        db.commit()
        trail.begin(folder, run, list(events.rows(db, run)))
    return Crafted(row[1], kind, ", ".join(path for path, _ in told), ", ".join(value for _, value in told))


def _change(body: Any, chance: random.Random) -> tuple[str, str]:
    """Walk down to a value and put another in its place, or take it away; where, and what."""
    here, path = body, ""
    while True:
        keys = [key for key in here if key != "schema"] if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return path, "nothing there"
        key = chance.choice(keys)
        path += f".{key}"
        below = here[key]
        if not (isinstance(below, dict | list) and below and chance.random() < 0.6):
            break
        here = below
    if chance.random() < 0.25:
        del here[key]
        return path, "gone"
    here[key] = chance.choice(ODD)
    return path, repr(here[key])[:30]
