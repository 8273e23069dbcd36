"""`relaytrain compare`: every planner on one scenario."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .compiled import compiled, needs_all_imports
from .options import SCENARIO, Format, Output, Report, Scenario, Sets, Without
from .output import check_file, emit_json, emit_view, write_report

SHORT = "All planners side by side on one scenario."
HELP = """Compare all planners on one scenario: energy, time, and how far from the optimum.

`sure` is the probability level the plan rests on. `fixed` is one schedule chosen beforehand: from recorded relays
(relaytrain atlas), where there are some, else from what is believed. Exit status 0 once computed, whoever meets the
target.
"""
EXAMPLES = """\b
Examples:
  relaytrain compare smart_factory
  relaytrain compare my.toml --set target.deadline=20m --format json
  relaytrain compare my.toml --atlas my.npz
"""

Recorded = Annotated[
    Path | None,
    typer.Option("--atlas", metavar="FILE.npz", help="Recorded relays that fixed chooses from (the bundled ones)."),
]


def compare(
    scenario: Scenario = SCENARIO,
    sets: Sets = None,
    without: Without = None,
    atlas: Recorded = None,
    report: Report = None,
    output: Output = Format.text,
) -> int:
    """Compare and show."""
    from .. import api

    check_file("--report", report, ".html", ".htm")
    recorded = [] if atlas is None else [f"planner.atlas={json.dumps(str(atlas.resolve()))}"]
    loaded = api.scenario(scenario, overrides=[*(sets or ()), *recorded], without=without or ())
    with compiled(all_imports=needs_all_imports(loaded)):
        comparison = api.compare(loaded)
    if output is Format.json:
        emit_json(comparison.to_dict())
    else:
        from ..report.tables import comparison_table

        emit_view(comparison_table(comparison))
    if report is not None:
        from ..report.answer_html import comparison_report

        write_report(report, lambda command: comparison_report(comparison, command))
    return 0
