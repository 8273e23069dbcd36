"""How random worlds are drawn around a scenario: settings alone; `simulate` draws from them.

Ranges are (low, high) of a uniform draw; `None` draws nothing. Few scenarios have any, so they stand
apart from `core.world_settings`.
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
