"""Planning when epochs are not independent: a stand-in with independent epochs is searched, sampled paths decide.

The stand-in has, for every version, noise of the mean and variance that make a sum as long as the plan scatter like
the sampled paths; its target is moved until the schedule found meets the true one on the paths. Then single segments
are made shorter, longer or swapped for others while that saves. What is returned was checked on fresh paths; if those
say less than was asked, all is done again for a little more.

Paper: DepL section IV-B, without its assumption of independence.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ....core.dependence import NoiseBelief, NoisePast, draw_latent, from_normal
from ....core.depl import DeplProblem
from ....core.distribution import InverseGamma
from ....core.fourier import SLACK, Real
from ..solution import DeplPlan, complete, settled
from .joint import plan
from .version_search import SWITCHES, VersionSearch

SAMPLES = 20_000
"""Paths that a search looks at, and as many fresh ones that its answer is checked on."""
NOTHING = NoisePast()
_ROUNDS = 6
_MOVES = 14
Choice = tuple[tuple[int, ...], tuple[int, ...]]
"""Datasets and versions by epoch."""


@dataclass(frozen=True)
class Paths:
    """Sampled x of every version in every epoch to come, and draws for the switches; `seed` fixes them all."""

    instance: DeplProblem
    belief: NoiseBelief
    past: NoisePast = NOTHING
    samples: int = SAMPLES
    seed: int = 0

    @cached_property
    def x(self) -> Real:
        """Shape (versions, epochs, samples)."""
        done, most = self.instance.epochs_done, self.instance.max_epochs
        epochs = range(done + 1, done + most + 1)
        versions = self.instance.versions
        z = draw_latent(self.belief, self.past, epochs, len(versions), samples=self.samples, seed=self.seed)
        return np.array([from_normal(version.noise, z[:, m].T) for m, version in enumerate(versions)])

    @cached_property
    def _uniform(self) -> Real:
        return np.random.default_rng([self.seed, 1]).uniform(size=(16, self.samples))

    def jump(self, before: int, now: int, number: int) -> Real:
        """The loss change of the schedule's switch number `number`, shape (samples,)."""
        from scipy.special import stdtrit

        change = self.instance.jump(before, now)
        if change.scale == 0:
            return np.full(self.samples, change.location)
        return np.asarray(change.location + change.scale * stdtrit(change.nu, self._uniform[number % 16]), np.float64)

    def losses(self, chosen: Sequence[int], versions: Sequence[int]) -> Real:
        """The loss after every epoch of a schedule, shape (epochs, samples)."""
        instance = self.instance
        gain, before, switches = instance.data_gain(chosen), instance.before, 0
        loss = np.full(self.samples, instance.initial_loss)
        rows = []
        for i, m in enumerate(versions):
            if before is not None and before != m:
                loss = loss + self.jump(before, m, switches)
                switches += 1
            loss = loss - gain * float(instance.versions[m].progress(instance.epochs_done + i + 1)) * self.x[m, i]
            rows.append(loss)
            before = m
        return np.array(rows).reshape(len(versions), self.samples)

    def probability(self, chosen: Sequence[int], versions: Sequence[int]) -> float:
        """The share of paths that end at the target or below."""
        if not versions:
            return float(self.instance.initial_loss <= self.instance.target.loss + SLACK)
        return float((self.losses(chosen, versions)[-1] <= self.instance.target.loss + SLACK).mean())


def plan_dependent(
    instance: DeplProblem,
    belief: NoiseBelief,
    past: NoisePast = NOTHING,
    *,
    switches: int = SWITCHES,
    seed: int = 0,
    within: float = 0.0,
) -> DeplPlan:
    """The cheapest plan found whose probability, dependence counted in, is what was asked; or an infeasible one."""
    if (start := settled(instance)) is not None:
        return start
    asked = level = instance.target.probability
    paths, fresh = (Paths(instance, belief, past, SAMPLES, seed + i) for i in (0, 1))
    for _ in range(_ROUNDS):
        choice = _search(paths, level, switches)
        if choice is None:
            break
        reached = fresh.probability(*choice)
        if reached >= asked - SLACK:
            solution = complete(instance, *choice, within=within)
            quantile = float(np.quantile(fresh.losses(*choice)[-1], asked))
            return replace(solution, feasible=True, probability=reached, quantile=quantile, exact=False, reason="")
        passed = paths.probability(*choice) + 0.5 / SAMPLES  # more than this schedule has, or it would be found again
        level = min(max(passed, level + asked - reached), 0.5 * (1.0 + level))
    words = (
        f"no schedule reaches loss {instance.target.loss:g} with probability {asked:g} under the dependence of epochs"
    )
    return DeplPlan(False, exact=False, reason=words)


def _search(paths: Paths, level: float, switches: int) -> Choice | None:
    """The cheapest schedule found that meets the target with probability `level` on these paths."""
    target = paths.instance.target
    least = 1e-3 * abs(paths.instance.initial_loss - target.loss)
    length = paths.instance.max_epochs // 2 + 1
    shift, short, enough = 0.0, -math.inf, math.inf  # shifts of the stand-in's target: too small, large enough
    best: tuple[float, Choice] | None = None
    for _ in range(_MOVES):
        stand_in = _independent(paths, length)
        moved = replace(target, loss=target.loss - shift, probability=level)
        solution = plan(replace(stand_in, target=moved), switches=switches)
        if solution.feasible:
            at: Choice = solution.datasets, solution.versions
            gap = float(np.quantile(paths.losses(*at)[-1], level)) - target.loss
            length = len(solution.versions)
            if gap <= SLACK:
                best = (solution.cost, at) if best is None or solution.cost < best[0] else best
        else:
            gap = -least  # asked too much of the stand-in
        short, enough = (max(short, shift), enough) if gap > SLACK else (short, min(enough, shift))
        ahead = shift + (max(gap, least) if gap > SLACK else min(gap, -least))
        shift = ahead if short < ahead < enough else 0.5 * (short + enough)
        if enough - short < least:
            break
    return None if best is None else _improved(paths, level, switches, best)


def _independent(paths: Paths, length: int) -> DeplProblem:
    """The instance with independent noise whose sums over `length` epochs have the paths' means and variances."""
    instance, versions = paths.instance, []
    length = max(1, min(length, instance.max_epochs))
    k = instance.epochs_done + np.arange(1, length + 1)
    for m, version in enumerate(instance.versions):
        steps = version.progress(k)
        sums = steps @ paths.x[m, :length]
        mean = max(float(sums.mean()) / float(steps.sum()), 1e-6)
        versions.append(replace(version, noise=InverseGamma(mean, float(sums.var()) / float((steps**2).sum()))))
    return replace(instance, versions=tuple(versions))


def _improved(paths: Paths, level: float, switches: int, best: tuple[float, Choice]) -> Choice:
    """`best` with segments made shorter or longer, cheapest first, as long as that saves and still meets the target."""
    cost, (chosen, versions) = best
    search = VersionSearch(paths.instance, chosen, switches=switches)
    improving = True
    while improving:
        improving = False
        near = set(filter(paths.instance.possible, _neighbours(versions, paths.instance.max_epochs)))
        priced = sorted((search.cost(other), other) for other in near)
        for price, other in priced:
            if price >= cost * (1 - 1e-9):
                break
            if paths.probability(chosen, other) >= level - SLACK:
                cost, versions, improving = price, other, True
                break
    return chosen, versions


def _neighbours(versions: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """Schedules of the same versions in the same order with lengths changed by up to two in one or two segments."""
    segments = [(m, len(list(rows))) for m, rows in itertools.groupby(versions)]
    steps = (-2, -1, 0, 1, 2)
    for i, j in itertools.combinations_with_replacement(range(len(segments)), 2):
        for a, b in itertools.product(steps, steps if i != j else (0,)):
            lengths = [n + a * (at == i) + b * (at == j) for at, (_, n) in enumerate(segments)]
            if min(lengths) >= 0 and 0 < sum(lengths) <= most and (a or b):
                yield tuple(m for (m, _), n in zip(segments, lengths, strict=True) for _ in range(n))
