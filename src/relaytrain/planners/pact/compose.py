"""From a path to a plan: legs, bands, probability, alternatives, nearest targets, warnings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.law import Level, at_levels, evaluate
from ...core.plan import Alternative, Plan, gap_to, path_fields
from ...core.state import TOLERANCE, State
from ..search.instance import MOST_EPOCHS, contiguous
from ..search.kernels import jit, next_loss, roll
from ..search.solve import Solution, first_steps, sketch, solve
from .chance import SEED, chance_in_time, chance_of_levels, scattered
from .lateness import margin
from .level_tables import Tables
from .nearest import attainable, nearest_targets
from .rules import ActionChoice
from .value import plan_head

SAMPLES = 2000
EXPLAINED = 6
"""First actions other than the chosen one whose best plans are worked out."""
ALTERNATIVE_EFFORT = 0.25
"""They only explain: with epoch tables too large to be searched to the end, a quarter of the search will do."""

MANY_PAIRS = 64
"""From so many on, other first actions are not searched for: what tables at hand and short relays give has to do."""
AT_MOST = "at most: with so many pairs not searched to the end"


@jit
def _reaches(
    form: Any,
    loss: float,
    pair: int,
    epoch: int,
    elapsed: float,
    actions: Any,
    seconds: Any,
    goal: float,
    deadline: float,
    epochs: int,
) -> bool:
    before = pair
    done = epoch
    while loss > goal:
        if done >= epochs:
            return False
        now = actions[min(done - epoch, actions.shape[0] - 1)]
        elapsed += seconds[before, now]
        if not elapsed <= deadline:
            return False
        done += 1
        loss = next_loss(form, done, loss, before, now)
        before = now
    return elapsed <= deadline


def probability(tables: Tables, state: State, actions: NDArray[np.int64]) -> float:
    """The share of `SAMPLES` seeded curves of the law that reach the target in time, the last pair training on.

    A curve is a level: levels are path-wise, so success can only turn into failure as the level rises, and the sorted
    samples are searched instead of all being followed. Where losses scatter round the curve, or seconds round their
    mean, `chance` samples.
    """
    if len(actions) == 0:
        return 1.0 if state.loss <= tables.problem.target.loss + TOLERANCE else 0.0
    if scattered(tables):
        return chance_in_time(tables, state, actions, samples=SAMPLES)
    if tables.variance is not None and math.isfinite(tables.problem.target.deadline_s):
        return chance_of_levels(tables, state, actions, samples=SAMPLES)
    levels = np.sort(np.random.default_rng(SEED).uniform(size=SAMPLES))
    seconds = np.ascontiguousarray(tables.costs.epoch_s)
    goal, deadline = tables.problem.target.loss + TOLERANCE, tables.problem.target.deadline_s + TOLERANCE
    cap = tables.problem.max_epochs if tables.problem.max_epochs is not None else state.epoch + MOST_EPOCHS

    def success(level: float) -> bool:
        form = contiguous(tables.law.form(float(min(max(level, 1e-6), 1 - 1e-6))))
        return bool(
            _reaches(form, state.loss, state.pair, state.epoch, state.elapsed_s, actions, seconds, goal, deadline, cap)
        )

    low, high = 0, SAMPLES  # the first failing sample
    while low < high:
        middle = (low + high) // 2
        if success(levels[middle]):
            low = middle + 1
        else:
            high = middle
    return low / SAMPLES


def losses_at(tables: Tables, state: State, actions: NDArray[np.int64], *levels: Level) -> NDArray[np.float64]:
    """The un-quantised losses (levels, epochs) after each action."""
    losses = np.empty((len(levels), len(actions)))
    for row, (first, form) in zip(losses, at_levels(tables.law, levels, state.loss, state.pair), strict=True):
        roll(contiguous(form), first, state.pair, state.epoch + 1, actions, row)
    return losses


def compose(
    tables: Tables,
    state: State,
    choice: ActionChoice,
    planner: str,
    *,
    explained: bool = True,
    warnings: tuple[str, ...] = (),
) -> Plan:
    """The plan that states everything about a chosen path."""
    problem, costs, target = tables.problem, tables.costs, tables.problem.target
    solution = choice.solution
    actions = np.array(solution.actions, np.int64)
    before = np.concatenate(([state.pair], actions[:-1])).astype(np.int64)
    rung = choice.rung if solution.feasible else 0.0
    level = min(max(rung or target.probability, 1e-6), 1 - 1e-6)
    expected, guaranteed = losses_at(tables, state, actions, "expected", level)
    guaranteed = np.maximum(guaranteed, expected) if level >= 0.5 else guaranteed
    seconds, joules = costs.epoch_s[before, actions], costs.epoch_j[before, actions]
    changed = before != actions
    table = {
        "seconds": seconds,
        "joules": joules,
        "loss": expected,
        "change_s": costs.change_s[before, actions],
        "change_j": costs.change_j[before, actions],
        "jump": _jumps(tables, state, actions, before, expected, changed),
    }
    path = path_fields(problem, state, solution.actions, table)
    guaranteed_s = None
    if tables.variance is not None:
        guaranteed_s = path["elapsed_s"] + margin(level) * math.sqrt(float(costs.epoch_s2[before, actions].sum()))
    feasible = solution.feasible and choice.rung > 0.0
    bound = math.inf
    if feasible:
        bound = min(solution.bound_j, _bound_of_barred(tables, state, choice))
    first = solution.actions[0] if solution.actions else -1
    short = explained and choice.rung < target.probability - 1e-12
    return Plan(
        **plan_head(problem, state),
        planner=planner,
        feasible=feasible,
        **path,
        guaranteed=tuple(guaranteed.tolist()),
        rung=rung,
        probability=probability(tables, state, actions),
        bound_j=bound,
        gap=gap_to(bound, path["energy_j"]),
        exact=solution.exact,
        alternatives=alternatives(tables, state, first) if explained and first >= 0 else (),
        nearest=nearest_targets(tables, state, target.probability) if short else (),
        attainable=attainable(tables, state, rung) if short else None,
        warnings=warnings,
        bounded=Plan.bounded if tables.grid is None else "plan on this grid",
        guaranteed_s=guaranteed_s,
    )


def _bound_of_barred(tables: Tables, state: State, choice: ActionChoice) -> float:
    """A bound on plans whose first action the level does not admit, where it is below that of the chosen one."""
    instance, start, known = tables.at("expected"), tables.start(state), choice.solution.bound_j
    if choice.admitted is None or choice.admitted.all():
        return known
    energy = instance.weight_to_go("energy", start) if instance.by_epoch else instance.energy_to_go(start)
    least = first_steps(instance, start, energy, instance.joules, ~choice.admitted)
    cheaper = least < known  # the others need not be searched
    return solve(instance, start, cheaper).bound_j if cheaper.any() else known


def _jumps(tables: Tables, state: State, actions: Any, before: Any, expected: Any, changed: Any) -> list[float]:
    """The loss change of each handover alone: what a forward pass after the switch would show."""
    form = tables.law.form("expected")
    jumps = [0.0] * len(actions)
    for position in np.flatnonzero(changed):
        loss = state.loss if position == 0 else float(expected[position - 1])
        old, new = int(before[position]), int(actions[position])
        epoch = state.epoch + 1 + int(position)
        if form.table.size:
            at = np.array([loss])
            jumps[position] = float((evaluate(form, epoch, at, old, new) - evaluate(form, epoch, at, new, new))[0])
        else:
            jumps[position] = float(form.c0[min(epoch, len(form.c0)) - 1, old, new] + form.c1[old, new] * loss)
    return jumps


def alternatives(tables: Tables, state: State, chosen: int) -> tuple[Alternative, ...]:
    """The other first actions with the energy of their best plans, or why they are impossible."""
    start, instance = tables.start(state), tables.at("expected")
    pairs = tables.problem.pairs
    scale = 1.0 if tables.grid is None else tables.grid.time_step_s
    possible: list[Alternative] = []
    barred: list[Alternative] = []
    hopeful: list[int] = []
    earliest = tables.earliest("expected", start)
    for now in range(len(pairs)):
        if now == chosen:
            continue
        why = tables.costs.why_not(state.pair, now)
        if why is not None:
            barred.append(Alternative(str(pairs[now]), None, None, why))
        elif not math.isfinite(earliest[now]):
            barred.append(Alternative(str(pairs[now]), None, None, "the target is out of reach from there in time"))
        elif earliest[now] > instance.deadline:
            barred.append(Alternative(str(pairs[now]), None, None, "too late"))
        else:
            hopeful.append(now)
    for now in hopeful[:EXPLAINED]:
        only = np.arange(len(pairs)) == now
        many = len(pairs) >= MANY_PAIRS
        solution: Solution = (
            sketch(instance, start, only) if many else solve(instance, start, only, effort=ALTERNATIVE_EFFORT)
        )
        if solution.feasible:
            reason = "" if solution.exact or not many else AT_MOST
            possible.append(Alternative(str(pairs[now]), solution.energy_j, solution.elapsed_s * scale, reason))
    possible.sort(key=lambda a: a.energy_j or 0.0)
    return tuple(possible + barred)
