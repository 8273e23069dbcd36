"""PACT figure 9: what a bias on the prediction of L's progress does to PACT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ...scenario import Scenario
from ..expected import Expected, Judgement, expected_of, judged
from ..result import Reproduction, written
from ..style import DEFAULT_FORMATS, SEQUENCE_MARKS, diverging, house_style, save
from .smart_factory_runs import EASY, HARD, LOSS_STEP, TARGETS, Trace, biased_on, closed_loop, paper_grid
from .sweep import Layout, Sweep, four_panels, sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "pact-fig9"
TITLE = "PACT Fig. 9: impact of biased predictions for L"
BIASES = (-0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6)
"""The estimator sees (1 + bias) times L's true progress. The paper's own values are not printed."""
LAYOUT = Layout(7.8, 3, {"times": (68, 100), "values": (0.188, 0.222)}, {"times": (178, 193), "values": (92.0, 97.0)})


def reproduce(out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, rule: str | None = None) -> Reproduction:
    """Run PACT with every bias and target, `rule` beside it with three of them, draw and judge."""
    grid = paper_grid()
    beside = {label(b, rule): _biased(b, rule) for b in (BIASES[0], 0.0, BIASES[-1])} if rule else None
    swept = sweep(
        BIASES, lambda b, where: closed_loop(label(b), where, grid=grid, law=biased_on(where, "L", b)), beside
    )
    with house_style():
        files = save(draw(swept), out_dir, f"{NAME}-{rule}" if rule else NAME, formats)
    rows = swept.rows("bias")
    expected = expected_of(__file__)
    findings = judged("Fig. 9", expected, checks(swept, expected))
    said = f"PACT: rule `robust`, gamma_l = {LOSS_STEP:g}; the predictions for M and S are unbiased"
    notes = (said, *swept.beside_notes())
    return written(f"{NAME}-{rule}" if rule else NAME, TITLE, out_dir, files, rows, findings, notes)


def _biased(bias: float, rule: str) -> Callable[[Scenario], Trace]:
    """`rule` with a bias, without a grid."""
    return lambda where: closed_loop(label(bias, rule), where, grid=None, law=biased_on(where, "L", bias), rule=rule)


def label(bias: float, rule: str = "PACT") -> str:
    """How a bias is called in the legend."""
    return f"{rule}, no bias" if bias == 0 else f"{rule}, L's gains {bias:+.0%}".replace("-", "−")


def draw(swept: Sweep, layout: Layout = LAYOUT) -> Figure:
    """Four panels."""
    biases = list(swept.runs)
    marks = zip(biases, diverging(biases), SEQUENCE_MARKS, strict=False)
    styles = {
        label(b): {"color": c, "marker": m, "linewidth": 1.4, "markersize": 5, "linestyle": "--" if b < 0 else "-"}
        for b, c, m in marks
    }
    figure, _ = four_panels(swept, label, styles, [swept.runs[bias][HARD] for bias in biases], layout)
    return figure


def checks(swept: Sweep, expected: Mapping[str, Expected]) -> dict[str, Judgement]:
    """The verdict on every finding.

    Biases that change no decision show nothing of what a bias does, and runs of which none leaves L sooner nothing of
    what leaving it sooner does.
    """
    runs, others = swept.runs, swept.others
    optimum, static = others["Optimum"], others["StaticLearn"]
    biases = list(runs)
    low, high = biases[0], biases[-1]

    def extra(bias: float, target: float) -> float:
        return runs[bias][target].cost / runs[0.0][target].cost - 1

    def both(target: float) -> str:
        return f"{extra(low, target):+.1%} / {extra(high, target):+.1%} at {target:g}"

    apart = expected["similar"].limits["difference"]
    hard = {bias: runs[bias][HARD] for bias in biases}
    costs = ", ".join(f"{trace.cost / optimum[HARD].cost:.3f}" for trace in hard.values())
    on_l = [trace.epochs("L") for trace in hard.values()]
    second = [trace.left("M") for trace in hard.values()]
    losses = [move.loss for move in second if move is not None] or [float("nan")]
    spread = max(losses) - min(losses)
    early = [(b, t) for t in TARGETS for b in biases if _sooner_same_cost(runs[b][t], runs[0.0][t])]
    listed = ", ".join(f"{b:+.0%} at {t:g}" for b, t in early) or "none"
    sooner = any(runs[b][t].epochs("L") < runs[0.0][t].epochs("L") for t in TARGETS for b in biases)
    moved = {t: len({_decided(runs[b][t]) for b in biases}) > 1 for t in TARGETS}

    def shown(holds: bool, *targets: float) -> bool | None:
        return holds if any(moved[t] for t in targets) else None

    beaten = max(runs[b][t].cost / static[t].cost for b in biases for t in TARGETS)
    return {
        "small-harm": (
            shown(
                all(hard[b].cost / optimum[HARD].cost <= expected["small-harm"].limits["ratio"] for b in biases), HARD
            ),
            f"at {HARD:g}, cost over the optimum: {costs}",
        ),
        "similar": (
            shown(
                all(abs(extra(low, t) - extra(high, t)) <= apart for t in TARGETS if t < EASY),
                *(t for t in TARGETS if t < EASY),
            ),
            f"cost of {low:+.0%} / {high:+.0%}: " + ", ".join(both(t) for t in TARGETS if t < EASY),
        ),
        "similar-when-easy": (
            shown(abs(extra(low, EASY) - extra(high, EASY)) <= apart, EASY),
            f"cost of {low:+.0%} / {high:+.0%}: {both(EASY)}",
        ),
        "beats-static": (beaten < 1, f"at most {beaten:.2f} of StaticLearn's cost over all biases and targets"),
        "sign": (
            shown(all(b <= a for a, b in pairwise(on_l)) and on_l[-1] < on_l[0], HARD),
            f"epochs on L at {HARD:g} for biases {low:+.0%} to {high:+.0%}: " + ", ".join(map(str, on_l)),
        ),
        "opposite-sign": (
            shown(all(b >= a for a, b in pairwise(on_l)) and on_l[-1] > on_l[0], HARD),
            f"epochs on L at {HARD:g} for biases {low:+.0%} to {high:+.0%}: " + ", ".join(map(str, on_l)),
        ),
        "second-switch": (
            len(losses) == len(biases) and spread <= expected["second-switch"].limits["loss"],
            f"at {HARD:g} M is left at a loss of {min(losses):.3f} to {max(losses):.3f}, whatever the bias",
        ),
        "earlier-longer": (
            hard[low].elapsed > hard[0.0].elapsed if hard[low].epochs("L") < hard[0.0].epochs("L") else None,
            f"at {HARD:g} with {low:+.0%}: {hard[low].epochs('L')} epochs on L, time {hard[low].elapsed:.1f}; without "
            f"bias {hard[0.0].epochs('L')}, {hard[0.0].elapsed:.1f}",
        ),
        "not-dearer": (bool(early) if sooner else None, f"left L earlier, finished later, at the same cost: {listed}"),
    }


def _decided(trace: Trace) -> tuple[object, ...]:
    """What a run did, as far as these findings can see it."""
    return tuple(trace.epochs(version) for version in "LMS"), trace.reached, round(trace.cost, 9)


def _sooner_same_cost(biased: Trace, plain: Trace) -> bool:
    left_sooner = biased.epochs("L") < plain.epochs("L") and biased.elapsed > plain.elapsed
    return left_sooner and biased.cost <= plain.cost + 1e-9
