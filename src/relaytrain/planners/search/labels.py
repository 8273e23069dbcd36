"""Exact forward search: Pareto labels (loss, seconds) in order of energy, pruned by what is still to go.

A label is a state with the energy spent so far. Labels leave the heap in order of energy, so one of them is dominated
exactly when an earlier one of the same pair (and epoch, if the law has an epoch index) has no higher loss and no later
time: it lies above that pair's `staircase`. The first label that meets the goal is optimal. Bounds cut labels that
cannot finish in time or below a known energy.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array
from ...core.law import LawForm
from .allowance import WORK, Counts, charge, check, current
from .best_first import (
    CRAMPED,
    DROP,
    FOLLOW,
    KEEP,
    NOWHERE,
    STOP,
    STOPPED,
    NextLabel,
    PathLabel,
    Search,
    best_first,
    path_to,
)
from .instance import SearchInstance, Start
from .kernels import jit, next_loss, spliced
from .staircase import Staircases, dominated, empty_staircases, insert, roomier
from .togo import ToGo, lookup, nothing

LONG = 64
"""Labels of a staircase from which on it takes time to move them."""


class LabelSpace(NamedTuple):
    """What `search` is given, as its loop reads it."""

    form: LawForm
    seconds: Array
    joules: Array
    first: NDArray[np.bool_]
    choices: NDArray[np.int64]
    goal: float
    deadline: float
    ceiling: float
    first_epoch: int
    epochs: int
    by_epoch: bool
    with_time: bool
    dominate: bool
    all_goals: bool
    anywhere: bool
    bounded: bool
    energy_to_go: ToGo
    time_to_go: ToGo
    mixed_to_go: ToGo
    epochs_to_go: ToGo
    price: float
    counts: Counts


def _settle_label(space: LabelSpace, store: Staircases, label: PathLabel) -> Any:
    if label.loss <= space.goal and not space.all_goals:
        return STOP
    # Unless all actions are open to it, the start itself dominates nothing.
    if space.dominate and (label.item > 0 or space.anywhere):
        pairs = space.joules.shape[0]
        key = (label.epoch - space.first_epoch) * pairs + label.pair if space.by_epoch else label.pair
        if dominated(store.loss, store.time_s, store.spans, key, label.loss, label.time_s):
            return DROP
        if not insert(store.loss, store.time_s, store.spans, key, label.loss, label.time_s):
            return CRAMPED
        if store.spans[1, key] > LONG:  # labels that may have moved up
            space.counts[WORK] += store.spans[1, key]
    if label.epoch >= space.epochs or label.loss <= space.goal:
        return KEEP
    return FOLLOW


@spliced
def _within_bounds(space: LabelSpace, epoch: int, now: int, landed: float, late: float, spent: float) -> bool:
    """Whether a path through this state can still end in time, in so many epochs, and below the ceiling."""
    if late + lookup(space.time_to_go, epoch, now, landed) > space.deadline:
        return False
    if epoch + lookup(space.epochs_to_go, epoch, now, landed) > space.epochs:
        return False
    if spent + lookup(space.energy_to_go, epoch, now, landed) > space.ceiling:
        return False
    if not space.price > 0.0:
        return True
    mixed = lookup(space.mixed_to_go, epoch, now, landed)
    return not spent + mixed - space.price * (space.deadline - late) > space.ceiling


def _step_label(space: LabelSpace, store: Staircases, label: PathLabel, turn: int) -> Any:
    now = space.choices[turn]
    if label.item == 0 and not space.first[now]:
        return NOWHERE
    step_j, step_s = space.joules[label.pair, now], space.seconds[label.pair, now]
    if not (np.isfinite(step_j) and np.isfinite(step_s)):
        return NOWHERE
    spent, late, epoch = label.energy_j + step_j, label.time_s + step_s, label.epoch + 1
    if spent > space.ceiling or late > space.deadline:
        return NOWHERE
    landed = next_loss(space.form, epoch, label.loss, label.pair, now)
    if not np.isfinite(landed):
        return NOWHERE
    if space.bounded and not _within_bounds(space, epoch, now, landed, late, spent):
        return NOWHERE
    if not space.with_time:
        late = 0.0
    if space.dominate:
        key = (epoch - space.first_epoch) * space.joules.shape[0] + now if space.by_epoch else now
        if dominated(store.loss, store.time_s, store.spans, key, landed, late):
            return NOWHERE
    return NextLabel(now, landed, late, spent, spent)


_search = best_first(_settle_label, _step_label, roomier)


@jit
def _way(space: LabelSpace, store: Staircases, turns: int, start: PathLabel, most: int) -> Any:
    """The pairs of the path that the search ended at, none unless it STOPPED; its status; how many labels it made."""
    outcome = _search(space, store, turns, start, most)
    count = outcome.labels.parent.shape[0]
    if outcome.status != STOPPED:
        return np.empty(0, np.int64), outcome.status, count
    return path_to(outcome.labels.parent, outcome.labels.pair, outcome.last), outcome.status, count


def way(instance: SearchInstance, start: Start, **options: Any) -> tuple[NDArray[np.int64], int, int]:
    """What `search` with these options ends at: the path if it STOPPED, how it ended, labels made.

    Labels stay where they were made: to hand a small search's out takes as long as to make them.
    """
    path, status, count = _way(*_posed(instance, start, **options))
    check(current())
    return path, int(status), int(count)


def search(instance: SearchInstance, start: Start, **options: Any) -> Search:
    """All labels from `start` to a loss at or below the goal by the deadline, in order of energy.

    The last one is the least energy if it STOPPED there. The options are those of `_posed`.
    """
    outcome: Search = _search(*_posed(instance, start, **options))
    check(current())
    return outcome


def _posed(
    instance: SearchInstance,
    start: Start,
    *,
    epochs: int,
    most: int,
    by_epoch: bool = False,
    first: NDArray[np.bool_] | None = None,
    choices: NDArray[np.int64] | None = None,
    spent: float = 0.0,
    ceiling: float = math.inf,
    bounds: tuple[ToGo, ToGo, ToGo, ToGo] | None = None,
    price: float = 0.0,
    with_time: bool = True,
    dominate: bool = True,
    all_goals: bool = False,
) -> tuple[LabelSpace, Staircases, int, PathLabel, int]:
    """What the compiled search is given.

    Args:
        instance: law, costs, goal and deadline.
        start: where paths begin.
        epochs: the last epoch that a path may use.
        most: labels allowed.
        by_epoch: only paths of the same length are compared.
        first: masks the first action.
        choices: the pairs that paths may use, ascending; all unless given.
        spent: joules at the start.
        ceiling: joules above which nothing is kept.
        bounds: energy-, time-, mixed- and epochs-to-go, the third for energy + `price` * time.
        price: joules that a second is worth to the third bound.
        with_time: else seconds count for nothing but the deadline.
        dominate: else every path within the bounds is followed: exact under any law, for small problems only.
        all_goals: goes on after the first label that meets the goal, until all undominated ones are settled.
    """
    pairs, counts = len(instance.joules), current()
    choices = np.arange(pairs) if choices is None else choices
    space = LabelSpace(
        instance.form,
        instance.seconds,
        instance.joules,
        np.ones(pairs, np.bool_) if first is None else first,
        choices,
        instance.goal,
        instance.deadline,
        ceiling,
        start.epoch,
        epochs,
        by_epoch,
        with_time,
        dominate,
        all_goals,
        all_goals and (first is None or bool(first.all())),
        bounds is not None,
        *((nothing(instance.goal),) * 4 if bounds is None else bounds),
        price,
        counts,
    )
    keys = pairs * (epochs + 1 - start.epoch) if by_epoch else pairs
    if by_epoch:
        charge(counts, 0, 24 * keys)
    store = empty_staircases(keys)
    label = PathLabel(0, start.pair, start.epoch, start.loss, start.elapsed_s, spent)
    return space, store, len(choices), label, most
