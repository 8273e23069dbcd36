"""DepL figure 2: the test loss of two pruned versions over epochs, expected and between its 1st and 99th percentile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...core.curve import Array
from ...estimators.depl.curve_fit import CurveFit
from ...estimators.depl.distributions import REPLICATES
from ..expected import Expected, Judgement, expected_of, judged
from ..result import Reproduction, Row, written
from ..style import DEFAULT_FORMATS, house_style, legend_below, new_figure, save
from .fits import campaign, fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "depl-fig2"
TITLE = "DepL Fig. 2: test loss of two pruned versions"
PRUNED = (0.5, 0.75)
COLOURS = {0.5: "#D55E00", 0.75: "#0072B2"}
QUANTILES = (0.01, 0.99)


def reproduce(
    out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, replicates: int = REPLICATES
) -> Reproduction:
    """Fit (8) to each version's curves, draw and judge."""
    traced = campaign()
    losses = {p: np.stack([c.losses for c in traced.root(p)]) for p in PRUNED}
    fits = {p: fitted(traced.root(p), "level", replicates=replicates) for p in PRUNED}
    with house_style():
        figure = new_figure(6.4, 4.4)
        axes = figure.subplots()
        for pruned in PRUNED:
            _draw(axes, pruned, losses[pruned], fits[pruned])
        axes.set(
            xlabel="epoch", ylabel="test loss", title="lines: mean over seeds; shaded: 1st to 99th percentile of (8)"
        )
        legend_below(figure, axes, columns=2)
        files = save(figure, out_dir, NAME, formats)
    rows = tuple(_row(p, k, losses[p], fits[p]) for p in PRUNED for k in range(1, losses[p].shape[1] + 1))
    expected = expected_of(__file__)
    findings = judged("DepL Fig. 2", expected, _checks(losses, fits, expected))
    words = "; ".join(
        f"F = {p:g}: A = {f.gain:.2f}, B = {f.offset:.1f}, R2 = {f.diagnostics.r2:.2f}, {f.noise.family}"
        for p, f in fits.items()
    )
    notes = (traced.note, f"(8) read as a level: {words}")
    return written(NAME, TITLE, out_dir, files, rows, findings, notes)


def _band(fit: CurveFit, epochs: Array) -> tuple[Array, Array]:
    low, high = (float(fit.noise.quantile(q)) for q in QUANTILES)
    curve = fit.mean_curve(epochs)
    return curve * low, curve * high


def _draw(axes: Axes, pruned: float, losses: Array, fit: CurveFit) -> None:
    epochs = np.arange(1, losses.shape[1] + 1, dtype=np.float64)
    low, high = _band(fit, epochs)
    axes.plot(epochs, losses.T, color=COLOURS[pruned], linewidth=0.5, alpha=0.5)
    axes.plot(epochs, losses.mean(axis=0), color=COLOURS[pruned], linewidth=2.0, label=f"F = {pruned:g}")
    axes.fill_between(epochs, low, high, color=COLOURS[pruned], alpha=0.15, linewidth=0)


def _row(pruned: float, epoch: int, losses: Array, fit: CurveFit) -> Row:
    at = losses[:, epoch - 1]
    low, high = _band(fit, np.array([float(epoch)]))
    return {
        "pruned": pruned,
        "epoch": epoch,
        "mean": float(at.mean()),
        "sd": float(at.std(ddof=1)) if len(at) > 1 else 0.0,
        "least": float(at.min()),
        "most": float(at.max()),
        "fitted_1": float(low[0]),
        "fitted_99": float(high[0]),
    }


def _checks(
    losses: Mapping[float, Array], fits: Mapping[float, CurveFit], expected: Mapping[str, Expected]
) -> dict[str, Judgement]:
    spread = {p: float((x.std(axis=0, ddof=1) / x.mean(axis=0)).mean()) for p, x in losses.items()}
    first, second = (losses[p] for p in PRUNED)
    apart = np.abs(first.mean(axis=0) - second.mean(axis=0)) / np.sqrt(
        (first.var(axis=0, ddof=1) + second.var(axis=0, ddof=1)) / len(first)
    )
    third = first.shape[1] // 3
    early, late = ({p: x[:, at] for p, x in losses.items()} for at in (slice(0, third), slice(-third, None)))
    grows = {
        p: (late[p].std(axis=0, ddof=1).mean(), early[p].std(axis=0, ddof=1).mean(), late[p].mean() < early[p].mean())
        for p in losses
    }
    bands = {p: _band(fits[p], np.arange(1.0, x.shape[1] + 1)) for p, x in losses.items()}
    inside = {p: float(((x >= bands[p][0]) & (x <= bands[p][1])).mean()) for p, x in losses.items()}
    return {
        "stochastic": (
            min(spread.values()) >= expected["stochastic"].limits["share"],
            "standard deviation over seeds, share of the mean: "
            + ", ".join(f"{s:.1%} with F = {p:g}" for p, s in spread.items()),
        ),
        "by-version": (
            float(np.median(apart)) >= expected["by-version"].limits["errors"],
            f"the means differ by {np.median(apart):.1f} standard errors in the median epoch",
        ),
        "variance-grows": (
            any(after > before and falls for after, before, falls in grows.values()),
            "standard deviation over seeds in the last third, and in the first: "
            + ", ".join(f"{after:.3f}, {before:.3f} with F = {p:g}" for p, (after, before, _) in grows.items()),
        ),
        "band": (
            min(inside.values()) >= expected["band"].limits["share"],
            "losses inside the band fitted to them: " + ", ".join(f"{s:.1%} with F = {p:g}" for p, s in inside.items()),
        ),
    }
