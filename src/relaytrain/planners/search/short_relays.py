"""Relays of few handovers that end in time: good plans at once, below whose energy exact searches then have to look.

A path of a hundred epochs is a few legs. How many epochs a pair alone needs from any loss is known for all losses
(`_alone`), so the last leg costs a lookup; those before it are gone through epoch by epoch, as long as bounds on what
is to go leave hope of a better plan.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.law import TABLE
from .allowance import WORK, charge
from .instance import SearchInstance, Start
from .kernels import highest_before, highest_mid, jit, next_loss
from .togo import ToGo, lookup

MOST_TRIED = 400_000
"""Last legs tried in all."""
MOST_CELLS = 2_000_000
"""Of losses by pair and number of its epochs; relays are as short as that allows."""
TRIED_NS, CELL_NS = 60, 40
"""Of a last leg; of such a cell."""


@jit
def _alone(form: Any, seconds: Any, goal: float, left_s: float, most: int) -> Any:
    """By pair (P, N): the highest loss from which so many epochs of it alone reach the goal; infinite where none do."""
    pairs = seconds.shape[0]
    highest = np.full((pairs, most + 1), np.inf)
    for pair in range(pairs):
        highest[pair, 0] = goal
        for number in range(1, most + 1):
            if not number * seconds[pair, pair] <= left_s:
                break
            mid = highest_mid(form, 1, highest[pair, number - 1], pair) if form.kind != TABLE else 0.0
            top = highest_before(form, 1, highest[pair, number - 1], mid, pair, pair)
            if not top > highest[pair, number - 1]:
                break
            highest[pair, number] = top
            if top == np.inf:
                break
    return highest


@jit
def _epochs_alone(highest: Any, pair: int, loss: float) -> int:
    """How many epochs of `pair` alone take `loss` to the goal; -1 where none known do."""
    low, high = 0, highest.shape[1]
    while low < high:
        middle = (low + high) // 2
        if highest[pair, middle] >= loss:
            high = middle
        else:
            low = middle + 1
    return low if low < highest.shape[1] and highest[pair, low] < np.inf else -1


@jit
def _last_leg(space: Any, highest: Any, at: Any, first: Any, best: Any) -> Any:
    """The cheapest last leg in time from state `at` (pair, loss, seconds, joules), if it is below `best`."""
    form, seconds, joules, deadline = space
    pair, loss, late, spent = at
    least, through, epochs = best, -1, 0
    for now in range(seconds.shape[0]):
        if not first[now]:
            continue
        energy = spent + joules[pair, now]
        if not (energy < least and late + seconds[pair, now] <= deadline):
            continue
        landed = next_loss(form, 1, loss, pair, now)
        more = _epochs_alone(highest, now, landed)
        if more < 0:
            continue
        energy += more * joules[now, now]
        if energy < least and late + seconds[pair, now] + more * seconds[now, now] <= deadline:
            least, through, epochs = energy, now, more + 1
    return least, through, epochs


@jit
def _short_relays(
    form: Any,
    seconds: Any,
    joules: Any,
    goal: float,
    deadline: float,
    start: tuple[int, float, float],
    first: Any,
    energy: Any,
    ceiling: float,
    epochs: int,
    most: int,
) -> Any:
    """The best of: some epochs of a first pair, then one more pair; and the same after some epochs where we are."""
    pairs = seconds.shape[0]
    space = (form, seconds, joules, deadline)
    highest = _alone(form, seconds, goal, deadline - start[2], epochs)
    every = np.ones(pairs, np.bool_)
    best, tried = ceiling, 0
    legs = np.zeros((3, 2), np.int64)  # pair and epochs of each leg of the best
    here = (start[0], start[1], start[2], 0.0)
    stayed = 0
    while tried < most:  # epochs where we are, then whatever comes
        able = first if stayed == 0 else every
        least, through, number = _last_leg(space, highest, here, able, best)
        tried += pairs
        if through >= 0:
            best = least
            legs[:] = 0
            legs[0, 0], legs[0, 1], legs[1, 0], legs[1, 1] = start[0], stayed, through, number
        for now in range(pairs):
            if not able[now] or now == here[0] or tried >= most:
                continue
            pair, loss, late, spent, run = here[0], here[1], here[2], here[3], 0
            while tried < most:
                late, spent = late + seconds[pair, now], spent + joules[pair, now]
                landed = next_loss(form, 1, loss, pair, now)
                if run > 0 and not landed < loss:
                    break
                pair, loss, run = now, landed, run + 1
                tried += 1
                if not (loss > goal and late <= deadline and np.isfinite(loss) and run < epochs):
                    break
                if spent + lookup(energy, 1, now, loss) >= best:
                    break
                least, through, number = _last_leg(space, highest, (pair, loss, late, spent), every, best)
                tried += pairs
                if through >= 0:
                    best = least
                    legs[0, 0], legs[0, 1], legs[1, 0], legs[1, 1] = start[0], stayed, now, run
                    legs[2, 0], legs[2, 1] = through, number
        if stayed == 0 and not first[start[0]]:
            break
        landed = next_loss(form, 1, here[1], start[0], start[0])
        late, spent = here[2] + seconds[start[0], start[0]], here[3] + joules[start[0], start[0]]
        if not (landed < here[1] and landed > goal and late <= deadline and stayed < epochs):
            break
        if spent + lookup(energy, 1, start[0], landed) >= best:
            break
        here, stayed = (start[0], landed, late, spent), stayed + 1
    return legs, tried


def short_relay(
    instance: SearchInstance,
    start: Start,
    first: NDArray[np.bool_],
    energy: ToGo,
    ceiling: float,
) -> NDArray[np.int64] | None:
    """Pairs by epoch of the cheapest relay in time of at most two handovers that was met below `ceiling`."""
    if not math.isfinite(instance.deadline):
        return None
    pairs = len(first)
    epochs = min(instance.cap(start) - start.epoch, MOST_CELLS // pairs)
    charge(instance.counts, CELL_NS * pairs * epochs, 8 * pairs * epochs)
    legs, tried = _short_relays(
        instance.form,
        instance.seconds,
        instance.joules,
        instance.goal,
        instance.deadline,
        (start.pair, start.loss, start.elapsed_s),
        first,
        energy,
        ceiling,
        epochs,
        MOST_TRIED,
    )
    instance.counts[WORK] += TRIED_NS * tried
    return np.repeat(legs[:, 0], legs[:, 1]) if legs[:, 1].any() else None
