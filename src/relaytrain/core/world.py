"""The world a simulation plays in: noise, biased estimators, and how random worlds are drawn around a scenario.

Everything here is settings; `simulate` draws from them. Ranges are (low, high) of a uniform draw; `None` draws nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Range = tuple[float, float]
DeadlineMode = Literal["slack", "tight"]


@dataclass(frozen=True)
class JumpRange:
    """The jump of one change of pair (indexes into `Problem.pairs`): U(low, high) + per_loss * l."""

    before: int
    now: int
    low: float
    high: float
    per_loss: float = 0.0


@dataclass(frozen=True)
class RandomWorld:
    """How the parameters of one random world are drawn around the scenario's own (level law only).

    `floor`, `scale`, `power` multiply the curves' a, s and alpha, one draw for each pair. With `curve_top` set, the
    drop follows the drawn floor: b = curve_top - a. `jumps` replaces the jumps of the changes it names. `change_cost`
    is a choice among figures that are both the seconds and the joules of every possible change. `reversible` is a
    choice: where False, changes to a pair listed earlier are forbidden; where True, they cost the same as the others
    and jump by `back_jump`. `target_loss` replaces the target.

    Deadlines, with T_opt the duration of the least-energy relay and T_quick that of the quickest one:

    * slack: T_max = slack_factor T_opt + slack_extra_s;
    * tight: T_max = tight_factor T_quick + U(tight_share) (T_opt - T_quick), kept where that is below T_opt.
    """

    floor: Range | None = None
    scale: Range | None = None
    power: Range | None = None
    curve_top: float | None = None
    jumps: tuple[JumpRange, ...] = ()
    back_jump: float = 0.0
    target_loss: Range | None = None
    change_cost: tuple[float, ...] = ()
    reversible: tuple[bool, ...] = ()
    deadlines: tuple[DeadlineMode, ...] = ("slack",)
    slack_factor: float = 1.6
    slack_extra_s: float = 5.0
    tight_factor: float = 1.1
    tight_share: Range = (0.15, 0.8)


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
