"""Events: what may be written of a run, how it is spelt in the database, and the frozen values that come back.

A body is JSON with the schema's name in it. Infinity is written as null; NaN and minus infinity are refused, so that
no reader ever meets a number that is none. A CRC over the row tells rot from what was written.
"""

from __future__ import annotations

import json
import math
import re
import secrets
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from ..core.errors import RelayTrainError, ScenarioError, StoreDamaged, UsageError
from .rules import KINDS, Body, Progress

SCHEMA = "relaytrain.event/1"
CHECKPOINT_KINDS = ("run_started", "handover", "epoch_done", "rolled_back", "verdict")
"""The kinds that say which checkpoints stand and are needed; plans, by far the longest, are none of them."""

_RUN_ID = re.compile(r"[a-z0-9-]{8,40}")
_FAR = re.compile(r"[0-9]{60}|[eE]\+?[0-9]{3}")
"""Where a number may stand that is too large for a float; looked at closely only then, for plans are long."""
_COLUMNS = "run, seq, kind, epoch, fence, wall_s, session_s, body, crc"


@dataclass(frozen=True)
class Event:
    """One thing that happened in a run.

    `wall_s` (seconds since 1970) is for display alone; `session_s` counts monotonic seconds since this writer began,
    so differences inside one `fence` are true durations whatever the clock on the wall does.
    """

    run: str
    seq: int
    kind: str
    epoch: int | None
    body: Body
    fence: int
    wall_s: float
    session_s: float

    @property
    def blob(self) -> str | None:
        """The checkpoint that the event names."""
        name = self.body.get("blob")
        return name if isinstance(name, str) else None


def check_run_id(run: str) -> str:
    """`run`, if it is a run's name; names are also folder names, so nothing else may pass."""
    if not is_run_id(run):
        raise UsageError(f"'{run[:60]}' is not a run: expected 8 to 40 of a-z, 0-9 and '-'")
    return run


def is_run_id(name: object) -> bool:
    """Whether `name` may be a run's; what stands in a damaged database may be anything."""
    return isinstance(name, str) and bool(_RUN_ID.fullmatch(name))


def new_run_id(name: str) -> str:
    """A fresh name for a run: `name` as far as it fits, and eight random digits."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:31].rstrip("-") or "run"
    return f"{slug}-{secrets.token_hex(4)}"


def encode(body: Mapping[str, Any]) -> str:
    """The JSON text of a body. NumPy numbers and arrays are written as plain ones."""
    if "schema" in body:
        raise RelayTrainError("an event's body may not have the key 'schema': the store writes it")
    return json.dumps({"schema": SCHEMA, **_plain(body, "body")}, separators=(",", ":"), allow_nan=False)


def decode(text: str, where: str) -> dict[str, Any]:
    """A body from its JSON text.

    Raises:
        ScenarioError: a newer RelayTrain wrote it.
        StoreDamaged: it is no JSON object of ours, or holds a non-finite number.
    """
    options: dict[str, Any] = (
        {"parse_int": _in_range(int), "parse_float": _in_range(float)} if _FAR.search(text) else {}
    )
    try:
        body = json.loads(text, parse_constant=_refuse_constant, **options)
    except (ValueError, RecursionError) as error:
        raise StoreDamaged(f"{where}: the body is not JSON as we write it: {error}") from None
    schema = body.pop("schema", None) if isinstance(body, dict) else None
    if schema == SCHEMA:
        return dict(body)
    if isinstance(schema, str) and re.fullmatch(r"relaytrain\.event/[0-9]+", schema):
        raise ScenarioError(f"{where}: schema {schema}, this RelayTrain reads {SCHEMA}; upgrade it to read this run")
    raise StoreDamaged(f"{where}: schema {schema!r}, expected {SCHEMA}")


def to_row(event: Event, text: str) -> tuple[Any, ...]:
    """The row of `event`, whose body is `text`."""
    key = (event.run, event.seq, event.kind, event.epoch, event.fence)
    when = float(event.wall_s) + 0.0, float(event.session_s) + 0.0  # SQLite keeps no minus zero
    return (*key, *when, text, _crc((*key, *when), text))


def insert(connection: sqlite3.Connection, event: Event, text: str) -> tuple[Any, ...]:
    """Add the row of `event`, whose body is `text`; the row."""
    row = to_row(event, text)
    insert_row(connection, row)
    return row


def insert_row(connection: sqlite3.Connection, row: Sequence[Any]) -> None:
    """Add a row as it is."""
    connection.execute(f"INSERT INTO event ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def rows(
    connection: sqlite3.Connection, run: str, *, after: int = 0, kinds: Sequence[str] = KINDS
) -> Iterator[tuple[Any, ...]]:
    """The raw rows of `run` numbered above `after`, in order; one statement, so one moment in time."""
    wanted = "" if kinds is KINDS else f"AND kind IN ({', '.join('?' for _ in kinds)})"
    yield from connection.execute(
        f"SELECT {_COLUMNS} FROM event WHERE run = ? AND seq > ? {wanted} ORDER BY seq",
        (run, after, *(kinds if wanted else ())),
    )


def all_rows(connection: sqlite3.Connection, direction: Literal["ASC", "DESC"]) -> Iterator[tuple[Any, ...]]:
    """The rows of all runs, from one end of the table or the other."""
    yield from connection.execute(f"SELECT {_COLUMNS} FROM event ORDER BY run {direction}, seq {direction}")


def summary_rows(connection: sqlite3.Connection, run: str, *, after: int = 0) -> Iterator[tuple[Any, ...]]:
    """The rows of `run` numbered above `after`, in order, plans without their bodies: those are long."""
    columns = _COLUMNS.replace("body", "CASE kind WHEN 'planned' THEN NULL ELSE body END")
    yield from connection.execute(f"SELECT {columns} FROM event WHERE run = ? AND seq > ? ORDER BY seq", (run, after))


def last_row(connection: sqlite3.Connection, run: str) -> tuple[Any, ...] | None:
    """The newest row of `run`; looked up, whatever the number of rows."""
    query = f"SELECT {_COLUMNS} FROM event WHERE run = ? ORDER BY seq DESC LIMIT 1"
    row: tuple[Any, ...] | None = connection.execute(query, (run,)).fetchone()
    return row


def row_at(connection: sqlite3.Connection, run: str, seq: int) -> tuple[Any, ...] | None:
    """One row of `run`."""
    query = f"SELECT {_COLUMNS} FROM event WHERE run = ? AND seq = ?"
    row: tuple[Any, ...] | None = connection.execute(query, (run, seq)).fetchone()
    return row


def from_row(row: Sequence[Any]) -> Event:
    """The event of a row; damage raises."""
    run, seq, kind, epoch, fence, wall_s, session_s, text, crc = row
    where = f"run {run}, event {seq}"
    whole = (run, seq, kind, epoch, fence, wall_s, session_s)
    if not (isinstance(text, str) and has_types(row) and crc in (_crc(whole, text), _crc(whole[:5], text))):
        raise StoreDamaged(f"{where}: the row is not the one that was written (CRC differs)")  # format 1: without times
    return Event(run, seq, kind, epoch, decode(text, where), fence, wall_s, session_s)


def has_types(row: Sequence[Any]) -> bool:
    """Whether the columns before the body hold what they should; SQLite takes any type in any column."""
    _, seq, kind, epoch, fence, wall_s, session_s = row[:7]
    times = isinstance(wall_s, float) and isinstance(session_s, float)
    return times and isinstance(kind, str) and isinstance(seq, int) and isinstance(fence, int) and _is_epoch(epoch)


def _is_epoch(value: object) -> bool:
    return value is None or isinstance(value, int)


def fold(events: Iterable[Event]) -> Progress:
    """Where the events have brought the run."""
    progress = Progress()
    for event in events:
        progress.feed(event.kind, event.epoch, event.body, event.fence)
    return progress


def standing(events: Sequence[Event]) -> list[Event]:
    """The events that name a checkpoint of an epoch that was not undone, oldest first."""
    kept: list[Event] = []
    for event in events:
        if event.kind == "rolled_back":
            kept = [e for e in kept if (e.epoch or 0) <= (event.epoch or 0)]
        elif event.kind in ("run_started", "handover", "epoch_done") and event.blob is not None:
            kept.append(event)
    return kept


def _crc(key: tuple[Any, ...], text: str) -> int:
    return zlib.crc32(f"{key}{text}".encode(errors="surrogatepass"))


def _in_range(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def number(digits: str) -> Any:
        if math.isinf(float(digits)):
            raise ValueError(f"the number {digits[:20]}..., which no float holds")
        return read(digits)

    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"the number {name}")


def _plain(value: Any, where: str) -> Any:
    if hasattr(value, "tolist"):  # numpy numbers and arrays
        value = value.tolist()
    if isinstance(value, float):
        if math.isnan(value) or value == -math.inf:
            raise RelayTrainError(f"event {where} is {value}: only finite numbers (and infinity, as null) are stored")
        return None if value == math.inf else value
    if isinstance(value, Mapping):
        if bad := [k for k in value if not isinstance(k, str)]:
            raise RelayTrainError(f"event {where}: key {bad[0]!r}, expected text")
        return {k: _plain(v, f"{where}.{k}") for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v, f"{where}[{i}]") for i, v in enumerate(value)]
    if value is None or isinstance(value, str | int | bool):
        return value
    raise RelayTrainError(f"event {where} is a {type(value).__name__}: expected JSON values")
