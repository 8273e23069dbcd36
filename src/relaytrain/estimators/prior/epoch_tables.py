"""The `prior` estimator for laws that are tables by epoch: one factor on the gains of each pair, from its residuals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.curve import Array
from ...core.law import Z_ROBUST, EpochLaw
from ...core.outcome import EpochOutcome
from ...core.problem import Pair
from ..legs import SeenLeg, legs_of
from ..own_pairs import check_pairs
from .belief import LEAST_SPREAD, Noise

PLAIN = Noise()


@dataclass(frozen=True)
class StepsPrior:
    """`Estimator` over an `EpochLaw`: gains scaled by a normal factor round one, jumps as the law has them.

    The factor of a pair is its prior, the residuals of all pairs (their common share) and its own, weighted by
    precision. Only gains are scaled: where a table says the loss rises, it rises.
    """

    pairs: tuple[Pair, ...]
    stated: EpochLaw
    start: int
    initial_loss: float
    noise: Noise = PLAIN

    def law(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair]) -> EpochLaw:
        """The law for the epochs to come. `pairs` are its own."""
        check_pairs(pairs, self.pairs)
        law = self.stated
        robust = law.run if law.run_robust is None else law.run_robust
        with np.errstate(divide="ignore", invalid="ignore"):
            shade = np.where(law.run < 0.0, 1.0 - robust / law.run, 0.0)
        spread = np.maximum(shade.max(axis=0) / Z_ROBUST, LEAST_SPREAD)
        factor, left = self._factors(legs_of(history, self.pairs, self.start, self.initial_loss), spread)
        gains = law.run < 0.0
        run = np.where(gains, law.run * factor, law.run)
        slow = np.maximum(factor - Z_ROBUST * left, 0.0)
        return EpochLaw(run, law.change, np.where(gains, law.run * slow, robust), law.change_robust)

    def _factors(self, legs: Sequence[SeenLeg], spread: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of every pair's factor."""
        precision, weighted = np.zeros(len(spread)), np.zeros(len(spread))
        for leg in legs:
            rows = np.minimum(np.arange(len(leg.losses)) + leg.first_epoch, len(self.stated.run)) - 1
            gain = float(np.minimum(self.stated.run[rows, leg.pair], 0.0).sum())
            if gain == 0.0:
                continue
            rises = float(np.maximum(self.stated.run[rows, leg.pair], 0.0).sum())
            sd = self.noise.noise * max(leg.losses[-1], leg.start) / -gain
            precision[leg.pair] += sd**-2
            weighted[leg.pair] += (leg.losses[-1] - leg.start - rises) / gain * sd**-2
        own = spread**-2
        tried = precision > 0
        mean, variance = np.ones(len(spread)), spread**2
        if tried.any():
            # what the tried pairs say about the common part: deviation in units of the spread, shrunk
            away = (weighted[tried] / precision[tried] - 1.0) / spread[tried]
            trust = 1.0 / (1.0 + (precision[tried] * spread[tried] ** 2) ** -1)
            n, common = len(away), self.noise.common
            mean = 1.0 + spread * np.clip(common * (trust * away).sum() / (1.0 + (n - 1) * common), -3.0, 3.0)
            mean[tried] = (own[tried] + weighted[tried]) / (own[tried] + precision[tried])
            variance[tried] = 1.0 / (own[tried] + precision[tried])
        return np.maximum(mean, 0.0), np.sqrt(variance)
