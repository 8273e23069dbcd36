"""DepL Table I from traces: what an epoch of each version brings, how it varies, and what it takes.

The paper prints mean and variance of the "loss improvement per epoch" of three versions of AlexNet and of MobileNet,
near 1: read as those of x in (8) with one A and B for all versions. So the changes of every version of a network are
divided by the curve fitted to its intermediate one's. Resources are over AlexNet's smallest and MobileNet's
intermediate version's, where the paper's figures are 1; ours of both networks are of other widths and steps and not
compared with each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...core.curve import Array
from ...estimators.depl.curve_fit import CurveFit, read
from ...estimators.depl.distributions import REPLICATES
from ...estimators.learned.bundle import LegCurve
from ..expected import Judgement, expected_of, judged
from ..result import Reproduction, Row, written
from ..style import DEFAULT_FORMATS, house_style, new_figure, save
from .fits import CampaignLosses, campaign, campaign_alone, fitted
from .study import COLOURS, HATCHES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "depl-table1"
TITLE = "DepL Table I: improvement per epoch and resources of AlexNet's and MobileNet's versions, measured"
VERSIONS = {"fast-unsteady": 0.5, "intermediate": 0.75, "slow-steady": 0.9}
PAPER = {
    "AlexNet": {
        "fast-unsteady": (1.02, 0.031, 2.6),
        "intermediate": (1.00, 0.010, 1.4),
        "slow-steady": (0.98, 0.007, 1.0),
    },
    "MobileNet": {
        "fast-unsteady": (1.02, 0.029, 1.8),
        "intermediate": (0.95, 0.012, 1.0),
        "slow-steady": (0.92, 0.006, 0.6),
    },
}
SMALL = {"AlexNet": "depl-small", "MobileNet": "depl-small-mobilenet"}
"""Presets that count FLOPs for traces of an unknown make."""
FIRST, OTHER = PAPER
MIDDLE = "intermediate"
UNIT = {"AlexNet": "slow-steady", "MobileNet": MIDDLE}
"""Whose resources are 1 in the paper."""
Shares = Mapping[str, Mapping[str, Array]]


def reproduce(
    out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, replicates: int = REPLICATES
) -> Reproduction:
    """Fit, tabulate, draw and judge; without traces of MobileNet its half is left out, and a note says so."""
    networks = {FIRST: campaign()}
    other = campaign_alone(OTHER)
    if other is not None:
        networks[OTHER] = other
    fits, levels = (
        {
            n: {v: fitted(losses.root(p), reading, replicates=replicates) for v, p in VERSIONS.items()}
            for n, losses in networks.items()
        }
        for reading in ("change", "level")
    )
    shares = {
        n: {v: improvements(losses.root(p), fits[n][MIDDLE]) for v, p in VERSIONS.items()}
        for n, losses in networks.items()
    }
    needs = {n: resources(losses, n) for n, losses in networks.items()}
    rows = tuple(
        _row(n, v, shares[n][v], needs[n][v] / needs[n][UNIT[n]], (fits[n][v], levels[n][v]))
        for n in networks
        for v in VERSIONS
    )
    with house_style():
        files = save(_draw(shares), out_dir, NAME, formats)
    seen, expected = _checks(rows), expected_of(__file__)
    findings = judged(
        "DepL Table I", {key: entry for key, entry in expected.items() if key in seen or other is not None}, seen
    )
    notes = (
        *(losses.note for losses in networks.values()),
        "improvements: l(k-1) - l(k) of the test loss over A / sqrt(k + B) of the network's intermediate version, "
        "reading `change`; "
        "the paper's figures beside them (its x has a scale that it does not print)",
        "resources: FLOPs of a forward and backward pass"
        if find_spec("torch")
        else "resources: parameters left (FLOPs need PyTorch)",
        *(
            ()
            if other is not None
            else (
                f"MobileNet, the table's other half: no such traces (relaytrain collect --preset {SMALL[OTHER]} DIR)",
            )
        ),
    )
    return written(NAME, TITLE, out_dir, files, rows, findings, notes)


def improvements(curves: tuple[LegCurve, ...], fit: CurveFit) -> Array:
    """What every epoch of every seed lowers the loss by, over the fitted curve."""
    rows = (read(curve, "change") for curve in curves)
    return np.concatenate([changes / fit.mean_curve(k) for k, changes in rows])


def resources(losses: CampaignLosses, network: str) -> dict[str, float]:
    """FLOPs an image of each version; without torch the share of parameters left."""
    if find_spec("torch") is None:
        return {v: 1.0 - p for v, p in VERSIONS.items()}
    from ...campaigns.campaign_estimate import flops_of
    from ...campaigns.preset_campaigns import PRESETS, preset, version_name

    counted = flops_of(preset(losses.name if losses.name in PRESETS else SMALL[network]))
    return {v: counted[version_name(p)] for v, p in VERSIONS.items()}


def _row(network: str, version: str, x: Array, needed: float, fits: tuple[CurveFit, CurveFit]) -> Row:
    (fit, level), (mean, variance, norm) = fits, PAPER[network][version]
    d = fit.diagnostics
    return {
        "network": network,
        "version": version,
        "pruned": VERSIONS[version],
        "mean_x": float(x.mean()),
        "var_x": float(x.var()),
        "resources": needed,
        "paper_mean": mean,
        "paper_var": variance,
        "paper_resources": norm,
        "A": fit.gain,
        "B": fit.offset,
        "r2_change": d.r2,
        "family": fit.noise.family,
        "p_refitted": d.refitted_p,
        "rises": float((x < 0.0).mean()),
        "autocorrelation": d.autocorrelation,
        "coverage_99": float("nan") if d.coverage is None else d.coverage,
        "r2_level": level.diagnostics.r2,
        "p_level_refitted": level.diagnostics.refitted_p,
        "autocorrelation_level": level.diagnostics.autocorrelation,
        "coverage_99_level": float("nan") if level.diagnostics.coverage is None else level.diagnostics.coverage,
    }


def _draw(shares: Shares) -> Figure:
    figure = new_figure(6.4 * len(shares) + 0.6, 3.6)
    low, high = np.quantile(np.concatenate([x for by in shares.values() for x in by.values()]), (0.005, 0.995))
    for axes, (network, by_version) in zip(
        figure.subplots(1, len(shares), squeeze=False)[0], shares.items(), strict=True
    ):
        for version, x in by_version.items():
            axes.hist(
                np.clip(x, low, high),
                bins=np.linspace(low, high, 31).tolist(),
                density=True,
                histtype="stepfilled",
                alpha=0.5,
                color=COLOURS[version],
                hatch=HATCHES[version],
                edgecolor="#444444",
                label=f"{version}: mean {x.mean():.2f}, variance {x.var():.2f}",
            )
        axes.axvline(0.0, color="#777777", linewidth=0.8, linestyle=":")
        axes.set(
            title=network, xlabel="improvement of an epoch, over the intermediate version's curve", ylabel="density"
        )
        axes.legend(frameon=False)
    return figure


def _checks(every: tuple[Row, ...]) -> dict[str, Judgement]:
    """The verdicts on AlexNet's half, and on MobileNet's where it is there."""
    rows, others = ([row for row in every if row["network"] == network] for network in (FIRST, OTHER))

    def listed(key: str, form: str = ".3f", of: Sequence[Row] = rows) -> str:
        return ", ".join(f"{row['version']} {row[key]:{form}}" for row in of)

    def falls(key: str, of: Sequence[Row] = rows) -> bool:
        values = [row[key] for row in of]
        return values == sorted(values, reverse=True)

    seen: dict[str, Judgement] = {
        "mean": (falls("mean_x"), f"mean of x: {listed('mean_x', '.2f')}"),
        "variance": (falls("var_x"), f"variance of x: {listed('var_x', '.2f')}"),
        "resources": (
            falls("resources"),
            f"FLOPs over the smallest's: {listed('resources', '.2f')}; the paper's 2.6, 1.4, 1",
        ),
        "small-variance": (
            all(row["var_x"] <= 10 * row["paper_var"] for row in rows),
            f"variance of x: {listed('var_x', '.2f')}; share of epochs that raise the loss: {listed('rises', '.0%')}",
        ),
        "positive": (
            all(row["rises"] == 0.0 for row in rows),
            f"share of epochs that raise the test loss: {listed('rises', '.0%')}",
        ),
        "independent": (
            all(abs(row["autocorrelation"]) <= 0.2 for row in rows),
            f"lag-1 autocorrelation: {listed('autocorrelation', '.2f')}",
        ),
        "quantile": (
            all(row["coverage_99"] >= 0.97 for row in rows),
            f"epochs of seeds left out at or above the 1st percentile: {listed('coverage_99', '.1%')}",
        ),
    }
    if not others:
        return seen
    return seen | {
        "mobilenet-mean": (falls("mean_x", others), f"mean of x: {listed('mean_x', '.2f', others)}"),
        "mobilenet-variance": (falls("var_x", others), f"variance of x: {listed('var_x', '.2f', others)}"),
        "mobilenet-resources": (
            falls("resources", others),
            f"FLOPs over the intermediate version's: {listed('resources', '.2f', others)}; the paper's 1.8, 1, 0.6",
        ),
    }
