"""The hardened reader of trace format v1: what is not a whole, consistent tree is refused with file and line."""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from os import fspath
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import ScenarioError
from ..scenario.fields import shown
from ..scenario.read import read_json, read_named
from .trace import KINDS, Segment, TraceSet, TraceSwitch

FORMAT = 1
EPOCH_COLUMNS = (
    "seed", "run", "parent", "stage", "k", "k_stage", "node_set", "classes", "samples", "pruned_fraction",
    "train_loss", "test_loss", "test_accuracy",
)  # fmt: skip
SWITCH_COLUMNS = tuple(f.name for f in fields(TraceSwitch))
MAX_BYTES = 64 << 20
"""Of one table, unpacked. A full campaign of the paper's grid has a quarter of that."""
MAX_ROWS = 1_000_000
MAX_META_BYTES = 1 << 20
MAX_LOSS = 1e6
_WHOLE = re.compile(r"[0-9]{1,12}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}", re.ASCII)

Row = dict[str, Any]


def _refused(where: object, got: str, expected: str) -> ScenarioError:
    return ScenarioError(f"{where}: got {got}, expected {expected}")


def read_traces(folder: str | Path) -> TraceSet:
    """The traces in a folder of `meta.json`, `epochs.csv` and `switches.csv`, either table perhaps as `.csv.gz`.

    Raises:
        ScenarioError: a file is missing, malformed or contradicts another; the message names file and line.
    """
    folder = Path(folder)
    if "\0" in fspath(folder) or not folder.is_dir():
        raise _refused(shown(fspath(folder)), "no such folder", "one with meta.json and epochs.csv")
    label = str(folder / "meta.json")
    tables: dict[str, tuple[str, str]] = {}
    meta = _decoded(_bytes(folder / "meta.json", MAX_META_BYTES), label)
    for name in ("epochs.csv", "switches.csv"):
        plain, packed = folder / name, folder / f"{name}.gz"
        if plain.exists() and packed.exists():
            raise _refused(packed, f"{name} beside it", "one of the two; remove the one that is old")
        place = packed if packed.exists() else plain
        tables[name] = (str(place), _decoded(_bytes(place, MAX_BYTES), str(place)))
    return build(meta, tables, label)


def build(meta_text: str, tables: Mapping[str, tuple[str, str]], label: str) -> TraceSet:
    """Traces out of texts: `tables` gives, by file name, where a text is from and the text itself."""
    meta = _meta(meta_text, label)
    switches = _switches(*tables["switches.csv"])
    return TraceSet(meta, _segments(*tables["epochs.csv"], switches))


def _bytes(path: Path, most: int) -> bytes:
    try:
        raw = read_named(path, most)
    except FileNotFoundError:
        raise _refused(path, "no such file", "meta.json, epochs.csv and switches.csv") from None
    except OSError as error:
        raise _refused(path, f"'{error.strerror}'", "a file of a trace folder") from None
    if path.suffix == ".gz":
        raw = _unpacked(raw, path, most)
    if len(raw) > most:
        raise _refused(path, f"more than {most >> 20} MiB", "at most that; split it by seed")
    return raw


def _unpacked(raw: bytes, path: Path, most: int) -> bytes:
    """At most `most` + 1 bytes: a bomb is never unpacked."""
    packer = zlib.decompressobj(wbits=31)
    try:
        data = packer.decompress(raw, most + 1)
    except zlib.error:
        raise _refused(path, "bytes that are no gzip", "a table packed by gzip; get it again") from None
    if len(data) <= most and not packer.eof:
        raise _refused(path, "a gzip that ends early", "a whole one; get it again")
    if packer.unused_data:
        raise _refused(path, "bytes after the end of the gzip", "none; get it again")
    return data


def _decoded(raw: bytes, label: str) -> str:
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise _refused(f"{label}:{line}", "a byte that is not UTF-8", "UTF-8 text") from None
    bad = next((i for i in (text.find("\0"), text.find("\r")) if i >= 0), None)
    if bad is not None:
        line = text.count("\n", 0, bad) + 1
        raise _refused(f"{label}:{line}", "a control character", "plain text")
    return text


def _meta(text: str, label: str) -> dict[str, Any]:
    meta = read_json(text, label)

    def wrong(key: str, expected: str) -> ScenarioError:
        return _refused(f"{label}: {key}", shown(meta[key]), expected)

    if meta.get("format") is None:
        raise _refused(f"{label}: format", "nothing", f'"format": {FORMAT}')
    if type(meta["format"]) is not int or meta["format"] != FORMAT:
        raise wrong("format", f"{FORMAT}; this release reads no other")
    for key in ("loss", "preset", "change_target", "model", "data", "optimizer"):
        if key in meta and not isinstance(meta[key], str):
            raise wrong(key, "a text")
    if "bits" in meta.get("loss", "").lower():
        raise wrong("loss", "nats; multiply losses by ln 2")
    if meta.get("change_target", "jump") not in ("jump", "first-epoch"):
        raise wrong("change_target", "jump or first-epoch")
    if "preset" in meta and not _NAME.fullmatch(meta["preset"]):
        raise wrong("preset", "a name of letters, digits, - and _")
    return meta


@dataclass(frozen=True)
class _Cells:
    """One row, cell by cell, with words for what is wrong."""

    where: str
    cells: dict[str, str]

    def wrong(self, key: str, expected: str) -> ScenarioError:
        return _refused(f"{self.where}: {key}", shown(self.cells[key]), expected)

    def whole(self, key: str, low: int = 0, high: int = 10**12) -> int:
        text = self.cells[key]
        if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
            raise self.wrong(key, f"a whole number from {low}" if high == 10**12 else f"a whole number {low} to {high}")
        return int(text)

    def number(self, key: str, high: float, *, below: bool = False) -> float:
        text = self.cells[key]
        value = float(text) if _NUMBER.fullmatch(text) else -1.0
        if not 0.0 <= value <= high or (below and value == high):
            words = f"a number from 0 {'below' if below else 'to'} {high:g}"
            raise self.wrong(key, f"{words}, with a decimal point and no unit")
        return value + 0.0  # -0.0 becomes 0.0

    def name(self, key: str) -> str:
        if not _NAME.fullmatch(self.cells[key]):
            raise self.wrong(key, "a name of letters, digits, _ . + - that begins with a letter or digit")
        return self.cells[key]


def _rows(label: str, text: str, columns: tuple[str, ...]) -> Iterator[_Cells]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, None)
        _check_header(label, header, columns)
        for count, row in enumerate(reader, start=1):
            where = f"{label}:{reader.line_num}"
            if count > MAX_ROWS:
                raise _refused(where, f"more than {MAX_ROWS:,} rows", "at most that; split by seed")
            if len(row) != len(columns):
                hint = "; decimals take a point, not a comma" if len(row) > len(columns) else "; is the file cut off?"
                raise _refused(where, f"{len(row)} cells", f"{len(columns)}{hint}")
            yield _Cells(where, dict(zip(columns, row, strict=True)))
    except csv.Error as error:
        raise _refused(f"{label}:{reader.line_num}", f"a row that is no CSV ({error})", "plain cells") from None


def _check_header(label: str, header: list[str] | None, columns: tuple[str, ...]) -> None:
    where, wanted = f"{label}:1", ",".join(columns)
    if not header:
        raise _refused(where, "an empty file", f"the columns {wanted}")
    missing = [name for name in columns if name not in header]
    extra = [name for name in header if name not in columns]
    if missing:
        hint = "; cells are separated by commas" if len(header) == 1 else ""
        raise _refused(where, f"no column {missing[0]}", wanted + hint)
    if extra:
        raise _refused(where, f"an unknown column {shown(extra[0])}", wanted)
    if header != list(columns):
        raise _refused(where, "columns twice or in another order", wanted)


def _switches(label: str, text: str) -> dict[tuple[int, int], tuple[str, TraceSwitch]]:
    """By (seed, run), each with where it stands."""
    switches: dict[tuple[int, int], tuple[str, TraceSwitch]] = {}
    for row in _rows(label, text, SWITCH_COLUMNS):
        seed, run = row.whole("seed"), row.whole("run")
        if (seed, run) in switches:
            raise _refused(f"{row.where}: run", f"run {run} of seed {seed} twice", "one switch a run")
        kind = row.cells["kind"]
        if kind not in KINDS:
            raise row.wrong("kind", f"one of {', '.join(KINDS)}")
        ratio = row.number("ratio_of_current", 1.0, below=True)
        if (kind == "prune") != (ratio > 0.0) and kind in {"prune", "same"}:
            raise row.wrong("ratio_of_current", "a share above 0 for prune, 0 for same")
        old, new = row.name("from_node_set"), row.name("to_node_set")
        if kind == "same" and old == new:
            raise row.wrong("to_node_set", f"another node set than {old}: the version stays the same")
        before, after = row.whole("parameters_before", 1), row.whole("parameters_after", 1)
        if (kind == "prune" and after > before) or (kind == "same" and after != before):
            raise row.wrong("parameters_after", f"{'at most ' if kind == 'prune' else ''}{before}, those before")
        losses: Row = {name: row.number(name, MAX_LOSS) for name in SWITCH_COLUMNS[8:12]}
        sizes: Row = {"parameters_before": before, "parameters_after": after}
        parent, k = row.whole("parent"), row.whole("k", 1)
        switch = TraceSwitch(seed, run, parent, k, kind, ratio, old, new, **losses, **sizes)
        switches[seed, run] = (row.where, switch)
    return switches


_CONSTANT: dict[str, Callable[[_Cells], Any]] = {
    "parent": lambda row: row.whole("parent") if row.cells["parent"] else None,
    "stage": lambda row: row.whole("stage"),
    "node_set": lambda row: row.name("node_set"),
    "classes": lambda row: row.whole("classes", 1),
    "samples": lambda row: row.whole("samples", 1),
    "pruned_fraction": lambda row: row.number("pruned_fraction", 1.0, below=True),
}
"""Columns that stay the same within a run."""


@dataclass
class _Open:
    """A run while its rows are read."""

    where: str
    key: tuple[int, int]
    constant: Row
    k: list[int]
    values: list[tuple[float, float, float]]

    def agree(self, key: str, value: int, expected: int) -> None:
        if value != expected:
            raise _refused(f"{self.where}: {key}", str(value), str(expected))


def _segments(label: str, text: str, switches: dict[tuple[int, int], tuple[str, TraceSwitch]]) -> tuple[Segment, ...]:
    done: dict[tuple[int, int], Segment] = {}
    current: _Open | None = None
    for row in _rows(label, text, EPOCH_COLUMNS):
        key = row.whole("seed"), row.whole("run")
        constant = {name: read(row) for name, read in _CONSTANT.items()}
        if current is None or current.key != key:
            if current is not None:
                done[current.key] = _closed(current, done, switches)
            if key in done:
                raise _refused(f"{row.where}: run", f"run {key[1]} of seed {key[0]} again", "its rows together")
            current = _Open(row.where, key, constant, [], [])
        for name, value in constant.items():
            if value != current.constant[name]:
                raise row.wrong(name, f"{shown(current.constant[name])} as in the rows of this run before")
        _next_epoch(row, current)
        current.values.append(
            (row.number("train_loss", MAX_LOSS), row.number("test_loss", MAX_LOSS), row.number("test_accuracy", 1.0))
        )
    if current is None:
        raise _refused(f"{label}:1", "no rows", "at least one epoch")
    done[current.key] = _closed(current, done, switches)
    for key, (where, _) in switches.items():
        if key not in done:
            raise _refused(f"{where}: run", f"run {key[1]} of seed {key[0]}", f"one that has rows in {label}")
        if done[key].parent is None:
            raise _refused(f"{where}: run", f"a switch of run {key[1]}", f"none: it has no parent in {label}")
    return tuple(done[key] for key in sorted(done))


def _next_epoch(row: _Cells, current: _Open) -> None:
    k, stage_epoch = row.whole("k", 1), row.whole("k_stage", 1)
    if current.k and k != current.k[-1] + 1:
        raise row.wrong("k", f"{current.k[-1] + 1}, the epoch after the row before (rows in order, without gaps)")
    if stage_epoch != len(current.k) + 1:
        raise row.wrong("k_stage", f"{len(current.k) + 1}")
    current.k.append(k)


def _closed(
    run: _Open,
    done: Mapping[tuple[int, int], Segment],
    switches: Mapping[tuple[int, int], tuple[str, TraceSwitch]],
) -> Segment:
    """The finished run, checked against its parent and its switch."""
    parent, switch = run.constant["parent"], None
    if parent is None:
        run.agree("k", run.k[0], 1)
        run.agree("stage", run.constant["stage"], 0)
    else:
        before = done.get((run.key[0], parent))
        if before is None:
            raise _refused(f"{run.where}: parent", str(parent), f"a run of seed {run.key[0]} in the rows before")
        switch = _switch_from(before, run, switches)
        run.agree("k", run.k[0], switch.k + 1)
        run.agree("stage", run.constant["stage"], before.stage + 1)
    values, epochs = np.array(run.values, dtype=np.float64), np.array(run.k, dtype=np.int64)
    values.flags.writeable = epochs.flags.writeable = False
    columns: Row = {**run.constant, **dict(zip(EPOCH_COLUMNS[-3:], values.T, strict=True))}
    return Segment(seed=run.key[0], run=run.key[1], k=epochs, switch=switch, **columns)


def _switch_from(
    before: Segment, run: _Open, switches: Mapping[tuple[int, int], tuple[str, TraceSwitch]]
) -> TraceSwitch:
    """The switch into `run`, checked against both its sides."""
    seed, number = run.key
    if run.key not in switches:
        raise _refused(f"{run.where}: run", f"run {number} of seed {seed} with a parent", "its row in switches.csv")
    where, switch = switches[run.key]
    if switch.parent != before.run:
        raise _refused(f"{where}: parent", str(switch.parent), f"{before.run} as in {run.where}")
    if not before.first <= switch.k <= before.last:
        raise _refused(f"{where}: k", str(switch.k), f"an epoch of run {before.run}: {before.first} to {before.last}")
    if switch.from_node_set != before.node_set:
        raise _refused(f"{where}: from_node_set", switch.from_node_set, f"{before.node_set}, the parent's")
    if switch.to_node_set != run.constant["node_set"]:
        raise _refused(f"{where}: to_node_set", switch.to_node_set, f"{run.constant['node_set']}, the run's")
    return switch
