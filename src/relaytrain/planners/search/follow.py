"""Walking a to-go table forwards: the value of each first action, and the path the table itself recommends."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.state import TOLERANCE
from .kernels import grown, jit, next_loss
from .togo import lookup, place


@jit
def first_weights(form: Any, togo: Any, weight: Any, start: tuple[int, int, float], mask: Any) -> Any:
    """Weight of the best path by first action (P,); `weight` is infinite where an action is impossible."""
    epoch, pair, loss = start
    out = np.full(weight.shape[0], np.inf)
    for now in range(weight.shape[0]):
        if mask[now] and np.isfinite(weight[pair, now]):
            landed = next_loss(form, epoch + 1, loss, pair, now)
            if np.isfinite(landed):
                out[now] = weight[pair, now] + lookup(togo, epoch + 1, now, landed)
    return out


@jit
def follow_steps(form: Any, togo: Any, weight: Any, start: tuple[int, int, float], goal: float, mask: Any) -> Any:
    """STEPS: the best first action, then the thresholds' own actions to the goal; and the path's weight."""
    epoch, pair, loss = start
    actions = np.empty(64, np.int64)
    values = first_weights(form, togo, weight, start, mask)
    now = int(np.argmin(values))
    if not np.isfinite(values[now]):
        return actions[:0], np.inf
    landed = next_loss(form, epoch + 1, loss, pair, now)
    actions[0] = now
    count = 1
    label = -1 if landed <= goal else place(togo, now, landed)
    while label >= 0 and togo.action[label] >= 0:
        if count == actions.shape[0]:
            actions = grown(actions)
        actions[count] = togo.action[label]
        count += 1
        label = togo.successor[label]
    return actions[:count], values[now]


@jit
def follow_lookups(
    form: Any, togo: Any, weight: Any, seconds: Any, start: tuple[int, int, float], goal: float, mask: Any
) -> Any:
    """LAYERS, LINES: step by step the action of least weight and bound, ties going to the quicker; and the first bound.

    The path is optimal for LAYERS, a good one for LINES; empty when it does not reach the goal.
    """
    epoch, pair, loss = start
    actions = np.empty(64, np.int64)
    count, total = 0, np.inf
    while loss > goal:
        best, value, late = -1, np.inf, np.inf
        for now in range(weight.shape[0]):
            if (count == 0 and not mask[now]) or not np.isfinite(weight[pair, now]):
                continue
            landed = next_loss(form, epoch + 1, loss, pair, now)
            if not np.isfinite(landed):
                continue
            here = weight[pair, now] + lookup(togo, epoch + 1, now, landed)
            if here < value - TOLERANCE or (here <= value + TOLERANCE and seconds[pair, now] < late):
                best, value, late = now, min(here, value), seconds[pair, now]
        if best < 0 or not np.isfinite(value) or epoch + 1 >= togo.layers.shape[0]:
            return actions[:0], np.inf
        if count == 0:
            total = value
        if count == actions.shape[0]:
            actions = grown(actions)
        actions[count] = best
        count += 1
        loss = next_loss(form, epoch + 1, loss, pair, best)
        pair, epoch = best, epoch + 1
    return actions[:count], total


@jit
def replay(
    form: Any, seconds: Any, joules: Any, start: tuple[int, int, float, float], actions: Any, goal: float
) -> Any:
    """Losses after each action up to the first at or below `goal`, joules, final time and how many actions it took."""
    epoch, pair, loss, elapsed = start
    energy = 0.0
    losses = np.empty(actions.shape[0])
    for position in range(actions.shape[0]):
        now = actions[position]
        energy += joules[pair, now]
        elapsed += seconds[pair, now]
        loss = next_loss(form, epoch + 1 + position, loss, pair, now)
        losses[position] = loss
        pair = now
        if loss <= goal:
            return losses[: position + 1], energy, elapsed, position + 1
    return losses, energy, elapsed, actions.shape[0]


@jit
def walk_steps(
    form: Any,
    togo: Any,
    weight: Any,
    seconds: Any,
    joules: Any,
    start: tuple[int, int, float, float],
    goal: float,
    mask: Any,
) -> Any:
    """`follow_steps` and `replay` in one call: re-planning by lookup spends most of its time on calls."""
    epoch, pair, loss, _ = start
    actions, value = follow_steps(form, togo, weight, (epoch, pair, loss), goal, mask)
    losses, energy, elapsed, count = replay(form, seconds, joules, start, actions, goal)
    return actions[:count], value, losses, energy, elapsed
