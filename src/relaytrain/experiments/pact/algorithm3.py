"""PACT figures 6 to 9 with Algorithm 3 itself, as printed (`literal`) and repaired, beside the rule `robust`.

Figures 6, 7 and 9 without a grid, so that rules alone are compared. Figure 8 needs one: Algorithm 3 walks all layers of
time for every decision there, so only coarse resolutions and easy targets are played, all rules alike.

Paper: Algorithm 3, section V.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.state import Grid
from ..expected import Expected, Judgement, expected_of, judged
from ..result import Reproduction, Row, written
from ..style import DEFAULT_FORMATS, SEQUENCE_MARKS, house_style, legend_below, new_figure, save, sequence
from ..trainings import Progress, nothing
from .fig7 import bars, energy_by_version
from .fig9 import BIASES
from .panels import COST, TARGET
from .smart_factory_runs import HARD, TARGETS, Trace, benchmark, biased_on, closed_loop, factory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "pact-algorithm3"
TITLE = "PACT Figs. 6 to 9 with Algorithm 3, as printed and repaired"
RULES = ("robust", "literal", "clamped", "opportunity")
PRINTED, REPAIRED = "literal", ("clamped", "opportunity")
LOSS_STEPS = (3e-4, 1e-3)
TIME_STEP = 2.0
ON_GRID = (0.40, 0.45)
"""Targets of the part on a grid."""
Ratios = dict[tuple[str, float, float], Trace]
"""Traces by rule, parameter and target."""


def reproduce(
    out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, progress: Progress | None = None
) -> Reproduction:
    """Play every rule in the worlds of the four figures, draw and judge."""
    told = progress or nothing
    best = {target: benchmark("Optimum", factory(target)) for target in TARGETS}
    told(f"{NAME}: figures 6, 7 and 9, without a grid")
    biased: Ratios = {
        (rule, bias, target): closed_loop(
            rule, factory(target), grid=None, law=biased_on(factory(target), "L", bias), rule=rule
        )
        for rule in RULES
        for bias in BIASES
        for target in TARGETS
    }
    told(f"{NAME}: figure 8, on a grid")
    gridded: Ratios = {
        (rule, step, target): closed_loop(rule, factory(target), grid=Grid(step, TIME_STEP, 1.2), rule=rule)
        for rule in RULES
        for step in LOSS_STEPS
        for target in ON_GRID
    }
    with house_style():
        files = save(_draw(best, biased, gridded), out_dir, NAME, formats)
    rows = (*_rows("6, 7, 9", "bias", biased, best), *_rows("8", "gamma_l", gridded, best))
    expected = expected_of(__file__)
    findings = judged("Algorithm 3", expected, _checks(best, biased, gridded, expected))
    notes = (
        f"figures 6, 7 and 9 without a grid; figure 8 with gamma_T = {TIME_STEP:g}, gamma_l = "
        f"{' and '.join(f'{step:g}' for step in LOSS_STEPS)} and l_max = {' and '.join(f'{t:g}' for t in ON_GRID)}: "
        "at 5e-5 and 0.1 a decision of Algorithm 3 takes half a minute and more",
    )
    return written(NAME, TITLE, out_dir, files, rows, findings, notes)


def _over(traces: Ratios, best: Mapping[float, Trace], rule: str, value: float, target: float) -> float:
    return traces[rule, value, target].cost / best[target].cost


def _rows(figures: str, parameter: str, traces: Ratios, best: Mapping[float, Trace]) -> tuple[Row, ...]:
    return tuple(
        {
            "figures": figures,
            "rule": rule,
            "parameter": parameter,
            "value": value,
            "l_max": target,
            **trace.row(best[target]),
        }
        for (rule, value, target), trace in traces.items()
    )


def _draw(best: Mapping[float, Trace], biased: Ratios, gridded: Ratios) -> Figure:
    figure = new_figure(12.5, 8.0)
    (six, seven), (eight, nine) = figure.subplots(2, 2)
    looks = [
        {"color": colour, "marker": mark, "linewidth": 4.0 - 0.9 * i, "markersize": 9 - 1.8 * i, "alpha": 0.8}
        for i, (colour, mark) in enumerate(zip(sequence(len(RULES)), SEQUENCE_MARKS, strict=False))
    ]
    for rule, look in zip(RULES, looks, strict=True):
        six.plot(TARGETS, [biased[rule, 0.0, t].cost for t in TARGETS], label=rule, **look)
        worst = [max(_over(biased, best, rule, bias, t) for t in TARGETS) for bias in BIASES]
        nine.plot([100 * bias for bias in BIASES], worst, label=rule, **look)
        for target, style in zip(ON_GRID, ("-", "--"), strict=True):
            ratios = [_over(gridded, best, rule, step, target) for step in LOSS_STEPS]
            known = [(s, r) for s, r in zip(LOSS_STEPS, ratios, strict=True) if math.isfinite(r)]
            eight.plot(*zip(*known, strict=True), linestyle=style, **look)
    six.plot(TARGETS, [best[t].cost for t in TARGETS], color="#333333", linewidth=0.9, linestyle=":", label="Optimum")
    six.set_title("Fig. 6: cost by target, no grid")
    six.set_xlabel(TARGET)
    six.set_ylabel(COST)
    played = {"Optimum": best[HARD], **{rule: biased[rule, 0.0, HARD] for rule in RULES}}
    bars(seven, {name: energy_by_version(trace, HARD) for name, trace in played.items()})
    seven.set_title(rf"Fig. 7: energy by version at $\ell^{{max}}$ = {HARD:g}")
    eight.set_xscale("log")
    eight.set_title(rf"Fig. 8: on a grid, $\ell^{{max}}$ = {ON_GRID[0]:g} (lines) and {ON_GRID[1]:g} (dashed)")
    eight.set_xlabel(r"$\gamma_\ell$")
    eight.set_ylabel("cost over the optimum")
    nine.set_title("Fig. 9: the dearest target")
    nine.set_xlabel("bias on L's gains [%]")
    nine.set_ylabel("cost over the optimum")
    seven.margins(y=0.4)
    seven.legend(loc="upper left", ncols=3)
    legend_below(figure, six, columns=len(RULES) + 1)
    return figure


def _checks(
    best: Mapping[float, Trace], biased: Ratios, gridded: Ratios, expected: Mapping[str, Expected]
) -> dict[str, Judgement]:
    def worst(rule: str, biases: tuple[float, ...] = (0.0,)) -> float:
        return max(_over(biased, best, rule, bias, t) for bias in biases for t in TARGETS)

    def epochs(trace: Trace) -> tuple[int, ...]:
        return tuple(trace.epochs(version) for version in "LMS")

    limit = expected["printed-optimal"].limits["ratio"]
    alike = [rule for rule in (PRINTED, *REPAIRED) if epochs(biased[rule, 0.0, HARD]) == epochs(best[HARD])]
    on_grid = {rule: [_over(gridded, best, rule, *at) for at in _places()] for rule in RULES}
    off = {rule: worst(rule, BIASES) for rule in RULES}
    spread = ", ".join(f"{rule} {ratio:.3f}" for rule, ratio in off.items())
    return {
        "printed-optimal": (
            worst(PRINTED) <= limit,
            f"at most {worst(PRINTED):.3f} times the optimum over l_max of {TARGETS[0]:g} to {TARGETS[-1]:g}",
        ),
        "repaired-optimal": (
            all(worst(rule) <= limit for rule in REPAIRED),
            ", ".join(f"{rule} at most {worst(rule):.3f} times the optimum" for rule in REPAIRED),
        ),
        "versions-alike": (
            len(alike) == 1 + len(REPAIRED),
            f"epochs on L, M, S at {HARD:g}: optimum {epochs(best[HARD])}, "
            + ", ".join(f"{rule} {epochs(biased[rule, 0.0, HARD])}" for rule in RULES),
        ),
        "grid-alike": (
            all(on_grid[rule] == on_grid["robust"] for rule in (PRINTED, *REPAIRED)),
            "cost over the optimum at (gamma_l, l_max): "
            + "; ".join(
                f"{step:g}, {t:g}: " + ", ".join(f"{rule} {on_grid[rule][i]:.3f}" for rule in RULES)
                for i, (step, t) in enumerate(_places())
            ),
        ),
        "printed-bias": (
            off[PRINTED] <= off["robust"] + 1e-9,
            f"biases of {BIASES[0]:+.0%} to {BIASES[-1]:+.0%}, all targets, at most: {spread}",
        ),
        "repaired-bias": (
            all(off[rule] <= off["robust"] + 1e-9 for rule in REPAIRED),
            f"biases of {BIASES[0]:+.0%} to {BIASES[-1]:+.0%}, all targets, at most: {spread}",
        ),
    }


def _places() -> list[tuple[float, float]]:
    return [(step, target) for step in LOSS_STEPS for target in ON_GRID]
