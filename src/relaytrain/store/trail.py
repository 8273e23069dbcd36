"""The trail of a run: its events once more, in a file of its own, so that no damage to the database goes unseen.

SQLite drops without a word what stands behind a damaged byte of its log. The trail says how far the run had come: an
event counts as acknowledged when it is in the database *and* here. One line an event, each with its own CRC::

    9c0f1a2b {"schema": "relaytrain.trail/1", "run": "mine-1a2b3c4d", "store": 2}
    51e2aa07 [1, "run_started", 0, 1, 1.76e9, 0.0, "{...}", 2868421]
    ...

A line that is torn or damaged costs that line. The last whole one is the mark that readers compare with the database;
`store repair` puts back what the database has lost. Why it is so: docs/decisions/store-damage.md.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..core.errors import RelayTrainError, StoreDamaged
from . import blobs, files
from .events import from_row, is_run_id

SCHEMA = "relaytrain.trail/1"
STORE_FORMAT = 2
"""The format of the store around it: said here too, for the database's own word may be damaged."""
LIMIT_BYTES = 1 << 32
LINE_LIMIT_BYTES = 1 << 26
_TAIL_BYTES = 1 << 16

Row = tuple[Any, ...]


class HighWater(NamedTuple):
    """The last event that was acknowledged: its number, and the CRC of its row."""

    seq: int
    crc: int


@dataclass
class Trail:
    """All that is left of a trail: rows by number, as they stand in the database, and how many lines are damaged."""

    rows: dict[int, Row] = field(default_factory=dict)
    bad_lines: int = 0
    removed: bool = False
    begun: bool = False


def path_of(store: Path, run: str) -> Path:
    """Where the trail of `run` is; a link in the place of its folder is refused."""
    return blobs.real_folder(store, run) / blobs.TRAIL_NAME


def runs(store: Path) -> set[str]:
    """The runs that have a trail."""
    return {run for run in blobs.runs(store) if is_run_id(run) and files.is_regular(path_of(store, run))}


def acknowledged_runs(store: Path) -> set[str]:
    """The runs of which a trail acknowledges something."""
    return {run for run in runs(store) if mark(store, run) is not None}


def says_this_format(store: Path) -> bool:
    """Whether a trail says that the store has this format, whatever the database says."""
    for run in sorted(runs(store)):
        with suppress(OSError):
            head = _value(next(_lines(path_of(store, run)), b""))
            if isinstance(head, dict) and head.get("store") == STORE_FORMAT:
                return True
    return False


def begin(store: Path, run: str, rows: Iterable[Row] = (), *, removed: bool = False) -> None:
    """Write a whole trail anew: its first line, and `rows`; with `removed` it says that the run is being removed."""
    head: dict[str, Any] = {"schema": SCHEMA, "run": run, "store": STORE_FORMAT}
    if removed:
        head["removed"] = True
    path = path_of(store, run)
    files.make_dir(path.parent, private=True)
    files.write_atomic(path, [_line(head), *(_line(row[1:]) for row in rows)], private=True)


def add(store: Path, run: str, rows: Iterable[Row]) -> None:
    """Add rows, durably."""
    data = b"".join(_line(row[1:]) for row in rows)
    if data:
        files.append_lines(path_of(store, run), data)


def remove(store: Path, run: str) -> None:
    """Remove a trail, if there is one."""
    path = path_of(store, run)
    if files.is_regular(path):
        files.remove(path)


def mark(store: Path, run: str) -> HighWater | None:
    """The last acknowledged event; None when there is no trail, or nothing in it, or the run is being removed."""
    try:
        with os.fdopen(files.open_regular(path_of(store, run)), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = _TAIL_BYTES
            while True:
                file.seek(max(0, size - length))
                for line in reversed(file.read(length).split(b"\n")):
                    if isinstance(value := _value(line), list):
                        return HighWater(value[0], value[7])
                if length >= min(size, LINE_LIMIT_BYTES):
                    return None
                length *= 16
    except (OSError, StoreDamaged):
        return None


def read(store: Path, run: str) -> Trail:
    """Everything in the trail of `run` that is whole."""
    trail = Trail()
    try:
        for line in _lines(path_of(store, run)):
            value = _value(line)
            if isinstance(value, list):
                row = (run, *value)
                try:
                    event = from_row(row)
                except RelayTrainError:
                    trail.bad_lines += 1
                    continue
                kept = trail.rows.get(event.seq)
                if kept is None or kept[4] <= event.fence:
                    trail.rows[event.seq] = row
            elif isinstance(value, dict) and value.get("schema") == SCHEMA and value.get("run") == run:
                trail.begun, trail.removed = True, bool(value.get("removed"))
            else:
                trail.bad_lines += 1
    except FileNotFoundError:
        pass
    except (OSError, StoreDamaged):
        trail.bad_lines += 1
    return trail


def _line(value: Any) -> bytes:
    text = json.dumps(value, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _value(line: bytes) -> Any:
    """What a line says; None when it is not one that was written."""
    try:
        if int(line[:8], 16) != zlib.crc32(line[9:]):
            return None
        value = json.loads(line[9:])
    except (ValueError, RecursionError):
        return None
    return None if isinstance(value, list) and (len(value) != 8 or not isinstance(value[0], int)) else value


def _lines(path: Path) -> Iterator[bytes]:
    with os.fdopen(files.open_regular(path), "rb") as file:
        if os.fstat(file.fileno()).st_size > LIMIT_BYTES:
            raise OSError(f"{path}: larger than {LIMIT_BYTES:,} bytes")
        while line := file.readline(LINE_LIMIT_BYTES):
            if line.strip():
                yield line.rstrip(b"\n")
