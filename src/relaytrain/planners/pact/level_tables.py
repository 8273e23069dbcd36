"""Search instances by level, made once for all that asks about one problem, cost table and law."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.cost import CostTable
from ...core.curve import Array
from ...core.law import TABLE, Level, LevelLaw, LossLaw, begin
from ...core.problem import Problem
from ...core.state import TOLERANCE, Grid, State
from ..search.instance import MOST_EPOCHS, SearchInstance, Start, instances_of
from ..search.solve import by_table, first_steps, solve
from .lateness import cautious, least_quantile, margin, path_variance

LEAST_ABOVE = 1e-6
"""A curve that is believed to stand at the target although the observed loss does not is put this much above it."""


@dataclass
class Tables:
    """All that depends on problem, costs, law and grid but not on the state, so re-planning is mostly lookups."""

    problem: Problem
    costs: CostTable
    law: LossLaw
    grid: Grid | None = None
    instances: dict[Any, SearchInstance] = field(default_factory=dict)

    def at(self, level: Level) -> SearchInstance:
        """The instance at `level`."""
        if level not in self.instances:
            self.prepare((level,))
        return self.instances[level]

    def prepare(self, levels: Sequence[Level]) -> None:
        """Make the instances at all of `levels` in one go."""
        instances = instances_of(self.problem, self.costs, self.law, levels, grid=self.grid)
        self.instances.update(zip(levels, instances, strict=True))

    def start(self, state: State) -> Start:
        """Where the expected path begins, in the instances' units: steps of the grid if there is one."""
        target, stands = self.problem.target, begin(self.law, state.loss, state.pair)
        if stands != state.loss and state.loss > target.loss + TOLERANCE:
            stands = max(stands, target.loss + LEAST_ABOVE)  # what was observed decides whether the target is met
        if self.grid is None:
            return Start(state.epoch, state.pair, stands, state.elapsed_s)
        loss, time = self.grid.loss_index(stands), self.grid.time_index(state.elapsed_s)
        if state.loss <= target.loss + TOLERANCE and state.elapsed_s <= target.deadline_s + TOLERANCE:
            # Rounding must not undo a target that is met.
            loss = self.grid.goal_index(target.loss)
            time = min(time, self.grid.deadline_index(target.deadline_s)) if math.isfinite(target.deadline_s) else time
        return Start(state.epoch, state.pair, float(loss), float(time))

    def at_level(self, start: Start, level: Level) -> Start:
        """Where a path of `level` begins: `start`, raised by the level's share of the scatter of observed losses."""
        factor = self.law.raised(level) if isinstance(self.law, LevelLaw) else None
        if factor is None:
            return start
        loss = start.loss * float(factor[start.pair])
        return replace(start, loss=loss if self.grid is None else float(math.ceil(loss - TOLERANCE)))

    @cached_property
    def variance(self) -> Array | None:
        """Of an epoch's seconds (P, P), in the instances' units; None where time is certain (the emulated clock)."""
        if self.problem.clock != "measured":
            return None
        step = 1.0 if self.grid is None else self.grid.time_step_s
        variance = self.costs.epoch_s2 / step**2
        return variance if variance.any() else None

    def earliest(self, level: Level, start: Start) -> Array:
        """The least final time by first action (P,), whatever the energy; a lower bound if the law has epoch tables."""
        instance, start = self.at(level), self.at_level(start, level)
        every = np.ones(len(instance.seconds), np.bool_)
        time = instance.weight_to_go("time", start) if instance.by_epoch else instance.time_to_go()
        return start.elapsed_s + first_steps(instance, start, time, instance.seconds, every)

    def in_time(self, level: Level, start: Start) -> NDArray[np.bool_]:
        """Which first actions (P,) can still reach the target by the deadline at `level`: of loss, and of time."""
        mask, instance, z = self._in_mean_time(level, start), self.at(level), margin(level)
        if self.variance is not None and z > 0.0 and math.isfinite(instance.deadline):
            sure = self.at_level(start, level)
            for now in np.flatnonzero(mask):
                only = np.arange(len(mask)) == now
                late = least_quantile(instance, self.variance, z, sure, only, enough=instance.deadline)
                mask[now] = late <= instance.deadline
        return mask

    def cautious(self, level: Level, start: Start) -> SearchInstance:
        """The instance at `level`; where time scatters, one whose paths from `start` are all in time at that level."""
        base, z = self.at(level), margin(level)
        if self.variance is None or z <= 0.0:
            return base
        quick = solve(self.timed(level), start)
        return cautious(base, self.variance, z, math.sqrt(path_variance(self.variance, start, quick.actions)))

    def _in_mean_time(self, level: Level, start: Start) -> NDArray[np.bool_]:
        instance = self.at(level)
        earliest = self.earliest(level, start)
        start = self.at_level(start, level)
        mask = np.isfinite(earliest) & (earliest <= instance.deadline)
        if not instance.by_epoch and not instance.capped:
            return mask
        time = instance.weight_to_go("time", start) if instance.by_epoch else instance.time_to_go()
        room = instance.cap(start) - start.epoch
        for now in np.flatnonzero(mask):  # the bound says yes: find a path, a ready one or the quickest of all
            only = np.arange(len(mask)) == now
            ready = by_table(instance, start, time, instance.seconds, only)
            if ready is None or not ready.feasible or len(ready.actions) > room:
                quickest = solve(self.timed(level), start, only)
                mask[now] = quickest.feasible and quickest.elapsed_s <= instance.deadline
        return mask

    def timed(self, level: Level) -> SearchInstance:
        """The instance at `level` with seconds to minimise and no deadline: `solve` gives the quickest way."""
        key = ("timed", level)
        if key not in self.instances:
            base = self.at(level)
            seconds = np.where(np.isfinite(base.joules), base.seconds, np.inf)
            epochs = base.epochs if base.form.kind == TABLE or base.by_epoch else MOST_EPOCHS
            self.instances[key] = replace(
                base, seconds=seconds, joules=seconds, deadline=math.inf, epochs=epochs, tables={}
            )
        return self.instances[key]
