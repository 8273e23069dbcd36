"""`relaytrain export`: what a run trained, or what it showed, in forms that others read."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from .options import Format, Output, whole_numbers
from .output import emit, emit_json, note
from .reading import Run, Store, find_run, need_torch, open_store

SHORT = "The trained network, or the run for other tools."
HELP = """Write the network that a run trained: spec and safetensors, state_dicts, torch.export, ONNX.

model.pt2 and model.onnx take raw inputs: what the run did to them (shrink, standardise) is inside; README.md has the
constants for the bare network. Every file is read back and compared with the run, bit for bit. A network of your own is
built only when you name the function that makes it with --model; without it the weights are written all the same. With
--as traces the folder gets what the run's epochs and handovers showed, for estimators to learn from.

--as csv and parquet write tables: epochs, nodes and handovers into a folder, or the epochs into a FILE.csv. --as
tensorboard, mlflow and wandb (offline) replay the run's events into that tool, as `run --log` does live; PLACE is a
folder, of mlflow also a tracking URI. What is there already is left out.
"""
EXAMPLES = """\b
Examples:
  relaytrain export quickstart-1a2b3c4d trained/
  relaytrain export quickstart-1a2b3c4d traces/quick --as traces
  relaytrain export mine-1a2b3c4d trained/ --model my_pkg:net
  relaytrain export quickstart-1a2b3c4d epochs.csv --as csv
  relaytrain export quickstart-1a2b3c4d tb --as tensorboard && tensorboard --logdir tb
"""


class ExportKind(StrEnum):
    """What of a run is written."""

    network = "network"
    traces = "traces"
    csv = "csv"
    parquet = "parquet"
    tensorboard = "tensorboard"
    mlflow = "mlflow"
    wandb = "wandb"


Place = Annotated[str, typer.Argument(metavar="PLACE", help="The folder to write to; see --as.", show_default=False)]
Best = Annotated[bool, typer.Option("--best", help="The epoch with the lowest loss instead of the last one.")]
Model = Annotated[
    str | None, typer.Option("--model", metavar="MODULE:FUNCTION", help="Makes the network, if it is one of your own.")
]
Shape = Annotated[
    str | None, typer.Option("--input", metavar="C,H,W", help="Shape of its input, where the run did not keep it.")
]
As = Annotated[ExportKind, typer.Option("--as", help="What to write (network).", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Write into a folder that holds other files.")]


def export(
    run: Run,
    place: Place,
    kind: As = ExportKind.network,
    best: Best = False,
    model: Model = None,
    shape: Shape = None,
    force: Force = False,
    store: Store = None,
    output: Output = Format.text,
) -> int:
    """Find, write, check."""
    folder = Path(place)
    if kind is ExportKind.traces:
        return _traces(run, folder, store, force, output)
    if kind in (ExportKind.csv, ExportKind.parquet):
        return _tables(run, folder, kind, store, force, output)
    if kind is not ExportKind.network:
        return _log(run, f"{kind.value}={place}", store, output)
    need_torch("export")
    expected = "sizes such as 3,32,32"
    sizes = None if shape is None else whole_numbers("--input", shape, expected, most=4096, count=range(1, 5))
    opened = open_store(store)
    name = find_run(opened, run)
    from ..export.exported_network import export_run

    resolve = None
    if model is not None:
        from ..models.rebuild import from_scenario

        resolve = from_scenario(model, Path.cwd())
    which = "best" if best else "final"
    exported = export_run(opened, name, folder, which=which, resolve=resolve, shape=sizes, force=force)  # type: ignore[arg-type]
    if output is Format.json:
        emit_json(exported.to_dict())
        return 0
    rebuilt = "network rebuilt and compared bit for bit" if exported.rebuilt else "weights compared bit for bit"
    emit(
        f"{exported.version} after epoch {exported.epoch} of {name} (loss {exported.loss:.4g}) -> {exported.folder}\n"
        + "".join(f"  {file}\n" for file in exported.files)
        + f"read back: {rebuilt}"
    )
    for words in exported.skipped:
        note(f"left out: {words}")
    return 0


def _traces(run: str, folder: Path, store: Path | None, force: bool, output: Format) -> int:
    opened = open_store(store)
    from ..export.run_traces import export_traces

    traces = export_traces(opened, find_run(opened, run), folder, force=force)
    legs, handovers, name = len(traces.segments), len(traces.switches), traces.meta["run"]
    epochs = sum(len(segment) for segment in traces.segments)
    if output is Format.json:
        counts = {"segments": legs, "epochs": epochs, "switches": handovers}
        emit_json({"schema": "relaytrain.exported-traces/1", "run": name, "folder": str(folder), **counts})
    else:
        emit(f"{legs} legs of {epochs} epochs, {handovers} handovers of {name} -> {folder}")
    return 0


def _tables(run: str, place: Path, kind: ExportKind, store: Path | None, force: bool, output: Format) -> int:
    opened = open_store(store)
    from ..export.epoch_table import export_tables

    as_kind: Literal["csv", "parquet"] = "csv" if kind is ExportKind.csv else "parquet"
    written = export_tables(opened, find_run(opened, run), place, as_kind, force=force)
    files = [str(file) for file in written.files]
    if output is Format.json:
        about = {"run": written.run, "kind": kind.value, "files": files, "rows": dict(written.rows)}
        emit_json({"schema": "relaytrain.exported-tables/1", **about})
    else:
        counts = ", ".join(f"{count} {name}" for name, count in written.rows.items())
        emit(f"{counts} of {written.run} -> {', '.join(files)}")
    return 0


def _log(run: str, text: str, store: Path | None, output: Format) -> int:
    from ..loggers.log_kinds import LogTarget
    from ..loggers.replaying import log_run

    target = LogTarget.of(text, option="--as")
    opened = open_store(store)
    logged = log_run(opened, find_run(opened, run), target)
    if output is Format.json:
        about = {"run": logged.run, "kind": target.kind, "where": logged.where}
        counts = {"events": logged.events, "new_entries": logged.new}
        emit_json({"schema": "relaytrain.exported-log/1", **about, **counts})
    else:
        emit(f"{logged.events} events of {logged.run} read, {logged.new} new entries -> {logged.where}")
    return 0
