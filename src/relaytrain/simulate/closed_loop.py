"""One rule in one world: decide, live through the epoch, decide again.

    state -> rule's choice under the believed law -> the world's epoch -> state ...

until the target is met or the deadline has passed. `true` plans on the true curves, without knowing the noise;
`sampled` decides over worlds of the believed law; the baselines plan once and follow their plan, the last pair training
on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from ..core.errors import UsageError
from ..core.law import LevelLaw
from ..core.planner_names import PLAN_ONCE, RULES, SAMPLED, Rule
from ..core.state import State
from ..planners.pact.level_tables import Tables
from ..planners.pact.rules import choose
from ..planners.registry import planner_named
from .world import World

TRUE = "true"
CLOSED_RULES: tuple[str, ...] = (TRUE, *RULES, SAMPLED)
KNOWN_RULES: tuple[str, ...] = (*CLOSED_RULES, *PLAN_ONCE)

WORLDS = 64
"""Of a decision by `sampled`: a believed law has its doubt in levels, spread evenly, so fewer are enough; where it has
none, one is."""
Decide = Callable[[State], int | None]


@dataclass(frozen=True)
class Outcome:
    """How one rule fared in one world; `decision_ms` is processor time of all its decisions together."""

    rule: str
    met: bool
    energy_j: float
    elapsed_s: float
    loss: float
    actions: tuple[int, ...]
    switches: int
    decision_ms: float = 0.0


def run_rule(world: World, rule: str) -> Outcome:
    """The closed loop of `rule` in `world`."""
    return drive(world, rule, decider(world, rule))


def decider(world: World, rule: str) -> Decide:
    """What `rule` does at a state: the next pair, or None when nothing is left to do."""
    if rule in PLAN_ONCE:
        plan = planner_named(rule).plan(world.problem, world.costs, world.believed, world.problem.first_state)
        path = [world.problem.index(decision.pair) for decision in plan.decisions]
        return lambda state: path[min(state.epoch, len(path) - 1)] if path else None
    if rule not in CLOSED_RULES:
        raise UsageError(f"rule: got '{rule}', expected one of: {', '.join(KNOWN_RULES)}")
    if rule == SAMPLED and isinstance(world.believed, LevelLaw):
        return _over_worlds(world, world.believed)
    tables = Tables(world.problem, world.costs, world.law if rule == TRUE else world.believed)
    # With the true curves there is no doubt to be robust against.
    named = cast(Rule, {TRUE: "expected", SAMPLED: "adaptive"}.get(rule, rule))

    def decide(state: State) -> int | None:
        actions = choose(tables, tables.start(state), named).solution.actions
        return actions[0] if actions else None

    return decide


def _over_worlds(world: World, believed: LevelLaw) -> Decide:
    """The rule `sampled`: the first step of the schedule that is best over worlds of the believed law."""
    from ..planners.pact.sampled import best_schedule, worlds_of  # compiled code that the other rules do without

    doubts = believed.mult_robust, believed.jump0_robust, believed.jump1_robust, believed.curves_robust
    count = WORLDS if any(figures is not None for figures in doubts) else 1

    def decide(state: State) -> int | None:
        best = best_schedule(world.problem, world.costs, worlds_of(believed, state, count), state)
        return None if best is None else best.legs[0][0]

    return decide


def drive(world: World, rule: str, decide: Decide) -> Outcome:
    """Lets `decide` act in `world` until the target is met, the deadline has passed or nothing is left to do."""
    state = world.problem.first_state
    actions: list[int] = []
    switches, spent_ns = 0, 0
    while not world.met(state) and not world.late(state):
        before_ns = time.thread_time_ns()
        now = decide(state)
        spent_ns += time.thread_time_ns() - before_ns
        if now is None:
            break
        switches += now != state.pair
        actions.append(now)
        state = world.step(state, now)
    met = world.met(state)
    return Outcome(rule, met, state.energy_j, state.elapsed_s, state.loss, tuple(actions), switches, spent_ns / 1e6)
