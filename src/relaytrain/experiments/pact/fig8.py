"""PACT figure 8: what the resolution of the loss, gamma_l, does to PACT."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ..expected import Expected, Judgement, expected_of, judged
from ..result import Reproduction, written
from ..style import DEFAULT_FORMATS, SEQUENCE_MARKS, house_style, save, sequence
from .smart_factory_runs import HARD, TARGETS, closed_loop, paper_grid
from .sweep import Layout, Sweep, four_panels, sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "pact-fig8"
TITLE = "PACT Fig. 8: impact of the loss resolution"
LOSS_STEPS = (1e-5, 5e-5, 1e-4, 2e-4, 3e-4)
"""gamma_l. The paper's own values are not printed."""
LAYOUT = Layout(7.6, 4, {"times": (66, 104), "values": (0.18, 0.222)}, {"times": (175, 188), "values": (91.5, 95.5)})


def reproduce(out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, rule: str | None = None) -> Reproduction:
    """Run PACT with every resolution and target, `rule` beside it without a grid, draw and judge."""
    beside = {rule: lambda where: closed_loop(rule, where, grid=None, rule=rule)} if rule else None
    swept = sweep(LOSS_STEPS, lambda step, where: closed_loop(label(step), where, grid=paper_grid(step)), beside)
    with house_style():
        files = save(draw(swept), out_dir, f"{NAME}-{rule}" if rule else NAME, formats)
    rows = swept.rows("gamma_l", reached=True)
    expected = expected_of(__file__)
    findings = judged("Fig. 8", expected, checks(swept, expected))
    lost = [f"gamma_l = {s:g} at l_max = {t:g}" for s in LOSS_STEPS for t in TARGETS if not swept.runs[s][t].reached]
    notes = (f"no feasible path on the grid, so not drawn: {', '.join(lost) or 'none'}", *swept.beside_notes())
    return written(f"{NAME}-{rule}" if rule else NAME, TITLE, out_dir, files, rows, findings, notes)


def label(loss_step: float) -> str:
    """How a resolution is called in the legend."""
    digits, power = f"{loss_step:.0e}".split("e")
    return rf"PACT, $\gamma_\ell$ = {digits}·$10^{{{int(power)}}}$"


def draw(swept: Sweep, layout: Layout = LAYOUT) -> Figure:
    """Four panels; resolutions that leave no path are named instead of drawn."""
    tried = list(swept.runs)
    marks = zip(tried, sequence(len(tried)), SEQUENCE_MARKS, strict=False)
    styles = {label(s): {"color": c, "marker": m, "linewidth": 1.4, "markersize": 5} for s, c, m in marks}
    hard = {step: swept.runs[step][HARD] for step in tried}
    at_hard = [swept.others["Optimum"][HARD], *(trace for trace in hard.values() if trace.reached)]
    figure, extra = four_panels(swept, label, styles, at_hard, layout)
    lost = [label(step).removeprefix("PACT, ") for step, trace in hard.items() if not trace.reached]
    for row, name in enumerate(lost):
        extra.text(0.17, 0.95 - 0.07 * row, rf"{name}: no path at {HARD:g}", transform=extra.transAxes, fontsize=8.5)
    return figure


def checks(swept: Sweep, expected: Mapping[str, Expected]) -> dict[str, Judgement]:
    """The verdict on every finding.

    A resolution that leaves no path at some target counts: there PACT costs more than anything. What is said of later
    switches is not shown by resolutions that decide alike, or by one.
    """
    runs, others = swept.runs, swept.others
    tried = list(runs)
    static, optimum = others["StaticLearn"], others["Optimum"]
    whole = [step for step in tried if all(trace.reached for trace in runs[step].values())]
    span = [step for step in tried if runs[step][HARD].reached]
    hard = [runs[step][HARD] for step in span]
    several = len({tuple(trace.epochs(version) for version in "LMS") for trace in hard}) > 1
    worst = max((runs[step][t].cost / optimum[t].cost for step in whole for t in TARGETS), default=math.inf)
    nearest = max((runs[step][t].cost / static[t].cost for step in whole for t in TARGETS), default=math.inf)
    lost = [f"{step:g} at {t:g}" for step in tried for t in TARGETS if not runs[step][t].reached]
    no_path = f"; no path with {', '.join(lost)}" if lost else ""
    held = f"with a path for every target ({', '.join(f'{step:g}' for step in whole) or 'none'})"
    leaves = {v: [trace.left(v) for trace in hard] for v in "LM"}
    later = all(
        a is not None and b is not None and b.epoch >= a.epoch
        for moves in leaves.values()
        if any(moves)
        for a, b in pairwise(moves)
    )
    moved = "; ".join(
        f"{name}: " + ", ".join("-" if move is None else str(move.epoch) for move in leaves[v])
        for v, name in (("L", "L to M after epoch"), ("M", "M to S after epoch"))
    )
    cost = ", ".join(f"{trace.cost / optimum[HARD].cost:.3f}" for trace in hard)
    time = ", ".join(f"{trace.elapsed:.1f}" for trace in hard)
    steps = f"gamma_l {', '.join(f'{step:g}' for step in span) or 'of none'}"
    cliff = [step for step in tried if not runs[step][HARD].reached]
    return {
        "limited": (
            not lost and worst <= expected["limited"].limits["ratio"],
            f"gamma_l {held}: at most {worst:.3f} times the optimum{no_path}",
        ),
        "beats-static": (
            not lost and nearest < 1,
            f"gamma_l {held}: at most {nearest:.2f} of StaticLearn's cost{no_path}",
        ),
        "later-switches": (later if several else None, f"{steps} at {HARD:g}, {moved}"),
        "higher-cost": (
            all(b.cost >= a.cost - 1e-9 for a, b in pairwise(hard)) and hard[-1].cost > hard[0].cost
            if several
            else None,
            f"{steps} at {HARD:g}, cost over the optimum: {cost}",
        ),
        "not-longer": (
            hard[-1].elapsed <= hard[0].elapsed if several else None,
            f"{steps} at {HARD:g}, time to the target: {time}",
        ),
        "cliff": (
            bool(cliff),
            f"no feasible path at {HARD:g} with gamma_l = {', '.join(f'{step:g}' for step in cliff) or '(none tried)'}",
        ),
    }
