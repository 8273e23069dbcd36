"""Theory bounds that correct the robust estimate: what FedAvg guarantees may be less than what a network promises.

Theorem 1 of Li et al. (ICLR 2020), full participation, step 2 / (mu (gamma + t)), gamma = max(8 L / mu, E):

    E F(w_T) - F* <= kappa / (gamma + T - 1) (2 B / mu + mu gamma / 2 * ||w_1 - w*||^2),     kappa = L / mu
    B = sum p_k^2 sigma_k^2 + 6 L Gamma + 8 (E - 1)^2 G^2

PACT takes the bound where it lies above the network's robust value. Three modes:

* `level`: as the paper says, the robust loss is at least F* + bound. For networks the bound is vacuous (thousands of
  nats), which makes every plan infeasible; a warning says so.
* `shape` (default): only how the bound falls is used, scaled to the present gap,
  lambda_bound = (l - F*) ((g + k) / (g + k + h) - 1) with g = (gamma - 1) / E in epochs, and g is calibrated on traces
  so that it overrides at most 5 % of the windows.
* `off`.

Every override is told. Paper: section IV, last paragraph, [21, Theorem 1].
Deviations: the paper calls the theorem a lower bound for lambda_run; it is an upper bound on the gap, so it can only
raise a robust estimate. For lambda_change the paper cites RED++, section 3, whose statement is about its own hashing of
weights and not about magnitude pruning; in its place stands the probe, the forward loss of the pruned network on the
new data (`change_model.probe_inputs`), exact up to sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...core.curve import Array
from ...core.errors import UsageError
from ..bands import Bands
from .features import AHEAD, Seen

BoundMode = Literal["shape", "level", "off"]
MOST_OVERRIDES = 0.05


@dataclass(frozen=True)
class Constants:
    """Constants of Theorem 1, from the user: L, mu (weight decay is a choice), sum p_k^2 sigma_k^2, G^2, Gamma,
    ||w_1 - w*||^2, E local steps an epoch, F*."""

    smoothness: float
    convexity: float
    noise: float
    gradient: float
    heterogeneity: float
    distance: float
    local_steps: int = 1
    optimum: float = 0.0

    def __post_init__(self) -> None:
        if not (self.smoothness >= self.convexity > 0.0):
            raise UsageError(
                f"bounds: got smoothness {self.smoothness}, convexity {self.convexity}; expected L >= mu > 0"
            )
        if min(self.noise, self.gradient, self.heterogeneity, self.distance) < 0.0 or self.local_steps < 1:
            raise UsageError(
                "bounds: got a negative constant, expected noise, gradient, heterogeneity, distance >= 0, E >= 1"
            )

    @property
    def gamma(self) -> float:
        """max(8 L / mu, E)."""
        return max(8.0 * self.smoothness / self.convexity, float(self.local_steps))

    @property
    def spread(self) -> float:
        """B."""
        return (
            self.noise + 6.0 * self.smoothness * self.heterogeneity + 8.0 * (self.local_steps - 1) ** 2 * self.gradient
        )


def theorem_1(constants: Constants, steps: Array | float) -> Array:
    """The bound on E F(w_T) - F* after T SGD steps."""
    c = constants
    inside = 2.0 * c.spread / c.convexity + c.convexity * c.gamma / 2.0 * c.distance
    return np.asarray(c.smoothness / c.convexity / (c.gamma + np.asarray(steps) - 1.0) * inside)


def shape_bound(loss: Array, epoch: Array, offset: float, *, optimum: float = 0.0) -> Array:
    """lambda_bound (N, AHEAD) of the shape mode: how much of the gap the theorem lets fall in 1 to 5 epochs."""
    gap = np.maximum(loss - optimum, 0.0)[:, None]
    before = (offset + np.maximum(epoch, 0.0))[:, None]
    ahead = np.arange(1.0, AHEAD + 1.0)[None, :]
    return np.asarray(gap * (before / (before + ahead) - 1.0))


@dataclass(frozen=True)
class Bound:
    """A mode with what it needs: `offset` (g, in epochs) for `shape`, `constants` for `level`."""

    mode: BoundMode = "off"
    offset: float | None = None
    constants: Constants | None = None

    def __post_init__(self) -> None:
        if self.mode == "level" and self.constants is None:
            raise UsageError(
                "bounds: got mode 'level' without constants, expected those of Theorem 1; or use shape or off"
            )

    def correct(self, seen: Seen, changes: Bands) -> tuple[Bands, tuple[str, ...]]:
        """Robust changes (N, AHEAD) no lower than the bound, expected ones untouched; a line for overrides."""
        if self.mode == "off" or (self.mode == "shape" and self.offset is None):
            return changes, ()
        if self.mode == "level":
            assert self.constants is not None
            ahead = (seen.position[:, None] + np.arange(1.0, AHEAD + 1.0)) * self.constants.local_steps
            least = self.constants.optimum + theorem_1(self.constants, ahead) - seen.loss[:, None]
            vacuous = bool((least > 0.0).all())
        else:
            assert self.offset is not None
            least, vacuous = shape_bound(seen.loss, seen.position, self.offset), False
        fires = least > changes.high
        if not fires.any():
            return changes, ()
        words = (
            f"bounds ({self.mode}): {int(fires[:, 0].sum())} of {len(seen)} robust estimates of the next epoch raised"
        )
        if vacuous:
            words += "; the bound says less than the present loss everywhere: it is vacuous here, use shape or off"
        return Bands(changes.mean, changes.low, np.maximum(changes.high, least)), (words,)


def calibrated_offset(seen: Seen, changes: Bands, *, most: float = MOST_OVERRIDES) -> float | None:
    """The largest g at which the shape bound overrides at most `most` of the windows; None when even 0 does more."""
    low, high = 0.0, 1e4

    def share(offset: float) -> float:
        return float((shape_bound(seen.loss, seen.position, offset)[:, 0] > changes.high[:, 0]).mean())

    if share(low) > most:
        return None
    if share(high) <= most:
        return high
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if share(middle) <= most else (low, middle)
    return low
