"""`relaytrain show`: one run in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.explain import figure_name, say_energy, say_time
from .options import Format, Output
from .output import emit, emit_json
from .reading import LastRun, Store, find_run, open_store, read_run

if TYPE_CHECKING:
    from ..report.run_view import RunView

SHORT = "One run: verdict, legs, handovers, what went wrong."
HELP = """Show a run: how it ended or where it stands, its legs and handovers, energy useful and wasted, failures."""
EXAMPLES = """\b
Examples:
  relaytrain show
  relaytrain show quickstart-1a2b3c4d --format json
"""

SHOWN = 40
"""Happenings that are listed."""


def show(
    run: LastRun = None,
    store: Store = None,
    output: Output = Format.text,
) -> int:
    """Read and tell."""
    opened = open_store(store)
    view = read_run(opened, find_run(opened, run))
    if output is Format.json:
        emit_json(as_json(view, opened.folder_to_name))
    else:
        emit(as_text(view, opened.folder_to_name))
    return 0


def as_text(view: RunView, store: Path | None = None) -> str:
    """A run in plain lines; `store`: its folder, if it must be named."""
    from ..report.event_fields import table
    from ..report.happenings import happenings
    from ..report.verdict import say_sets, say_tested, verdict_of

    verdict = verdict_of(view, store)
    time_unit, energy_unit = view.asked.time_unit, view.asked.energy_unit
    figure = figure_name(view.asked.metric)
    lines = [f"{view.run}: {verdict.word}. {verdict.sentence}"]
    lines.append(f"  scenario {view.name}, planner {view.planner}, {view.clock} clock, {view.sessions} session(s)")
    for leg in view.legs:
        cost = leg.cost
        spent = f"{say_energy(cost.energy_j, energy_unit):>10} {say_time(cost.elapsed_s, time_unit):>9}"
        epochs = f"epochs {leg.first_epoch:>4}-{leg.last_epoch:<4}"
        lines.append(f"  {leg.epochs[0].pair!s:<24} {epochs} {spent}   {figure} -> {leg.loss:.4g}")
    for hand in view.handovers:
        jump = ""
        if hand.loss_after is not None and hand.loss_before is not None:
            jump = f", {figure} {hand.loss_after - hand.loss_before:+.3g}"
        lines.append(f"  handover before epoch {hand.epoch}: {hand.before} -> {hand.after} ({hand.kind}){jump}")
    totals = view.totals
    lines.append(
        f"  {say_energy(totals.useful_j, energy_unit)} useful + {say_energy(totals.wasted_j, energy_unit)} wasted"
        f" = {say_energy(totals.energy_j, energy_unit)}"
    )
    ended = view.verdict or {}
    if tested := say_tested(ended, view.asked.metric):
        lines.append(f"  {tested}")
    if sets := say_sets(table(ended.get("prediction_sets"))):
        lines.append(f"  {sets}")
    happened = happenings(view)
    lines += [f"  epoch {epoch}: {words}" for epoch, words in happened[:SHOWN]]
    lines += [f"  ... and {len(happened) - SHOWN} more"] if len(happened) > SHOWN else []
    lines += [f"  note: {note}" for note in verdict.notes if note not in {row.words for row in happened}]
    return "\n".join(lines)


def as_json(view: RunView, store: Path | None = None) -> dict[str, Any]:
    """A run as plain JSON values; `store`: its folder, if it must be named."""
    from ..relay.going_on import go_on
    from ..report.verdict import RESUMABLE

    return {
        "schema": "relaytrain.show/1",
        "run": view.run,
        "status": view.status,
        "scenario": view.name,
        "planner": view.planner,
        "clock": view.clock,
        "initial_loss": view.initial_loss,
        "loss": view.loss,
        "totals": view.totals.to_dict(),
        "verdict": None if view.verdict is None else dict(view.verdict),
        "resume": go_on(view.run, view.started, store) if view.status in RESUMABLE else None,
        "epochs": [
            {
                "epoch": e.epoch,
                "version": e.pair.version,
                "nodes": e.pair.nodes,
                "loss": e.loss,
                "elapsed_s": e.elapsed_s,
                "energy_j": e.energy_j,
            }
            for e in view.epochs
        ],
        "handovers": [
            {"epoch": h.epoch, "before": list(h.before), "after": list(h.after), "kind": h.kind} for h in view.handovers
        ],
        "failures": [{"epoch": f.epoch, "node": f.node, "reason": f.reason} for f in view.failures],
        "rollbacks": [{"to_epoch": r.to_epoch, "reason": r.reason} for r in view.rollbacks],
    }
