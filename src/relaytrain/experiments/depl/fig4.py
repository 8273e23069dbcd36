"""DepL figure 4: x with its inverse-gamma fit, p-values over all configurations, and a switch with Student's t."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import ScenarioError
from ...core.law import Array
from ...estimators.depl.curve_fit import CurveFit, SwitchFit, fit_curves, fit_switches
from ...estimators.depl.distributions import REPLICATES, Fit
from ...store.files import write_atomic
from ..expected import Expected, Seen, expected_of, judged
from ..result import Reproduction, Row, table_csv
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
LIGHT = 99
"""Replicates of the bootstrap for each of the many configurations."""


def reproduce(
    out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, replicates: int = REPLICATES
) -> Reproduction:
    """Fit, draw and judge."""
    found = campaign()
    example = min(found.legs, key=lambda c: sum(abs(a - b) / b for a, b in zip(c, EXAMPLE, strict=True)))
    x = np.concatenate(ratios(found.legs[example]))
    fit = fit_curves(found.legs[example], "level", replicates=replicates)
    kind = min(found.switches, key=lambda c: sum(abs(a - b) for a, b in zip(c, SWITCH, strict=True)))
    jumps = _jumps(found, kind)
    switch = fit_switches(found.switches[kind], replicates=replicates)
    tested = p_values(found, replicates=min(replicates, LIGHT))
    with house_style():
        figure = new_figure(12.5, 4.0)
        left, centre, right = figure.subplots(1, 3)
        _density(left, x, fit.noise, "x", f"K1 = {example[0]}, K2 = 60, F1 = {example[1]:g}, F2 = {example[2]:g}")
        _histogram(centre, tested)
        _density(right, jumps, switch.noise, r"$l^{sw}$", f"F1 = {kind[0]:g}, F2 = {kind[1]:g}, every K1")
        files = save(figure, out_dir, NAME, formats)
    rows = tuple(_row(one) for one in tested)
    path = out_dir / f"{NAME}.csv"
    write_atomic(path, table_csv(rows))
    expected = expected_of(__file__)
    findings = judged("DepL Fig. 4", expected, _checks((x, fit), (jumps, switch), tested, expected))
    d = fit.diagnostics
    notes = (
        found.note,
        f"left: A = {fit.gain:.2f}, B = {fit.offset:.1f}, R2 = {d.r2:.2f}; p = {d.naive_p:.3f} naive, {d.refitted_p:.3f} refitted, "
        f"{_known(d.held_out_p)} on seeds left out; lag-1 autocorrelation {d.autocorrelation:.2f}",
        f"right: location {switch.noise.parameters[0]:.3f}, scale {switch.noise.parameters[1]:.3f}, nu {switch.noise.parameters[2]:g}; "
        f"p = {switch.naive_p:.3f} naive, {switch.refitted_p:.3f} refitted, {switch.count} switches",
    )
    return Reproduction(NAME, TITLE, (*files, path), rows, findings, notes)


def _known(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def _jumps(found: CampaignLosses, kind: tuple[float, float]) -> Array:
    values = [s.probe_after - s.history[-1] for s in found.switches[kind] if s.probe_after is not None]
    if len(values) < 3:
        raise ScenarioError(f"traces {found.name}: got {len(values)} switches of {kind}, expected at least 3")
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
        "each curve, as in the paper": [p for one in tested for p in one.each],
        "all seeds, refitted": [one.refitted for one in tested],
    }
    style: dict[str, Any] = {"bins": np.linspace(0.0, 1.0, 21), "density": True, "alpha": 0.6}
    for (name, ps), colour in zip(values.items(), ("#B8B8B8", "#0072B2"), strict=True):
        axes.hist(ps, label=name, color=colour, **style)
    axes.axvline(GOOD, color="#777777", linewidth=0.8, linestyle=":")
    axes.set(xlabel="p-value", ylabel="density", title="Kolmogorov-Smirnov, every configuration and K2")
    axes.legend(frameon=False)


def _row(one: FitTest) -> Row:
    k1, f1, f2 = one.config
    return {
        "K1": k1, "F1": f1, "F2": f2, "K2": one.k2, "p_each_median": float(np.median(one.each)) if one.each else float("nan"), "p_pooled": one.pooled,
        "p_refitted": one.refitted, "r2": one.r2, "autocorrelation": one.autocorrelation,
        "coverage_99": float("nan") if one.coverage is None else one.coverage,
    }  # fmt: skip


def _checks(
    left: tuple[Array, CurveFit],
    right: tuple[Array, SwitchFit],
    tested: Sequence[FitTest],
    expected: Mapping[str, Expected],
) -> dict[str, Seen]:
    (x, fit), (jumps, switch), found = left, right, fit_of(tested)
    d = fit.diagnostics
    spread = float(x.std())

    def limit(key: str, name: str) -> float:
        return expected[key].limits[name]

    return {
        "uncertain": (spread >= limit("uncertain", "sd"), f"standard deviation of x {spread:.3f}"),
        "inverse-gamma": (d.naive_p > GOOD, f"p = {d.naive_p:.3f} for x of all seeds ({d.count} values)"),
        "almost-all": (
            found["each"] >= limit("almost-all", "share"),
            f"p > {GOOD:g} in {found['each']:.0%} of {sum(len(one.each) for one in tested)} curves",
        ),
        "refitted": (
            found["refitted"] >= limit("refitted", "share"),
            f"refitted p > {GOOD:g} in {found['refitted']:.0%} of {len(tested)} configurations, all seeds together "
            f"({found['pooled']:.0%} when the fit is forgotten)",
        ),
        "explains": (
            found["r2"] >= limit("explains", "r2"),
            f"median R2 {found['r2']:.2f}; {d.r2:.2f} in the left panel",
        ),
        "independent": (
            found["autocorrelation"] <= limit("independent", "lag1"),
            f"median lag-1 autocorrelation of x {found['autocorrelation']:.2f}; {d.autocorrelation:.2f} in the left panel",
        ),
        "quantile": (
            found["coverage"] >= limit("quantile", "share"),
            f"on seeds left out {found['coverage']:.1%} of x lie at or below the fitted 99th percentile",
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
    each = [p for one in tested for p in one.each]
    covered = [one.coverage for one in tested if one.coverage is not None]
    return {
        "each": float(np.mean([p > GOOD for p in each])),
        "pooled": float(np.mean([one.pooled > GOOD for one in tested])),
        "refitted": float(np.mean([one.refitted > GOOD for one in tested])),
        "r2": float(np.nanmedian([one.r2 for one in tested])),
        "autocorrelation": float(np.nanmedian([one.autocorrelation for one in tested])),
        "coverage": float(np.mean(covered)) if covered else float("nan"),
    }
