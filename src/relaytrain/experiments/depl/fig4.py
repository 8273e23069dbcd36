"""DepL figure 4: x with its inverse-gamma fit, p-values over all configurations, and a switch with Student's t."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.curve import Array
from ...core.errors import ScenarioError
from ...estimators.depl.curve_fit import CurveFit, SwitchFit, fit_curves, fit_switches
from ...estimators.depl.distributions import REPLICATES, Fit
from ..expected import Expected, Judgement, expected_of, judged
from ..result import Reproduction, Row, written
from ..style import DEFAULT_FORMATS, house_style, new_figure, save
from .fits import CampaignLosses, FitTest, campaign, p_values, ratios

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "depl-fig4"
TITLE = "DepL Fig. 4: fits of x and of switches"
EXAMPLE = (17, 0.5, 0.75)
"""K1, F1 and F2 of the left panel; K2 = 60."""
SWITCH = (0.36, 0.5)
GOOD = 0.05
LIGHT, MANY, LIGHTER = 99, 30, 39
"""Replicates of the bootstrap for each configuration, and for each of more than `MANY`."""


def reproduce(
    out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, replicates: int = REPLICATES
) -> Reproduction:
    """Fit, draw and judge."""
    traced = campaign(switched=True)
    example = min(traced.legs, key=lambda c: sum(abs(a - b) / b for a, b in zip(c, EXAMPLE, strict=True)))
    x = np.concatenate(ratios(traced.legs[example]))
    fit = fit_curves(traced.legs[example], "level", replicates=replicates)
    kind = min(traced.switches, key=lambda c: sum(abs(a - b) for a, b in zip(c, SWITCH, strict=True)))
    jumps = _jumps(traced, kind)
    switch = fit_switches(traced.switches[kind], replicates=replicates)
    tested = p_values(traced, replicates=min(replicates, LIGHT if len(traced.legs) <= MANY else LIGHTER))
    with house_style():
        figure = new_figure(12.5, 4.0)
        left, centre, right = figure.subplots(1, 3)
        _density(left, x, fit.noise, "x", f"K1 = {example[0]}, K2 = 60, F1 = {example[1]:g}, F2 = {example[2]:g}")
        _histogram(centre, tested)
        _density(right, jumps, switch.noise, r"$l^{sw}$", f"F1 = {kind[0]:g}, F2 = {kind[1]:g}, every K1")
        files = save(figure, out_dir, NAME, formats)
    rows = tuple(_row(test) for test in tested)
    expected = expected_of(__file__)
    findings = judged("DepL Fig. 4", expected, _checks((x, fit), (jumps, switch), tested, expected))
    d = fit.diagnostics
    notes = (
        traced.note,
        f"left: A = {fit.gain:.2f}, B = {fit.offset:.1f}, R2 = {d.r2:.2f}; p = {d.naive_p:.3f} naive, "
        f"{d.refitted_p:.3f} refitted, "
        f"{_known(d.held_out_p)} on seeds left out; lag-1 autocorrelation {d.autocorrelation:.2f}",
        f"right: location {switch.noise.parameters[0]:.3f}, scale {switch.noise.parameters[1]:.3f}, nu "
        f"{switch.noise.parameters[2]:g}; "
        f"p = {switch.naive_p:.3f} naive, {switch.refitted_p:.3f} refitted, {switch.count} switches",
    )
    return written(NAME, TITLE, out_dir, files, rows, findings, notes)


def _known(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def _jumps(traced: CampaignLosses, kind: tuple[float, float]) -> Array:
    values = [s.probe_after - s.history[-1] for s in traced.switches[kind] if s.probe_after is not None]
    if len(values) < 3:
        raise ScenarioError(f"traces {traced.name}: got {len(values)} switches of {kind}, expected at least 3")
    return np.array(values)


def _density(axes: Axes, values: Array, fit: Fit, name: str, title: str) -> None:
    """Histogram and the fit's density, by differences of its distribution."""
    axes.hist(values, bins=min(30, max(6, len(values) // 6)), density=True, color="#B8B8B8", label="empirical")
    at = np.linspace(values.min() - 0.1 * np.ptp(values), values.max() + 0.1 * np.ptp(values), 400)
    density = np.gradient(fit.cdf(at), at)
    axes.plot(at, density, color="#D55E00", linewidth=1.8, label=f"{fit.family} fit")
    axes.set(xlabel=name, ylabel="density", title=title)
    axes.legend(frameon=False)


def _histogram(axes: Axes, tested: Sequence[FitTest]) -> None:
    values: dict[str, list[float]] = {
        "each curve, as in the paper": [p for test in tested for p in test.each],
        "all seeds, refitted": [test.refitted for test in tested],
    }
    style: dict[str, Any] = {"bins": np.linspace(0.0, 1.0, 21), "density": True, "alpha": 0.6}
    for (name, ps), colour in zip(values.items(), ("#B8B8B8", "#0072B2"), strict=True):
        axes.hist(ps, label=name, color=colour, **style)
    axes.axvline(GOOD, color="#777777", linewidth=0.8, linestyle=":")
    axes.set(xlabel="p-value", ylabel="density", title="Kolmogorov-Smirnov, every configuration and K2")
    axes.legend(frameon=False)


def _row(test: FitTest) -> Row:
    k1, f1, f2 = test.config
    return {
        "K1": k1,
        "F1": f1,
        "F2": f2,
        "K2": test.k2,
        "p_each_median": float(np.median(test.each)) if test.each else float("nan"),
        "p_pooled": test.pooled,
        "p_refitted": test.refitted,
        "r2": test.r2,
        "autocorrelation": test.autocorrelation,
        "coverage_99": float("nan") if test.coverage is None else test.coverage,
    }


def _checks(
    left: tuple[Array, CurveFit],
    right: tuple[Array, SwitchFit],
    tested: Sequence[FitTest],
    expected: Mapping[str, Expected],
) -> dict[str, Judgement]:
    (x, fit), (jumps, switch), shares = left, right, fit_of(tested)
    d = fit.diagnostics
    spread = float(x.std())

    def limit(key: str, name: str) -> float:
        return expected[key].limits[name]

    return {
        "uncertain": (spread >= limit("uncertain", "sd"), f"standard deviation of x {spread:.3f}"),
        "inverse-gamma": (d.naive_p > GOOD, f"p = {d.naive_p:.3f} for x of all seeds ({d.count} values)"),
        "almost-all": (
            shares["each"] >= limit("almost-all", "share"),
            f"p > {GOOD:g} in {shares['each']:.0%} of {sum(len(test.each) for test in tested)} curves",
        ),
        "refitted": (
            shares["refitted"] >= limit("refitted", "share"),
            f"refitted p > {GOOD:g} in {shares['refitted']:.0%} of {len(tested)} configurations, all seeds together "
            f"({shares['pooled']:.0%} when the fit is forgotten)",
        ),
        "explains": (
            shares["r2"] >= limit("explains", "r2"),
            f"median R2 {shares['r2']:.2f}; {d.r2:.2f} in the left panel",
        ),
        "independent": (
            shares["autocorrelation"] <= limit("independent", "lag1"),
            f"median lag-1 autocorrelation of x {shares['autocorrelation']:.2f}; {d.autocorrelation:.2f} in the left "
            "panel",
        ),
        "quantile": (
            None if np.isnan(shares["coverage"]) else shares["coverage"] >= limit("quantile", "share"),
            "a single seed leaves none out"
            if np.isnan(shares["coverage"])
            else f"on seeds left out {shares['coverage']:.1%} of x lie at or below the fitted 99th percentile",
        ),
        "positive": (
            float((jumps > 0.0).mean()) == 1.0,
            f"{(jumps > 0.0).mean():.0%} of {len(jumps)} switches raise the loss",
        ),
        "student-t": (
            switch.refitted_p > GOOD and switch.naive_p > GOOD,
            f"p = {switch.naive_p:.3f}, refitted {switch.refitted_p:.3f}, {switch.count} switches",
        ),
    }


def fit_of(tested: Sequence[FitTest]) -> dict[str, float]:
    """Shares of good p-values and medians over configurations."""
    each = [p for test in tested for p in test.each]
    covered = [test.coverage for test in tested if test.coverage is not None]
    return {
        "each": float(np.mean([p > GOOD for p in each])),
        "pooled": float(np.mean([test.pooled > GOOD for test in tested])),
        "refitted": float(np.mean([test.refitted > GOOD for test in tested])),
        "r2": float(np.nanmedian([test.r2 for test in tested])),
        "autocorrelation": float(np.nanmedian([test.autocorrelation for test in tested])),
        "coverage": float(np.mean(covered)) if covered else float("nan"),
    }
