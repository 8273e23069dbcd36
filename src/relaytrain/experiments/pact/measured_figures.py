"""Figures 6 to 9 of PACT drawn and judged with measured curves, once for each estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..expected import Judgement, expected_of, judged
from ..result import Finding, Reproduction, Row, written
from ..style import DEFAULT_FORMATS, STRATEGIES, house_style, legend_below, new_figure, save
from ..trainings import Progress
from . import fig6 as stated6
from . import fig7 as stated7
from . import fig8 as stated8
from . import fig9 as stated9
from .measured import ESTIMATORS, STYLES, Study, closed_loop, study, verdicts
from .measured_factory import benchmarks
from .panels import COST, cost_by_target, over_time
from .smart_factory_runs import HARD, TARGETS, Trace
from .sweep import Layout, Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Formats = tuple[str, ...]
LOSS_STEPS = (1e-4, 1e-3, 1e-2, 3e-2)
"""gamma_l over l(0): an epoch gains a hundredth to a tenth of l(0) here, hundreds of times more than in the
stand-in."""
BIASES = (-0.6, -0.2, 0.0, 0.2, 0.6)
LABELS = {"paper": "PACT, `paper` predicts", "auto": "PACT, `auto` predicts"}


def fig6(
    out_dir: Path, *, formats: Formats = DEFAULT_FORMATS, progress: Progress | None = None, epochs: int | None = None
) -> Reproduction:
    """Cost by target for every strategy; loss and cost over time at the tightest."""
    measured = study(progress, epochs)
    runs = {target: strategies(measured, target, progress) for target in TARGETS}
    styles = {
        "Optimum": STRATEGIES["Optimum"],
        **{LABELS[w]: STYLES[w] for w in ESTIMATORS},
        **{n: STRATEGIES[n] for n in ("OneSwitch", "StaticLearn")},
    }
    with house_style():
        figure = new_figure(12.5, 4.3)
        left, centre, right = figure.subplots(1, 3)
        cost_by_target(left, {name: {t: runs[t][name].cost for t in TARGETS} for name in styles}, styles)
        left.set_title("Cost by target")
        at_hard = [trace for trace in runs[HARD].values() if trace.reached]
        for axes, what in ((centre, "loss"), (right, "cost")):
            over_time(axes, at_hard, styles, what=what, target=HARD)
            axes.set_title(rf"{what.capitalize()} at $\ell^{{max}}$ = {HARD:g} $\ell(0)$; marks: switches and end")
        legend_below(figure, left, columns=5)
        files = save(figure, out_dir, "pact-fig6-measured", formats)
    rows = stated6.table(runs)
    stated = expected_of(stated6.__file__)
    seen = {w: stated6.checks({t: _as_pact(runs[t], w) for t in TARGETS}, stated) for w in ESTIMATORS}
    for which in ESTIMATORS:
        seen[which]["same-times"] = _first_switch(runs, which)
    return _finished("fig6", stated6.TITLE, measured, (files, out_dir), rows, _judged("fig6", stated6.__file__, seen))


def fig7(
    out_dir: Path, *, formats: Formats = DEFAULT_FORMATS, progress: Progress | None = None, epochs: int | None = None
) -> Reproduction:
    """Energy by version for three targets."""
    measured = study(progress, epochs)
    runs = {target: strategies(measured, target, progress) for target in stated7.TARGETS}
    names = ("Optimum", *LABELS.values(), "StaticLearn")
    shares = {(t, n): stated7.energy_by_version(runs[t][n], t) for t in stated7.TARGETS for n in names}
    with house_style():
        figure = new_figure(13.5, 4.0)
        panels = figure.subplots(1, 3)
        for axes, target in zip(panels, stated7.TARGETS, strict=True):
            stated7.bars(axes, {name.replace(", ", ",\n"): shares[target, name] for name in names})
            axes.set_title(rf"$\ell^{{max}}$ = {target:g} $\ell(0)$")
        panels[0].set_ylabel(COST)
        legend_below(figure, panels[0], columns=3)
        files = save(figure, out_dir, "pact-fig7-measured", formats)
    rows: tuple[Row, ...] = tuple(
        {"l_max": t, "strategy": n, **{f"energy_{v}": e for v, e in by.items()}, "cost": runs[t][n].cost}
        for (t, n), by in shares.items()
    )
    stated = expected_of(stated7.__file__)
    seen = {}
    for which in ESTIMATORS:
        renamed = {(t, "PACT" if n == LABELS[which] else n): by for (t, n), by in shares.items()}
        seen[which] = stated7.checks(renamed, {t: _as_pact(runs[t], which) for t in runs}, stated)
    return _finished("fig7", stated7.TITLE, measured, (files, out_dir), rows, _judged("fig7", stated7.__file__, seen))


def fig8(
    out_dir: Path, *, formats: Formats = DEFAULT_FORMATS, progress: Progress | None = None, epochs: int | None = None
) -> Reproduction:
    """What gamma_l does."""

    def pact(measured: Study, which: str, step: float, target: float) -> Trace:
        return closed_loop(stated8.label(step), measured, which, target, loss_step=step)

    return _swept("fig8", stated8, ("gamma_l", LOSS_STEPS, pact), (out_dir, formats), progress, epochs)


def fig9(
    out_dir: Path, *, formats: Formats = DEFAULT_FORMATS, progress: Progress | None = None, epochs: int | None = None
) -> Reproduction:
    """What a bias on the progress predicted for L does."""

    def pact(measured: Study, which: str, bias: float, target: float) -> Trace:
        return closed_loop(stated9.label(bias), measured, which, target, bias=bias)

    return _swept("fig9", stated9, ("bias", BIASES, pact), (out_dir, formats), progress, epochs)


def strategies(measured: Study, target: float, progress: Progress | None = None) -> dict[str, Trace]:
    """Every strategy at one l_max (over l(0)); the benchmarks know the true losses, as in the paper."""
    if progress is not None:
        progress(f"l_max = {target:g} l(0)")
    others = benchmarks(measured.world, target)
    mine = {LABELS[w]: closed_loop(LABELS[w], measured, w, target) for w in ESTIMATORS}
    return {"Optimum": others.pop("Optimum"), **mine, **others}


def _swept(
    name: str,
    stated: Any,
    of: tuple[str, tuple[float, ...], Callable[[Study, str, float, float], Trace]],
    out: tuple[Path, Formats],
    progress: Progress | None,
    epochs: int | None,
) -> Reproduction:
    """PACT at every value of a parameter and every target, for each estimator."""
    parameter, values, pact = of
    measured = study(progress, epochs)
    known = {t: benchmarks(measured.world, t) for t in TARGETS}
    others = {n: {t: known[t][n] for t in TARGETS} for n in ("Optimum", "StaticLearn")}
    files: list[Path] = []
    rows: list[Row] = []
    seen: dict[str, dict[str, Judgement]] = {}
    expected = expected_of(stated.__file__)
    for which in ESTIMATORS:
        runs: dict[float, dict[float, Trace]] = {}
        for value in values:
            if progress is not None:
                progress(f"{which}: {parameter} = {value:g}")
            runs[value] = {t: pact(measured, which, value, t) for t in TARGETS}
        swept = Sweep(runs, others)
        with house_style():
            figure: Figure = stated.draw(swept, Layout(7.6, 4))
            files += save(figure, out[0], f"pact-{name}-measured-{which}", out[1])
        rows += [{"estimator": which, **row} for row in swept.rows(parameter, reached=True)]
        seen[which] = stated.checks(swept, expected)
    findings = _judged(name, stated.__file__, seen)
    return _finished(name, stated.TITLE, measured, (tuple(files), out[0]), tuple(rows), findings)


def _as_pact(by_name: Mapping[str, Trace], which: str) -> dict[str, Trace]:
    """The runs of one target as figure 6 calls them, one estimator's being "PACT"."""
    return {
        "PACT" if name == LABELS[which] else name: trace
        for name, trace in by_name.items()
        if name not in LABELS.values() or name == LABELS[which]
    }


def _first_switch(runs: Mapping[float, Mapping[str, Trace]], which: str) -> Judgement:
    """Nobody switches twice here, so it is the switch away from L that is compared, at every target."""
    pairs = {t: (by[LABELS[which]].epochs("L"), by["Optimum"].epochs("L")) for t, by in runs.items()}
    words = ", ".join(f"{mine} ({best}) at {t:g}" for t, (mine, best) in pairs.items())
    return all(abs(mine - best) <= 2 for mine, best in pairs.values()), f"epochs on L, and of the optimum: {words}"


def _judged(figure: str, module_file: str, seen: Mapping[str, Mapping[str, Judgement]]) -> tuple[Finding, ...]:
    stated = expected_of(module_file)
    findings: list[Finding] = []
    for which in ESTIMATORS:
        expected = verdicts(stated, figure, which)
        findings += judged(f"Measured Fig. {figure[3:]}", expected, {key: seen[which][key] for key in expected})
    return tuple(findings)


def _finished(
    figure: str,
    title: str,
    measured: Study,
    where: tuple[tuple[Path, ...], Path],
    rows: tuple[Row, ...],
    findings: tuple[Finding, ...],
) -> Reproduction:
    files, out_dir = where
    name = f"pact-{figure}"
    return written(
        name, f"{title}, measured curves", out_dir, files, rows, findings, measured.notes, table=f"{name}-measured"
    )
