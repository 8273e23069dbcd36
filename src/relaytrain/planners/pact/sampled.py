"""The rule `sampled`: of all schedules, the one with the least expected energy over worlds, in time in enough of them.

Open-loop feedback: every remaining schedule "m epochs more here, n there, then the last pair until the target" is
followed through all worlds (`search.world_walk`), the best one's first step is taken, and all is done again after the
epoch, with worlds that have learned from it. What is averaged is energy until the target is first observed to be met,
luck included, so a schedule is not trusted for one expected curve. To solve every world apart and average the answers
would not do: it takes for granted that doubt will be gone tomorrow, and waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ...core.cost import CostTable
from ...core.explain import say_few_seeds, say_share
from ...core.law import LevelLaw, LossLaw
from ...core.plan import Alternative, Nearest, Plan, along, level_of
from ...core.problem import Problem
from ...core.state import TOLERANCE, State
from ...core.worlds import Worlds
from ..search.allowance import check, current
from ..search.world_walk import followed, trailed
from .planner import Pact
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


NO_CURVES = "the law has no curves to draw worlds from: planned by levels, as the rule adaptive does"
MOST_PATH, SHORTEST = 512, 2
"""Epochs of a path that is shown."""
LOW, HIGH = 0.1, 0.9
"""Between these quantiles lies the energy that a plan states."""
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


WORLDS = 256
"""Worlds of a plan: with a sixteenth of them the draw decides more than the schedules."""


@dataclass(frozen=True)
class Sampled:
    """PACT's product, decided over so many worlds.

    `plan` takes those that the estimator drew (`planners.over_worlds`), else some of the law's levels; a law without
    curves has none, and is planned by levels (`adaptive`). Without `way_out` no targets in reach are looked for where
    the one that was asked is not, which takes longer than the plan itself.
    """

    worlds: int = WORLDS
    explained: bool = True
    way_out: bool = True
    name: str = "pact/sampled"

    def plan(
        self, problem: Problem, costs: CostTable, law: LossLaw, state: State, worlds: Worlds | None = None
    ) -> Plan:
        """The plan from `state`."""
        if worlds is None:
            if not isinstance(law, LevelLaw):
                plan = Pact("adaptive", explained=self.explained).plan(problem, costs, law, state)
                return replace(plan, warnings=(*plan.warnings, NO_CURVES))
            worlds = worlds_of(law, state, self.worlds)
        best = None if state.loss <= problem.target.loss + TOLERANCE else best_schedule(problem, costs, worlds, state)
        return composed(Walker(problem, costs, worlds, state), problem, costs, best, self)


def worlds_of(law: LevelLaw, state: State, count: int) -> Worlds:
    """Worlds of a law alone: a world is one level, of all pairs alike, from the best to the worst in no order."""
    levels = (np.random.default_rng(count).permutation(count) + 0.5) / count
    calm = replace(law, scatter=None)
    forms = [calm.form(float(level)) for level in levels]
    with np.errstate(divide="ignore", invalid="ignore"):
        pace = np.array([np.nanmean(np.where(law.mult > 0, form.mult / law.mult, np.nan), axis=0) for form in forms])
    curves = np.array([form.curves for form in forms])
    curves[:, :, 2] /= np.maximum(np.nan_to_num(pace, nan=1.0), 1e-6)
    scatter = np.zeros(len(law.curves)) if law.scatter is None else law.scatter
    return Worlds(
        curves,
        law.mult,
        np.array([form.c0[0] for form in forms]),
        forms[0].c1,
        np.full(count, law.begin(state.loss, state.pair)),
        scatter[:, None].copy(),
        np.ones((count, len(law.curves))),
    )


class Walker:
    """Schedules followed through worlds from one state."""

    def __init__(self, problem: Problem, costs: CostTable, worlds: Worlds, state: State) -> None:
        self.worlds, self.state = worlds, state
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
            min(count, len(walker.worlds)), walker.worlds.arrays, walker.start, self.schedules.pairs,
            self.schedules.counts, every, walker.terms, np.empty((0, 3)), self.sums, self.seen, counts,
        )  # fmt: skip
        check(counts)
        with np.errstate(invalid="ignore"):
            energy, missed = self.sums.T / self.seen
        return energy, 1.0 - walker.coverage * (1.0 - missed)


PUT_OFF = 8
"""Times that what is left until the deadline is doubled to see who would be the first to arrive."""


def best_schedule(problem: Problem, costs: CostTable, worlds: Worlds, state: State) -> BestSchedule | None:
    """What `sampled` takes from `state`; None when no pair can be run."""
    walker = Walker(problem, costs, worlds, state)
    schedules = schedules_from(walker, state.pair)
    if not len(schedules):
        return None
    asked, left, goal = walker.enough, np.arange(len(schedules)), walker.goal
    rounds = Followed(walker, schedules)
    energy, missed = rounds.through(ROUNDS[0][0])
    if np.min(missed) > 1.0 - NEAR * walker.coverage:  # in time is next to none: the cheapest would do least
        asked, left, rounds = 1.0, walker.put_off(schedules), Followed(walker, schedules)
        energy, missed = rounds.through(ROUNDS[0][0])
    for count, most in ROUNDS:
        if len(left) > most:
            if count > ROUNDS[0][0]:
                energy, missed = rounds.through(count, left)
            left = left[ranked(energy[left], missed[left], asked)]
            firsts = np.unique(schedules.pairs[left, 0], return_index=True)[1]  # of every first pair the best goes on
            left = left[np.unique(np.concatenate((np.arange(most), firsts)))]
    energy, missed = rounds.through(len(worlds), left)
    order = left[ranked(energy[left], missed[left], asked)]
    if walker.goal is not goal:
        walker.goal = goal
        energy, missed = walker.follow(schedules, len(worlds), left)
    best = int(order[0])
    by_first: dict[int, tuple[float, float]] = {}
    for index in order:
        by_first.setdefault(int(schedules.pairs[index, 0]), (float(energy[index]), 1.0 - float(missed[index])))
    return BestSchedule(
        schedules.legs(best),
        float(energy[best]),
        1.0 - float(missed[best]),
        by_first,
        schedules.only(order),
        missed[order],
    )


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


def packed(rows: list[Legs]) -> Schedules:
    """Lists of legs as arrays."""
    pairs, counts = np.full((len(rows), 3), -1, np.int64), np.zeros((len(rows), 3), np.int64)
    for i, row in enumerate(rows):
        legs = [leg for leg in row if leg[1]]
        for j, (pair, count) in enumerate(legs):
            pairs[i, j], counts[i, j] = pair, count
    return Schedules(pairs, counts)


# --- what a plan states


def composed(
    walker: Walker,
    problem: Problem,
    costs: CostTable,
    best: BestSchedule | None,
    planner: Sampled,
    *,
    reach: int = 1,
) -> Plan:
    """The plan that says what the chosen schedule comes to over the worlds.

    `probability` and `energy_j` are of the schedule, its last pair training on until the target is met, luck included;
    following it with new plans after every epoch is at least as good as far as the worlds are right. The path that is
    shown ends where half of the worlds have met the target, yet has `reach` epochs; its losses are the median of the
    worlds' curves.
    """
    state, asked = walker.state, walker.asked
    if best is None:
        met = state.loss <= problem.target.loss + TOLERANCE
        nothing = {**along(problem, state, (), {}), "guaranteed": (), "rung": 1.0 if met else 0.0}
        return Plan(
            **standing(problem, state), **nothing, planner=planner.name, feasible=met,
            probability=1.0 if met else 0.0, bound_j=math.inf, gap=0.0,
        )  # fmt: skip
    trails, ends = trails_of(walker, best.legs, reach)
    arrived = np.flatnonzero(trails[:, :, 1].mean(axis=0) <= 0.5)
    epochs = min(max(int(arrived[0]) if len(arrived) else int(ends.max()), reach), MOST_PATH)
    actions = [pair for pair, count in best.legs for _ in range(min(count, MOST_PATH))][:epochs]
    before = [state.pair, *actions[:-1]]
    curves = np.log(np.maximum(trails[:, :epochs, 2], 1e-9))
    losses = np.exp(np.median(curves, axis=0))
    once = _paid_once(walker, actions)
    table = {
        "seconds": costs.epoch_s[before, actions] + once[:, 0],
        "joules": costs.epoch_j[before, actions] + once[:, 1],
        "loss": losses,
        "change_s": costs.change_s[before, actions],
        "change_j": costs.change_j[before, actions],
        "jump": _jumps(walker.worlds, before, actions, [float(np.median(walker.worlds.stands)), *losses[:-1]]),
    }
    path = along(problem, state, actions, table)
    level = level_of(asked)
    sure, feasible = best.probability >= asked - 1e-12, best.probability >= LEAST * walker.coverage
    seeds = walker.worlds.seeds
    few = None if seeds is None else say_few_seeds(seeds, asked, best.probability)
    low_j, high_j = _interval(trails, walker.worlds.coverage, _most_missed(walker, best))
    return Plan(
        **standing(problem, state),
        **{**path, "energy_j": best.energy_j},
        planner=planner.name,
        feasible=feasible,
        guaranteed=tuple(np.maximum(_bands(walker.worlds, curves, actions, level), losses).tolist()),
        rung=min(best.probability, asked) if feasible else 0.0,
        probability=best.probability,
        bound_j=math.inf,
        gap=0.0,
        exact=False,
        alternatives=_alternatives(problem, costs, state, best) if planner.explained else (),
        nearest=_nearest(walker, problem, best) if planner.explained and planner.way_out and not sure else (),
        warnings=() if few is None else (few,),
        energy_interval_j=(min(low_j, best.energy_j), max(high_j, best.energy_j)),
    )


def _paid_once(walker: Walker, actions: list[int]) -> NDArray[np.float64]:
    """Seconds and joules (E, 2) of first uses along a path, in the epochs in which they are paid."""
    paid = np.zeros((len(actions), 2))
    seen: set[float] = set()
    for epoch, pair in enumerate(actions):
        if (group := float(walker.per_pair[pair, 2])) not in seen:
            seen.add(group)
            paid[epoch] = walker.per_pair[pair, :2]
    return paid


def _jumps(worlds: Worlds, before: list[int], after: list[int], losses: list[float]) -> list[float]:
    """What each epoch's handover does to the loss in the middle of the worlds; 0 where there is none."""
    return [
        0.0 if here == now else float(np.median(worlds.jump0[:, here, now]) + worlds.jump1[here, now] * loss)
        for here, now, loss in zip(before, after, losses, strict=True)
    ]


LEAST = 0.5
"""A plan that arrives in fewer worlds is called infeasible, as with the other rules, whose ladder ends there."""


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


def _interval(trails: NDArray[np.float64], coverage: float, missed_j: float) -> tuple[float, float]:
    """Quantiles of the energy over worlds and luck; who never arrives spends `missed_j`, or all epochs if that is more.

    Runs that the worlds do not speak for are taken to spend more than all others, as they count for misses: of the
    worlds' own energies the upper end is the later quantile.
    """
    left = trails[:, :, 1]
    chance = left - np.concatenate((left[:, 1:], np.zeros((len(left), 1))), axis=1)
    spent = trails[:, :, 0].copy()
    spent[:, -1] = np.maximum(spent[:, -1], missed_j)
    joules, weights = spent.ravel(), chance.ravel()
    order = np.argsort(joules, kind="stable")
    heaped = np.cumsum(weights[order]) / max(float(weights.sum()), 1e-12)
    ends = (min(int(np.searchsorted(heaped, level)), len(order) - 1) for level in (LOW, min(HIGH / coverage, 1.0)))
    low, high = (float(joules[order[end]]) for end in ends)
    return low, missed_j if coverage <= HIGH else high


def _most_missed(walker: Walker, best: BestSchedule) -> float:
    """The most that a run spends until the deadline on the chosen schedule or another that is sure enough, the target
    never being met.

    A run that misses does not keep to what was planned first: nearly as good schedules are gone over to, and one that
    is cut off by the deadline costs more the earlier it leaves a pair that is cheap by the second.
    """
    near = np.flatnonzero(sure_enough(best.missed, walker.enough))
    return max(_until_deadline(walker, best.runners_up.legs(int(index))) for index in {0, *near.tolist()})


def _until_deadline(walker: Walker, legs: Legs) -> float:
    """Joules of a schedule that is followed until the deadline or the last epoch, as far as paths are followed."""
    state, _, deadline_s, last = walker.state, *walker.goal
    pairs = np.concatenate([np.full(min(count, MOST_PATH), pair) for pair, count in legs])
    pairs = pairs[: max(min(MOST_PATH, int(last) - state.epoch), 0)]
    before = np.concatenate(([state.pair], pairs[:-1]))[: len(pairs)]
    once = np.zeros((len(pairs), 2))
    _, firsts = np.unique(walker.per_pair[pairs, 2], return_index=True)
    once[firsts] = walker.per_pair[pairs[firsts], :2]
    until_s = state.elapsed_s + np.cumsum(walker.seconds[before, pairs] + once[:, 0])
    in_time = int((until_s <= deadline_s).sum())
    return float((walker.joules[before, pairs] + once[:, 1])[:in_time].sum())


def _bands(worlds: Worlds, curves: NDArray[np.float64], actions: list[int], level: float) -> NDArray[np.float64]:
    """The quantile of the observed loss after every epoch: of the worlds' curves, with luck as variances add."""
    on_leg, counts = worlds.leg_epochs, []
    for position, pair in enumerate(actions):
        on_leg = on_leg + 1 if position == 0 or actions[position - 1] == pair else 1
        counts.append(min(on_leg, worlds.scatter.shape[1]) - 1)
    luck = worlds.scatter[actions, counts] * worlds.luck.mean(axis=0)[actions]
    middle = np.median(curves, axis=0)
    away = np.quantile(curves, level, axis=0) - middle
    return np.asarray(np.exp(middle + np.hypot(away, NormalDist().inv_cdf(level) * luck)))


def _alternatives(problem: Problem, costs: CostTable, state: State, best: BestSchedule) -> tuple[Alternative, ...]:
    """The other first pairs with the expected energy of their best schedules, or why they are impossible."""
    chosen = best.legs[0][0]
    found = [
        Alternative(str(problem.pairs[pair]), energy_j, None, f"{say_share(probability)} sure")
        for pair, (energy_j, probability) in best.by_first.items()
        if pair != chosen
    ]
    barred = [
        Alternative(str(pair), None, None, why)
        for now, pair in enumerate(problem.pairs)
        if (why := costs.why_not(state.pair, now)) is not None
    ]
    return (*sorted(found, key=lambda other: other.energy_j or 0.0), *barred)


def _nearest(walker: Walker, problem: Problem, best: BestSchedule) -> tuple[Nearest, ...]:
    """The earliest deadline and the lowest loss, in reach of the best schedules with the probability that is asked."""
    target = problem.target

    def enough(loss: float, deadline_s: float) -> bool:
        walker.goal = np.array([math.log(loss), deadline_s + TOLERANCE, walker.goal[2]])
        _, missed = walker.follow(best.runners_up, len(walker.worlds))
        return bool(np.min(missed) <= 1.0 - target.probability + TOLERANCE)

    found = []
    late = (
        (target.deadline_s if math.isfinite(target.deadline_s) else 0.0),
        walker.state.elapsed_s + LONGEST * float(walker.seconds[walker.open].max(initial=0.0)),
    )
    if math.isfinite(target.deadline_s) and enough(target.loss, late[1]):
        found.append(Nearest(target.loss, _least(lambda seconds: enough(target.loss, seconds), *late)))
    if enough(walker.state.loss, target.deadline_s):
        loss = _least(lambda tried: enough(tried, target.deadline_s), target.loss, walker.state.loss)
        found.append(Nearest(loss, target.deadline_s))
    return tuple(found)


LONGEST = 2000
"""Epochs that a later deadline may give at most."""
HALVINGS = 16


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The least figure that is enough, between one that is not and one that is."""
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
