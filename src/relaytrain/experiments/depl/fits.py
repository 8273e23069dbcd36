"""Behind DepL's figures 2 and 4 and its Table I: equation (8) and the switches, fitted to a campaign's test losses.

A version trained from its first epoch on the edge is a root of the campaign; (K1, F1, F2) names the legs on the far
edge that began after K1 epochs with F1 removed and go on with F2 removed; each has one curve a seed. The paper's K2 are
beginnings of these legs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core.curve import Array
from ...core.errors import ScenarioError, UsageError
from ...estimators.depl.curve_fit import CurveFit, FitReading, fit_curves, least_squares
from ...estimators.depl.distributions import fit_family, naive_p
from ...estimators.learned.bundle import Bundle, LegCurve, LegSwitch, bundle_of
from ..figure_traces import depl_campaign

K2S = (1, 5, 15, 25, 40, 60)
"""Epochs after the switch. A single one has no curve: x is then the loss over the mean of all seeds'."""
FEW = 3
"""Losses that a distribution is fitted to at least."""
Config = tuple[int, float, float]
NEAR = 0.005


@dataclass(frozen=True)
class CampaignLosses:
    """Test losses of a campaign: versions alone, legs and switches by configuration."""

    name: str
    seeds: tuple[int, ...]
    roots: dict[float, tuple[LegCurve, ...]]
    legs: dict[Config, tuple[LegCurve, ...]]
    switches: dict[tuple[float, float], tuple[LegSwitch, ...]]

    def root(self, pruned: float) -> tuple[LegCurve, ...]:
        """The curves of a version that was trained alone."""
        curves = next((c for p, c in self.roots.items() if abs(p - pruned) < NEAR), None)
        if curves is None:
            raise ScenarioError(
                f"traces {self.name}: no version with {pruned:g} removed was trained alone, expected one"
            )
        return curves

    @property
    def note(self) -> str:
        """Where the curves come from, and what is smaller than in the paper."""
        count = f"{len(self.seeds)} seed{'' if len(self.seeds) == 1 else 's'}"
        if not self.legs:
            return f"traces: {self.name}, {count} of every version, never switched"
        k1s = sorted({k1 for k1, _, _ in self.legs})
        pairs = sorted({(a, b) for _, a, b in self.legs})
        every = k1s == list(range(k1s[0], k1s[-1] + 1)) and len(k1s) > 2
        spoken = f"{k1s[0]} to {k1s[-1]}" if every else ", ".join(map(str, k1s))
        k2s = [k2 for k2 in K2S if k2 * len(self.seeds) >= FEW]
        return (
            f"traces: {self.name}, {count}; K1 in {spoken} (the "
            f"paper's: 1 to 20), (F1, F2) in {', '.join(f'({a:g}, {b:g})' for a, b in pairs)} (all pairs of 0.25, "
            f"0.36, 0.5, 0.75), K2 in {', '.join(map(str, k2s))}; F2 is a share of the full network, above F1"
        )


def campaign_of(bundle: Bundle, name: str) -> CampaignLosses:
    """The curves by version and configuration."""
    roots: dict[float, list[LegCurve]] = {}
    legs: dict[Config, list[LegCurve]] = {}
    into = {(s.seed, s.run): s for s in bundle.switches}
    switches: dict[tuple[float, float], list[LegSwitch]] = {}
    for curve in bundle.curves:
        if curve.stage == 0:
            roots.setdefault(round(curve.pruned, 4), []).append(curve)
        elif curve.stage == 1:
            switch = into[curve.seed, curve.run]
            first, second = round(switch.before[2], 4), round(switch.after[2], 4)
            legs.setdefault((switch.epoch, first, second), []).append(curve)
            switches.setdefault((first, second), []).append(switch)
    if not roots:
        raise ScenarioError(f"traces {name}: got no version trained alone, expected DepL's campaign")
    return CampaignLosses(
        name,
        bundle.seeds,
        {k: tuple(v) for k, v in sorted(roots.items())},
        {k: tuple(v) for k, v in sorted(legs.items())},
        {k: tuple(v) for k, v in sorted(switches.items())},
    )


def campaign(*, switched: bool = False) -> CampaignLosses:
    """AlexNet's that ships, or that of $RELAYTRAIN_TRACES; with `switched` the one with the most ways of switching."""
    name, traces = depl_campaign(switched=switched)
    losses = campaign_of(bundle_of(traces, "test"), name)
    if not losses.legs:
        raise ScenarioError(f"traces {name}: got no switch from one node set to another, expected DepL's campaign")
    return losses


def campaign_alone(network: str) -> CampaignLosses | None:
    """The versions of a network trained alone, where the traces have them."""
    try:
        name, traces = depl_campaign(network)
    except UsageError:
        return None
    return campaign_of(bundle_of(traces, "test"), name)


def cut(curves: Sequence[LegCurve], epochs: int) -> tuple[LegCurve, ...]:
    """The first epochs of curves."""
    return tuple(replace(curve, losses=curve.losses[:epochs]) for curve in curves)


def ratios(curves: Sequence[LegCurve]) -> list[Array]:
    """x of every curve: its losses over the curve fitted to all of them (reading `level`)."""
    k = [np.arange(1, len(c.losses) + 1, dtype=np.float64) for c in curves]
    gain, offset, _ = least_squares([(at, c.losses) for at, c in zip(k, curves, strict=True)])
    return [c.losses * np.sqrt(at + offset) / gain for at, c in zip(k, curves, strict=True)]


@dataclass(frozen=True)
class FitTest:
    """p-values of one configuration and K2: of each seed's curve as the paper does, and of all seeds together.

    A single epoch says nothing about a curve and too little about seeds left out: `each` is empty then, `r2` and
    `autocorrelation` are NaN, `coverage` is None.
    """

    config: Config
    k2: int
    each: tuple[float, ...]
    pooled: float
    refitted: float
    r2: float
    autocorrelation: float
    coverage: float | None


def p_values(losses: CampaignLosses, *, replicates: int) -> list[FitTest]:
    """Every configuration and K2."""
    tests = []
    for config, curves in losses.legs.items():
        for k2 in K2S:
            part = cut(curves, k2)
            if min(len(c.losses) for c in part) < k2 or len(part) * k2 < FEW:
                continue
            each = tuple(_own_p(curve) for curve in part) if k2 > 1 else ()
            fit = fit_curves(part, "level", replicates=replicates).diagnostics
            rest = (fit.r2, fit.autocorrelation, fit.coverage) if k2 > 1 else (float("nan"), float("nan"), None)
            tests.append(FitTest(config, k2, each, fit.naive_p, fit.refitted_p, *rest))
    return tests


def _own_p(curve: LegCurve) -> float:
    x = ratios([curve])[0]
    return naive_p(x, fit_family(x, "inverse-gamma"))


def fitted(curves: Sequence[LegCurve], reading: FitReading, *, replicates: int) -> CurveFit:
    """(8) with the inverse-gamma where it holds the values, else with the family that scores best on seeds left out."""
    try:
        return fit_curves(curves, reading, replicates=replicates)
    except UsageError:
        return fit_curves(curves, reading, family=None, replicates=0)
