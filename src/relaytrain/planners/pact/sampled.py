"""The rule `sampled`: of all schedules, the one with the least expected energy over worlds, in time in enough of them.

Open-loop feedback: every remaining schedule "m epochs more here, n there, then the last pair until the target" is
followed through all worlds (`search.world_walk`), the best one's first step is taken, and all is done again after the
epoch, with worlds that have learned from it. What is averaged is energy until the target is first observed to be met,
luck included, so a schedule is not trusted for one expected curve. To solve every world apart and average the answers
would not do: it takes for granted that doubt will be gone tomorrow, and waits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.cost import CostTable
from ...core.law import LossLaw
from ...core.plan import Plan, build_legs
from ...core.problem import Problem
from ...core.state import TOLERANCE, State
from ...core.worlds import Worlds
from ..search.world_walk import followed, walk
from .value import standing

COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 50)
"""Epochs that a leg other than the last may have; the first one also none."""
ON = 1_000_000
"""Epochs of a leg that trains on."""
ROUNDS = ((32, 96), (96, 32))
"""Worlds for every schedule, and how many schedules go on to the next round; the last round has all worlds."""
LIKELY = 5
"""Pairs beside the present one that legs are made of, if there are more: those with the best single change."""
NEAR = 0.02
"""Where no schedule is sure enough, those this near to the surest are compared by energy."""
MOST_EPOCHS = 20_000


@dataclass(frozen=True)
class Schedules:
    """S schedules of up to three legs: pairs (-1: none) and epochs, (S, 3) each."""

    pairs: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True)
class Best:
    """The chosen schedule: its legs, expected joules to go and chance to arrive in time; the same by first pair."""

    legs: tuple[tuple[int, int], ...]
    energy_j: float
    probability: float
    by_first: dict[int, tuple[float, float]]


WORLDS = 256
"""Worlds of a plan: with a sixteenth of them the draw decides more than the schedules."""


@dataclass(frozen=True)
class Sampled:
    """PACT's product, decided over worlds: `plan` takes those that the estimator drew, else some of the law's levels."""

    worlds: int = WORLDS
    explained: bool = True
    name: str = "pact/sampled"

    def plan(
        self, problem: Problem, costs: CostTable, law: LossLaw, state: State, worlds: Worlds | None = None
    ) -> Plan:
        """The plan from `state`."""
        worlds = worlds_of(law, problem, state, self.worlds) if worlds is None else worlds
        best = None if state.loss <= problem.target.loss + TOLERANCE else best_schedule(problem, costs, worlds, state)
        return compose_sampled(problem, costs, worlds, state, best, self.name)


class Walker:
    """Schedules followed through worlds from one state."""

    def __init__(self, problem: Problem, costs: CostTable, worlds: Worlds, state: State) -> None:
        self.worlds, self.state = worlds, state
        self.seconds, self.joules = np.ascontiguousarray(costs.epoch_s), np.ascontiguousarray(costs.epoch_j)
        self.open = np.isfinite(self.seconds) & np.isfinite(self.joules)
        last = problem.max_epochs if problem.max_epochs is not None else state.epoch + MOST_EPOCHS
        target = problem.target
        self.goal = np.array([math.log(max(target.loss, 1e-9)), target.deadline_s + TOLERANCE, float(last)])
        self.start = np.array([state.pair, state.epoch, worlds.leg_epochs, state.elapsed_s], dtype=np.float64)

    def follow(
        self, schedules: Schedules, count: int, chosen: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Expected joules and the chance not to arrive over the first `count` worlds; NaN where not `chosen`."""
        worlds = self.worlds
        energy, missed = np.full(len(schedules), np.nan), np.full(len(schedules), np.nan)
        every = np.arange(len(schedules)) if chosen is None else chosen
        followed(
            min(count, len(worlds)), worlds.curves, worlds.mult, worlds.jump0, worlds.jump1, worlds.stands,
            worlds.scatter, worlds.luck, self.start, schedules.pairs, schedules.counts, every, self.seconds,
            self.joules, self.goal, np.empty((0, 3)), energy, missed,
        )  # fmt: skip
        return energy, missed


def best_schedule(problem: Problem, costs: CostTable, worlds: Worlds, state: State) -> Best | None:
    """What `sampled` takes from `state`; None when no pair can be run."""
    walker = Walker(problem, costs, worlds, state)
    schedules = schedules_from(walker, state.pair)
    if not len(schedules):
        return None
    asked = problem.target.probability
    left = np.arange(len(schedules))
    for count, most in ROUNDS:
        if len(left) > most:
            energy, missed = walker.follow(schedules, count, left)
            left = left[ranked(energy[left], missed[left], asked)[:most]]
    energy, missed = walker.follow(schedules, len(worlds), left)
    order = left[ranked(energy[left], missed[left], asked)]
    best = int(order[0])
    by_first: dict[int, tuple[float, float]] = {}
    for index in order:
        first = _first(schedules, int(index))
        by_first.setdefault(first, (float(energy[index]), 1.0 - float(missed[index])))
    return Best(_legs(schedules, best), float(energy[best]), 1.0 - float(missed[best]), by_first)


def ranked(energy: NDArray[np.float64], missed: NDArray[np.float64], asked: float) -> NDArray[np.int64]:
    """Indexes, best first: those that are sure enough by energy; if there are none, those nearest to the surest."""
    enough = max(1.0 - asked, float(np.min(missed)) + NEAR) if np.min(missed) > 1.0 - asked else 1.0 - asked
    sure = missed <= enough + TOLERANCE
    return np.lexsort((np.where(sure, energy, missed), ~sure))


def schedules_from(walker: Walker, at: int) -> Schedules:
    """All schedules of up to three legs from the pair `at`."""
    can = np.flatnonzero(walker.open.diagonal())
    after = [int(q) for q in np.flatnonzero(walker.open[at]) if q != at and q in can]
    stay = [0] if walker.open[at, at] else []
    rows: list[tuple[tuple[int, int], ...]] = [((at, ON),)] if stay else []
    first = [0, *COUNTS] if stay else [0]
    if len(after) > LIKELY:
        after = _likely(walker, at, after, first)
    for q in after:
        rows += [((at, m), (q, ON)) for m in first]
        third = [int(r) for r in np.flatnonzero(walker.open[q]) if r != q and (r == at or r in after)]
        rows += [((at, m), (q, n), (r, ON)) for r in third for m in first for n in COUNTS]
    return _packed(rows)


def _likely(walker: Walker, at: int, after: list[int], first: list[int]) -> list[int]:
    """The pairs whose best single change is the best."""
    rows = [((at, m), (q, ON)) for q in after for m in first[:: max(1, len(first) // 5)]]
    schedules = _packed(rows)
    energy, missed = walker.follow(schedules, ROUNDS[0][0])
    pairs: dict[int, None] = {}
    for index in ranked(energy, missed, 0.5):
        pairs.setdefault(rows[int(index)][1][0])
    return list(pairs)[:LIKELY]


def _packed(rows: list[tuple[tuple[int, int], ...]]) -> Schedules:
    pairs, counts = np.full((len(rows), 3), -1, np.int64), np.zeros((len(rows), 3), np.int64)
    for i, row in enumerate(rows):
        legs = [leg for leg in row if leg[1]]
        for j, (pair, count) in enumerate(legs):
            pairs[i, j], counts[i, j] = pair, count
    return Schedules(pairs, counts)


def _first(schedules: Schedules, index: int) -> int:
    return int(schedules.pairs[index, 0])


def _legs(schedules: Schedules, index: int) -> tuple[tuple[int, int], ...]:
    row = zip(schedules.pairs[index], schedules.counts[index], strict=True)
    return tuple((int(pair), int(count)) for pair, count in row if pair >= 0)


MOST_PATH = 512
"""Epochs of a path that is shown."""


def compose_sampled(
    problem: Problem, costs: CostTable, worlds: Worlds, state: State, best: Best | None, planner: str
) -> Plan:
    """The plan that states what the chosen schedule comes to over the worlds."""
    legs = () if best is None else best.legs
    trails, ends = _trails(Walker(problem, costs, worlds, state), legs)
    left = trails[:, :, 1].mean(axis=0) if len(legs) else np.empty(0)
    epochs = 0
    if best is not None:
        half = np.flatnonzero(left <= 0.5)
        epochs = int(half[0]) if len(half) else int(ends.max(initial=1))
        epochs = min(max(epochs, 1), MOST_PATH)
    actions = [pair for pair, count in legs for _ in range(min(count, MOST_PATH))][:epochs]
    before = [state.pair, *actions][: len(actions)]
    seconds, joules = costs.epoch_s[before, actions], costs.epoch_j[before, actions]
    curves = np.log(np.maximum(trails[:, :epochs, 2], 1e-9))
    losses = np.exp(np.median(curves, axis=0)) if epochs else np.empty(0)
    probability = 1.0 if best is None and state.loss <= problem.target.loss + TOLERANCE else 0.0
    if best is not None:
        probability = best.probability
    asked = problem.target.probability
    feasible = probability > 0.5
    table = {
        "seconds": seconds.tolist(),
        "joules": joules.tolist(),
        "loss": losses.tolist(),
        "change_s": costs.change_s[before, actions].tolist(),
        "change_j": costs.change_j[before, actions].tolist(),
        "jump": [0.0] * len(actions),
    }
    decisions, shown, handovers = build_legs(problem, state.pair, state.epoch + 1, actions, table)
    spread = worlds.scatter.max()
    high = np.exp(np.quantile(curves, min(max(asked, 0.5), 0.999), axis=0)) * (1.0 + spread) if epochs else losses
    return Plan(
        **standing(problem, state),
        planner=planner,
        feasible=feasible,
        decisions=decisions,
        legs=shown,
        handovers=handovers,
        losses=tuple(losses.tolist()),
        guaranteed=tuple(np.maximum(high, losses).tolist()),
        energies_j=tuple((state.energy_j + np.cumsum(joules)).tolist()),
        times_s=tuple((state.elapsed_s + np.cumsum(seconds)).tolist()),
        energy_j=0.0 if best is None else best.energy_j,
        elapsed_s=state.elapsed_s + float(seconds.sum()),
        rung=probability if feasible else 0.0,
        probability=probability,
        bound_j=math.inf,
        gap=0.0,
    )


def _trails(walker: Walker, legs: tuple[tuple[int, int], ...]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Of every world (N, E, 3) joules, chance not met before, curve; and its number of epochs (N,)."""
    worlds = walker.worlds
    trails, ends = np.zeros((len(worlds), MOST_PATH, 3)), np.zeros(len(worlds), np.int64)
    if not legs:
        return trails, ends
    pairs, counts = (np.array(part, np.int64) for part in zip(*legs, strict=True))
    for world in range(len(worlds)):
        _, left, walked = walk(
            world, worlds.curves, worlds.mult, worlds.jump0, worlds.jump1, worlds.stands, worlds.scatter, worlds.luck,
            walker.start, pairs, counts, walker.seconds, walker.joules, walker.goal, trails[world],
        )  # fmt: skip
        ends[world] = min(walked, MOST_PATH)
        trails[world, ends[world] :, 1] = left
        trails[world, ends[world] :, 2] = trails[world, ends[world] - 1, 2] if ends[world] else worlds.stands[world]
    return trails, ends


def worlds_of(law: LossLaw, problem: Problem, state: State, count: int) -> Worlds:
    """Worlds of a law alone."""
    raise NotImplementedError
