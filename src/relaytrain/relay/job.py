"""What a run is made of: runner, clock, planner and estimator, how it is to be carried out, and what it tells."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..core.cost import CostTable
from ..core.errors import InfeasibleError, StoppedByUser, TargetMissed
from ..core.law import LossLaw
from ..core.outcome import RunResult
from ..core.plan import Plan
from ..core.problem import Pair, Problem
from ..core.protocols import Estimator, Planner, Prices, Runner
from ..core.state import TOLERANCE
from ..costs.clock import EmulatedClock, RunClock


@dataclass(frozen=True)
class Settings:
    """How a run is carried out. `when_infeasible`: go on as well as possible, or stop once no plan is feasible."""

    when_infeasible: Literal["continue", "stop"] = "continue"
    replan: bool = True
    thin: bool = True
    seed: int = 0
    threads: int = 1


@dataclass(frozen=True)
class Job:
    """One run's parts. `estimator` is made once l(0) was probed; `manifest` goes into `run_started` as it is.

    `clock`: which seconds and joules count. `prices`: what a decision's resources and data make of an epoch's cost;
    without it the cost table says it all. `notes` are kept with the verdict; `caveats`, what cannot be promised, too,
    and `astray`, versions far from their ratio; both are said before the first epoch.
    `judged_by`: the user's own function that gives a set's figures, with file and line, where there is one.
    """

    problem: Problem
    costs: CostTable
    law: LossLaw
    estimator: Callable[[Problem], Estimator]
    planner: Planner
    runner: Runner
    settings: Settings = field(default_factory=Settings)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    prices: Prices | None = None
    clock: RunClock = field(default_factory=EmulatedClock)
    notes: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    astray: tuple[str, ...] = ()
    judged_by: str = ""


NoticeKind = Literal["failure", "infeasible", "feasible", "estimator", "handover", "roll-back", "note"]


@dataclass(frozen=True)
class Notice:
    """Something that happened beside the epochs themselves, in words; `epoch` is the one it happened in or before."""

    run: str
    epoch: int
    kind: NoticeKind
    words: str


@dataclass(frozen=True)
class HandoverMade:
    """A handover that is safe: the network is `after`'s from now on, `epoch` will train it there.

    `loss_before` and `loss_after` are of forward passes on the target's set; seconds and joules on the run's clock.
    """

    run: str
    epoch: int
    before: Pair
    after: Pair
    kind: str
    loss_before: float
    loss_after: float
    elapsed_s: float
    energy_j: float
    reached_ratio: float | None = None


@dataclass(frozen=True)
class Line:
    """What a watcher is told after every epoch that is safe.

    `planned_j` is the plan's own total, `forecast_j` the forecast one: 10 % quantile, middle, 90 % quantile. `notices`
    are what happened since the line before. `guess`: the plan rests on no losses but the run's own. `loss` and its
    bound are in the target's `metric`.
    """

    run: str
    epoch: int
    pair: Pair
    loss: float
    guaranteed: float
    level: float
    energy_j: float
    planned_j: float
    elapsed_s: float
    deadline_s: float
    next_handover: tuple[Pair, int] | None
    plan: Plan | None
    units: tuple[str, str] = ("s", "J")
    forecast_j: tuple[float, float, float] = (math.inf, math.inf, math.inf)
    clock: str = "emulated"
    notices: tuple[Notice, ...] = ()
    guess: bool = False
    accuracy: float | None = None
    train_loss: float | None = None
    metric: str = "loss"

    @property
    def broken(self) -> bool:
        """The loss is above what was promised of it at `level`."""
        return self.loss > self.guaranteed + TOLERANCE


@dataclass(frozen=True)
class Ended(RunResult):
    """How a run ended, with what it lost on the way; `exit_status` is the command line's.

    `test_figure`: on the test set, in the target's metric where that is not the loss.
    """

    wasted_j: float = 0.0
    infeasible: bool = False
    prediction_sets: Mapping[str, Any] | None = None
    test_figure: float | None = None

    @property
    def exit_status(self) -> int:
        """0 met, 4 given up as infeasible, 5 missed, 6 stopped, 1 failed (the error itself says more)."""
        if self.verdict == "missed":
            return InfeasibleError.exit_status if self.infeasible else TargetMissed.exit_status
        return {"met": 0, "stopped": StoppedByUser.exit_status}.get(self.verdict, 1)


Told = Callable[[Line], None]
"""Hears every epoch that is safe. If it also has a method `happened`, that hears every `Notice` at once; one called
`handed_over` hears every `HandoverMade`, one called `concluded` how the run `Ended`."""
StopAsked = Callable[[], bool]
