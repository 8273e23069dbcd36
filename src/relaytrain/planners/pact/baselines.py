"""The strategies PACT is compared with: `OneSwitch`, `StaticLearn`, and each version alone.

Paper: section VI-B. All are given the best decisions of their kind under the same law, costs and deadline.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.cost import CostTable
from ...core.law import LossLaw
from ...core.plan import Plan
from ...core.problem import Problem
from ...core.state import State
from ..search.kernels import grown, jit, next_loss
from ..search.solve import SearchInstance, Solution, Start, path_of
from .compose import compose
from .level_tables import Tables
from .rules import ActionChoice

Actions = NDArray[np.int64]
MOST_NODES = 3_000_000
CUT = f"the search ended after {MOST_NODES:,} steps: there may be a better plan of this kind"
MOST_CHAINS = 64


@jit
def _chain(
    form: Any,
    seconds: Any,
    joules: Any,
    start: tuple[int, int, float, float],
    chain: Any,
    goal: float,
    deadline: float,
    epochs: int,
    margin: float,
    most: int,
) -> Any:
    """The cheapest numbers of epochs on each pair of `chain`, in order, that end at the goal in time.

    With a finite `margin` every pair must be used and the gains of their epochs (jumps left out) may differ by at most
    `margin` times the whole fall of the loss. With an infinite one, pairs may be left out at the end. After `most`
    steps the search is cut: the last of what comes back says whether it was not.
    """
    start_epoch, start_pair, start_loss, start_time = start
    length = chain.shape[0]
    room = 1024
    epochs_of = np.zeros((room, length), np.int64)
    level_of = np.empty(room, np.int64)
    values = np.empty((room, 6))  # loss, time, energy, gain of this leg, least and most gain of the legs before
    best_energy = np.inf
    best = np.zeros(length, np.int64)
    count, visited = 0, 0
    level_of[0] = 0
    values[0, 0], values[0, 1], values[0, 2], values[0, 3], values[0, 4], values[0, 5] = (
        start_loss,
        start_time,
        0.0,
        0.0,
        np.inf,
        -np.inf,
    )
    count = 1
    while count > 0 and visited < most:
        count -= 1
        visited += 1
        level = level_of[count]
        loss, time, energy, gain = values[count, 0], values[count, 1], values[count, 2], values[count, 3]
        least, greatest = values[count, 4], values[count, 5]
        counts = epochs_of[count].copy()
        done = start_epoch + counts.sum()
        if loss <= goal:
            fall = start_loss - loss
            spread = max(greatest, gain) - min(least, gain)
            if (not np.isfinite(margin) or (level == length - 1 and spread <= margin * fall)) and energy < best_energy:
                best_energy, best = energy, counts
            continue
        if done >= epochs:
            continue
        before = start_pair if done == start_epoch else chain[level]
        for ahead in range(2):  # another epoch here, or the first one on the next pair
            target = level + ahead
            if target >= length or (ahead == 1 and np.isfinite(margin) and counts[level] == 0):
                continue
            if ahead == 1 and np.isfinite(margin) and gain < greatest - margin * start_loss:
                continue
            now = chain[target]
            late, spent = time + seconds[before, now], energy + joules[before, now]
            if not (late <= deadline and spent < best_energy):
                continue
            landed = next_loss(form, done + 1, loss, before, now)
            if not np.isfinite(landed):
                continue
            mid = loss
            if before != now and form.kind != 2:
                mid = loss + form.c0[min(done + 1, form.c0.shape[0]) - 1, before, now] + form.c1[before, now] * loss
            won = mid - landed
            if ahead == 0 and won <= 1e-15 and counts[level] > 0 and form.run.shape[0] == 1 and form.mult.shape[0] == 1:
                continue  # an autonomous law that has stopped gaining never gains again
            here = won if ahead == 1 else gain + won
            low, high = (min(least, gain), max(greatest, gain)) if ahead == 1 else (least, greatest)
            if np.isfinite(margin) and here > low + margin * start_loss:
                continue
            if count == level_of.shape[0]:
                level_of, values, epochs_of = grown(level_of), grown(values), grown(epochs_of)
            level_of[count] = target
            values[count, 0], values[count, 1], values[count, 2] = landed, late, spent
            values[count, 3], values[count, 4], values[count, 5] = here, low, high
            epochs_of[count] = counts
            epochs_of[count, target] += 1
            count += 1
    return best_energy, best, count == 0


def _best_chain(
    tables: Tables, state: State, chains: Sequence[tuple[int, ...]], margin: float
) -> tuple[Actions | None, bool]:
    """The cheapest path along any of `chains`, and whether no search for it was cut."""
    instance, start = tables.at("expected"), tables.start(state)
    epochs = instance.cap(start)
    best: tuple[float, Actions | None] = (math.inf, None)
    whole = True
    for chain in chains:
        energy, counts, ended = _chain(
            instance.form,
            instance.seconds,
            instance.joules,
            (start.epoch, start.pair, start.loss, start.elapsed_s),
            np.array(chain, np.int64),
            instance.goal,
            instance.deadline,
            epochs,
            margin,
            MOST_NODES,
        )
        whole &= bool(ended)
        if energy < best[0]:
            best = (energy, np.repeat(np.array(chain, np.int64), counts))
    return best[1], whole


def planned_path(
    tables: Tables, state: State, actions: Actions | None, name: str, notes: tuple[str, ...] = (), *, whole: bool = True
) -> Plan:
    """The plan of a fixed path; its rung is the share of sampled curves that reach the target by it.

    It says so where the search for the path was cut (`whole` is false).
    """
    instance: SearchInstance = tables.at("expected")
    start: Start = tables.start(state)
    if start.loss <= instance.goal:
        actions, whole = np.zeros(0, np.int64), True
    notes = notes if whole else (*notes, CUT)
    if actions is None:
        none = Solution(False, (), (), 0.0, start.elapsed_s, math.inf, whole)
        return compose(tables, state, ActionChoice(none, 0.0), name, explained=False, warnings=notes)
    losses, energy, elapsed = path_of(instance, start, actions) if len(actions) else (np.zeros(0), 0.0, start.elapsed_s)
    solution = Solution(True, tuple(map(int, actions)), tuple(map(float, losses)), energy, elapsed, energy, whole)
    plan = compose(tables, state, ActionChoice(solution, 1.0), name, explained=False, warnings=notes)
    return replace(plan, rung=plan.probability, bound_j=math.inf, gap=0.0)


@dataclass(frozen=True)
class OneSwitch:
    """At most one change of pair, the first being the present one; all pairs and changing epochs are tried."""

    name: str = "one-switch"

    def plan(self, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> Plan:
        """The cheapest such plan from `state`."""
        tables = Tables(problem, costs, law)
        others = [(state.pair, now) for now in range(len(problem.pairs)) if now != state.pair]
        actions, whole = _best_chain(tables, state, [(state.pair,), *others], math.inf)
        return planned_path(tables, state, actions, self.name, whole=whole)


@dataclass(frozen=True)
class StaticLearn:
    """Every version from the present one on wins a similar share of the loss (within `margin` of the whole fall).

    Deviations: the paper leaves open what the 5 % refer to; here it is max - min of the run gains, jumps left out,
    against l(0) - l(K), widened by half as long as whole epochs allow no such plan (the plan then says so).
    """

    margin: float = 0.05
    name: str = "static-learn"

    def plan(self, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> Plan:
        """The cheapest such plan from `state`."""
        tables = Tables(problem, costs, law)
        names = list(dict.fromkeys(pair.version for pair in problem.pairs))
        present = problem.pairs[state.pair].version
        later = names[names.index(present) + 1 :]
        options = [[i for i, pair in enumerate(problem.pairs) if pair.version == name] for name in later]
        chains = [(state.pair, *rest) for rest in itertools.islice(itertools.product(*options), MOST_CHAINS)]
        untried = math.prod(map(len, options)) - len(chains)
        margin = self.margin
        actions, all_whole = None, True
        while margin < 1.0:
            actions, whole = _best_chain(tables, state, chains, margin)
            all_whole &= whole
            if actions is not None:
                break
            margin *= 1.5
        notes = []
        if margin != self.margin and actions is not None:
            notes.append(f"gains differ by up to {margin:.1%}: no plan keeps {self.margin:.0%}")
        if untried:
            notes.append(f"{len(chains)} of {len(chains) + untried} orders of node sets were tried")
        return planned_path(tables, state, actions, self.name, tuple(notes), whole=all_whole)


@dataclass(frozen=True)
class Single:
    """One version alone (or, without `version`, the cheapest such plan)."""

    version: str | None = None

    @property
    def name(self) -> str:
        """`single` or `single/L`."""
        return "single" if self.version is None else f"single/{self.version}"

    def plan(self, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> Plan:
        """The cheapest such plan from `state`."""
        tables = Tables(problem, costs, law)
        chains = [(i,) for i, pair in enumerate(problem.pairs) if self.version in (None, pair.version)]
        actions, whole = _best_chain(tables, state, chains, math.inf)
        return planned_path(tables, state, actions, self.name, whole=whole)
