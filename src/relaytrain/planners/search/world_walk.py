"""Schedules followed through worlds, compiled: expected energy and the chance to arrive in time, luck counted exactly.

A schedule is a list of legs, the last one training on until target, deadline or the last epoch. In a world the curve is
certain and only luck is not: after each epoch the target is met with the chance Phi((log target - log curve) /
scatter), so energy is paid with the chance that it was not met before.
"""

from __future__ import annotations

import math
from typing import Any

from .allowance import MOST_WORK, WORK
from .kernels import jit, spliced

EPOCH_NS = 30
"""Of an epoch that is walked."""

SETTLED = 1e-3
"""A schedule is followed until it is this unlikely that the target was not met."""


AT_REST = 24
"""Epochs of a leg before its curve may be taken to have come to rest."""

RESTING = 2e-3
"""Of a loss: how near to its floor it is at rest."""

OUT_OF_REACH = -4.0
"""Deviations of luck from which on the target is not met."""

LOOKED_AT = 8
"""Epochs of a leg before it is asked how far the rest of it may be walked without looking at the loss."""

SAFE = 1e-9
"""Far more than rounding makes of a comparison."""


@jit
def gain_at(loss: float, epoch: int, gains: Any, levels: Any, pair: int) -> float:
    """The gain of an epoch by a table: of the run's epoch, or where the loss stands on the pair's own way down."""
    last = gains.shape[0] - 1
    if levels.shape[0] == 0:
        return gains[min(epoch - 1, last), pair]
    low, high = 0, last
    while low < high:  # the last position whose level is not below the loss
        middle = (low + high + 1) // 2
        if levels[middle, pair] >= loss:
            low = middle
        else:
            high = middle - 1
    if low == last or levels[low, pair] <= loss:
        return gains[low, pair]
    share = (levels[low, pair] - loss) / (levels[low, pair] - levels[low + 1, pair])
    return gains[low, pair] + share * (gains[low + 1, pair] - gains[low, pair])


@jit
def surely_far(curve: Any, goal_loss: float, luck: float, scatter: Any, first: int) -> float:
    """The position on the curve before which, in the epochs of a leg from `first` on, the target is out of reach and
    the loss not at rest, whatever the last bits say: nothing but position, time and energy has to be followed there.
    """
    floor, drop, power = curve
    spread = 1e-9
    for column in range(min(first, scatter.shape[0] - 1), scatter.shape[0]):
        spread = max(spread, luck * scatter[column])
    below = 1.0 + OUT_OF_REACH * spread
    if below < RESTING:
        return 0.0
    loss = max(goal_loss / below, floor / (1.0 - RESTING)) * (1.0 + SAFE)
    return ((loss - floor) / drop) ** (-1.0 / power) * (1.0 - SAFE)


@spliced
def walk(
    world: int,
    belief: Any,
    start: Any,
    legs: Any,
    counts: Any,
    terms: Any,
    trail: Any,
) -> Any:
    """One schedule in one world: expected joules and the chance not to arrive.

    `belief`: the arrays of `core.worlds.Worlds`. `start`: pair, epoch, epochs of the leg, seconds so far, experience,
    and of the present leg what is added to the floor and its pace multiplied by. `terms`: seconds (P, P) and joules
    (P, P) of an epoch after another; per pair (P, 4) what a group's first use costs, seconds and joules, and the group,
    zero where it is paid, and the experience of an epoch; the goal: log of the target, deadline, last epoch. `trail`
    (E, 3), where it has rows: of every epoch walked joules spent by its end, the chance not to have met the target
    before it, and the loss that it shows but for luck; its number of epochs is the third result.
    """
    curves, mult, jump0, jump1, stands, scatter, luck, early, entered, gains, levels, factors = belief
    seconds, joules, per_pair, goal = terms
    pair = int(start[0])
    epoch = int(start[1])
    on_leg = int(start[2])
    elapsed, experience = start[3], start[4]
    log_goal, deadline, last = goal[0], goal[1], int(goal[2])
    goal_loss = math.exp(log_goal)
    loss = stands[world]
    left = 1.0
    spent = 0.0
    paid = 0.0
    walked = 0
    for leg in range(legs.shape[0]):
        now = legs[leg]
        if now < 0:
            break
        before = loss
        if now != pair:
            loss = loss + jump0[world, pair, now] + jump1[pair, now] * loss
            if not loss < math.inf:
                return spent, left, walked
            loss = max(loss, 1e-6)
            on_leg = 0
        once_s, once_j = per_pair[now, 0], per_pair[now, 1]
        for earlier in range(leg):
            if per_pair[legs[earlier], 2] == per_pair[now, 2]:
                once_s, once_j = 0.0, 0.0
        floor = curves[world, now, 0]
        drop = curves[world, now, 1]
        scale = curves[world, now, 2]
        lift, pace = start[5], start[6]
        if now != pair:
            begun = min(experience, entered.shape[0] - 1.0)
            row = int(begun)
            more = begun - row
            after = min(row + 1, entered.shape[0] - 1)
            lift = (1.0 - more) * entered[row, now, 0] + more * entered[after, now, 0]
            pace = (1.0 - more) * entered[row, now, 1] + more * entered[after, now, 1]
        floor = max(floor + lift, 0.0)
        scale = scale / pace
        power = curves[world, now, 3]
        if now != pair and gains.shape[0] == 0:
            loss = max(loss, min(before, floor))  # a handover teaches nothing: it leads below no floor
        above = loss > floor
        u = ((loss - floor) / drop) ** (-1.0 / power) if above else 1.0
        far = 0.0
        for gone in range(counts[leg]):
            elapsed += seconds[pair, now] + once_s
            if elapsed > deadline or epoch >= last:
                return spent, left, walked
            spent += left * (joules[pair, now] + once_j)
            paid += joules[pair, now] + once_j
            once_s, once_j = 0.0, 0.0
            if walked < trail.shape[0]:
                trail[walked, 0] = paid
                trail[walked, 1] = left
            pair = now
            epoch += 1
            experience += per_pair[now, 3]
            on_leg += 1
            if gains.shape[0] > 0:
                gain = gain_at(loss, epoch, gains, levels, now)
                loss -= gain * factors[world, min(walked, factors.shape[1] - 1), now]
            elif above:
                u += mult[min(epoch, mult.shape[0]) - 1, now] / scale
                if gone == LOOKED_AT and on_leg > early.shape[1] and walked >= trail.shape[0]:
                    far = surely_far((floor, drop, power), goal_loss, luck[world, now], scatter[now], on_leg - 1)
                if u < far and gone < counts[leg] - 1:
                    walked += 1
                    continue
                if power == 4.0:  # as curves are fitted; a division instead of a logarithm and an exponential
                    square = u * u
                    loss = floor + drop / (square * square)
                else:
                    loss = floor + drop * math.exp(-power * math.log(u))
            spread = max(luck[world, now] * scatter[now, min(on_leg, scatter.shape[1]) - 1], 1e-9)
            z = OUT_OF_REACH
            shown = loss  # early epochs lie off the curve, alike in all legs
            if on_leg <= early.shape[1] and early[now, on_leg - 1] != 0.0:
                shown = loss * math.exp(early[now, on_leg - 1])
            if shown - goal_loss < -OUT_OF_REACH * spread * shown:  # else out of reach, for log x >= 1 - 1 / x
                z = (log_goal - math.log(max(shown, 1e-9))) / spread
                if z > OUT_OF_REACH:
                    left *= 0.5 * math.erfc(z * 0.7071067811865476)
            if walked < trail.shape[0]:
                trail[walked, 2] = shown
            walked += 1
            if left < SETTLED and walked >= trail.shape[0]:
                return spent, left, walked
            resting = gains.shape[0] == 0 and on_leg >= AT_REST and loss - floor < RESTING * loss
            if walked >= trail.shape[0] and resting:
                # At rest, no row left to fill: every epoch to come has the same chance, the rest is a geometric series.
                more = min(float(counts[leg] - gone - 1), float(last - epoch))
                if seconds[now, now] > 0.0:
                    more = min(more, math.floor((deadline - elapsed) / seconds[now, now]))
                more = max(more, 0.0)
                chance = 0.5 * math.erfc(-z * 0.7071067811865476) if z > OUT_OF_REACH else 0.0
                kept = (1.0 - chance) ** more
                paid_for = more if chance < 1e-12 else (1.0 - kept) / chance
                spent += left * joules[now, now] * paid_for
                left *= kept
                epoch += int(more)
                experience += more * per_pair[now, 3]
                on_leg += int(more)
                elapsed += more * seconds[now, now]
                break
    return spent, left, walked


@jit
def trailed(
    count: int,
    belief: Any,
    start: Any,
    legs: Any,
    counts: Any,
    terms: Any,
    trails: Any,
    left: Any,
    walked: Any,
) -> None:
    """One schedule in every world with its trail; the chance not to arrive, and the epochs walked."""
    for world in range(count):
        _, left[world], walked[world] = walk(world, belief, start, legs, counts, terms, trails[world])


@jit
def followed(
    count: int,
    belief: Any,
    start: Any,
    schedules: Any,
    counts: Any,
    chosen: Any,
    terms: Any,
    trail: Any,
    sums: Any,
    seen: Any,
    taken: Any,
) -> None:
    """Energy and chance not to arrive of the `chosen` schedules, summed up over the first `count` worlds.

    `sums` (S, 2) hold those of the worlds `seen` (S,) before, which are not walked again. `taken` are the counts of
    `allowance`; at its limit no further schedule is followed.
    """
    for i in range(chosen.shape[0]):
        s = chosen[i]
        if taken[WORK] > taken[MOST_WORK]:
            return
        for world in range(seen[s], count):
            spent, left, walked = walk(world, belief, start, schedules[s], counts[s], terms, trail)
            taken[WORK] += EPOCH_NS * (walked + 1)
            sums[s, 0] += spent
            sums[s, 1] += left
        seen[s] = max(seen[s], count)
