"""`relaytrain ls`: the runs of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..core.errors import StoreDamaged
from ..core.explain import say_energy, say_time
from .options import Format, Output
from .output import complain, emit, emit_json, emit_view
from .reading import Store

SHORT = "The runs of a store."
HELP = """List the runs, the one written last first: status, epochs, loss now and at best, energy and time.

What is shown is checked. Exit status 9 when a run is damaged: it is listed as far as it can be read.
"""
EXAMPLES = """\b
Examples:
  relaytrain ls
  relaytrain ls --store /data/runs --format json
"""

MOST_HINTS = 5
"""Runs that can go on and are told how to, those written last."""


def ls(store: Store = None, output: Output = Format.text) -> int:
    """Read and list."""
    from ..store import RunStore
    from ..store.database import way_out

    opened = RunStore.open(store)
    store_named = opened.folder_to_name
    summaries = opened.runs()
    rows = [_row(summary, store_named) for summary in summaries]
    damaged = [summary for summary in summaries if summary.damage]
    status = StoreDamaged.exit_status if damaged else 0
    for summary in damaged:
        complain(f"run {summary.run}: {summary.damage}")
    if damaged:
        complain(way_out(opened.folder))
    if output is Format.json:
        emit_json({"schema": "relaytrain.runs/1", "store": str(opened.folder), "runs": rows})
        return status
    if not rows:
        emit(f"{opened.folder}: no runs yet; start one with relaytrain run")
        return 0
    from rich.table import Table

    table = Table(title=None)
    for heading in ("run", "status", "epochs", "loss", "best", "energy", "time", "updated"):
        table.add_column(
            heading, justify="left" if heading in ("run", "status", "updated") else "right", no_wrap=heading == "run"
        )
    for row in rows:
        losses = ["-" if row[key] is None else f"{row[key]:.4g}" for key in ("loss", "best_loss")]
        costs = say_energy(row["energy_j"]), say_time(row["elapsed_s"])
        table.add_row(row["run"], row["status"], str(row["epochs"]), *losses, *costs, row["updated"])
    emit_view(table)
    hints = [f"to go on: {row['resume']}" for row in rows if row["resume"] is not None]
    if hints:
        emit("\n".join(hints[:MOST_HINTS]))
    return status


def _row(summary: Any, store: Path | None) -> dict[str, Any]:
    from ..relay.going_on import go_on
    from ..report.event_fields import say_moment
    from ..report.verdict import RESUMABLE

    return {
        "run": summary.run,
        "status": summary.status + (" (stopping)" if summary.stop_requested else ""),
        "epochs": summary.epoch,
        "loss": summary.loss,
        "best_loss": summary.best_loss,
        "energy_j": summary.totals.energy_j,
        "wasted_j": summary.totals.wasted_j,
        "elapsed_s": summary.totals.elapsed_s,
        "updated": say_moment(summary.updated_wall_s, zone=None),
        "resume": go_on(summary.run, summary.started, store) if summary.status in RESUMABLE else None,
        **({"damage": summary.damage} if summary.damage else {}),
    }
