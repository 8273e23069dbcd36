"""The world a simulation plays in: noise, and the errors of a biased estimator.

Everything here is settings; `simulate` draws from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .random_world import RandomWorld, Range


@dataclass(frozen=True)
class WorldSettings:
    """Noise of the true world and errors of the estimator that looks at it.

    True world, each epoch: progress x (1 + N(0, progress_noise_sd)); loss + N(0, loss_noise_sd); run seconds
    x (1 + N(0, compute_spread)); change seconds x (1 + N(0, transfer_spread)).

    Estimator, once for each world: a pair's progress x clip(1 + N(0, bias_sd), bias_low, bias_high); jumps
    x (1 + N(0, jump_bias_sd)); robust progress = expected x (1 - U(robust_shading)), robust jumps = expected
    x robust_jump_factor. `None` for the last two keeps the scenario's own distance between robust and expected.
    """

    progress_noise_sd: float = 0.15
    loss_noise_sd: float = 0.0
    compute_spread: float = 0.0
    transfer_spread: float = 0.0
    bias_sd: float = 0.12
    bias_low: float = 0.5
    bias_high: float = 1.4
    jump_bias_sd: float = 0.2
    robust_shading: Range | None = None
    robust_jump_factor: float | None = None
    random: RandomWorld | None = None
