"""Runs in the noise-free smart factory: fixed decisions, or PACT re-planning after every epoch.

"PACT" in the figures is the rule `robust` on the paper's grid: admissible first actions by the robust estimate, the
least expected cost among them. Without a grid it makes the optimum's decisions, because the expected estimate is the
truth here; what sets the two apart in the figures is the rounding of the loss.

Any other rule can be drawn beside it, without a grid: `sampled` decides over worlds of the law's levels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

import numpy as np

from ...api import scenario
from ...core.errors import UsageError
from ...core.law import LevelLaw, LossLaw
from ...core.plan import Plan
from ...core.planner_names import RULES, SAMPLED, Rule
from ...core.protocols import Planner
from ...core.state import TOLERANCE, Grid, State
from ...planners.pact.baselines import OneSwitch, StaticLearn
from ...planners.pact.level_tables import Tables
from ...planners.pact.planner import Optimum
from ...planners.pact.rules import choose
from ...scenario import Scenario
from ..result import Row

TARGETS = (0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45)
"""l_max on the horizontal axes."""
HARD, EASY = TARGETS[0], TARGETS[-1]
LOSS_STEP = 5e-5
TIME_STEP = 0.1
"""gamma_l and gamma_T of "PACT"; all durations of the smart factory are multiples of gamma_T."""


WORLDS = 16
"""Of a decision by `sampled`: the law's doubt lies in its levels, which are spread evenly."""


@dataclass(frozen=True)
class SwitchAt:
    """A change of version: after `epoch` epochs, at `elapsed` units of time and loss `loss`, to version `to`."""

    epoch: int
    elapsed: float
    loss: float
    to: str


@dataclass(frozen=True)
class Trace:
    """What one strategy did: version, loss, time and cost after every epoch; position 0 is the start."""

    name: str
    versions: tuple[str, ...]
    losses: tuple[float, ...]
    times: tuple[float, ...]
    costs: tuple[float, ...]
    reached: bool

    @property
    def cost(self) -> float:
        """Energy in the paper's units; infinite when the target was not reached."""
        return self.costs[-1] if self.reached else float("inf")

    @property
    def elapsed(self) -> float:
        """Time to the target in the paper's units; infinite when it was not reached."""
        return self.times[-1] if self.reached else float("inf")

    def epochs(self, version: str) -> int:
        """Epochs trained with `version`."""
        return self.versions[1:].count(version)

    def row(self, optimum: Trace) -> Row:
        """What tables say of it: cost, the same over the optimum's, time, epochs by version."""
        epochs = {f"epochs_{version}": self.epochs(version) for version in "LMS"}
        return {"cost": self.cost, "over_optimum": self.cost / optimum.cost, "time": self.elapsed, **epochs}

    @property
    def switches(self) -> tuple[SwitchAt, ...]:
        """Where the version changes."""
        return tuple(
            SwitchAt(k, self.times[k], self.losses[k], now)
            for k, (before, now) in enumerate(pairwise(self.versions))
            if before != now
        )

    def left(self, version: str) -> SwitchAt | None:
        """The switch away from `version`, if there is one."""
        return next((s for s in self.switches if self.versions[s.epoch] == version), None)


def factory(target: float) -> Scenario:
    """The smart factory with another l_max."""
    return scenario("smart_factory", overrides=[f"target.loss={target!r}"])


def paper_grid(loss_step: float = LOSS_STEP) -> Grid:
    """The paper's grid at one gamma_l."""
    return Grid(loss_step, TIME_STEP, 1.2)


def biased_on(where: Scenario, version: str, bias: float) -> LevelLaw:
    """The estimator that sees (1 + bias) times the true progress of `version`."""
    assert isinstance(where.law, LevelLaw)
    return where.law.biased(np.array([1.0 + bias if pair.version == version else 1.0 for pair in where.problem.pairs]))


def closed_loop(
    name: str, where: Scenario, *, grid: Grid | None, law: LossLaw | None = None, rule: str = "robust"
) -> Trace:
    """PACT in the true world of `where`, re-planning after every epoch on the estimate `law`.

    Stops short when the robust graph holds no feasible path (Alg. 2 then returns nothing to choose from).
    """
    if rule not in (*RULES, SAMPLED):
        raise UsageError(f"rule: got '{rule}', expected one of {', '.join((*RULES, SAMPLED))}")
    tables = Tables(where.problem, where.costs, law or where.law, grid)

    def decisions() -> Iterable[int]:
        while True:
            now = _over_worlds(tables, world.state) if rule == SAMPLED else _by_levels(tables, world.state, rule)
            if now is None:
                return
            yield now

    world = _World(where)
    return world.run(name, decisions())


def _by_levels(tables: Tables, state: State, rule: str) -> int | None:
    choice = choose(tables, tables.start(state), cast(Rule, rule))
    return choice.solution.actions[0] if choice.rung > 0.0 and choice.solution.actions else None


def _over_worlds(tables: Tables, state: State) -> int | None:
    """The first step of the schedule that is best over worlds of the law's levels."""
    from ...planners.pact.sampled import best_schedule, worlds_of

    assert isinstance(tables.law, LevelLaw)
    best = best_schedule(tables.problem, tables.costs, worlds_of(tables.law, state, WORLDS), state)
    return None if best is None else best.legs[0][0]


def follow(name: str, where: Scenario, plan: Plan) -> Trace:
    """A plan's decisions in the true world."""
    return _World(where).run(name, [where.problem.index(decision.pair) for decision in plan.decisions])


class _World:
    """The smart factory as it truly is: costs and expected law of the scenario, no noise."""

    def __init__(self, where: Scenario) -> None:
        self.where = where
        self.state = where.problem.first_state

    def run(self, name: str, decisions: Iterable[int]) -> Trace:
        """Take decisions until the target is reached, the deadline has passed, or there are none left."""
        problem, costs, law = self.where.problem, self.where.costs, self.where.law
        passed = [self.state]
        joules, seconds = costs.epoch_j, costs.epoch_s
        for now in decisions:
            old = self.state
            loss = law.next_loss(old.epoch + 1, np.array([old.loss]), old.pair, now)[0]
            energy, elapsed = old.energy_j + joules[old.pair, now], old.elapsed_s + seconds[old.pair, now]
            self.state = State(old.epoch + 1, float(loss), float(elapsed), now, float(energy))
            passed.append(self.state)
            if loss <= problem.target.loss + TOLERANCE or elapsed > problem.target.deadline_s + TOLERANCE:
                break
        reached = self.state.loss <= problem.target.loss + TOLERANCE
        return Trace(
            name,
            tuple(problem.pairs[state.pair].version for state in passed),
            tuple(state.loss for state in passed),
            tuple(state.elapsed_s for state in passed),
            tuple(state.energy_j for state in passed),
            reached and self.state.elapsed_s <= problem.target.deadline_s + TOLERANCE,
        )


def strategies(target: float, rule: str | None = None) -> dict[str, Trace]:
    """The four strategies of figure 6 at one l_max, and `rule` last. The benchmarks know the true curves, as in the
    paper."""
    where = factory(target)
    traces = {"Optimum": benchmark("Optimum", where), "PACT": closed_loop("PACT", where, grid=paper_grid())}
    traces |= {name: benchmark(name, where) for name in ("OneSwitch", "StaticLearn")}
    return traces | ({rule: closed_loop(rule, where, grid=None, rule=rule)} if rule else {})


def benchmark(name: str, where: Scenario) -> Trace:
    """Optimum, OneSwitch or StaticLearn at their best."""
    planners: dict[str, Planner] = {
        "Optimum": Optimum(explained=False),
        "OneSwitch": OneSwitch(),
        "StaticLearn": StaticLearn(),
    }
    plan = planners[name].plan(where.problem, where.costs, where.law, where.problem.first_state)
    return replace(follow(name, where, plan), reached=plan.feasible)
