"""DepL Table I from traces: what an epoch of each version brings, how it varies, and what it takes.

The paper prints mean and variance of the "loss improvement per epoch" of three versions, near 1: read as those of x in (8)
with one A and B for all. So the changes of every version are divided by the curve fitted to the intermediate one's.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...core.law import Array
from ...estimators.curves import Curve
from ...estimators.depl import CurveFit
from ...estimators.families import REPLICATES
from ...store.files import write_atomic
from ..expected import Seen, expected_of, judged
from ..result import Reproduction, Row, table_csv
from ..style import DEFAULT_FORMATS, house_style, new_figure, save
from .fits import Campaign, campaign, fitted
from .study import COLOURS, HATCHES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "depl-table1"
TITLE = "DepL Table I: improvement per epoch and resources of AlexNet's versions, measured"
VERSIONS = {"fast-unsteady": 0.5, "intermediate": 0.75, "slow-steady": 0.9}
PAPER = {"fast-unsteady": (1.02, 0.031, 2.6), "intermediate": (1.00, 0.010, 1.4), "slow-steady": (0.98, 0.007, 1.0)}
MIDDLE = "intermediate"


def reproduce(
    out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, replicates: int = REPLICATES
) -> Reproduction:
    """Fit, tabulate, draw and judge."""
    found = campaign()
    fits = {v: fitted(found.root(p), "change", replicates=replicates) for v, p in VERSIONS.items()}
    levels = {v: fitted(found.root(p), "level", replicates=replicates) for v, p in VERSIONS.items()}
    shares = {v: improvements(found.root(p), fits[MIDDLE]) for v, p in VERSIONS.items()}
    needs = resources(found)
    rows = tuple(_row(v, shares[v], needs[v], fits[v], levels[v]) for v in VERSIONS)
    with house_style():
        files = save(_draw(shares), out_dir, NAME, formats)
    path = out_dir / f"{NAME}.csv"
    write_atomic(path, table_csv(rows))
    findings = judged("DepL Table I", expected_of(__file__), _checks(rows))
    notes = (
        found.note,
        "improvements: l(k-1) - l(k) of the test loss over A / sqrt(k + B) of the intermediate version, reading `change`; "
        "the paper's figures beside them (its x has a scale that it does not print)",
        "resources: FLOPs of a forward and backward pass" if find_spec("torch") else "resources: parameters left (FLOPs need PyTorch)",
        "MobileNet, the table's other half: not collected",
    )
    return Reproduction(NAME, TITLE, (*files, path), rows, findings, notes)


def improvements(curves: tuple[Curve, ...], fit: CurveFit) -> Array:
    """What every epoch of every seed lowers the loss by, over the fitted curve."""
    parts = []
    for curve in curves:
        lead = [curve.start] if curve.start is not None else []
        changes = -np.diff(np.array([*lead, *curve.losses]))
        first = 1.0 if lead else 2.0
        parts.append(changes / fit.mean_curve(np.arange(len(changes), dtype=np.float64) + first))
    return np.concatenate(parts)


def resources(found: Campaign) -> dict[str, float]:
    """FLOPs an image of each version over those of the smallest."""
    if find_spec("torch") is None:
        flops = {v: 1.0 - p for v, p in VERSIONS.items()}
    else:
        from ...traces.estimate import flops_of
        from ...traces.presets import PRESETS, preset, version_name

        counted = flops_of(preset(found.name if found.name in PRESETS else "depl-small"))
        flops = {v: counted[version_name(p)] for v, p in VERSIONS.items()}
    least = min(flops.values())
    return {v: value / least for v, value in flops.items()}


def _row(version: str, x: Array, needed: float, fit: CurveFit, level: CurveFit) -> Row:
    d = fit.diagnostics
    mean, variance, norm = PAPER[version]
    return {
        "version": version, "pruned": VERSIONS[version], "mean_x": float(x.mean()), "var_x": float(x.var()), "resources": needed,
        "paper_mean": mean, "paper_var": variance, "paper_resources": norm, "A": fit.gain, "B": fit.offset, "r2_change": d.r2,
        "family": fit.noise.family, "p_refitted": d.refitted_p, "rises": float((x < 0.0).mean()), "autocorrelation": d.autocorrelation,
        "coverage_99": float("nan") if d.coverage is None else d.coverage, "r2_level": level.diagnostics.r2,
        "p_level_refitted": level.diagnostics.refitted_p, "autocorrelation_level": level.diagnostics.autocorrelation,
        "coverage_99_level": float("nan") if level.diagnostics.coverage is None else level.diagnostics.coverage,
    }  # fmt: skip


def _draw(shares: Mapping[str, Array]) -> Figure:
    figure = new_figure(7.0, 3.6)
    axes = figure.subplots()
    low, high = np.quantile(np.concatenate(list(shares.values())), (0.005, 0.995))
    for version, x in shares.items():
        axes.hist(
            np.clip(x, low, high), bins=np.linspace(low, high, 31).tolist(), density=True, histtype="stepfilled", alpha=0.5,
            color=COLOURS[version], hatch=HATCHES[version], edgecolor="#444444", label=f"{version}: mean {x.mean():.2f}, variance {x.var():.2f}",
        )  # fmt: skip
    axes.axvline(0.0, color="#777777", linewidth=0.8, linestyle=":")
    axes.set(xlabel="improvement of an epoch, over the intermediate version's curve", ylabel="density")
    axes.legend(frameon=False)
    return figure


def _checks(rows: tuple[Row, ...]) -> dict[str, Seen]:
    def listed(key: str, form: str = ".3f") -> str:
        return ", ".join(f"{row['version']} {row[key]:{form}}" for row in rows)

    def falls(key: str) -> bool:
        values = [row[key] for row in rows]
        return values == sorted(values, reverse=True)

    return {
        "mean": (falls("mean_x"), f"mean of x: {listed('mean_x', '.2f')}"),
        "variance": (falls("var_x"), f"variance of x: {listed('var_x', '.2f')}"),
        "resources": (falls("resources"), f"FLOPs over the smallest's: {listed('resources', '.2f')}; the paper's 2.6, 1.4, 1"),
        "small-variance": (
            all(row["var_x"] <= 10 * row["paper_var"] for row in rows),
            f"variance of x: {listed('var_x', '.2f')}; share of epochs that raise the loss: {listed('rises', '.0%')}",
        ),
        "positive": (all(row["rises"] == 0.0 for row in rows), f"share of epochs that raise the test loss: {listed('rises', '.0%')}"),
        "independent": (all(abs(row["autocorrelation"]) <= 0.2 for row in rows), f"lag-1 autocorrelation: {listed('autocorrelation', '.2f')}"),
        "quantile": (all(row["coverage_99"] >= 0.97 for row in rows), f"epochs of seeds left out at or above the 1st percentile: {listed('coverage_99', '.1%')}"),
    }  # fmt: skip
