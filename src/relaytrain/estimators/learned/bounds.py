"""Theory bounds that correct the robust estimate: what FedAvg guarantees may be less than what a network promises.

Theorem 1 of Li et al. (ICLR 2020), full participation, step 2 / (mu (gamma + t)), gamma = max(8 L / mu, E):

    E F(w_T) - F* <= kappa / (gamma + T - 1) (2 B / mu + mu gamma / 2 * ||w_1 - w*||^2),     kappa = L / mu
    B = sum p_k^2 sigma_k^2 + 6 L Gamma + 8 (E - 1)^2 G^2;   with K of N devices an epoch B grows by 4 E^2 G^2 / K
    (drawn with replacement), times (N - K) / (N - 1) (without)

PACT takes the bound where it lies above the network's robust value. Three modes:

* `level`: as the paper says, the robust loss is at least F* + bound. For networks the bound is vacuous (thousands of
  nats), which makes every plan infeasible; a warning says so.
* `shape` (default): only how the bound falls is used, scaled to the present gap,
  lambda_bound = (l - F*) ((g + k) / (g + k + h) - 1) with g = (gamma - 1) / E in epochs, and g is calibrated on traces so
  that it overrides at most 5 % of the windows.
* `off`.

Every override is told. Paper: section IV, last paragraph, [21, Theorem 1].
Deviations: the paper calls the theorem a lower bound for lambda_run; it is an upper bound on the gap, so it can only
raise a robust estimate. For lambda_change the paper cites RED++, section 3, whose statement is about its own hashing of
weights and not about magnitude pruning; in its place stand the probe (`probed_change`), exact up to sampling, and the
Lipschitz bound (`lipschitz_change`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...core.errors import UsageError
from ...core.law import Array
from ..judging.metrics import Bands
from .features import AHEAD, Seen

Mode = Literal["shape", "level", "off"]
MODES: tuple[Mode, ...] = ("shape", "level", "off")
MOST_OVERRIDES = 0.05
Z = 1.6448536269514722


@dataclass(frozen=True)
class Constants:
    """Constants of Theorem 1, from the user: L, mu (weight decay is a choice), sum p_k^2 sigma_k^2, G^2, Gamma,
    ||w_1 - w*||^2, E local steps an epoch, F*; `devices` and `sampled` for partial participation."""

    smoothness: float
    convexity: float
    noise: float
    gradient: float
    heterogeneity: float
    distance: float
    local_steps: int = 1
    optimum: float = 0.0
    devices: int | None = None
    sampled: int | None = None
    replacement: bool = True

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
        """B, with C of Theorems 2 and 3 where not all devices take part."""
        e, g2 = self.local_steps, self.gradient
        found = self.noise + 6.0 * self.smoothness * self.heterogeneity + 8.0 * (e - 1) ** 2 * g2
        if self.sampled is not None:
            share = 1.0
            if not self.replacement and self.devices is not None and self.devices > 1:
                share = (self.devices - self.sampled) / (self.devices - 1)
            found += share * 4.0 * e**2 * g2 / self.sampled
        return found


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

    mode: Mode = "off"
    offset: float | None = None
    constants: Constants | None = None

    def __post_init__(self) -> None:
        if self.mode == "level" and self.constants is None:
            raise UsageError(
                "bounds: got mode 'level' without constants, expected those of Theorem 1; or use shape or off"
            )

    def correct(self, seen: Seen, changes: Bands) -> tuple[Bands, tuple[str, ...]]:
        """Robust changes (N, AHEAD) no lower than the bound, expected ones untouched; and a line for what was overridden."""
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


def probed_change(losses_before: Array, losses_after: Array) -> tuple[float, float]:
    """Mean change of the loss of single images by a switch, and its robust twin, mean + 1.645 standard errors."""
    away = np.asarray(losses_after, dtype=np.float64) - np.asarray(losses_before, dtype=np.float64)
    error = float(away.std(ddof=1)) / math.sqrt(len(away)) if len(away) > 1 else 0.0
    return float(away.mean()), float(away.mean()) + Z * error


def lipschitz_change(before: Sequence[Array], after: Sequence[Array], inputs: Sequence[float]) -> float:
    """A bound on the loss change when the weight matrices `before` become `after` (removed channels as zeros).

    Cross-entropy is sqrt(2)-Lipschitz in the logits, activations are 1-Lipschitz:
    sqrt(2) sum_l (prod_{j>l} ||W'_j||) ||W_l - W'_l|| E||a_(l-1)||, spectral norms. Own derivation; loose.

    Args:
        before: Weight matrices of the layers in order.
        after: The same after the switch, of the same shapes.
        inputs: Mean norm of what enters each layer before the switch.
    """
    norms = [float(np.linalg.norm(w, 2)) for w in after]
    total = 0.0
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        total += math.prod(norms[i + 1 :]) * float(np.linalg.norm(old - new, 2)) * inputs[i]
    return math.sqrt(2.0) * total
