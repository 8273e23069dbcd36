"""DepL's loss curves fitted to traces: A / sqrt(k + B) times a random x, in two readings that must not be mixed.

Equation (8) calls A / sqrt(k + B) x a change of the loss, while section VI-A fits "the loss evolution". So a fit has a
*reading*: `level` (fitted to the curve l(k) itself) or `change` (fitted to l(k-1) - l(k), what the recursion of (3)
adds up). `CurveFit.version` refuses to hand a `level` fit to a planner.

    A, B   least squares with x = 1                                   (i) of section VI-A
    x      inverse-gamma by likelihood, or another family             (ii); those with negative values where losses rise
    l_sw   Student's t

Diagnostics go with every fit, for a p-value alone says little here: R^2 of the curve, the naive and the refitted
p-value, the p-value on seeds left out, the autocorrelation of x along a curve (the paper takes x as independent), and
the coverage of the quantile that a plan rests on.

Paper: DepL section VI-A, equation (8), Fig. 4.
Deviations: B may not lie below -0.9; degrees of freedom stay above 2, as planners need a variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array
from ...core.errors import UsageError
from ..learned.bundle import LegCurve, LegSwitch
from .distributions import EPOCH_FAMILIES, REPLICATES, Family, Fit, best_family, fit_family, naive_p, refitted_p

if TYPE_CHECKING:
    from ...core.depl import DeplVersion

FitReading = Literal["level", "change"]
OMEGA = 0.99


@dataclass(frozen=True)
class Diagnostics:
    """How far a fit can be trusted. `held_out_p` and `coverage` are of seeds the fit has not seen (None: too few)."""

    r2: float
    naive_p: float
    refitted_p: float
    held_out_p: float | None
    autocorrelation: float
    coverage: float | None
    crps: dict[str, float] = field(default_factory=dict)
    count: int = 0


@dataclass(frozen=True)
class CurveFit:
    """(8) of one version: A, B, the distribution of x, and how it was read."""

    reading: FitReading
    gain: float
    offset: float
    noise: Fit
    diagnostics: Diagnostics

    def mean_curve(self, k: Array) -> Array:
        """A / sqrt(k + B)."""
        return np.asarray(self.gain / np.sqrt(k + self.offset))

    def version(self, name: str, *, size: float, work: float) -> DeplVersion:
        """The version for DepL's planners.

        Raises:
            UsageError: a fit of the level; the planner's recursion adds changes.
        """
        if self.reading != "change":
            raise UsageError(
                f"{name}: got a fit with reading 'level', expected 'change': a plan adds up what every epoch lowers "
                "the loss "
                "by, and a level is no such amount; fit again with reading='change'"
            )
        from ...core.depl import DeplVersion

        return DeplVersion(name, size, work, self.gain, self.offset, self.noise.distribution)


def fit_curves(
    curves: Sequence[LegCurve],
    reading: FitReading = "change",
    *,
    family: Family | None = "inverse-gamma",
    replicates: int = REPLICATES,
) -> CurveFit:
    """(8) fitted to the curves of one version, of several seeds.

    Args:
        curves: legs of one version on one node set.
        reading: `change` for planners, `level` as the paper's figures have it.
        family: of x; None takes the one with the least CRPS on seeds left out. A positive family that cannot hold the
            values is refused with the share that it cannot.
        replicates: of the bootstrap behind `refitted_p`.
    """
    rows = [read(curve, reading) for curve in curves]
    rows = [(k, y) for k, y in rows if len(y)]
    if not rows:
        raise UsageError("depl: no losses to fit, expected at least one curve")
    gain, offset, r2 = least_squares(rows)
    ratios = [y * np.sqrt(k + offset) / gain for k, y in rows]
    seeds = np.array([curve.seed for curve, (_, y) in zip(curves, rows, strict=False)])
    half = np.isin(seeds, np.unique(seeds)[::2])
    split = len(np.unique(seeds)) >= 2
    scored: dict[str, float] = {}
    x = np.concatenate(ratios)
    if family is None:
        parts = (
            [np.concatenate([r for r, h in zip(ratios, half, strict=True) if h == side]) for side in (True, False)]
            if split
            else [x, x]
        )
        family, scored = best_family(parts[0], parts[1], EPOCH_FAMILIES)
    noise = fit_family(x, family)
    held_out_p, coverage = _held_out(rows, half, family, reading) if split else (None, None)
    tested = naive_p(x, noise), refitted_p(x, noise, replicates=replicates) if replicates else float("nan")
    diagnostics = Diagnostics(r2, *tested, held_out_p, autocorrelation(ratios), coverage, scored, len(x))
    return CurveFit(reading, gain, offset, noise, diagnostics)


def least_squares(rows: Sequence[tuple[Array, Array]]) -> tuple[float, float, float]:
    """A, B and R^2 of y = A / sqrt(k + B): A in closed form for each B of a grid that is refined."""
    k, y = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    low, high = np.log(0.1), np.log(1e4)
    best = (np.inf, 0.0, 0.0)
    for _ in range(4):
        for step in np.linspace(low, high, 61):
            offset = float(np.exp(step)) - 1.0
            shape = 1.0 / np.sqrt(k + offset)
            gain = float((y * shape).sum() / (shape**2).sum())
            error = float(((y - gain * shape) ** 2).sum())
            if error < best[0]:
                best = (error, gain, offset)
        centre, width = np.log(best[2] + 1.0), (high - low) / 60.0
        low, high = max(centre - width, np.log(0.1)), centre + width
    total = float(((y - y.mean()) ** 2).sum())
    if best[1] <= 0.0:
        raise UsageError(
            "depl: the fitted curve rises (A <= 0), expected losses that fall; use another reading or metric"
        )
    return best[1], best[2], 1.0 - best[0] / total if total > 0 else 1.0


def read(curve: LegCurve, reading: FitReading) -> tuple[Array, Array]:
    """k and what is fitted to A / sqrt(k + B): the losses of a leg, or by how much each epoch lowered them."""
    losses = np.asarray(curve.losses, dtype=np.float64)
    if reading == "level":
        return np.arange(len(losses), dtype=np.float64) + 1.0, losses
    lead = [curve.start] if curve.start is not None else []
    changes = -np.diff(np.array([*lead, *losses]))
    first = 1.0 if lead else 2.0
    return np.arange(len(changes), dtype=np.float64) + first, changes


def _held_out(
    rows: Sequence[tuple[Array, Array]], half: NDArray[np.bool_], family: Family, reading: FitReading
) -> tuple[float | None, float | None]:
    """p-value and coverage of the loss's OMEGA quantile on the other half of the seeds: low x where x is progress."""
    mine = [r for r, h in zip(rows, half, strict=True) if h]
    others = [r for r, h in zip(rows, half, strict=True) if not h]
    if not mine or not others:
        return None, None
    try:
        gain, offset, _ = least_squares(mine)
        fit = fit_family(np.concatenate([y * np.sqrt(k + offset) / gain for k, y in mine]), family)
    except UsageError:
        return None, None
    x = np.concatenate([y * np.sqrt(k + offset) / gain for k, y in others])
    safe = x <= float(fit.quantile(OMEGA)) if reading == "level" else x >= float(fit.quantile(1.0 - OMEGA))
    return naive_p(x, fit), float(safe.mean())


def autocorrelation(parts: Sequence[Array]) -> float:
    """Lag-1 correlation of x along curves, each about its own mean."""
    above, below = 0.0, 0.0
    for values in parts:
        away = values - values.mean()
        above += float((away[1:] * away[:-1]).sum())
        below += float((away**2).sum())
    return above / below if below > 0 else 0.0


@dataclass(frozen=True)
class SwitchFit:
    """l_sw of one kind of switch: Student's t with its diagnostics."""

    noise: Fit
    naive_p: float
    refitted_p: float
    positive: float
    count: int


def fit_switches(switches: Sequence[LegSwitch], *, replicates: int = REPLICATES) -> SwitchFit:
    """l_sw: the forward loss after the switch (or the first epoch's, as in some traces) less the loss before it."""
    if len(switches) < 3:
        raise UsageError(f"depl: {len(switches)} switches of this kind, expected at least 3 to fit Student's t")
    values = np.array([(s.landed if s.probe_after is None else s.probe_after) - s.history[-1] for s in switches])
    noise = fit_family(values, "student-t")
    tested = naive_p(values, noise), refitted_p(values, noise, replicates=replicates) if replicates else float("nan")
    return SwitchFit(noise, *tested, float((values > 0.0).mean()), len(values))
