"""What could be reached instead: the least loss by the deadline, and the earliest time for the target."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...core.plan import Nearest
from ...core.state import State
from ..search.instance import Array
from ..search.labels import search
from ..search.solve import SearchInstance, Solution, Start, path_of, solve
from .lateness import cautious, least_quantile, margin, path_variance
from .level_tables import Tables

MOST_LABELS = 400_000
TANGENTS = 4
"""How often the tangent is laid anew."""


def least_loss(instance: SearchInstance, start: Start) -> Solution:
    """The path to the least loss by the deadline (for laws with epoch tables: a good one, not surely the least)."""
    seconds = np.where(instance.allowed, instance.seconds, np.inf)
    deadline = instance.deadline if math.isfinite(instance.deadline) else 1e300
    # In order of time, and of no loss that a pair has seen before: the first of the least losses settled.
    timed = replace(instance, seconds=seconds, joules=seconds, goal=-math.inf, deadline=deadline, tables={})
    outcome = search(
        timed,
        start,
        epochs=instance.cap(start),
        most=MOST_LABELS,
        spent=start.elapsed_s,
        ceiling=deadline,
        with_time=False,
    )
    actions = outcome.path(outcome.settled[np.argmin(outcome.labels.loss[outcome.settled])])
    if len(actions) == 0:
        return Solution(False, (), (), 0.0, start.elapsed_s, math.inf, False)
    losses, energy, elapsed = path_of(instance, start, actions)
    return Solution(False, tuple(map(int, actions)), tuple(map(float, losses)), energy, elapsed, math.inf, False)


def nearest_targets(tables: Tables, state: State, level: float) -> tuple[Nearest, ...]:
    """Targets that are feasible at `level`: a higher loss by the same deadline, the same loss by a later one."""
    start = tables.at_level(tables.start(state), level)
    instance = tables.at(level)
    scale_loss = 1.0 if tables.grid is None else tables.grid.loss_step
    scale_time = 1.0 if tables.grid is None else tables.grid.time_step_s
    targets: list[Nearest] = []
    low = least_loss(instance, start)
    z, variance = margin(level), tables.variance
    if variance is not None and z > 0.0:
        low = _least_loss_in_time(instance, variance, z, start, low)
    if low.actions:
        targets.append(Nearest(min(low.losses) * scale_loss, tables.problem.target.deadline_s))
    quick = solve(tables.timed(level), start)
    if quick.feasible:
        late = quick.elapsed_s if variance is None else least_quantile(tables.timed(level), variance, z, start)
        targets.append(Nearest(tables.problem.target.loss, late * scale_time))
    return tuple(targets)


def _least_loss_in_time(base: SearchInstance, variance: Array, z: float, start: Start, low: Solution) -> Solution:
    """`least_loss` where time scatters: the tangent is laid anew at the path just found, which never makes it worse."""
    best = Solution(False, (), (), 0.0, start.elapsed_s, math.inf, False)
    for _ in range(TANGENTS):
        deviation = math.sqrt(path_variance(variance, start, low.actions))
        low = least_loss(cautious(base, variance, z, deviation), start)
        if not low.actions or (best.actions and min(low.losses) >= min(best.losses)):
            break
        best = low
    return best
