"""Schedules: legs of so many epochs each, the last one training on, followed through worlds and put in order.

`schedules_from` lists all that may follow the present pair, `Walker` follows them through worlds as one compiled walk
(`search.world_walk`), `ranked` orders them, `trails_of` tells epoch by epoch how one of them fares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...core.cost import CostTable
from ...core.problem import Problem
from ...core.state import TOLERANCE, State
from ...core.worlds import Worlds
from ..search.allowance import check, current
from ..search.instance import MOST_EPOCHS
from ..search.world_walk import followed, trailed

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
MOST_PATH, SHORTEST = 512, 2
"""Epochs of a path that is shown."""
PUT_OFF = 8
"""Times that what is left until the deadline is doubled to see who would be the first to arrive."""
Legs = tuple[tuple[int, int], ...]
"""Pair and epochs, the last ones training on."""


@dataclass(frozen=True)
class Schedules:
    """S schedules of up to three legs: pairs (-1: none) and epochs, (S, 3) each."""

    pairs: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.pairs)

    def legs(self, index: int) -> Legs:
        """One schedule's legs."""
        row = zip(self.pairs[index], self.counts[index], strict=True)
        return tuple((int(pair), int(count)) for pair, count in row if pair >= 0)

    def only(self, chosen: NDArray[np.int64]) -> Schedules:
        """Some of them."""
        return Schedules(self.pairs[chosen], self.counts[chosen])


@dataclass(frozen=True)
class BestSchedule:
    """The chosen schedule: its legs, expected joules to go and chance to arrive in time; the best by first pair.

    `runners_up`: the best schedules, the chosen one first, with the chance that each does not arrive in time.
    """

    legs: Legs
    energy_j: float
    probability: float
    by_first: dict[int, tuple[float, float]]
    runners_up: Schedules
    missed: NDArray[np.float64]


def packed(rows: list[Legs]) -> Schedules:
    """Lists of legs as arrays."""
    pairs, counts = np.full((len(rows), 3), -1, np.int64), np.zeros((len(rows), 3), np.int64)
    for i, row in enumerate(rows):
        legs = [leg for leg in row if leg[1]]
        for j, (pair, count) in enumerate(legs):
            pairs[i, j], counts[i, j] = pair, count
    return Schedules(pairs, counts)


class Walker:
    """Schedules followed through worlds from one state."""

    def __init__(self, problem: Problem, costs: CostTable, worlds: Worlds, state: State) -> None:
        self.problem, self.costs, self.worlds, self.state = problem, costs, worlds, state
        self.seconds, self.joules = np.ascontiguousarray(costs.epoch_s), np.ascontiguousarray(costs.epoch_j)
        self.open = np.isfinite(self.seconds) & np.isfinite(self.joules)
        self.per_pair = np.zeros((len(problem.pairs), 4))
        if (first := costs.first) is not None:
            self.open = self.open & np.isfinite(first.seconds + first.joules)[None, :]
            self.per_pair[:, :3] = np.column_stack((first.seconds, first.joules, first.group))
        self.per_pair[:, 3] = 1.0 if worlds.worth is None else worlds.worth
        self.asked, self.coverage = problem.target.probability, worlds.coverage
        last = problem.max_epochs if problem.max_epochs is not None else state.epoch + MOST_EPOCHS
        target = problem.target
        self.goal = np.array([math.log(max(target.loss, 1e-9)), target.deadline_s + TOLERANCE, float(last)])
        experience = float(state.epoch) if worlds.experience is None else worlds.experience
        self.start = np.array(
            [state.pair, state.epoch, worlds.leg_epochs, state.elapsed_s, experience, *worlds.present], dtype=np.float64
        )

    @property
    def enough(self) -> float:
        """How sure a schedule has to be: as was asked, unless the number of seeds alone rules that out.

        Then as was asked in the worlds, for no schedule changes how many seeds there were.
        """
        return self.asked if self.coverage >= self.asked else self.asked * self.coverage

    @property
    def terms(self) -> tuple[NDArray[np.float64], ...]:
        """What epochs cost and what is wanted, as `world_walk` takes them; the deadline may have been put off."""
        return self.seconds, self.joules, self.per_pair, self.goal

    def follow(
        self, schedules: Schedules, count: int, chosen: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Expected joules and the chance not to arrive over the first `count` worlds; NaN where not `chosen`."""
        return Followed(self, schedules).through(count, chosen)

    def put_off(self, schedules: Schedules) -> NDArray[np.int64]:
        """Move the deadline to where the target comes within reach, if it does; the schedules that can begin at all."""
        epoch_s = self.seconds[self.state.pair] + self.per_pair[:, 0]
        begins = np.flatnonzero(self.state.elapsed_s + epoch_s[schedules.pairs[:, 0]] <= self.goal[1])
        for _ in range(PUT_OFF):
            later = self.state.elapsed_s + 2.0 * (self.goal[1] - self.state.elapsed_s)
            self.goal = np.array([self.goal[0], later, self.goal[2]])
            if float(np.min(self.follow(schedules, ROUNDS[0][0])[1])) <= 1.0 - 0.5 * self.coverage:
                break
        return begins if len(begins) else np.arange(len(schedules))


class Followed:
    """Schedules followed through ever more worlds, each through each of them once."""

    def __init__(self, walker: Walker, schedules: Schedules) -> None:
        self.walker, self.schedules = walker, schedules
        self.sums, self.seen = np.zeros((len(schedules), 2)), np.zeros(len(schedules), np.int64)

    def through(
        self, count: int, chosen: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Expected joules and the chance not to arrive, as a plan states it, over the first `count` worlds.

        Runs that the worlds do not speak for count as if they did not arrive. NaN of schedules not followed yet.
        """
        walker, counts = self.walker, current()
        every = np.arange(len(self.schedules)) if chosen is None else chosen
        followed(
            min(count, len(walker.worlds)),
            walker.worlds.arrays,
            walker.start,
            self.schedules.pairs,
            self.schedules.counts,
            every,
            walker.terms,
            np.empty((0, 3)),
            self.sums,
            self.seen,
            counts,
        )
        check(counts)
        with np.errstate(invalid="ignore"):
            energy, missed = self.sums.T / self.seen
        return energy, 1.0 - walker.coverage * (1.0 - missed)


def ranked(energy: NDArray[np.float64], missed: NDArray[np.float64], asked: float) -> NDArray[np.int64]:
    """Indexes, best first: those that are sure enough by energy; if there are none, those nearest to the surest."""
    sure = sure_enough(missed, asked)
    return np.lexsort((np.where(sure, energy, missed), ~sure))


def sure_enough(missed: NDArray[np.float64], asked: float) -> NDArray[np.bool_]:
    """Which of them arrive as surely as is asked; if none does, which are near to the surest."""
    enough = max(1.0 - asked, float(np.min(missed)) + NEAR) if np.min(missed) > 1.0 - asked else 1.0 - asked
    return np.asarray(missed <= enough + TOLERANCE)


def schedules_from(walker: Walker, at: int) -> Schedules:
    """All schedules of up to three legs from the pair `at`."""
    can = np.flatnonzero(walker.open.diagonal())
    after = [int(q) for q in np.flatnonzero(walker.open[at]) if q != at and q in can]
    stay = bool(walker.open[at, at])
    if len(after) > LIKELY:
        after = _likely(walker, at, after, [0, *COUNTS] if stay else [0])
    thirds = (
        tuple(int(r) for r in np.flatnonzero(walker.open[q]) if r != q and (r == at or r in after)) for q in after
    )
    return _schedules(at, stay, tuple(zip(after, thirds, strict=True)))


@lru_cache(maxsize=64)
def _schedules(at: int, stay: bool, after: tuple[tuple[int, tuple[int, ...]], ...]) -> Schedules:
    """The same, from the pairs that may follow and those that may follow each."""
    rows: list[Legs] = [((at, ON),)] if stay else []
    first = [0, *COUNTS] if stay else [0]
    for q, third in after:
        rows += [((at, m), (q, ON)) for m in first]
        rows += [((at, m), (q, n), (r, ON)) for r in third for m in first for n in COUNTS]
    return packed(rows)


def _likely(walker: Walker, at: int, after: list[int], first: list[int]) -> list[int]:
    """The pairs whose best single change is the best."""
    rows: list[Legs] = [((at, m), (q, ON)) for q in after for m in first[:: max(1, len(first) // 5)]]
    schedules = packed(rows)
    energy, missed = walker.follow(schedules, ROUNDS[0][0])
    pairs: dict[int, None] = {}
    for index in ranked(energy, missed, 0.5):
        pairs.setdefault(rows[int(index)][1][0])
    return list(pairs)[:LIKELY]


def trails_of(walker: Walker, legs: Legs, reach: int = 1) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A schedule in every world, (N, E, 3), E being `reach` at least: joules by the end of each epoch, the chance that
    the target was not met before it, the curve after it; and how many epochs were walked, (N,)."""
    worlds = walker.worlds
    trails, ends = np.zeros((len(worlds), MOST_PATH, 3)), np.zeros(len(worlds), np.int64)
    pairs, counts = (np.array(part, np.int64) for part in zip(*legs, strict=True))
    left = np.zeros(len(worlds))
    trailed(len(worlds), worlds.arrays, walker.start, pairs, counts, walker.terms, trails, left, ends)
    ends = np.minimum(ends, MOST_PATH)
    trails = trails[:, : max(int(ends.max()) + 1, reach, SHORTEST)]
    for world, end in enumerate(ends):
        trails[world, end:] = trails[world, end - 1] if end else (0.0, left[world], worlds.stands[world])
        trails[world, end:, 1] = left[world]
    return trails, ends
