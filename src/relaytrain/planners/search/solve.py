"""Which search a problem needs: bounds first, the cheapest path if it is in time, else labels under a priced deadline.

    1. time-to-go: is the target reachable in time at all? how far up must thresholds be known?
    2. energy-to-go: if the cheapest path is in time, it is the answer.
    3. a price on seconds (LARAC): each round gives a lower bound and, often, a better plan in time.
    4. labels between that lower bound and the best plan known: exact.

Paper: Steps 1-2 of PACT, without a graph. Deviations: un-quantised by default (`gridded` makes the paper's rounding a
law of its own, solved by the same code); (1)-(3) charge the *new* pair, at the epoch being executed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array
from ...core.state import TOLERANCE
from .allowance import WORK, charge
from .best_first import FULL, STOPPED
from .dense import dense
from .follow import first_weights, follow_lookups, replay, walk_steps
from .instance import MOST_CELLS, SearchInstance, Start, instance_of
from .labels import search, way
from .short_relays import short_relay
from .togo import STEPS, ToGo, nothing

MOST_EXPANDED = 40_000_000
"""Labels times pairs squared that a search with the epoch in its state may take before it settles for a bound; fifty
times as many without."""
LOOKUP_NS = 60
"""Of an epoch along a to-go table; of every pair looked at where the table does not say which."""
DENSE_PER_LABEL = 400
"""A label takes about as long as this many transitions of the dense program."""
FEW_PAIRS = 8
"""Below, every pair may have its labels: asking which are worth it takes as long as it saves."""
MOST_ASKED = 100_000
"""Labels allowed to find out which pairs are worth one."""
MOST_UNPRUNED = 200_000
"""Labels allowed to prove an answer under a law that is not monotone, where no label may be dropped for another."""


@dataclass(frozen=True)
class Solution:
    """A least-energy path: pairs by index, losses after each, sums, and the proven lower bound.

    `exact` is False when the search was cut short (laws that are not monotone may need that); then energy - bound is
    the gap.
    """

    feasible: bool
    actions: tuple[int, ...]
    losses: tuple[float, ...]
    energy_j: float
    elapsed_s: float
    bound_j: float
    exact: bool
    labels: int = 0


def solve(
    instance: SearchInstance, start: Start, first: NDArray[np.bool_] | None = None, *, effort: float = 1.0
) -> Solution:
    """The least-energy path from `start`; `first` restricts the first action to the pairs marked True.

    `effort` scales how long a law with epoch tables is searched before the best path known and its bound have to do.
    """
    if start.loss <= instance.goal:
        in_time = start.elapsed_s <= instance.deadline
        return Solution(in_time, (), (), 0.0 if in_time else math.inf, start.elapsed_s, 0.0, True)
    mask = np.ones(len(instance.seconds), np.bool_) if first is None else first
    if instance.by_epoch:
        return _solve_by_epoch(instance, start, mask, effort)
    return _solve_autonomous(instance, start, mask)


def sketch(instance: SearchInstance, start: Start, first: NDArray[np.bool_]) -> Solution:
    """A good path whose first action is in `first`, without a search: by the tables at hand and by short relays.

    For explanations among many pairs, after `solve`. The bound is proven; the path is `exact` where it meets it. Laws
    with an epoch index, or not monotone, and a cap on epochs that may bind are left to `solve`.
    """
    if instance.by_epoch or instance.epoch_limit is not None or not instance.monotone or start.loss <= instance.goal:
        return solve(instance, start, first)
    time, energy = instance.time_to_go(), instance.energy_to_go(start)
    best = by_table(instance, start, time, instance.seconds, first)
    if best is None or not best.feasible:
        return solve(instance, start, first)
    bound = 0.0
    for price, table in ((0.0, energy), *instance.mixed_held()):
        path = by_table(instance, start, table, instance.joules + price * instance.seconds, first)
        if path is None:
            continue
        bound = max(bound, path.energy_j + price * (path.elapsed_s - instance.deadline))
        best = path if path.feasible and path.energy_j < best.energy_j else best
    best = _shorter(instance, start, first, best, energy)
    bound = min(bound, best.energy_j)
    return replace(best, bound_j=bound, exact=best.energy_j <= bound + TOLERANCE)


def path_of(instance: SearchInstance, start: Start, actions: NDArray[np.int64]) -> tuple[Array, float, float]:
    """Losses after each action, joules and final time of a path."""
    where = (start.epoch, start.pair, start.loss, start.elapsed_s)
    losses, energy, elapsed, _ = replay(instance.form, instance.seconds, instance.joules, where, actions, -math.inf)
    return losses, float(energy), float(elapsed)


def first_steps(instance: SearchInstance, start: Start, togo: ToGo, weight: Array, mask: NDArray[np.bool_]) -> Array:
    """Weight of the best path by first action (P,): infinity where masked, impossible or out of reach."""
    barred = instance.barred(weight)
    return first_weights(instance.form, togo, barred, (start.epoch, start.pair, start.loss), mask)  # type: ignore[no-any-return]


def _solution(
    instance: SearchInstance, start: Start, actions: NDArray[np.int64], bound: float, *, exact: bool, labels: int = 0
) -> Solution:
    """The path, cut where it first meets the goal."""
    where = (start.epoch, start.pair, start.loss, start.elapsed_s)
    losses, energy, elapsed, count = replay(
        instance.form, instance.seconds, instance.joules, where, actions, instance.goal
    )
    feasible = bool(losses[-1] <= instance.goal and elapsed <= instance.deadline)
    path = tuple(actions[:count].tolist())
    sums = float(energy), float(elapsed), float(min(bound, energy))  # searched uncompiled, they are numpy's numbers
    return Solution(feasible, path, tuple(losses.tolist()), *sums, exact, labels)


def _infeasible(bound: float = math.inf, *, exact: bool = True, labels: int = 0) -> Solution:
    return Solution(False, (), (), math.inf, math.inf, bound, exact, labels)


def _solve_autonomous(instance: SearchInstance, start: Start, mask: NDArray[np.bool_]) -> Solution:
    room = instance.cap(start) - start.epoch
    if instance.epoch_limit is not None:
        fewest = first_steps(instance, start, instance.epochs_to_go(), np.ones_like(instance.seconds), mask)
        if fewest.min(initial=math.inf) > room:
            return _infeasible()
    known = instance.tables.get("energy")
    if known is not None:  # re-planning: usually a lookup
        ready = by_table(instance, start, known, instance.joules, mask)
        if (
            ready is not None
            and ready.feasible
            and instance.monotone
            and len(ready.actions) <= instance.cap(start) - start.epoch
        ):
            return ready
    time = instance.time_to_go()
    quickest = first_steps(instance, start, time, instance.seconds, mask)
    least = float(quickest.min(initial=math.inf))
    if not math.isfinite(least) or start.elapsed_s + least > instance.deadline:
        return _infeasible()
    energy = instance.energy_to_go(start)
    best = by_table(instance, start, energy, instance.joules, mask)
    if best is not None and best.feasible and len(best.actions) <= room:
        return best
    bounds, price, bound, sure = (energy, time, nothing(instance.goal)), 0.0, 0.0, None
    if best is not None and not best.feasible:
        sure, bound, price, mixed = _priced(instance, start, mask, best, time, energy)
        bounds = (energy, time, mixed)
        if sure is not None and sure.energy_j <= bound + TOLERANCE and len(sure.actions) <= room:
            return replace(sure, bound_j=min(bound, sure.energy_j))
    answer = best
    if best is None or not best.feasible:
        choices = None if sure is None else _worth_a_label(instance, start, mask, sure, price, bounds[2])
        answer = _solve_labels(
            instance, start, mask, best=sure, bounds=bounds, price=price, bound=bound, choices=choices
        )
    by_epoch = answer is not None and len(answer.actions) > room
    if by_epoch:  # the run's last epoch binds: paths of different length are no longer comparable
        sure = sure if sure is not None and len(sure.actions) <= room else None
        answer = _solve_labels(instance, start, mask, best=sure, bounds=bounds, price=price, bound=bound, by_epoch=True)
    assert answer is not None
    return _proven(instance, start, mask, answer, bounds=bounds, price=price, bound=bound, by_epoch=by_epoch)


def _priced(
    instance: SearchInstance, start: Start, mask: NDArray[np.bool_], best: Solution, time: ToGo, energy: ToGo
) -> tuple[Solution | None, float, float, ToGo]:
    """The cheapest path `best` is late: price the seconds until cheap and quick paths weigh the same (LARAC).

    Gives the best path in time met on the way, a lower bound on the energy, the price and its to-go table.
    """
    cheap, late = best.energy_j, best.elapsed_s
    bound = cheap
    sure = by_table(instance, start, time, instance.seconds, mask)
    price, mixed = 0.0, nothing(instance.goal)
    if sure is not None and sure.feasible:
        if len(mask) >= FEW_PAIRS:
            sure = _shorter(instance, start, mask, sure, energy)
        for _ in range(12):
            trial = (sure.energy_j - cheap) / max(late - sure.elapsed_s, 1e-300)
            if not (math.isfinite(trial) and trial > 0):
                break
            table = instance.mixed_to_go(trial, start)
            trial_path = by_table(instance, start, table, instance.joules + trial * instance.seconds, mask)
            if trial_path is None:
                break
            dual = trial_path.energy_j + trial * (trial_path.elapsed_s - instance.deadline)
            if dual > bound or price == 0.0:
                bound, price, mixed = max(bound, dual), trial, table
            improves = (
                trial_path.energy_j < sure.energy_j - TOLERANCE
                if trial_path.feasible
                else trial_path.energy_j > cheap + TOLERANCE
            )
            if not improves:
                break
            if trial_path.feasible:
                sure = trial_path
            else:
                cheap, late = trial_path.energy_j, trial_path.elapsed_s
        return sure, bound, price, mixed
    return None, bound, price, mixed


def _shorter(instance: SearchInstance, start: Start, mask: NDArray[np.bool_], sure: Solution, energy: ToGo) -> Solution:
    """`sure`, or a cheaper relay in time of few handovers."""
    path = short_relay(instance, start, mask, energy, sure.energy_j)
    if path is None:
        return sure
    other = _solution(instance, start, path, math.inf, exact=True)
    return other if other.feasible and other.energy_j < sure.energy_j else sure


def _worth_a_label(
    instance: SearchInstance, start: Start, mask: NDArray[np.bool_], sure: Solution, price: float, mixed: ToGo
) -> NDArray[np.int64] | None:
    """The pairs, ascending, that a path in time and below `sure`'s energy may use; None if that takes too long to know.

    Such a path weighs at most `sure`'s energy plus the price of all seconds left. Whether one through a pair does is
    asked as if there were no deadline: labels then have a loss and a weight alone, and are few.
    """
    if not price > 0.0 or not instance.monotone or len(mask) < FEW_PAIRS:
        return None
    priced = replace(instance, joules=instance.joules + price * instance.seconds, deadline=math.inf, tables={})
    outcome = search(
        priced,
        start,
        epochs=start.epoch + instance.epochs,
        most=MOST_ASKED,
        first=mask,
        ceiling=sure.energy_j + price * (instance.deadline - start.elapsed_s) + TOLERANCE,
        bounds=(mixed, *(nothing(instance.goal),) * 3),
        with_time=False,
        all_goals=True,
    )
    if outcome.status == FULL:
        return None
    return np.unique(outcome.labels.pair[outcome.settled])


def by_table(
    instance: SearchInstance, start: Start, togo: ToGo, weight: Array, mask: NDArray[np.bool_]
) -> Solution | None:
    """The path that a to-go table recommends, checked forwards; None when the check fails or nothing is reachable."""
    barred = instance.barred(weight)
    where = (start.epoch, start.pair, start.loss, start.elapsed_s)
    if togo.kind != STEPS:
        path, value = follow_lookups(instance.form, togo, barred, instance.seconds, where[:3], instance.goal, mask)
        charge(instance.counts, LOOKUP_NS * len(path) * len(mask))
        solution = _solution(instance, start, path, float(value), exact=True) if len(path) else None
        return solution if solution is not None and solution.losses[-1] <= instance.goal else None
    path, value, losses, energy, elapsed = walk_steps(
        instance.form, togo, barred, instance.seconds, instance.joules, where, instance.goal, mask
    )
    instance.counts[WORK] += LOOKUP_NS * len(path)
    if len(path) == 0 or losses[-1] > instance.goal:
        return None
    feasible = bool(elapsed <= instance.deadline)
    sums = float(energy), float(elapsed), min(float(value), float(energy))
    return Solution(feasible, tuple(path.tolist()), tuple(losses.tolist()), *sums, True)


def _solve_labels(
    instance: SearchInstance,
    start: Start,
    mask: NDArray[np.bool_],
    *,
    best: Solution | None,
    bounds: tuple[ToGo, ToGo, ToGo],
    price: float,
    bound: float = 0.0,
    by_epoch: bool = False,
    with_time: bool = True,
    dominate: bool = True,
    effort: float = 1.0,
    choices: NDArray[np.int64] | None = None,
) -> Solution:
    ceiling = math.inf if best is None else best.energy_j - TOLERANCE
    most = instance.most_labels if dominate else min(instance.most_labels, MOST_UNPRUNED)
    expanded = effort * MOST_EXPANDED if by_epoch else 50 * MOST_EXPANDED
    most = min(most, max(int(expanded / len(mask) ** 2), int(effort * 10_000)))
    fallback = 0 if by_epoch or not dominate else _dense_work(instance, start)
    if fallback:
        most = min(most, max(fallback // DENSE_PER_LABEL, 1_000))
    path, status, labels = way(
        instance,
        start,
        epochs=instance.cap(start) if by_epoch else start.epoch + instance.epochs,
        most=most,
        by_epoch=by_epoch,
        first=mask,
        choices=choices,
        ceiling=ceiling,
        bounds=(*bounds, instance.epochs_to_go() if by_epoch and not instance.by_epoch else nothing(instance.goal)),
        price=price,
        with_time=with_time and math.isfinite(instance.deadline),
        dominate=dominate,
    )
    if status == STOPPED or (status == FULL and fallback):
        path = path if status == STOPPED else _dense(instance, start, mask)
        if len(path) == 0:
            return _infeasible(labels=labels)
        return _solution(instance, start, path, math.inf, exact=True, labels=labels)
    cut = status == FULL
    if best is None:
        return _infeasible(bound if cut else math.inf, exact=not cut, labels=labels)
    bound = min(bound, best.energy_j) if cut else best.energy_j
    return replace(best, bound_j=bound, exact=not cut, labels=labels)


def _dense(instance: SearchInstance, start: Start, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    where = (start.pair, int(start.loss), int(instance.deadline - start.elapsed_s))
    return dense(instance.form, (instance.seconds, instance.joules), int(instance.goal), where, mask)


def _dense_work(instance: SearchInstance, start: Start) -> int:
    """Transitions of the dense program for a gridded instance; 0 where it does not apply or would not fit."""
    finite = instance.seconds[instance.allowed]
    if not instance.form.integer or not math.isfinite(instance.deadline) or finite.min(initial=math.inf) < 1.0:
        return 0
    pairs = len(instance.joules)
    cells = (int(instance.deadline - start.elapsed_s) + 1) * pairs * instance.form.table.shape[3]
    return cells * pairs if 0 < cells <= MOST_CELLS else 0


def _proven(instance: SearchInstance, start: Start, mask: NDArray[np.bool_], answer: Solution, **how: Any) -> Solution:
    """`answer` itself under a monotone law; else the best of all paths below it, as far as they can be gone through."""
    if instance.monotone:
        return answer
    best = answer if answer.feasible else None
    every = _solve_labels(instance, start, mask, best=best, dominate=False, **how)
    if every.exact:
        return every
    return replace(answer, bound_j=min(how["bound"], answer.energy_j), exact=False)


def _solve_by_epoch(instance: SearchInstance, start: Start, mask: NDArray[np.bool_], effort: float) -> Solution:
    """Laws with epoch tables: the layers' own path if it is in time, else labels between a bound and a path known."""
    if start.epoch >= instance.cap(start):
        return _infeasible()
    energy = instance.weight_to_go("energy", start)
    known = by_table(instance, start, energy, instance.joules, mask) if energy.kind != STEPS else None
    if instance.form.integer and known is not None and known.feasible:
        return known
    floor = float(first_steps(instance, start, energy, instance.joules, mask).min(initial=math.inf))
    if not math.isfinite(floor):
        return _infeasible()
    time = instance.weight_to_go("time", start)
    least = float(first_steps(instance, start, time, instance.seconds, mask).min(initial=math.inf))
    if not math.isfinite(least) or start.elapsed_s + least > instance.deadline:
        return _infeasible()
    if known is None or not known.feasible:
        known = by_table(instance, start, time, instance.seconds, mask) if time.kind != STEPS else None
        known = known if known is not None and known.feasible else None
    bounds = (energy, time, nothing(instance.goal))
    answer = _infeasible(floor)
    for with_time in (False, True):  # first as if there were no deadline
        for best in _ceilings(floor, known):
            answer = _solve_labels(
                instance,
                start,
                mask,
                best=best,
                bounds=bounds,
                price=0.0,
                bound=floor,
                by_epoch=True,
                with_time=with_time,
                effort=effort,
            )
            if answer.actions or not answer.exact:
                break
        if not answer.exact:  # cut short: the best path known, with its distance to the bound
            return replace(known or _infeasible(floor), bound_j=floor, exact=False, labels=answer.labels)
        if not answer.actions:
            return _infeasible()
        if answer.feasible:
            break
    return _proven(instance, start, mask, answer, bounds=bounds, price=0.0, bound=floor, by_epoch=True)


def _ceilings(floor: float, known: Solution | None) -> list[Solution]:
    """Energies to search below, rising: a search that finds something below its ceiling is exact."""

    def ceiling(energy: float) -> Solution:
        return Solution(False, (), (), energy + 2 * TOLERANCE, math.inf, floor, True)

    if known is None:
        return [ceiling(floor * 1.02), ceiling(floor * 1.1), ceiling(floor * 1.5), ceiling(math.inf)]
    return [ceiling(floor * share) for share in (1.02, 1.1, 1.5) if floor * share < known.energy_j] + [known]


__all__ = [
    "SearchInstance",
    "Solution",
    "Start",
    "by_table",
    "first_steps",
    "instance_of",
    "path_of",
    "sketch",
    "solve",
]
