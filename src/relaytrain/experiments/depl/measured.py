"""DepL's versions as measured: (8) fitted to traces in place of the stand-in curves.

Three versions of one network (full, half and a quarter of its parameters left) went on training on the same node set
after trajectories of several lengths, from several seeds. Their losses there give A and B (least squares with x = 1),
the mean and variance of x, and the initial loss; switches of the version alone give l_sw. What the paper prints (needed
resources, r, kappa) stays, and targets are the same shares of the initial loss as with the stand-ins.

Paper: DepL section VI-A.
Deviations: x is inverse-gamma with the mean and variance seen, not by likelihood: some losses rise, which no positive
family holds. Only the switch from the full to the half version was made alone, so it stands for both of a step and, one
and a half times as large, for that of two steps. What was pruned does not come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ...core.depl import DeplProblem, DeplVersion
from ...core.distribution import InverseGamma, StudentT
from ...estimators.depl.curve_fit import autocorrelation, fit_switches, least_squares, read
from ...estimators.learned.bundle import LegCurve, bundle_of
from ..expected import Expected, shipped
from ..figure_traces import campaigns

CAMPAIGN = {"depl_alexnet": "v16s", "depl_mobilenet": "digits"}
"""Which traces stand for which network of the paper."""
NODES = "silver"
PRUNED = (0.0, 0.5, 0.75)
"""Shares of the parameters that the fast-unsteady, the intermediate and the slow-steady version lack."""
LEAST_EPOCHS = 10
FARTHER = 1.5


@dataclass(frozen=True)
class Measured:
    """A campaign's fits, in the order of `PRUNED`: A, B, R^2, mean and variance of x, share of losses that rose."""

    campaign: str
    initial_loss: float
    fits: tuple[tuple[float, float, float, float, float, float], ...]
    autocorrelation: float
    switch: StudentT
    counts: tuple[int, int]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was fitted to what, and how well."""
        rows = "; ".join(
            f"{1 - share:.0%} of the parameters: A {a:.2f}, B {b:.1f}, x {mean:.2f} with variance {variance:.2f}, R2 "
            f"{r2:.2f}"
            for share, (a, b, r2, mean, variance, _) in zip(PRUNED, self.fits, strict=True)
        )
        rose = max(fit[5] for fit in self.fits)
        return (
            f"measured curves: campaign {self.campaign}, {self.counts[0]} legs on {NODES}, initial loss "
            f"{self.initial_loss:.2f}; {rows}",
            f"up to {rose:.0%} of the losses rose; x of following epochs correlate by {self.autocorrelation:.2f}; a "
            "switch of the version "
            f"({self.counts[1]} seen) changes the loss by {self.switch.location:.3f} + {self.switch.scale:.3f} t "
            f"with {self.switch.nu:.1f} degrees",
            "from the paper: needed resources, r and kappa; targets are in 20ths of the initial loss; epochs beyond "
            "the 20 seen are extrapolated",
        )


@lru_cache(maxsize=4)
def measured(campaign: str) -> Measured:
    """The fits of a campaign."""
    bundle = bundle_of(campaigns(campaign)[campaign], "train")
    legs = [[c for c in bundle.curves if _counts(c, share)] for share in PRUNED]
    fits, ratios = [], []
    for curves in legs:
        rows = [read(curve, "change") for curve in curves]
        gain, offset, r2 = least_squares(rows)
        each = [y * np.sqrt(k + offset) / gain for k, y in rows]
        x = np.concatenate(each)
        fits.append((gain, offset, r2, float(x.mean()), float(x.var()), float((x < 0).mean())))
        ratios += each
    alone = [s for s in bundle.switches if s.kind == "version" and abs(s.after[2] - PRUNED[1]) < 0.02]
    jump = fit_switches(alone, replicates=0).noise.distribution
    assert isinstance(jump, StudentT)
    start = float(np.mean([c.start for c in legs[0] if c.start is not None]))
    counts = (sum(map(len, legs)), len(alone))
    return Measured(campaign, start, tuple(fits), autocorrelation(ratios), jump, counts)


def _counts(curve: LegCurve, share: float) -> bool:
    """A leg on the chosen nodes right after the first handover, long enough, of a version pruned and not distilled."""
    suits = curve.stage == 1 and curve.node_set == NODES and len(curve.losses) >= LEAST_EPOCHS
    return suits and abs(curve.pruned - share) < 1e-3 and not any("distill" in words for words in curve.configuration)


def with_measured(instance: DeplProblem, preset: str, stand_in_loss: float) -> DeplProblem:
    """The preset's problem with measured versions; its target keeps its share of the initial loss."""
    seen = measured(CAMPAIGN[preset])
    versions = tuple(
        DeplVersion(m.name, m.size, m.work, a, b, InverseGamma(mean, variance))
        for m, (a, b, _, mean, variance, _) in zip(instance.versions, seen.fits, strict=True)
    )
    near, far = seen.switch, replace(seen.switch, location=FARTHER * seen.switch.location)
    target = replace(instance.target, loss=stand_in_loss / instance.initial_loss * seen.initial_loss)
    switches = ((None, near, far), (None, None, near), (None, None, None))
    return replace(instance, versions=versions, switches=switches, initial_loss=seen.initial_loss, target=target)


def verdicts(
    expected: Mapping[str, Expected], known: Mapping[str, bool | str], reasons: Mapping[str, str]
) -> dict[str, Expected]:
    """The findings with the verdicts and reasons that ship for measured curves instead of the stand-ins' own."""
    return {
        key: replace(entry, holds=shipped(known[key]), why=reasons.get(key, "") if known[key] is not True else "")
        for key, entry in expected.items()
    }
