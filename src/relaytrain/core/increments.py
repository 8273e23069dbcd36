"""A loss law of increments that knows what the run has shown: DepL's (8) with the x seen so far.

To PACT's planners it is an `EpochLaw`: expected gains by epoch, and a robust twin. DepL's planner also reads the z of
the epochs done, which condition those to come, and which data is where already.

Paper: DepL section VI-A, equation (8).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .dependence import NoisePast
from .law import EpochLaw


@dataclass(frozen=True)
class IncrementLaw(EpochLaw):
    """Gains by epoch, the z of the epochs done (`past`), and the (data set, node set) pairs that are `staged`.

    `widening`: by how much the deviations of x are to be taken larger than stated (conformal bands).
    """

    past: NoisePast = field(default_factory=NoisePast)
    staged: tuple[tuple[str, str], ...] = ()
    widening: float = 1.0
