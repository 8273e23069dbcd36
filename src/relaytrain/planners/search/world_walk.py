"""Schedules followed through worlds, compiled: expected energy and the chance to arrive in time, luck counted exactly.

A schedule is a list of legs, the last one training on until target, deadline or the last epoch. In a world the curve is
certain and only luck is not: after each epoch the target is met with the chance Phi((log target - log curve) /
scatter), so energy is paid with the chance that it was not met before.
"""

from __future__ import annotations

import math
from typing import Any

from .allowance import MOST_WORK, WORK
from .kernels import jit

EPOCH_NS = 30
"""Of an epoch that is walked."""

SETTLED = 1e-3
"""A schedule is followed until it is this unlikely that the target was not met."""


AT_REST = 24
"""Epochs of a leg before its curve may be taken to have come to rest."""


@jit
def walk(
    world: int,
    curves: Any,
    mult: Any,
    jump0: Any,
    jump1: Any,
    stands: Any,
    scatter: Any,
    luck: Any,
    start: Any,
    legs: Any,
    counts: Any,
    seconds: Any,
    joules: Any,
    goal: Any,
    trail: Any,
) -> Any:
    """One schedule in one world: expected joules and the chance not to arrive.

    `start`: pair, epoch, epochs of the leg, seconds so far. `goal`: log of the target, deadline, last epoch. `trail`
    (E, 3), where it has rows: of every epoch walked joules spent by its end, the chance not to have met the target
    before it, and the curve; its number of epochs is the third result.
    """
    pair = int(start[0])
    epoch = int(start[1])
    on_leg = int(start[2])
    elapsed = start[3]
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
        if now != pair:
            loss = loss + jump0[world, pair, now] + jump1[pair, now] * loss
            if not loss < math.inf:
                return spent, left, walked
            loss = max(loss, 1e-6)
            on_leg = 0
        floor = curves[world, now, 0]
        drop = curves[world, now, 1]
        scale = curves[world, now, 2]
        power = curves[world, now, 3]
        above = loss > floor
        u = ((loss - floor) / drop) ** (-1.0 / power) if above else 1.0
        for gone in range(counts[leg]):
            elapsed += seconds[pair, now]
            if elapsed > deadline or epoch >= last:
                return spent, left, walked
            spent += left * joules[pair, now]
            paid += joules[pair, now]
            if walked < trail.shape[0]:
                trail[walked, 0] = paid
                trail[walked, 1] = left
            pair = now
            epoch += 1
            on_leg += 1
            if above:
                u += mult[min(epoch, mult.shape[0]) - 1, now] / scale
                if power == 4.0:  # as curves are fitted; a division instead of a logarithm and an exponential
                    square = u * u
                    loss = floor + drop / (square * square)
                else:
                    loss = floor + drop * math.exp(-power * math.log(u))
            spread = max(luck[world, now] * scatter[now, min(on_leg, scatter.shape[1]) - 1], 1e-9)
            z = -4.0
            if loss - goal_loss < 4.0 * spread * loss:  # else out of reach, for log x >= 1 - 1 / x
                z = (log_goal - math.log(max(loss, 1e-9))) / spread
                if z > -4.0:
                    left *= 0.5 * math.erfc(z * 0.7071067811865476)
            if walked < trail.shape[0]:
                trail[walked, 2] = loss
            walked += 1
            if left < SETTLED and walked >= trail.shape[0]:
                return spent, left, walked
            if trail.shape[0] == 0 and on_leg >= AT_REST and loss - floor < 2e-3 * loss:
                # At rest: every epoch to come has the same chance, so the rest of the leg is a geometric series.
                more = min(float(counts[leg] - gone - 1), float(last - epoch))
                if seconds[now, now] > 0.0:
                    more = min(more, math.floor((deadline - elapsed) / seconds[now, now]))
                more = max(more, 0.0)
                chance = 0.5 * math.erfc(-z * 0.7071067811865476) if z > -4.0 else 0.0
                kept = (1.0 - chance) ** more
                paid_for = more if chance < 1e-12 else (1.0 - kept) / chance
                spent += left * joules[now, now] * paid_for
                left *= kept
                epoch += int(more)
                on_leg += int(more)
                elapsed += more * seconds[now, now]
                break
    return spent, left, walked


@jit
def followed(
    count: int,
    curves: Any,
    mult: Any,
    jump0: Any,
    jump1: Any,
    stands: Any,
    scatter: Any,
    luck: Any,
    start: Any,
    schedules: Any,
    counts: Any,
    chosen: Any,
    seconds: Any,
    joules: Any,
    goal: Any,
    trail: Any,
    energy: Any,
    missed: Any,
    taken: Any,
) -> None:
    """Mean energy and chance not to arrive of the `chosen` schedules over the first `count` worlds.

    `taken` are the counts of `allowance`; at its limit no further schedule is followed.
    """
    for i in range(chosen.shape[0]):
        s = chosen[i]
        total = 0.0
        late = 0.0
        if taken[WORK] > taken[MOST_WORK]:
            return
        for world in range(count):
            spent, left, walked = walk(
                world, curves, mult, jump0, jump1, stands, scatter, luck, start, schedules[s], counts[s], seconds,
                joules, goal, trail,
            )  # fmt: skip
            taken[WORK] += EPOCH_NS * (walked + 1)
            total += spent
            late += left
        energy[s] = total / count
        missed[s] = late / count
