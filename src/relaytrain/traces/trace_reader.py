"""The hardened reader of trace format v1: anything that is not a whole, consistent tree is refused with file and line."""

from __future__ import annotations

import csv
import io
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from os import fspath
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import ScenarioError
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


def read_traces(folder: str | Path) -> TraceSet:
    """The traces in a folder of `meta.json`, `epochs.csv` and `switches.csv`, either table perhaps as `.csv.gz`.

    Raises:
        ScenarioError: a file is missing, malformed or contradicts another; the message names file and line.
    """
    folder = Path(folder)
    if "\0" in fspath(folder) or not folder.is_dir():
        raise ScenarioError(f"{_plain(fspath(folder))}: got no such folder, expected one with meta.json and epochs.csv")
    label = str(folder / "meta.json")
    tables: dict[str, tuple[str, str]] = {}
    meta = _decoded(_bytes(folder / "meta.json", MAX_META_BYTES), label)
    for name in ("epochs.csv", "switches.csv"):
        plain, packed = folder / name, folder / f"{name}.gz"
        if plain.exists() and packed.exists():
            raise ScenarioError(f"{packed}: got {name} beside it, expected one of the two; remove the one that is old")
        place = packed if packed.exists() else plain
        tables[name] = (str(place), _decoded(_bytes(place, MAX_BYTES), str(place)))
    return build(meta, tables, label)


def build(meta_text: str, tables: Mapping[str, tuple[str, str]], label: str) -> TraceSet:
    """Traces out of texts: `tables` gives, by file name, where a text is from and the text itself."""
    meta = _meta(meta_text, label)
    switches = _switches(*tables["switches.csv"])
    return TraceSet(meta, _segments(*tables["epochs.csv"], switches, tables["switches.csv"][0]))


def _bytes(path: Path, most: int) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ScenarioError(f"{path}: got something that is no regular file, expected a file of a trace folder")
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except FileNotFoundError:
        raise ScenarioError(f"{path}: got no such file, expected meta.json, epochs.csv and switches.csv") from None
    except OSError as error:
        raise ScenarioError(f"{path}: got '{error.strerror}', expected a file that can be read") from None
    if path.suffix == ".gz":
        raw = _unpacked(raw, path, most)
    if len(raw) > most:
        raise ScenarioError(f"{path}: got more than {most >> 20} MiB, expected at most that; split it by seed")
    return raw


def _unpacked(raw: bytes, path: Path, most: int) -> bytes:
    """At most `most` + 1 bytes: a bomb is never unpacked."""
    packer = zlib.decompressobj(wbits=31)
    try:
        data = packer.decompress(raw, most + 1)
    except zlib.error:
        raise ScenarioError(
            f"{path}: got bytes that are no gzip, expected a table packed by gzip; get it again"
        ) from None
    if len(data) <= most and not packer.eof:
        raise ScenarioError(f"{path}: got a gzip that ends early, expected a whole one; get it again")
    if packer.unused_data:
        raise ScenarioError(f"{path}: got bytes after the end of the gzip, expected none; get it again")
    return data


def _decoded(raw: bytes, label: str) -> str:
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ScenarioError(f"{label}:{line}: got a byte that is not UTF-8, expected UTF-8 text") from None
    bad = next((i for i in (text.find("\0"), text.find("\r")) if i >= 0), None)
    if bad is not None:
        line = text.count("\n", 0, bad) + 1
        raise ScenarioError(f"{label}:{line}: got a control character, expected plain text")
    return text


def _meta(text: str, label: str) -> dict[str, Any]:
    from ..scenario.read import read_json

    meta = read_json(text, label)
    found = meta.get("format")
    if found is None:
        raise ScenarioError(f'{label}: format: got nothing, expected "format": {FORMAT}')
    if isinstance(found, bool) or not isinstance(found, int) or found != FORMAT:
        raise ScenarioError(f"{label}: format: got {_plain(found)}, expected {FORMAT}; this release reads no other")
    for key in ("loss", "preset", "change_target", "model", "data", "optimizer"):
        if key in meta and not isinstance(meta[key], str):
            raise ScenarioError(f"{label}: {key}: got {_plain(meta[key])}, expected a text")
    if "bits" in meta.get("loss", "").lower():
        raise ScenarioError(f"{label}: loss: got {_plain(meta['loss'])}, expected nats; multiply losses by ln 2")
    if meta.get("change_target", "jump") not in ("jump", "first-epoch"):
        raise ScenarioError(
            f"{label}: change_target: got {_plain(meta['change_target'])}, expected jump or first-epoch"
        )
    if "preset" in meta and not _NAME.fullmatch(meta["preset"]):
        raise ScenarioError(
            f"{label}: preset: got {_plain(meta['preset'])}, expected a name of letters, digits, - and _"
        )
    return meta


@dataclass(frozen=True)
class _Cells:
    """One row, cell by cell, with words for what is wrong."""

    where: str
    cells: dict[str, str]

    def wrong(self, key: str, expected: str) -> ScenarioError:
        return ScenarioError(f"{self.where}: {key}: got {_plain(self.cells[key])}, expected {expected}")

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
                raise ScenarioError(f"{where}: got more than {MAX_ROWS:,} rows, expected at most that; split by seed")
            if len(row) != len(columns):
                hint = "; decimals take a point, not a comma" if len(row) > len(columns) else "; is the file cut off?"
                raise ScenarioError(f"{where}: got {len(row)} cells, expected {len(columns)}{hint}")
            yield _Cells(where, dict(zip(columns, row, strict=True)))
    except csv.Error as error:
        raise ScenarioError(
            f"{label}:{reader.line_num}: got a row that is no CSV ({error}), expected plain cells"
        ) from None


def _check_header(label: str, header: list[str] | None, columns: tuple[str, ...]) -> None:
    if not header:
        raise ScenarioError(f"{label}:1: got an empty file, expected the columns {','.join(columns)}")
    if header == list(columns):
        return
    missing = [name for name in columns if name not in header]
    extra = [name for name in header if name not in columns]
    if missing:
        hint = "; cells are separated by commas" if len(header) == 1 else ""
        raise ScenarioError(f"{label}:1: got no column {missing[0]}, expected {','.join(columns)}{hint}")
    if extra:
        raise ScenarioError(f"{label}:1: got an unknown column {_plain(extra[0])}, expected {','.join(columns)}")
    raise ScenarioError(f"{label}:1: got columns twice or in another order, expected {','.join(columns)}")


def _switches(label: str, text: str) -> dict[tuple[int, int], tuple[str, TraceSwitch]]:
    """By (seed, run), each with where it stands."""
    found: dict[tuple[int, int], tuple[str, TraceSwitch]] = {}
    for row in _rows(label, text, SWITCH_COLUMNS):
        seed, run = row.whole("seed"), row.whole("run")
        if (seed, run) in found:
            raise ScenarioError(f"{row.where}: run: got run {run} of seed {seed} twice, expected one switch a run")
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
        losses = [row.number(name, MAX_LOSS) for name in SWITCH_COLUMNS[8:12]]
        switch = TraceSwitch(
            seed, run, row.whole("parent"), row.whole("k", 1), kind, ratio, old, new,
            losses[0], losses[1], losses[2], losses[3], before, after,
        )  # fmt: skip
        found[seed, run] = (row.where, switch)
    return found


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


def _segments(
    label: str, text: str, switches: dict[tuple[int, int], tuple[str, TraceSwitch]], switches_label: str
) -> tuple[Segment, ...]:
    done: dict[tuple[int, int], Segment] = {}
    current: _Open | None = None
    for row in _rows(label, text, EPOCH_COLUMNS):
        key = row.whole("seed"), row.whole("run")
        constant = {name: read(row) for name, read in _CONSTANT.items()}
        if current is None or current.key != key:
            if current is not None:
                done[current.key] = _closed(current, done, switches)
            if key in done:
                raise ScenarioError(
                    f"{row.where}: run: got run {key[1]} of seed {key[0]} again, expected its rows together"
                )
            current = _Open(row.where, key, constant, [], [])
        for name, value in constant.items():
            if value != current.constant[name]:
                raise row.wrong(name, f"{_plain(current.constant[name])} as in the rows of this run before")
        _next_epoch(row, current)
        current.values.append(
            (row.number("train_loss", MAX_LOSS), row.number("test_loss", MAX_LOSS), row.number("test_accuracy", 1.0))
        )
    if current is None:
        raise ScenarioError(f"{label}:1: got no rows, expected at least one epoch")
    done[current.key] = _closed(current, done, switches)
    for key, (where, _) in switches.items():
        if key not in done:
            raise ScenarioError(
                f"{where}: run: got run {key[1]} of seed {key[0]}, expected one that has rows in {label}"
            )
        if done[key].parent is None:
            raise ScenarioError(
                f"{where}: run: got a switch of run {key[1]}, expected none: it has no parent in {label}"
            )
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
    seed, number = run.key
    parent = run.constant["parent"]
    switch: TraceSwitch | None = None
    if parent is None:
        _agree(run, "k", run.k[0], 1)
        _agree(run, "stage", run.constant["stage"], 0)
    else:
        before = done.get((seed, parent))
        if before is None:
            raise ScenarioError(f"{run.where}: parent: got {parent}, expected a run of seed {seed} in the rows before")
        if run.key not in switches:
            raise ScenarioError(
                f"{run.where}: run: got run {number} of seed {seed} with a parent, expected its row in switches.csv"
            )
        where, switch = switches[run.key]
        if switch.parent != parent:
            raise ScenarioError(f"{where}: parent: got {switch.parent}, expected {parent} as in {run.where}")
        if not before.first <= switch.k <= before.last:
            raise ScenarioError(
                f"{where}: k: got {switch.k}, expected an epoch of run {parent}: {before.first} to {before.last}"
            )
        if switch.from_node_set != before.node_set:
            raise ScenarioError(
                f"{where}: from_node_set: got {switch.from_node_set}, expected {before.node_set}, the parent's"
            )
        if switch.to_node_set != run.constant["node_set"]:
            raise ScenarioError(
                f"{where}: to_node_set: got {switch.to_node_set}, expected {run.constant['node_set']}, the run's"
            )
        _agree(run, "k", run.k[0], switch.k + 1)
        _agree(run, "stage", run.constant["stage"], before.stage + 1)
    values = np.array(run.values, dtype=np.float64)
    values.flags.writeable = False
    epochs = np.array(run.k, dtype=np.int64)
    epochs.flags.writeable = False
    c = run.constant
    return Segment(
        seed, number, parent, c["stage"], c["node_set"], c["classes"], c["samples"], c["pruned_fraction"],
        epochs, values[:, 0], values[:, 1], values[:, 2], switch,
    )  # fmt: skip


def _agree(run: _Open, key: str, got: int, expected: int) -> None:
    if got != expected:
        raise ScenarioError(f"{run.where}: {key}: got {got}, expected {expected}")


def _plain(value: object) -> str:
    from ..scenario.fields import shown

    return shown(value)
