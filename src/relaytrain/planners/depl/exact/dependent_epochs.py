"""Planning when epochs are not independent: a stand-in with independent epochs is searched, sampled paths decide.

The stand-in has, for every version, noise of the mean and variance that make a sum as long as the plan scatter like
the sampled paths; its target is moved until the schedule found meets the true one on the paths. Then single segments
are made shorter, longer or swapped for others while that saves; where nothing found is sure enough, while it makes the
surest surer. `sampled_paths` says how sure a schedule is.

Paper: DepL section IV-B, without its assumption of independence.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ....core.dependence import NoiseBelief, NoisePast
from ....core.depl import DeplProblem
from ....core.distribution import InverseGamma
from ....core.fourier import SLACK
from ..quickest import quickest
from ..solution import DeplPlan, complete, settled
from .joint import plan
from .sampled_paths import NOTHING, SAMPLES, Paths
from .version_search import SWITCHES, VersionSearch

_MOVES = 14
_CLIMBS = 40
_NEAR = 0.3
"""A schedule less sure than asked by more than this is not made surer step by step."""
_SCREEN = 10
"""Of so many paths one is looked at to compare neighbours."""
Choice = tuple[tuple[int, ...], tuple[int, ...]]
"""Datasets and versions by epoch."""


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
    asked = instance.target.probability
    paths = Paths(instance, belief, past, SAMPLES, seed + 1)
    choice = _search(paths, asked, switches)
    if choice is None:
        words = (
            f"no schedule reaches loss {instance.target.loss:g} with probability {asked:g} under the dependence of "
            f"epochs"
        )
        return DeplPlan(False, exact=False, reason=words)
    solution = complete(instance, *choice, within=within)
    reached, quantile = paths.probability(*choice), float(np.quantile(paths.ends(*choice), asked))
    return replace(solution, feasible=True, probability=reached, quantile=quantile, exact=False, reason="")


def _search(paths: Paths, level: float, switches: int) -> Choice | None:
    """The cheapest schedule found that meets the target with probability `level` on these paths."""
    target = paths.instance.target
    least = 1e-3 * abs(paths.instance.initial_loss - target.loss)
    length = paths.instance.max_epochs // 2 + 1
    shift, short, enough = 0.0, -math.inf, math.inf  # shifts of the stand-in's target: too small, large enough
    relief = 30.0 * least
    best: tuple[float, Choice] | None = None
    surest: tuple[float, Choice] | None = None
    seen: set[Choice] = set()
    for _ in range(_MOVES):
        stand_in = _independent(paths, length)
        moved = replace(target, loss=target.loss - shift, probability=level)
        solution = plan(replace(stand_in, target=moved), switches=switches)
        if solution.feasible:
            at: Choice = solution.datasets, solution.versions
            gap = float(np.quantile(paths.ends(*at), level)) - target.loss
            length = len(solution.versions)
            sure = paths.probability(*at)
            gap = min(gap, 0.0) if sure >= level - SLACK else max(gap, least)
            surest = (sure, at) if surest is None or sure > surest[0] else surest
            if gap <= SLACK:
                best = (solution.cost, at) if best is None or solution.cost < best[0] else best
            if at in seen and gap <= SLACK:
                break  # a little more or less comes to the same
            seen.add(at)
        else:  # asked too much of the stand-in: ever less, until something is found
            gap = -least if math.isfinite(short) else -relief
            relief *= 2.0
        short, enough = (max(short, shift), enough) if gap > SLACK else (short, min(enough, shift))
        ahead = shift + (max(gap, least) if gap > SLACK else min(gap, -least))
        shift = ahead if short < ahead < enough else 0.5 * (short + enough)
        if enough - short < least:
            break
    if best is None:
        best = _climbed(paths, level, switches, None if surest is None else surest[1])
    return None if best is None else _improved(paths, level, switches, best)


def best_dependent(
    instance: DeplProblem,
    belief: NoiseBelief,
    past: NoisePast,
    known: DeplPlan,
    *,
    switches: int = SWITCHES,
    seed: int = 0,
) -> tuple[float, float] | None:
    """The least loss that some schedule reaches with the probability asked, and the highest probability of the target.

    Schedules are made better neighbour by neighbour, from the one `known` and the quickest, so there may be better
    ones; None without any.
    """
    level, paths = instance.target.probability, Paths(instance, belief, past, SAMPLES, seed + 1)
    ends: list[tuple[float, float]] = []
    for start in ((known.datasets, known.versions), _greedy(instance)):
        if start[1]:
            *_, at = _climb(paths, level, switches, start)
            ends.append((paths.quantile(*at, level), paths.probability(*at)))
    return (min(loss for loss, _ in ends), max(sure for _, sure in ends)) if ends else None


def _greedy(instance: DeplProblem) -> Choice:
    effort = quickest(instance)
    return effort.datasets, effort.versions


def _climb(paths: Paths, level: float, switches: int, at: Choice) -> Iterator[Choice]:
    """`at`, then the neighbour in time whose loss has the lowest quantile, again and again while that is lower."""
    (chosen, versions), most_s = at, paths.instance.target.deadline_s + SLACK
    quickest_s = VersionSearch(paths.instance, chosen, switches=switches).quickest_s

    def low(other: tuple[int, ...]) -> float:
        return float(np.quantile(paths.ends(chosen, other, every=_SCREEN), level))

    standing = low(versions)
    yield at
    for _ in range(_CLIMBS):
        near = set(filter(paths.instance.possible, _neighbours(versions, paths.instance.max_epochs)))
        rows = [(low(other), other) for other in near if quickest_s[list(other)].sum() <= most_s]
        if not rows or min(rows)[0] >= standing:
            return
        standing, versions = min(rows)
        yield chosen, versions


def _climbed(paths: Paths, level: float, switches: int, surest: Choice | None) -> tuple[float, Choice] | None:
    """The surest schedule known, or the quickest, made surer until it is as sure as asked; with its cost."""
    for start in (surest, _greedy(paths.instance)):
        if start is None or not start[1] or paths.share(*start) < level - _NEAR:
            continue
        for at in _climb(paths, level, switches, start):
            if paths.sure(*at, level):
                cost = VersionSearch(paths.instance, at[0], switches=switches).cost(at[1])
                if math.isfinite(cost):
                    return cost, at
    return None


def _independent(paths: Paths, length: int) -> DeplProblem:
    """The instance with independent noise whose sums over `length` epochs have the paths' means and variances."""
    instance, versions = paths.instance, []
    length = max(1, min(length, instance.max_epochs))
    k = instance.epochs_done + np.arange(1, length + 1)
    for version, (means, variances) in zip(instance.versions, paths.sums, strict=True):
        steps = version.progress(k)
        mean = max(float(means[length - 1]) / float(steps.sum()), 1e-6)
        noise = InverseGamma(mean, float(variances[length - 1]) / float((steps**2).sum()))
        versions.append(replace(version, noise=noise))
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
            if paths.sure(chosen, other, level):
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
