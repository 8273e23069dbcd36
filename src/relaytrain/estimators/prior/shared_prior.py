"""How likely a pair's hypotheses are beforehand, given what all pairs of a run have in common.

A pair's pace deviates from its belief by a part that all pairs share and by one of its own; its floor likewise. So the
prior of a hypothesis, given the shared parts, is a product over its axes, and sums over hypotheses are small products
of matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array
from .belief import Noise

COMMON = np.linspace(-5.0, 5.0, 17)
ODD = (0.2, 3.0)
"""Share and width of the prior's second, wide part: priors are wrong at times, and seeds unlike those that were seen,
in one pair or in all."""


@dataclass(frozen=True)
class Given:
    """How likely what was seen is, (L, P, H): by factor of the scatter and by hypothesis; `shape` unfolds the H."""

    seen: Array
    shape: tuple[int, int, int]

    def of(self, pair: int) -> Array:
        """By hypothesis of one pair, over all factors of the scatter."""
        return np.asarray(self.seen[:, pair].sum(axis=0).reshape(self.shape))

    def likelihood(self) -> Iterator[Array]:
        """Of every pair."""
        return (self.of(pair) for pair in range(self.seen.shape[1]))


@dataclass(frozen=True)
class SharedPrior:
    """`chance` (C, D) of what is common in pace and floor; `paces` (C, N), `floors` (D, M) and `offsets` (O,): a
    hypothesis's own parts given that."""

    chance: Array
    paces: Array
    floors: Array
    offsets: Array

    def evidence(self, given: Array) -> Array:
        """How likely what was seen is (C, D) by what is common."""
        return np.asarray(self.paces @ (given @ self.offsets) @ self.floors.T)

    def mixed(self, common: Array, given: Array) -> Array:
        """The weight (N, M, O) of hypotheses over what is common, up to one factor."""
        ways = common / np.maximum(self.evidence(given), 1e-300)
        return np.asarray((self.paces.T @ ways @ self.floors)[:, :, None] * self.offsets * given)

    def one(self, common: int, given: Array) -> Array:
        """The weight of hypotheses for one value of what is common, up to one factor."""
        c, d = divmod(common, len(self.floors))
        return np.asarray((self.paces[c][:, None] * self.floors[d])[:, :, None] * self.offsets * given)

    def untried(self, common: NDArray[np.int64], fates: Array) -> NDArray[np.int64]:
        """Hypotheses (N,) of a pair of which nothing was seen, by what is common and a uniform number each: one axis
        after the other, the number's remainder deciding the next."""
        c, d = np.divmod(common, len(self.floors))
        floor, rest = _pick(self.floors[d], fates)
        pace, rest = _pick(self.paces[c], rest)
        offset, _ = _pick(np.broadcast_to(self.offsets, (len(rest), len(self.offsets))), rest)
        return np.asarray((pace * self.floors.shape[1] + floor) * len(self.offsets) + offset)


def _pick(weights: Array, fates: Array) -> tuple[NDArray[np.int64], Array]:
    """By rows of weights (N, M) and uniform numbers (N,) which is chosen, and what is left of the number."""
    heaps = np.cumsum(weights, axis=1)
    goal, rows = fates * heaps[:, -1], np.arange(len(fates))
    chosen = np.minimum((heaps <= goal[:, None]).sum(axis=1), weights.shape[1] - 1)
    share = weights[rows, chosen]
    return chosen, np.clip((goal - heaps[rows, chosen] + share) / share, 0.0, 1.0 - 1e-12)


def shared_prior(noise: Noise, paces: Array, floors: Array, offsets: Array) -> SharedPrior:
    """The prior of hypotheses on these axes."""
    by_pace, of_pace = _given(paces, noise.common)
    by_floor, of_floor = _given(floors, noise.floor_common)
    rest = np.exp(-0.5 * offsets**2)
    return SharedPrior(np.outer(of_pace, of_floor), by_pace, by_floor, rest / rest.sum())


def _given(axis: Array, part: float) -> tuple[Array, Array]:
    """How likely an axis's figures are for every value of what is common, and how likely those are."""
    common = COMMON if part else np.zeros(1)
    share, wide = ODD
    weights = np.zeros((len(common), len(axis)))
    for heap, width in ((1.0 - share, 1.0), (share, wide)):
        variance = (1.0 - part) * width**2
        far = (axis[None, :] - np.sqrt(part) * common[:, None]) ** 2
        weights += heap * np.exp(-0.5 * far / variance) / np.sqrt(variance)
    chance = (1.0 - share) * np.exp(-0.5 * common**2) + share * np.exp(-0.5 * (common / wide) ** 2) / wide
    return weights, chance / chance.sum()
