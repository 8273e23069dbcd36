"""`relaytrain plan`: the cheapest relay that meets the target, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import InfeasibleError
from ..core.planner_names import ALL_PLANNERS, ALL_RULES
from . import completion
from .compiled import compiled, needs_all_imports
from .options import SCENARIO, Figure, Format, Output, Report, Scenario, Sets, Without
from .output import check_file, emit_json, emit_view, write_figure, write_report

SHORT = "The cheapest relay that meets the target, and why."
HELP = """Find the cheapest relay that meets the target, and say why.

A relay is a list of legs: one version of the network trained by one node set for some epochs, then handed over.
A scenario without [law] or anything fitted gets a guess: a relay to begin with, and no percentage.
Exit status: 0 when the target is met with the probability asked for, 4 when only a best effort or a guess can be shown.
"""
EXAMPLES = """\b
Examples:
  relaytrain plan smart_factory
  relaytrain plan my.toml --set target.loss=0.2 --set target.deadline=5m
  relaytrain plan my.toml --without silver --planner one-switch
  relaytrain plan depl_alexnet --set target.probability=0.9 --planner best-exp
  relaytrain plan quickstart --figure plan.svg --report plan.html --format json
"""

PlannerName = Annotated[
    str | None,
    typer.Option(
        "--planner",
        metavar="NAME",
        help="pact, optimum, one-switch, static-learn, single, fixed; with [depl] depl, best-exp, best-exp-greedy.",
        autocompletion=completion.among(ALL_PLANNERS),
    ),
]
RuleName = Annotated[
    str | None,
    typer.Option(
        "--rule",
        metavar="NAME",
        help="PACT's rule: sampled (default with a belief), adaptive, robust, expected, literal, clamped, opportunity.",
        autocompletion=completion.among(ALL_RULES),
    ),
]
EstimatorName = Annotated[
    str | None,
    typer.Option(
        "--estimator",
        metavar="NAME",
        help="prior, auto, paper or zero-trace.",
        show_default=False,
        autocompletion=completion.among(completion.ESTIMATORS),
    ),
]
FittedFile = Annotated[
    Path | None, typer.Option("--fitted", metavar="FILE", help="What `relaytrain fit` wrote.", show_default=False)
]


def plan(
    scenario: Scenario = SCENARIO,
    planner: PlannerName = None,
    rule: RuleName = None,
    estimator: EstimatorName = None,
    fitted: FittedFile = None,
    sets: Sets = None,
    without: Without = None,
    figure: Figure = None,
    report: Report = None,
    output: Output = Format.text,
) -> int:
    """Plan, show, draw."""
    from .. import api

    check_file("--figure", figure, ".svg")
    check_file("--report", report, ".html", ".htm")
    changes = list(sets or ())
    if estimator is not None or fitted is not None:
        from ..relay.runs import estimator_overrides

        changes += estimator_overrides(estimator, fitted)
    loaded = api.scenario(scenario, overrides=changes, without=without or ())
    searched = _exact_search(planner or loaded.planner.name, rule or loaded.rule)
    with compiled(all_imports=needs_all_imports(loaded), small=searched):
        planned = api.plan(loaded, planner=planner, rule=rule)
    if output is Format.json:
        emit_json(planned.to_dict())
    else:
        emit_view(planned, planned.explain())
    if figure is not None:
        from ..report.plan_svg import plan_svg

        write_figure(figure, plan_svg(planned))
    if report is not None:
        from ..report.answer_html import plan_report

        write_report(report, lambda command: plan_report(planned, command))
    return 0 if planned.met else InfeasibleError.exit_status


def _exact_search(planner: str, rule: str) -> str | None:
    """The module whose compiled search this planner waits for; None for those that follow many worlds."""
    if planner.startswith(("depl", "best-exp")):
        return "branch_and_bound"
    return None if planner == "fixed" or (planner == "pact" and rule == "sampled") else "thresholds"
