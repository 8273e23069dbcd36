"""Exact weight-to-go of a law without epoch index, un-quantised: thresholds instead of a loss grid.

For a monotone law "from pair p the goal can be reached with weight w" holds for all losses up to a threshold. A
backward Dijkstra over labels (pair, threshold) in order of weight therefore gives the whole value function: label by
label each pair's threshold rises. The tables do not depend on the present state, so re-planning is a lookup.

Paper: replaces the search of Alg. 1-2 (shortest path to Omega) by its dual staircase; no vertex set is built.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.law import CURVE, TABLE, LawForm
from .allowance import HELD, LABELS, MOST_BYTES, MOST_WORK, PEAK, WORK, Counts, check, current
from .best_first import pop, push
from .kernels import grown, highest_before, highest_mid, jit, next_loss, spliced
from .togo import NO_LAYERS, STEPS, ToGo

MOST_IN_TABLE = 500_000
"""Labels."""
STEP_UP = 1e-12
"""A label must raise its pair's threshold by more than this to be kept."""
MADE_BYTES = 90
"""Of a label while its table is made: what `_sweep` holds, and the copy by pair."""
LABEL_NS, LOOK_NS, SORT_NS = 220, 3, 40
"""Of a label that leaves the heap, of a look at a pair that it may raise, of a pair put in order of weight."""


@spliced
def _led(form: Any, tops: Any, before: int, now: int, theta: float, mid: float) -> float:
    """The threshold of `before` that an epoch on `now` down to `theta` gives it."""
    # Where progress beyond the curve makes the law fall at high losses, those may be the ones that land low.
    if form.kind == CURVE and form.mult[0, now] > 1.0 and next_loss(form, 1, tops[before], before, now) <= theta:
        return float(tops[before])
    return min(highest_before(form, 1, theta, mid, before, now), float(tops[before]))


@spliced
def _next_raised(form: Any, near: Any, tops: Any, best: Any, now: int, theta: float, mid: float, place: int) -> Any:
    """The first pair from `place` on, in order of weight, whose threshold an epoch on `now` raises, and how far."""
    order, weight, c0, c1 = near
    bends = form.kind == TABLE or (form.kind == CURVE and form.mult[0, now] > 1.0)
    while place < order.shape[1]:
        if not np.isfinite(weight[now, place]):
            break
        before = order[now, place]
        if best[before] < tops[before]:
            if bends or c1[now, place] <= -1.0:
                top = _led(form, tops, before, now, theta, mid)
            else:  # `highest_before`, from what lies in a row
                top = min((mid - c0[now, place]) / (1.0 + c1[now, place]), tops[before])
            if top > best[before] + STEP_UP:
                return place, top
        place += 1
    return order.shape[1], 0.0


@jit
def _by_weight(form: Any, weight: Any) -> Any:
    """For every pair (row) those before it in order of weight: which, the weight, and the jump's c0 and c1.

    In rows, since the loop below goes along them for every label: columns of large tables would be fetched from afar.
    """
    pairs = weight.shape[0]
    order = np.empty((pairs, pairs), np.int64)
    steps, c0, c1 = np.empty((pairs, pairs)), np.zeros((pairs, pairs)), np.zeros((pairs, pairs))
    for now in range(pairs):
        order[now] = np.argsort(weight[:, now], kind="mergesort")
        for place in range(pairs):
            before = order[now, place]
            steps[now, place] = weight[before, now]
            if form.kind != TABLE and before != now:
                c0[now, place], c1[now, place] = form.c0[0, before, now], form.c1[before, now]
    return order, steps, c0, c1


@jit
def _sweep(
    form: Any,
    weight: Any,
    goal: float,
    tops: Any,
    limit: float,
    watch: int,
    watch_loss: float,
    margin: float,
    counts: Any,
) -> Any:
    """A label waits in the heap once, for the nearest pair that it may still raise: memory grows with labels kept.

    A loop of its own: its steps are so short that `best_first`, which makes a label of every step, takes longer.
    """
    pairs, work, most_work = weight.shape[0], counts[WORK], counts[MOST_WORK]
    near = _by_weight(form, weight)
    order, steps = near[0], near[1]
    ways = np.empty(pairs, np.int64)
    work += SORT_NS * pairs * pairs
    for now in range(pairs):
        ways[now] = pairs
        while ways[now] > 0 and not np.isfinite(steps[now, ways[now] - 1]):
            ways[now] -= 1
    room = max(1024, pairs)
    pair_of, action, successor = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    theta, cost, middle = np.empty(room), np.empty(room), np.empty(room)  # `middle` after the jump: `highest_mid`
    turn, raised = np.empty(room, np.int64), np.empty(room)  # what the label waits for: a place in order, a threshold
    heap_key, heap_item = np.empty(room), np.empty(room, np.int64)
    best = np.full(pairs, goal)
    final, size = 0, 0
    reached, complete = limit, limit >= 0.0
    room_left = (counts[MOST_BYTES] - counts[HELD]) // MADE_BYTES
    while complete:
        item, key, now, top = -1, 0.0, final, goal
        fresh = final < pairs  # first the goal itself, at every pair
        if not fresh:
            if size == 0:
                break
            item, key = heap_item[0], heap_key[0]
            if key > limit or final >= MOST_IN_TABLE or final > room_left or work > most_work:
                reached, complete = key, False
                break
            now, top = order[pair_of[item], turn[item]], raised[item]
            fresh = top > best[now] + STEP_UP
            size = pop(heap_key, heap_item, size)
            follow, looked = pair_of[item], turn[item]
            turn[item], raised[item] = _next_raised(
                form, near, tops, best, follow, theta[item], middle[item], turn[item] + 1
            )
            work += LABEL_NS + LOOK_NS * (min(turn[item], ways[follow]) - looked)
            if turn[item] < pairs:
                size = push(heap_key, heap_item, size, cost[item] + steps[follow, turn[item]], item)
        if not fresh:
            continue
        if final == theta.shape[0]:
            pair_of, action, successor = grown(pair_of), grown(action), grown(successor)
            theta, cost, middle = grown(theta), grown(cost), grown(middle)
            turn, raised = grown(turn), grown(raised)
            heap_key, heap_item = grown(heap_key), grown(heap_item)
        best[now] = top
        pair_of[final], theta[final], cost[final], successor[final] = now, top, key, item
        action[final] = -1 if item < 0 else pair_of[item]
        if now == watch and top >= watch_loss:
            limit = min(limit, key * (1.0 + margin) + 1e-9)
            watch = -1
        middle[final] = highest_mid(form, 1, top, now) if form.kind != TABLE else 0.0
        turn[final], raised[final] = _next_raised(form, near, tops, best, now, top, middle[final], 0)
        work += LABEL_NS + LOOK_NS * min(turn[final], ways[now])
        if turn[final] < pairs:
            size = push(heap_key, heap_item, size, key + steps[now, turn[final]], final)
        final += 1
    counts[WORK] = work
    counts[LABELS] += final
    counts[PEAK] = max(counts[PEAK], counts[HELD] + MADE_BYTES * final)
    offsets, rows = _regrouped(pairs, pair_of[:final], turn)
    out = theta[:final][rows], cost[:final][rows], action[:final][rows], _moved(successor[:final][rows], turn)
    return offsets, out[0], out[1], out[2], out[3], complete, reached


@jit
def _rounds(form: Any, allowed: Any, goal: float, tops: Any, limit: float, counts: Any) -> Any:
    """As `_sweep` where every step weighs 1: then all labels of a weight are known at once, and the highest counts."""
    pairs = allowed.shape[0]
    room = max(1024, pairs)
    pair_of, action, successor = np.arange(room), np.full(room, -1), np.full(room, -1)
    theta, cost = np.full(room, goal), np.zeros(room)
    latest = np.arange(pairs)  # the last label of each pair
    first, final = 0, pairs
    reached, complete = limit, True
    number = 0.0
    room_left = (counts[MOST_BYTES] - counts[HELD]) // MADE_BYTES
    while first < final:
        number += 1.0
        best, before_last = np.full(pairs, -np.inf), final
        through = np.full(pairs, -1)
        for item in range(first, final):
            now = pair_of[item]
            mid = highest_mid(form, 1, theta[item], now) if form.kind != TABLE else 0.0
            counts[WORK] += LABEL_NS + LOOK_NS * pairs
            for before in range(pairs):
                known = max(theta[latest[before]], best[before])
                if allowed[before, now] and known < tops[before]:
                    top = _led(form, tops, before, now, theta[item], mid)
                    if top > known + STEP_UP:
                        best[before], through[before] = top, item
        over = final > room_left or counts[WORK] > counts[MOST_WORK]
        if through.max() >= 0 and (number > limit or final >= MOST_IN_TABLE or over):
            reached, complete = number, False
            break
        for before in range(pairs):
            if through[before] < 0:
                continue
            if final == theta.shape[0]:
                pair_of, action, successor = grown(pair_of), grown(action), grown(successor)
                theta, cost = grown(theta), grown(cost)
            pair_of[final], theta[final], cost[final] = before, best[before], number
            action[final], successor[final] = pair_of[through[before]], through[before]
            latest[before] = final
            final += 1
        first = before_last
    counts[LABELS] += final
    counts[PEAK] = max(counts[PEAK], counts[HELD] + MADE_BYTES * final)
    where = np.empty(final, np.int64)
    offsets, rows = _regrouped(pairs, pair_of[:final], where)
    out = theta[:final][rows], cost[:final][rows], action[:final][rows], _moved(successor[:final][rows], where)
    return offsets, out[0], out[1], out[2], out[3], complete, reached


@jit
def _regrouped(pairs: int, pair_of: Any, where: Any) -> Any:
    """Labels by pair, thresholds ascending: where each pair's begin, and their order; `where` each goes is written."""
    offsets = np.zeros(pairs + 1, np.int64)
    for pair in pair_of:
        offsets[pair + 1] += 1
    for pair in range(pairs):
        offsets[pair + 1] += offsets[pair]
    cursor, rows = offsets[:-1].copy(), np.empty(len(pair_of), np.int64)
    for item in range(len(pair_of)):
        where[item] = cursor[pair_of[item]]
        rows[where[item]] = item
        cursor[pair_of[item]] += 1
    return offsets, rows


@jit
def _moved(items: Any, where: Any) -> Any:
    """Labels under the numbers that they have after regrouping; -1 stays."""
    for place in range(len(items)):
        if items[place] >= 0:
            items[place] = where[items[place]]
    return items


def thresholds(
    form: LawForm,
    weight: NDArray[np.float64],
    goal: float,
    *,
    tops: NDArray[np.float64],
    limit: float = np.inf,
    watch: tuple[int, float] = (-1, 0.0),
    margin: float = np.inf,
) -> ToGo:
    """Weight-to-go staircases of every pair.

    `weight` (P, P) is the weight of an epoch on the column's pair after the row's. Thresholds above `tops` (P,) are of
    no interest. Labels above `limit` are not made; once pair `watch[0]` is covered up to loss `watch[1]` the limit
    falls to (1 + `margin`) times the weight found there.
    """
    counts = current()
    return _table(goal, _sweep(form, weight, goal, tops, limit, watch[0], watch[1], margin, counts), counts)


def fewest_epochs(
    form: LawForm,
    allowed: NDArray[np.bool_],
    goal: float,
    *,
    tops: NDArray[np.float64],
    limit: float = np.inf,
) -> ToGo:
    """Epochs-to-go: `thresholds` of a weight of 1 wherever the row's pair may go on as the column's."""
    counts = current()
    return _table(goal, _rounds(form, allowed, goal, tops, limit, counts), counts)


def _table(goal: float, swept: Any, counts: Counts) -> ToGo:
    """What a sweep has made, as a table."""
    check(counts)
    offsets, theta, weight, action, successor, complete, reached = swept
    above = np.inf if complete else reached
    return ToGo(STEPS, goal, offsets, theta, weight, action, successor, above, NO_LAYERS, 0.0)
