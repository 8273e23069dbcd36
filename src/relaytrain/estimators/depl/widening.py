"""Bands that mend themselves: how much wider than stated the distributions of a run's epochs have to be taken.

Every epoch that falls short of its band's lower end widens the bands to come by a fixed share, every other one narrows
them a little, never below what was stated. Whatever the distribution is like, the share of epochs that fall short goes
to 1 - LEVEL: after n epochs it is above that by at most log(widest) / (RATE n). This is adaptive conformal inference
with the scale in place of the level, so that it also helps where even the extreme quantile stated is too near.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...core.dependence import normal_level

LEVEL = 0.9
"""Of the bands that are watched: low enough for a single run to say something about it."""
RATE = 0.5


def widening(z: Iterable[float]) -> float:
    """The factor, 1 or more, by which deviations are to be taken larger after epochs that went as `z` says.

    Args:
        z: progress of the epochs done, less what was expected, in deviations as stated.
    """
    band, log = normal_level(LEVEL), 0.0
    for value in z:
        short = value < -band * math.exp(log)
        log = max(0.0, log + RATE * (float(short) - (1.0 - LEVEL)))
    return math.exp(log)
