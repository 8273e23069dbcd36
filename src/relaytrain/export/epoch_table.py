"""A run's epochs as tables that any tool reads: `epochs`, `nodes` and `handovers`, as CSV or Parquet.

Only epochs that stand are in it. Numbers are written so that reading them gives the same bits; what is not known is
empty (null in Parquet).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..core.errors import UsageError, need_packages
from ..report.run_view import RunView
from ..store import RunStore
from ..store.files import make_dir, write_atomic
from . import empty_folder

TableKind = Literal["csv", "parquet"]
Row = dict[str, Any]

COLUMNS: Mapping[str, tuple[tuple[str, type], ...]] = {
    "epochs": (
        ("run", str), ("epoch", int), ("version", str), ("nodes", str), ("loss", float), ("accuracy", float),
        ("train_loss", float), ("elapsed_s", float), ("energy_j", float), ("provenance", str), ("cpu_s", float),
        ("wall_s", float), ("end_s", float), ("total_energy_j", float), ("wasted_s", float), ("wasted_j", float),
        ("handover_loss", float), ("expected_loss", float), ("guaranteed_loss", float), ("level", float),
        ("expected_s", float), ("expected_j", float), ("failed_nodes", str),
    ),
    "nodes": (
        ("run", str), ("epoch", int), ("node", str), ("samples", int), ("train_loss", float), ("cpu_s", float),
        ("energy_j", float), ("elapsed_s", float),
    ),
    "handovers": (
        ("run", str), ("epoch", int), ("before_version", str), ("before_nodes", str), ("after_version", str),
        ("after_nodes", str), ("kind", str), ("at_s", float), ("loss_before", float), ("loss_after", float),
        ("elapsed_s", float), ("energy_j", float), ("reached_ratio", float),
    ),
}  # fmt: skip
"""Columns of every table, in order, with the kind of their values."""


@dataclass(frozen=True)
class ExportedTables:
    """The files, and how many rows each table has."""

    run: str
    files: tuple[Path, ...]
    rows: Mapping[str, int]


def export_tables(store: RunStore, run: str, place: str | Path, kind: TableKind, *, force: bool) -> ExportedTables:
    """Write a run's tables: all three into a folder, or the epochs alone into a file with the kind as its ending.

    Raises:
        UsageError: the run has no epoch yet; something is there already and `force` is not given.
    """
    if kind == "parquet":
        need_packages("export --as parquet needs", {"pyarrow": "data"})
    store.summary(run)  # refuses a run that is not there
    tables = tables_of(RunView.of(store.events(run)))
    if not tables["epochs"]:
        raise UsageError(f"run {run} has no epoch done yet; there is nothing to write")
    path, single = Path(place), Path(place).suffix.lower() == f".{kind}"
    if single and path.exists() and not force:
        raise UsageError(f"{path}: there already; choose another name, or add --force to overwrite it")
    if single and not path.parent.is_dir():
        raise UsageError(f"{path}: no folder {path.parent}; make it first")
    folder = path.parent if single else make_dir(empty_folder(path, force=force))
    targets = {"epochs": path} if single else {name: folder / f"{name}.{kind}" for name in COLUMNS}
    for name, file in targets.items():
        write_atomic(file, _csv(name, tables[name]) if kind == "csv" else _parquet(name, tables[name]))
    return ExportedTables(run, tuple(targets.values()), {name: len(tables[name]) for name in targets})


def tables_of(view: RunView) -> dict[str, list[Row]]:
    """The rows of every table, by the names of `COLUMNS`."""
    return {
        "epochs": list(_epochs(view)),
        "nodes": [
            {"run": view.run, "epoch": epoch.epoch, **node._asdict()} for epoch in view.epochs for node in epoch.nodes
        ],
        "handovers": list(_handovers(view)),
    }


def _epochs(view: RunView) -> Iterator[Row]:
    for at, epoch in enumerate(view.epochs):
        predicted = epoch.predicted
        yield {
            "run": view.run,
            "version": epoch.pair.version,
            "total_energy_j": math.fsum(done.energy_j for done in view.epochs[: at + 1]),
            "expected_loss": predicted.loss,
            "guaranteed_loss": predicted.guaranteed,
            "level": predicted.level,
            "expected_s": predicted.elapsed_s,
            "expected_j": predicted.energy_j,
            **{name: getattr(epoch, name) for name, _ in COLUMNS["epochs"] if hasattr(epoch, name)},
            "nodes": epoch.pair.nodes,
            "failed_nodes": " ".join(epoch.failed_nodes),
        }


def _handovers(view: RunView) -> Iterator[Row]:
    for handover in view.handovers:
        pairs = {"before": handover.before, "after": handover.after}
        named = {f"{side}_{part}": getattr(pair, part) for side, pair in pairs.items() for part in ("version", "nodes")}
        yield {"run": view.run, **vars(handover), **named}


def _csv(name: str, rows: Sequence[Row]) -> str:
    columns = [column for column, _ in COLUMNS[name]]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets a quote in front."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@")):
        return f"'{value}"
    return "" if value is None else value


def _parquet(name: str, rows: Sequence[Row]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    schema = pa.schema([(column, kinds[kind]) for column, kind in COLUMNS[name]])
    plain = [{column: row.get(column) for column, _ in COLUMNS[name]} for row in rows]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(plain, schema=schema), buffer)
    return buffer.getvalue()
