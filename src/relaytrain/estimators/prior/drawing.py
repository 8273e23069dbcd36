"""Worlds drawn from the prior as re-weighted by a run: joint over pairs, for pace and floors have parts in common.

What all pairs have in common is drawn first, from its posterior; given that, every pair's hypothesis is drawn by its
own weight, and spread over the hypothesis's cell. Handovers not made yet deviate by their own spread. The same seed
gives the same uniform numbers whatever the run has seen, so worlds move no more than the belief does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...core.law import Array
from ...core.outcome import EpochOutcome
from ...core.worlds import Worlds
from ..legs import legs_of

if TYPE_CHECKING:
    from .reweighting import Prior

SEEN_EPOCHS = 64
"""Epochs of a leg after which its scatter no longer falls."""


def draw_worlds(prior: Prior, history: Sequence[EpochOutcome], count: int, seed: int) -> Worlds:
    """`count` worlds for the epochs to come."""
    from .reweighting import FLOORS, PACES, TINY

    belief = prior.belief
    pairs = len(belief.pairs)
    legs = prior.anchored(legs_of(history, belief.pairs, prior.start, prior.initial_loss))
    given, common, within = prior.posterior(legs)
    rng = np.random.default_rng([seed, 0x5EED])
    shared, own = rng.random(count), rng.random((count, pairs))
    beside = rng.random((count, pairs, 2)) - 0.5
    deviates = rng.standard_normal((count, pairs, pairs))
    drawn = np.minimum(np.searchsorted(np.cumsum(common), shared), len(common) - 1)
    chosen = np.empty((count, pairs), np.int64)
    for pair in range(pairs):
        for value in np.unique(drawn):
            heap = np.cumsum(within[value] * given[pair])
            mine = drawn == value
            chosen[mine, pair] = np.searchsorted(heap, own[mine, pair] * heap[-1])
    np.minimum(chosen, given.shape[1] - 1, out=chosen)
    log_pace, floors = prior.hypotheses
    rows = np.arange(pairs)
    step_pace, step_floor = (float(grid[1] - grid[0]) for grid in (PACES, FLOORS))
    pace = log_pace[rows, chosen] + beside[:, :, 0] * step_pace * belief.pace_spread
    floor = np.maximum(floors[rows, chosen] + beside[:, :, 1] * step_floor * belief.floor_spread, 0.0)
    curves = np.empty((count, pairs, 4))
    curves[:, :, 0] = floor
    curves[:, :, 1], curves[:, :, 3] = belief.curves[:, 1], belief.curves[:, 3]
    curves[:, :, 2] = belief.curves[:, 2] / np.exp(pace)
    jump0, spread = prior.jumps(legs)
    stands = np.full(count, prior.initial_loss)
    leg_epochs = 0
    if legs:
        at, leg_epochs = legs[-1].pair, len(legs[-1].losses)
        stands = np.maximum(prior.along(legs[-1])[0][chosen[:, at], -1], TINY)
        floor_now = curves[:, at, 0]
        np.minimum(floor_now, stands, out=floor_now)  # spread over a cell must not lift a floor above the curve
    return Worlds(
        curves,
        belief.mult,
        np.where(np.isfinite(jump0), jump0 + deviates * spread, jump0),
        belief.jump1,
        stands,
        belief.scatter_by_epoch(SEEN_EPOCHS),
        np.ones(count),
        leg_epochs,
    )


def with_common(common: float, floor_common: float, offsets: Array) -> tuple[Array, Array]:
    """Weights of what is common, (C,), and of the hypotheses for each value of it, (C, H)."""
    from .reweighting import COMMON, FLOORS, PACES, WIDE

    chance = np.exp(-0.5 * COMMON**2)
    share, wide = WIDE

    def given(grid: Array, part: float) -> Array:
        weights = np.zeros((len(COMMON), len(grid)))
        for heap, width in ((1.0 - share, 1.0), (share, wide)):
            variance = (1.0 - part) * width**2
            weights += (
                heap
                * np.exp(-0.5 * (grid[None, :] - np.sqrt(part) * COMMON[:, None]) ** 2 / variance)
                / np.sqrt(variance)
            )
        return np.asarray(weights)

    rest = np.exp(-0.5 * offsets**2)
    paces = given(PACES, common) if common else given(PACES, 0.0)[:1]
    floors = given(FLOORS, floor_common) if floor_common else given(FLOORS, 0.0)[:1]
    grid = paces[:, None, :, None, None] * floors[None, :, None, :, None] * rest
    grid = grid.reshape(len(paces) * len(floors), -1)
    of_pace, of_floor = (chance if len(part) > 1 else np.ones(1) for part in (paces, floors))
    weights = np.outer(of_pace, of_floor).ravel()
    return weights / weights.sum(), np.asarray(grid / grid.sum(axis=1, keepdims=True))
