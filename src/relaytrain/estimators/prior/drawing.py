"""Worlds drawn from the prior as re-weighted by a run: joint over pairs, for pace and floors have parts in common.

What all pairs have in common is drawn first, from its posterior; given that, every pair's hypothesis is drawn by its
own weight, and spread over the hypothesis's cell. Handovers not made yet deviate by their own spread. The same seed
gives the same uniform numbers whatever the run has seen, so worlds move no more than the belief does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...core.curve import Array
from ...core.outcome import EpochOutcome
from ...core.worlds import Worlds
from ..legs import legs_of

if TYPE_CHECKING:
    from .reweighting import Prior

SEEN_EPOCHS = 64
"""Epochs of a leg after which its scatter no longer falls."""


MORE = 4
"""As many worlds are drawn where some are left out."""


def evenly(rng: np.random.Generator, count: int, columns: int) -> Array:
    """Uniform numbers (count, columns), in each column one in every `count`-th part: tails as often as is due."""
    parts = rng.permuted(np.tile(np.arange(count)[:, None], (1, columns)), axis=0)
    return np.asarray((parts + rng.random((count, columns))) / count)


def draw_worlds(prior: Prior, history: Sequence[EpochOutcome], count: int, seed: int) -> Worlds:
    """`count` worlds for the epochs to come."""
    belief, wanted = prior.belief, count
    count *= 1 if belief.hope is None else MORE
    pairs = len(belief.pairs)
    legs = prior.anchored(legs_of(history, belief.pairs, prior.start, prior.initial_loss))
    prior = prior.closed_in(legs)
    given, common = prior.posterior(legs)
    rng = np.random.default_rng([seed, 0x5EED])
    shared, own = evenly(rng, count, 1)[:, 0], evenly(rng, count, pairs)
    beside = rng.random((count, pairs, 2)) - 0.5
    deviates = rng.standard_normal((count, pairs, pairs))
    fates = rng.random((count, pairs))
    drawn = np.minimum(np.searchsorted(np.cumsum(common.ravel()), shared), common.size - 1)
    chosen, lucky = np.empty((count, pairs), np.int64), np.empty((count, pairs), np.int64)
    tried = {leg.pair for leg in legs}
    for pair in range(pairs):
        shares = prior.prior_of(pair)
        if pair not in tried:
            chosen[:, pair] = shares.untried(drawn, own[:, pair])
        seen = given.of(pair)
        for way in np.unique(drawn) if pair in tried else ():
            heap, mine = np.cumsum(shares.one(int(way), seen)), drawn == way
            chosen[mine, pair] = np.minimum(np.searchsorted(heap, own[mine, pair] * heap[-1]), len(heap) - 1)
        heaps = np.cumsum(given.seen[:, pair, chosen[:, pair]], axis=0)
        lucky[:, pair] = (heaps < fates[:, pair] * heaps[-1]).sum(axis=0)
    log_pace, floors = prior.hypotheses
    rows = np.arange(pairs)
    step_pace, step_floor = prior.steps
    pace = log_pace[rows, chosen] + beside[:, :, 0] * step_pace * belief.pace_spread
    floor = belief.floor_at(beside[:, :, 1] * step_floor, floors[rows, chosen])
    curves = np.empty((count, pairs, 4))
    curves[:, :, 0] = floor
    scales, powers = prior.shapes
    curves[:, :, 1], curves[:, :, 3] = belief.curves[:, 1], powers[rows, chosen]
    curves[:, :, 2] = scales[rows, chosen] / np.exp(pace)
    jump0, spread = prior.jumps(legs)
    stands = np.full(count, prior.initial_loss * prior.begins)
    leg_epochs, present, entered = 0, (0.0, 1.0), belief.entered
    if legs:
        at, leg_epochs, present = legs[-1].pair, len(legs[-1].losses), prior.entered(legs[-1])
        stands = np.maximum(prior.along(legs[-1])[0][chosen[:, at], -1], prior.tiny)
        floor_now = curves[:, at, 0]  # spread over a cell must not lift a floor above the curve
        np.minimum(floor_now, stands - present[0], out=floor_now)
        if legs[-1].past:  # what has risen does not fall by itself
            floor_now[:] = stands - present[0]
    elif entered is not None:
        lift, pace = entered.at(0.0)[prior.start]
        present = float(lift), float(pace)
    drawn_worlds = Worlds(
        curves,
        belief.mult,
        np.where(np.isfinite(jump0), jump0 + deviates * spread, jump0),
        belief.jump1,
        stands,
        belief.scatter_by_epoch(SEEN_EPOCHS),
        belief.lattice.luck[lucky],
        leg_epochs,
        entered=None if entered is None else entered.figures,
        worth=None if entered is None else entered.worth,
        experience=None if entered is None else prior.experience(legs),
        present=present,
        early=belief.early,
        seeds=belief.seeds,
    )
    return drawn_worlds if belief.hope is None else drawn_worlds.only(belief.hope.kept(curves[:, :, 0], wanted))
