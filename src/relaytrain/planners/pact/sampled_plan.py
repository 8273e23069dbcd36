"""What a plan over worlds states: energy, its interval, probability, the path that is shown, what else was possible."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ...core.explain import say_few_seeds, say_share
from ...core.plan import Alternative, Nearest, Plan, level_of, path_fields
from ...core.state import TOLERANCE
from ...core.worlds import Worlds
from .schedules import MOST_PATH, BestSchedule, Legs, Walker, sure_enough, trails_of
from .value import plan_head

LOW, HIGH = 0.1, 0.9
"""Between these quantiles lies the energy that a plan states."""
LEAST = 0.5
"""A plan that arrives in fewer worlds is called infeasible, as with the other rules, whose ladder ends there."""
LONGEST = 2000
"""Epochs that a later deadline may give at most."""
HALVINGS = 16


def composed(
    walker: Walker, best: BestSchedule | None, name: str, *, explained: bool, way_out: bool = True, reach: int = 1
) -> Plan:
    """The plan that says what the chosen schedule comes to over the worlds.

    `probability` and `energy_j` are of the schedule, its last pair training on until the target is met, luck included;
    following it with new plans after every epoch is at least as good as far as the worlds are right. The path that is
    shown ends where half of the worlds have met the target, yet has `reach` epochs; its losses are the median of the
    worlds' curves.
    """
    problem, costs, state, asked = walker.problem, walker.costs, walker.state, walker.asked
    if best is None:
        met = state.loss <= problem.target.loss + TOLERANCE
        nothing = {**path_fields(problem, state, (), {}), "guaranteed": (), "rung": 1.0 if met else 0.0}
        return Plan(
            **plan_head(problem, state),
            **nothing,
            planner=name,
            feasible=met,
            probability=1.0 if met else 0.0,
            bound_j=math.inf,
            gap=0.0,
        )
    trails, ends = trails_of(walker, best.legs, reach)
    arrived = np.flatnonzero(trails[:, :, 1].mean(axis=0) <= 0.5)
    epochs = min(max(int(arrived[0]) if len(arrived) else int(ends.max()), reach), MOST_PATH)
    actions = [pair for pair, count in best.legs for _ in range(min(count, MOST_PATH))][:epochs]
    before = [state.pair, *actions[:-1]]
    curves = np.log(np.maximum(trails[:, :epochs, 2], 1e-9))
    losses = np.exp(np.median(curves, axis=0))
    once = _paid_once(walker, np.array(actions, np.int64))
    table = {
        "seconds": costs.epoch_s[before, actions] + once[:, 0],
        "joules": costs.epoch_j[before, actions] + once[:, 1],
        "loss": losses,
        "change_s": costs.change_s[before, actions],
        "change_j": costs.change_j[before, actions],
        "jump": _jumps(walker.worlds, before, actions, [float(np.median(walker.worlds.stands)), *losses[:-1]]),
    }
    path = path_fields(problem, state, actions, table)
    level = level_of(asked)
    sure, feasible = best.probability >= asked - 1e-12, best.probability >= LEAST * walker.coverage
    seeds = walker.worlds.seeds
    few = None if seeds is None else say_few_seeds(seeds, asked, best.probability)
    low_j, high_j = _interval(trails, walker.worlds.coverage, _most_missed(walker, best))
    return Plan(
        **plan_head(problem, state),
        **{**path, "energy_j": best.energy_j},
        planner=name,
        feasible=feasible,
        guaranteed=tuple(np.maximum(_bands(walker.worlds, curves, actions, level), losses).tolist()),
        rung=min(best.probability, asked) if feasible else 0.0,
        probability=best.probability,
        bound_j=math.inf,
        gap=0.0,
        exact=False,
        alternatives=_alternatives(walker, best) if explained else (),
        nearest=_nearest(walker, best) if explained and way_out and not sure else (),
        warnings=() if few is None else (few,),
        energy_interval_j=(min(low_j, best.energy_j), max(high_j, best.energy_j)),
    )


def _paid_once(walker: Walker, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Seconds and joules (E, 2) of first uses along a path, in the epochs in which they are paid."""
    paid = np.zeros((len(pairs), 2))
    _, firsts = np.unique(walker.per_pair[pairs, 2], return_index=True)
    paid[firsts] = walker.per_pair[pairs[firsts], :2]
    return paid


def _jumps(worlds: Worlds, before: list[int], after: list[int], losses: list[float]) -> list[float]:
    """What each epoch's handover does to the loss in the middle of the worlds; 0 where there is none."""
    return [
        0.0 if here == now else float(np.median(worlds.jump0[:, here, now]) + worlds.jump1[here, now] * loss)
        for here, now, loss in zip(before, after, losses, strict=True)
    ]


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
    once = _paid_once(walker, pairs)
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


def _alternatives(walker: Walker, best: BestSchedule) -> tuple[Alternative, ...]:
    """The other first pairs with the expected energy of their best schedules, or why they are impossible."""
    pairs, costs, chosen = walker.problem.pairs, walker.costs, best.legs[0][0]
    possible = [
        Alternative(str(pairs[pair]), energy_j, None, f"{say_share(probability)} sure")
        for pair, (energy_j, probability) in best.by_first.items()
        if pair != chosen
    ]
    barred = [
        Alternative(str(pair), None, None, why)
        for now, pair in enumerate(pairs)
        if (why := costs.why_not(walker.state.pair, now)) is not None
    ]
    return (*sorted(possible, key=lambda other: other.energy_j or 0.0), *barred)


def _nearest(walker: Walker, best: BestSchedule) -> tuple[Nearest, ...]:
    """The earliest deadline and the lowest loss, in reach of the best schedules with the probability that is asked."""
    target = walker.problem.target

    def enough(loss: float, deadline_s: float) -> bool:
        walker.goal = np.array([math.log(loss), deadline_s + TOLERANCE, walker.goal[2]])
        _, missed = walker.follow(best.runners_up, len(walker.worlds))
        return bool(np.min(missed) <= 1.0 - target.probability + TOLERANCE)

    nearest = []
    late = (
        (target.deadline_s if math.isfinite(target.deadline_s) else 0.0),
        walker.state.elapsed_s + LONGEST * float(walker.seconds[walker.open].max(initial=0.0)),
    )
    if math.isfinite(target.deadline_s) and enough(target.loss, late[1]):
        nearest.append(Nearest(target.loss, _least(lambda seconds: enough(target.loss, seconds), *late)))
    if enough(walker.state.loss, target.deadline_s):
        loss = _least(lambda tried: enough(tried, target.deadline_s), target.loss, walker.state.loss)
        nearest.append(Nearest(loss, target.deadline_s))
    return tuple(nearest)


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The least figure that is enough, between one that is not and one that is."""
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
