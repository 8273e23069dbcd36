"""Bounds that did not hold: after a few, what is said of the epochs to come has to be less sure.

Before every epoch a bound is stated for its loss, at a level. At 95 % one in twenty may break it; when so many do that
it would be luck in one of a hundred cases, the belief is too narrow, whoever made it, and from then on its bands are
half as wide again. Then counting begins anew. All follows from the run's own events, so a resumed run widens alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..core.curve import Array
from ..core.explain import say_share
from ..core.law import EpochLaw, LevelLaw, LossLaw
from ..core.outcome import EpochOutcome
from ..core.state import TOLERANCE
from ..core.worlds import Worlds

FEW = 3
"""Broken bounds that it takes at least."""
UNLIKELY = 0.01
WIDER, WIDEST = 1.5, 4.0
"""What bands are stretched by each time, and at most in all."""


class StatedBound(NamedTuple):
    """What was said of an epoch's loss before it: at most `loss`, with the probability `level`."""

    level: float
    loss: float


@dataclass(frozen=True)
class Widening:
    """After `epoch` epochs: so many bounds of so many were broken, and bands are `factor` times as wide in all."""

    epoch: int
    broken: int
    judged: int
    level: float
    factor: float

    def words(self) -> str:
        """What a watcher is told."""
        said = f"{self.broken} of {self.judged} losses broke a bound that was stated at {say_share(self.level)}"
        return f"{said}: what is known is less sure than was thought, and bands are {self.factor:.3g} times as wide now"


def widenings(stated: Mapping[int, StatedBound], history: Sequence[EpochOutcome]) -> list[Widening]:
    """All that the losses of a run give reason for; the last one's factor holds."""
    occasions: list[Widening] = []
    factor, broken, due, levels = 1.0, 0, 0.0, list[float]()
    for epoch, outcome in enumerate(history, 1):
        bound = stated.get(epoch)
        if bound is None:
            continue
        levels.append(bound.level)
        due += 1.0 - bound.level
        if outcome.loss <= bound.loss + TOLERANCE:
            continue  # one that holds makes no number of broken ones less likely
        broken += 1
        more = broken >= FEW and broken > due  # as many as are due, or fewer, come about in half of all cases
        if factor < WIDEST and more and chance_of(broken, levels) < UNLIKELY:
            factor = min(factor * WIDER, WIDEST)
            occasions.append(Widening(epoch, broken, len(levels), sum(levels) / len(levels), factor))
            broken, due, levels = 0, 0.0, []
    return occasions


def chance_of(broken: int, levels: Sequence[float]) -> float:
    """How likely it is that `broken` bounds or more of these levels do not hold, each on its own."""
    ways = [1.0] + [0.0] * broken  # the last one: so many or more
    for level in levels:
        for count in range(broken, 0, -1):
            stays = 0.0 if count == broken else 1.0 - level
            ways[count] = ways[count] * (1.0 - stays) + ways[count - 1] * (1.0 - level)
        ways[0] *= level
    return ways[broken]


def widened(law: LossLaw, factor: float) -> LossLaw:
    """`law` with robust figures so many times as far from the expected ones; laws of other kinds stay as they are."""
    if factor == 1.0:
        return law
    if isinstance(law, EpochLaw):
        return replace(
            law,
            run_robust=_farther(law.run, law.run_robust, factor),
            change_robust=_farther(law.change, law.change_robust, factor),
        )
    if not isinstance(law, LevelLaw):
        return law
    slow = law.mult_robust
    if slow is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            slow = np.where(law.mult > 0.0, law.mult * np.nan_to_num(slow / law.mult) ** factor, slow)
    return replace(
        law,
        mult_robust=slow,
        jump0_robust=_farther(law.jump0, law.jump0_robust, factor),
        jump1_robust=_farther(law.jump1, law.jump1_robust, factor),
        curves_robust=_farther(law.curves, law.curves_robust, factor),
        scatter=None if law.scatter is None else law.scatter * factor,
    )


def widened_worlds(worlds: Worlds | None, occasions: Sequence[Widening]) -> Worlds | None:
    """Worlds, where there are any, as wide as the last of `occasions` makes them."""
    return worlds.widened(occasions[-1].factor) if worlds is not None and occasions else worlds


def _farther(expected: Array, robust: Array | None, factor: float) -> Array | None:
    if robust is None:
        return None
    with np.errstate(invalid="ignore"):
        away = np.nan_to_num(robust - expected, nan=0.0, posinf=np.inf, neginf=-np.inf)
    return np.asarray(np.where(np.isfinite(away), expected + factor * away, robust))
