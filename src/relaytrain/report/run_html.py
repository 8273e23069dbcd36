"""A run as one HTML file: no script, no network, opens from disk, prints well. Jinja2 escapes every string.

`report_html` is pure: the same view gives the same bytes. Long runs are thinned so that the file stays below
`MAX_BYTES`; what was left out is said in its place.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from .baselines import Baseline
from .event_fields import table, text
from .page_templates import environment
from .run_sections import (
    MOST_EPOCHS,
    band_kept,
    baseline_rows,
    environment_rows,
    epoch_rows,
    network_rows,
    node_rows,
    replan_rows,
    scenario_text,
    shared_parts,
    tiles_of,
)
from .run_svg import run_svg
from .run_view import RunView
from .verdict import verdict_of

MAX_BYTES = 400_000


def report_html(view: RunView, *, baselines: Sequence[Baseline] = (), store: Path | None = None) -> str:
    """The whole report as HTML text."""
    context = {
        **shared_parts(view),
        "verdict": verdict_of(view, store),
        "picture": Markup(run_svg(view)),  # the canvas escapes its own strings
        "tiles": tiles_of(view),
        "nodes": node_rows(view),
        "band": band_kept(view),
        "replans": replan_rows(view),
        "baselines": baseline_rows(view, baselines),
        "networks": network_rows(view),
        "environment": environment_rows(view),
        "command": command(view),
        "recorded": bool(text(view.started.get("command"))),
        "file": f"{view.name}.json",
        "scenario": scenario_text(view),
        "epochs": epoch_rows(view),
        "left_out": max(0, len(view.epochs) - MOST_EPOCHS),
    }
    return environment().get_template("report.html").render(context)


def command(view: RunView) -> str:
    """What starts the same run again: as recorded, else the resolved scenario with what the run says otherwise."""
    recorded = view.started.get("command")
    if isinstance(recorded, str) and recorded:
        return recorded
    if view.started.get("in_memory"):
        return "rt.train(...): this run was started from Python, with a model and data of that process"
    words = ["relaytrain", "run", f"{view.name}.json"]
    planner = text(view.started.get("planner")).partition("/")[0]
    for key, used in (("training.seed", text(view.started.get("seed"))), ("planner.name", planner)):
        group, _, name = key.partition(".")
        if used and used != text(table(view.scenario.get(group)).get(name)):
            words += ["--set", f"{key}={used}"]
    return shlex.join(words)
