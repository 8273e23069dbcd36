"""A yardstick for rules: somebody who knows every curve of a seed, and not the luck of its epochs.

Every recorded leg of the seed is smoothed by a curve of its own; what is left round the curves is luck, with a size for
each pair that falls along a leg. Whoever knows that much learns nothing on the way, so the best he can do is the one
schedule with the least expected energy that is sure enough to be in time. Schedules are those of the atlas's grid.
Curves are known as far as they were recorded and no farther: a curve drawn out promises what no epoch showed (on seed
5012 of `quickstart` silver was waited on in vain).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from relaytrain.core.cost import CostTable
from relaytrain.estimators.prior.leg_fits import FittedLeg, LegBatch
from relaytrain.traces.atlas import Atlas, LegKey

Array = NDArray[np.float64]
Legs = tuple[tuple[int, int], ...]
LONGEST = 60
"""Epochs of a leg after which scatter falls no more."""
BINS = (1, 3, 5, 9, 17, 33)
"""Epochs of a leg at which another scatter begins."""
NEAR = 0.02
"""Where nothing is sure enough, schedules this near to the surest are compared by energy."""


class KnownCurves:
    """What one seed's curves and scatter are, and which schedule they make the best."""

    def __init__(self, atlas: Atlas, seed: int, costs: CostTable) -> None:
        self.costs, self.start = costs, atlas.start
        self.first_loss = float(atlas.seeds[seed][LegKey((), atlas.start)].start)
        self.curves: dict[LegKey, Array] = {}
        left: dict[int, list[Array]] = {}
        legs = [
            FittedLeg(seed, key, np.array(held.losses), 0.0)
            for key, held in atlas.seeds[seed].items()
            if len(held.losses) >= 4
        ]
        batch = LegBatch(legs, self.first_loss)
        batch.keep(batch.alone())
        for leg in legs:
            left.setdefault(leg.key.pair, []).append(np.diff(np.log(leg.losses / leg.curve)))
            self.curves[leg.key] = leg.curve
        self.scatter = {pair: _by_epoch(rows) for pair, rows in left.items()}

    def judged(self, legs: Legs, loss: float, deadline_s: float, most_j: float) -> tuple[float, float]:
        """Expected joules until the target, or `most_j`, and the chance to be in time."""
        left, spent, paid, elapsed_s, in_time, at = 1.0, 0.0, 0.0, 0.0, 0.0, self.start
        for index, (pair, count) in enumerate(legs):
            curve = self.curves.get(LegKey(legs[:index], pair))
            if curve is None:
                return most_j, 0.0
            for epoch in range(len(curve) if index == len(legs) - 1 else count):
                joules = float(self.costs.epoch_j[at, pair])
                elapsed_s += float(self.costs.epoch_s[at, pair])
                if paid + joules >= most_j or not math.isfinite(elapsed_s):
                    return spent + left * (most_j - paid), in_time
                spent, paid, at = spent + left * joules, paid + joules, pair
                spread = self.scatter[pair][min(epoch, LONGEST - 1)]
                z = (math.log(loss) - math.log(curve[epoch])) / spread
                hit = left * 0.5 * math.erfc(-z / math.sqrt(2.0))
                left -= hit
                in_time += hit if elapsed_s <= deadline_s else 0.0
        return spent + left * (most_j - paid), in_time

    def best(
        self, schedules: Iterable[Legs], loss: float, deadline_s: float, *, asked: float, most_j: float
    ) -> tuple[Legs, float, float]:
        """The cheapest schedule that is sure enough, with what it is expected to come to; else one of the surest."""
        found = [(legs, *self.judged(legs, loss, deadline_s, most_j)) for legs in schedules]
        surest = max(chance for _, _, chance in found)
        enough = asked if surest >= asked else surest - NEAR
        return min((one for one in found if one[2] >= enough), key=lambda one: one[1])


def _by_epoch(rows: Sequence[Array]) -> Array:
    """The scatter of a pair's losses by epoch of a leg, from neighbours' differences."""
    found = np.empty(LONGEST)
    usual = np.concatenate(rows)
    for first, until in pairwise((*BINS, LONGEST + 1)):
        here = np.concatenate([row[first - 1 : until - 1] for row in rows])
        usual = here if len(here) >= 4 else usual
        found[first - 1 : until - 1] = max(float(np.sqrt(np.mean(usual**2) / 2.0)), 1e-3)
    return found
