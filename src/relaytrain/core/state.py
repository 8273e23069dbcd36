"""Where a run stands, and the papers' rounding of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

TOLERANCE = 1e-9
"""All comparisons of losses and times allow this much, so that (0.1 + 0.2) / 0.1 is three steps and not four."""


@dataclass(frozen=True)
class State:
    """The state s(k) after `epoch` epochs: loss, seconds, joules, the pair (of `Problem.pairs`) that trained last."""

    epoch: int
    loss: float
    elapsed_s: float
    pair: int
    energy_j: float = 0.0


@dataclass(frozen=True)
class Grid:
    """PACT's resolutions: `loss_step` = gamma_l, `time_step_s` = gamma_T; the loss axis ends at `loss_top`.

    Rounding up every epoch makes a gain smaller than `loss_step` no gain at all: a cliff, not a gentle error.
    """

    loss_step: float
    time_step_s: float
    loss_top: float | None = None

    def loss_index(self, loss: float) -> int:
        """The smallest index whose loss is not below `loss` (Alg. 1 line 17)."""
        return max(0, math.ceil(loss / self.loss_step - TOLERANCE))

    def time_index(self, seconds: float) -> int:
        """Steps needed for `seconds` (Alg. 1 line 18)."""
        return math.ceil(seconds / self.time_step_s - TOLERANCE)

    def goal_index(self, loss: float) -> int:
        """The largest index that still meets `loss`."""
        return math.floor(loss / self.loss_step + TOLERANCE)

    def deadline_index(self, seconds: float) -> int:
        """The last step inside the deadline."""
        return math.floor(seconds / self.time_step_s + TOLERANCE)
