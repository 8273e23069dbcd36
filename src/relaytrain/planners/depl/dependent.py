"""Planning when epochs are not independent: the exact search, over sampled paths in place of convolutions.

Prefix sums of every sampled path make the loss of any schedule a few look-ups for each sample, so the search for
versions needs nothing but another table. What it finds is checked on fresh, more numerous paths; if those say less than
was asked, the search is repeated for a little more.

Paper: DepL section IV-B, without its assumption of independence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...core.dependence import Belief, Past, draw_latent, from_normal
from .datasets import choose
from .instance import Instance
from .joint import DeplPlan, complete
from .losses import SLACK, Counts, LossTable, Rows
from .versions import SWITCHES, Schedule, VersionSearch

Real = NDArray[np.float64]

SEARCHED, CHECKED = 4_000, 20_000
"""Paths that the search looks at, and that its answer is checked on."""
NOTHING = Past()
_ROUNDS = 8
_STEP = 5e-4


@dataclass(frozen=True)
class Paths:
    """Sampled x of every version in every epoch to come, and draws for the switches; `seed` fixes them all."""

    instance: Instance
    belief: Belief
    past: Past = NOTHING
    samples: int = CHECKED
    seed: int = 0

    @cached_property
    def x(self) -> Real:
        """Shape (models, epochs, samples)."""
        done, most = self.instance.epochs_done, self.instance.target.max_epochs
        epochs = range(done + 1, done + most + 1)
        models = self.instance.models
        z = draw_latent(self.belief, self.past, epochs, len(models), samples=self.samples, seed=self.seed)
        return np.array([from_normal(model.noise, z[:, m].T) for m, model in enumerate(models)])

    @cached_property
    def _uniform(self) -> Real:
        return np.random.default_rng([self.seed, 1]).uniform(size=(16, self.samples))

    def jump(self, before: int, now: int, number: int) -> Real:
        """The loss change of the schedule's switch number `number`, shape (samples,)."""
        from scipy.special import stdtrit

        found = self.instance.jump(before, now)
        if found.scale == 0:
            return np.full(self.samples, found.location)
        return np.asarray(found.location + found.scale * stdtrit(found.nu, self._uniform[number % 16]), np.float64)

    def losses(self, chosen: Sequence[int], models: Sequence[int]) -> Real:
        """The loss after every epoch of a schedule, shape (epochs, samples)."""
        instance = self.instance
        gain, before, switches = instance.data_gain(chosen), instance.before, 0
        loss = np.full(self.samples, instance.initial_loss)
        rows = []
        for i, m in enumerate(models):
            if before is not None and before != m:
                loss = loss + self.jump(before, m, switches)
                switches += 1
            loss = loss - gain * float(instance.models[m].progress(instance.epochs_done + i + 1)) * self.x[m, i]
            rows.append(loss)
            before = m
        return np.array(rows).reshape(len(models), self.samples)

    def probability(self, chosen: Sequence[int], models: Sequence[int]) -> float:
        """The share of paths that end at the target or below."""
        if not models:
            return float(self.instance.initial_loss <= self.instance.target.loss + SLACK)
        return float((self.losses(chosen, models)[-1] <= self.instance.target.loss + SLACK).mean())


class SampledTable(LossTable):
    """Prefix sums of sampled paths with the chosen data, in place of characteristic functions."""

    def __init__(self, paths: Paths, chosen: Sequence[int]) -> None:
        instance, samples = paths.instance, paths.samples
        self.instance, self.paths = instance, paths
        self.target, self.omega = instance.target.loss, instance.target.probability
        gain, most = instance.data_gain(chosen), instance.target.max_epochs
        self.sure = all(m.noise.positive and gain * m.gain > 0 for m in instance.models)
        k = instance.epochs_done + np.arange(1, most + 1)
        steps = np.array([gain * m.progress(k) for m in instance.models])
        self.sums = np.zeros((len(steps), most + 1, samples))
        np.cumsum(steps[:, :, None] * paths.x, axis=1, out=self.sums[:, 1:])
        self.mean, self.variance = -self.sums.mean(axis=2), np.zeros((len(steps), most + 1))

    @property
    def most_rows(self) -> int:
        """Schedules to hold at once."""
        return max(16, (1 << 20) // self.paths.samples)

    def hopeful(self, rows: Rows, last: int, length: Counts) -> NDArray[np.bool_]:
        """No short cut: Cantelli's inequality would need the variance of a dependent sum."""
        return np.ones(len(length), np.bool_)

    def probability(self, rows: Rows, last: int, length: Counts) -> Real:
        """The share of paths at the target or below when the last segment has these lengths."""
        found = np.empty(len(length))
        for start in range(0, len(length), self.most_rows):
            part = slice(start, start + self.most_rows)
            ends = np.hstack([rows.starts[part], (rows.end + length)[part, None]])
            found[part] = (self._losses(rows.structure, ends) <= self.target + SLACK).mean(axis=1)
        return found

    def _losses(self, structure: Sequence[int], ends: Counts) -> Real:
        total = np.full((len(ends), self.paths.samples), self.instance.initial_loss)
        before, switches = self.instance.before, 0
        for i, m in enumerate(structure):
            if before is not None and before != m:
                total += self.paths.jump(before, m, switches)
                switches += 1
            total -= self.sums[m][ends[:, i + 1]] - self.sums[m][ends[:, i]]
            before = m
        return total


class DependentSearch(VersionSearch):
    """The version search over a `SampledTable`, which is its own check."""

    def holds(self, models: Sequence[int]) -> bool:
        """The table said so already; fresh paths have the last word."""
        return True


def plan_dependent(
    instance: Instance, belief: Belief, past: Past = NOTHING, *, switches: int = SWITCHES, seed: int = 0
) -> DeplPlan:
    """The cheapest plan whose probability, dependence counted in, is what was asked; or an infeasible one."""
    if instance.initial_loss <= instance.target.loss + SLACK:
        return complete_start(instance)
    asked = level = instance.target.probability
    check = Paths(instance, belief, past, CHECKED, seed + 1)
    for _ in range(_ROUNDS):
        found = _search(replace(instance, target=replace(instance.target, probability=level)), belief, past, switches, seed)
        if found is None:
            break
        chosen, models = found
        reached = check.probability(chosen, models)
        if reached >= asked - SLACK:
            made = complete(instance, chosen, models)
            quantile = float(np.quantile(check.losses(chosen, models)[-1], asked))
            return replace(made, feasible=True, probability=reached, quantile=quantile, exact=False, reason="")
        level = min(level + max(asked - reached, _STEP), 0.5 * (1.0 + level))
    words = f"no schedule reaches loss {instance.target.loss:g} with probability {asked:g} under the dependence of epochs"
    return DeplPlan(False, exact=False, reason=words)


def complete_start(instance: Instance) -> DeplPlan:
    """The plan that does nothing, for a loss that is low enough already."""
    start = instance.initial_loss
    return DeplPlan(True, 0.0, probability=1.0, quantile=start, mean=start, dual_bound=0.0)


def _search(
    instance: Instance, belief: Belief, past: Past, switches: int, seed: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    paths = Paths(instance, belief, past, SEARCHED, seed)
    best: dict[tuple[int, ...], Schedule] = {}

    def value(chosen: tuple[int, ...], below: float) -> float:
        table = SampledTable(paths, chosen)
        found = DependentSearch(instance, chosen, switches=switches).best(below=below, table=table)
        if found is None:
            return float("inf")
        best[chosen] = found
        return found.cost

    choice = choose(len(instance.datasets), value)
    return (choice.chosen, best[choice.chosen].models) if choice.chosen else None
