"""What the resolution of time, gamma_T, does to PACT, beside gamma_l of figure 8: with time to spare, and with little.

The paper sweeps gamma_l alone. Durations are rounded up to gamma_T, so a coarse one makes an epoch seem longer than it
is: with the paper's deadline that hardly matters, with one that binds it does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...api import scenario
from ...core.state import Grid
from ...scenario import Scenario
from ..expected import Expected, Judgement, expected_of, judged
from ..result import Reproduction, Row, written
from ..style import DEFAULT_FORMATS, SEQUENCE_MARKS, house_style, legend_below, new_figure, save, sequence
from .smart_factory_runs import HARD, LOSS_STEP, TARGETS, Trace, benchmark, closed_loop

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "pact-gamma-t"
TITLE = "PACT: impact of the time resolution"
TIME_STEPS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0)
SPARE, SCARCE = 1000.0, 1.2
"""The paper's deadline, and one so many times what the optimum takes with it."""
Runs = dict[tuple[str, float, float], Trace]


def reproduce(out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS) -> Reproduction:
    """Run PACT with every gamma_T, target and deadline, draw and judge."""
    best: dict[tuple[str, float], Trace] = {}
    runs: Runs = {}
    for target in TARGETS:
        slack = _within(target, SPARE)
        best["spare", target] = benchmark("Optimum", slack)
        tight = _within(target, SCARCE * best["spare", target].elapsed)
        best["scarce", target] = benchmark("Optimum", tight)
        for step in TIME_STEPS:
            for kind, where in (("spare", slack), ("scarce", tight)):
                runs[kind, step, target] = closed_loop("PACT", where, grid=Grid(LOSS_STEP, step, 1.2))
    with house_style():
        files = save(_draw(runs, best), out_dir, NAME, formats)
    rows: tuple[Row, ...] = tuple(
        {
            "deadline": kind,
            "gamma_T": step,
            "l_max": target,
            "reached": trace.reached,
            **trace.row(best[kind, target]),
        }
        for (kind, step, target), trace in runs.items()
    )
    findings = judged("gamma_T", expected_of(__file__), _checks(runs, expected_of(__file__)))
    note = f"PACT: rule `robust`, gamma_l = {LOSS_STEP:g}; deadlines: {SPARE:g}, or {SCARCE:g} times the optimum's time"
    return written(NAME, TITLE, out_dir, files, rows, findings, (note,))


def _within(target: float, deadline: float) -> Scenario:
    return scenario("smart_factory", overrides=[f"target.loss={target!r}", f"target.deadline={deadline!r}"])


def _draw(runs: Runs, best: Mapping[tuple[str, float], Trace]) -> Figure:
    figure = new_figure(11.5, 4.4)
    for axes, kind in zip(figure.subplots(1, 2, sharey=True), ("spare", "scarce"), strict=True):
        for target, colour, mark in zip(TARGETS, sequence(len(TARGETS)), SEQUENCE_MARKS, strict=True):
            ratios = [runs[kind, step, target].cost / best[kind, target].cost for step in TIME_STEPS]
            known = [(s, 100 * (r - 1)) for s, r in zip(TIME_STEPS, ratios, strict=True) if math.isfinite(r)]
            label = rf"$\ell^{{max}}$ = {target:g}"
            axes.plot([s for s, _ in known], [r for _, r in known], color=colour, marker=mark, label=label)
        axes.set_xscale("log")
        axes.set_xlim(TIME_STEPS[0] / 1.2, TIME_STEPS[-1] * 1.2)
        axes.set_xlabel(r"$\gamma_T$ [time units]; where a line ends, the grid has no path")
    first, second = figure.axes
    first.set_ylabel("PACT's cost above the optimum [%]")
    first.set_title(f"Deadline {SPARE:g}")
    second.set_title(f"Deadline {SCARCE:g} times the optimum's time")
    legend_below(figure, first, columns=len(TARGETS))
    return figure


def _checks(runs: Runs, expected: Mapping[str, Expected]) -> dict[str, Judgement]:
    def lost(kind: str) -> list[str]:
        return [f"{s:g} at {t:g}" for s in TIME_STEPS for t in TARGETS if not runs[kind, s, t].reached]

    def same(kind: str, steps: tuple[float, ...]) -> bool:
        return all(runs[kind, s, t].versions == runs[kind, TIME_STEPS[0], t].versions for s in steps for t in TARGETS)

    upto = tuple(step for step in TIME_STEPS if step <= expected["spare"].limits["up_to"])
    moved = [f"{s:g} at {t:g}" for s in TIME_STEPS for t in TARGETS if _dearer(runs, s, t)]
    hard = [step for step in TIME_STEPS if not runs["spare", step, HARD].reached]
    return {
        "spare": (
            same("spare", upto),
            f"the same decisions with gamma_T of {upto[0]:g} to {upto[-1]:g}; no path: "
            f"{', '.join(lost('spare')) or 'none'}",
        ),
        "cliff": (
            bool(hard),
            f"no path at {HARD:g} with gamma_T = {', '.join(f'{s:g}' for s in hard) or '(none tried)'}",
        ),
        "scarce": (
            len(lost("scarce")) > len(lost("spare")),
            f"points without a path: {len(lost('scarce'))} of {len(TIME_STEPS) * len(TARGETS)} with little time, "
            f"{len(lost('spare'))} with time to spare; dearer than with 0.1: {', '.join(moved) or 'none'}",
        ),
    }


def _dearer(runs: Runs, step: float, target: float) -> bool:
    one, finest = runs["scarce", step, target], runs["scarce", TIME_STEPS[0], target]
    return one.reached and finest.reached and one.cost > finest.cost + 1e-9
