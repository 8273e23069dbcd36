"""`relaytrain front`: what a tighter deadline or a lower loss would cost."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from ..core.errors import UsageError
from .compiled import compiled, needs_all_imports
from .options import SCENARIO, Figure, Format, Output, Report, Scenario, Sets, Without
from .output import check_file, emit_json, emit_view, write_figure, write_report

SHORT = "What each deadline and loss costs at least."
HELP = """Show the trade-off: the least energy for each deadline and loss, from one sweep.

The sweep goes down to the target's loss and up to its deadline; widen them with --set.
"""
EXAMPLES = """\b
Examples:
  relaytrain front smart_factory --figure front.svg
  relaytrain front quickstart --loss 0.5 --loss 0.4 --deadline 2m --deadline 5m
  relaytrain front quickstart --level 0.95
"""

Losses = Annotated[list[float] | None, typer.Option("--loss", metavar="L", help="A row of the table (repeatable).")]
Deadlines = Annotated[
    list[str] | None, typer.Option("--deadline", metavar="T", help="A column of the table, e.g. 5m (repeatable).")
]
Level = Annotated[
    float | None, typer.Option("--level", metavar="P", help="At this probability instead of the expected loss.")
]


def front(
    scenario: Scenario = SCENARIO,
    losses: Losses = None,
    deadlines: Deadlines = None,
    level: Level = None,
    sets: Sets = None,
    without: Without = None,
    figure: Figure = None,
    report: Report = None,
    output: Output = Format.text,
) -> int:
    """Sweep, show, draw."""
    from .. import api

    check_file("--figure", figure, ".svg")
    check_file("--report", report, ".html", ".htm")
    if level is not None and not 0.0 < level < 1.0:
        raise UsageError(f"--level: got {level:g}, expected a probability between 0 and 1")
    columns = [_duration(text) for text in deadlines or ()]
    loaded = api.scenario(scenario, overrides=sets or (), without=without or ())
    with compiled(all_imports=needs_all_imports(loaded)):
        swept = api.front(loaded, level=level)
    from ..report.front_view import front_svg, front_view

    name = "expected" if level is None else f"{level:g}"
    view = front_view(swept, level=name, losses=sorted(losses or ()), deadlines_s=sorted(columns))
    if output is Format.json:
        emit_json(view.to_dict())
    else:
        from ..report.tables import front_tables

        emit_view(front_tables(view))
    write_figure(figure, front_svg(view))
    if report is not None:
        from ..report.answer_html import front_report

        write_report(report, lambda command: front_report(view, command))
    return 0


def _duration(text: str) -> float:
    from ..scenario.units import parse_duration

    try:
        value: float | None = float(text)
    except ValueError:
        value = parse_duration(text)
    if value is None or math.isnan(value) or value <= 0:
        raise UsageError(f"--deadline: got '{text}', expected a time such as 90, 5m or 1h30")
    return value
