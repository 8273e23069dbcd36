"""From DepL's answer to a plan: decisions with data and resources, legs, bands, how sure under which assumption."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...core.dependence import NoisePast
from ...core.depl import DeplProblem
from ...core.depl_settings import DeplSettings
from ...core.plan import Alternative, Nearest, Plan, build_legs
from ...core.problem import Pair, Problem
from ...core.state import State
from ..pact.value import standing
from .exact.dependent import Paths
from .exact.joint import DeplPlan
from .exact.losses import exact_probability, losses_by_epoch

Real = NDArray[np.float64]


@dataclass(frozen=True)
class Composed:
    """What was found, at which level (0: none), for settings whose instance is the present one."""

    settings: DeplSettings
    found: DeplPlan
    level: float
    seed: int = 0
    past: NoisePast | None = None
    left_s: float = math.inf
    warnings: tuple[str, ...] = ()


def composed(
    made: Composed,
    problem: Problem,
    state: State,
    planner: str,
    *,
    alternatives: Sequence[tuple[str, DeplPlan]] = (),
    nearest: Sequence[Nearest] = (),
) -> Plan:
    """The plan that states everything about what was found."""
    settings, found, target = made.settings, made.found, problem.target
    instance = settings.instance
    pairs = [
        Pair(instance.models[m].name, instance.clusters[n].name)
        for m, n in zip(found.models, found.clusters, strict=True)
    ]
    seconds, prices = _spent(settings, found, pairs)
    expected, guaranteed, sure = _bands(made, made.level or target.probability)
    start = state.pair if state.epoch or not settings.free_start else problem.index(pairs[0]) if pairs else state.pair
    actions = [problem.index(pair) for pair in pairs]
    table = {
        "seconds": seconds.tolist(), "joules": prices.tolist(), "loss": expected.tolist(),
        "change_s": [0.0] * len(pairs), "change_j": [0.0] * len(pairs), "jump": _jumps(instance, found.models),
    }  # fmt: skip
    plain, legs, handovers = build_legs(problem, start, state.epoch + 1, actions, table)
    data = (
        ()
        if len(found.datasets) == len(instance.datasets) == 1
        else tuple(instance.datasets[d].name for d in found.datasets)
    )
    shares = [x / instance.clusters[n].capability for x, n in zip(found.resources, found.clusters, strict=True)]
    decisions = tuple(
        replace(d, datasets=data, resources=round(min(share, 1.0), 12)) for d, share in zip(plain, shares, strict=True)
    )
    feasible = made.level > 0.0
    spent, elapsed = np.cumsum(prices), state.elapsed_s + np.cumsum(seconds)
    total = float(spent[-1]) if pairs else 0.0
    bound = found.dual_bound if feasible else math.inf
    return Plan(
        **standing(problem, state),
        planner=planner,
        feasible=feasible,
        decisions=decisions,
        legs=legs,
        handovers=handovers,
        losses=tuple(expected.tolist()),
        guaranteed=tuple(guaranteed.tolist()),
        energies_j=tuple((state.energy_j + spent).tolist()),
        times_s=tuple(elapsed.tolist()),
        energy_j=total,
        elapsed_s=float(elapsed[-1]) if pairs else state.elapsed_s,
        rung=made.level,
        probability=found.probability,
        bound_j=bound,
        gap=max(total / bound - 1.0, 0.0) if feasible and 0 < bound < math.inf else 0.0,
        exact=found.exact,
        alternatives=tuple(_alternative(made, name, other, state) for name, other in alternatives),
        nearest=tuple(replace(n, deadline_s=n.deadline_s + state.elapsed_s) for n in nearest),
        warnings=made.warnings,
        probabilities=sure,
        bounded="allocation of these versions",
    )


def _alternative(made: Composed, name: str, other: DeplPlan, state: State) -> Alternative:
    if not other.feasible:
        return Alternative(name, None, None, "does not reach the target as asked")
    counted = f"{len(other.models)} epochs, expected loss {other.mean:.4g}, {_sure(made, other):.1%} sure"
    return Alternative(name, other.cost, state.elapsed_s + other.elapsed_s, counted)


def _sure(made: Composed, other: DeplPlan) -> float:
    """The probability of another plan under the assumption that this one was made with."""
    settings = made.settings
    if settings.belief.independent:
        return other.probability
    paths = Paths(settings.instance, settings.belief, made.past or NoisePast(), seed=made.seed + 1)
    return paths.probability(other.datasets, other.models)


def _spent(settings: DeplSettings, found: DeplPlan, pairs: Sequence[Pair]) -> tuple[Real, Real]:
    """Seconds and price of every epoch, the data charge with the first epoch on each cluster."""
    instance = settings.instance
    charge = instance.data_charge(found.datasets) if found.datasets else np.zeros(len(instance.clusters))
    seconds, prices = np.zeros(len(pairs)), np.zeros(len(pairs))
    paid: set[int] = set()
    for i, (pair, n, x) in enumerate(zip(pairs, found.clusters, found.resources, strict=True)):
        seconds[i], prices[i] = settings.epoch_cost(pair, found.datasets, x / instance.clusters[n].capability)
        prices[i] += 0.0 if n in paid else float(charge[n])
        paid.add(n)
    return seconds, prices


def _jumps(instance: DeplProblem, models: Sequence[int]) -> list[float]:
    jumps, before = [], instance.before
    for m in models:
        jumps.append(0.0 if before is None or before == m else instance.jump(before, m).mean)
        before = m
    return jumps


def _bands(made: Composed, level: float) -> tuple[Real, Real, tuple[tuple[str, float], ...]]:
    """Expected loss and its quantile at `level` after every epoch, and how sure the end is under either assumption."""
    settings, found, instance = made.settings, made.found, made.settings.instance
    if not found.models:
        return np.zeros(0), np.zeros(0), ()
    if settings.belief.independent:
        sure = [("independent epochs", found.probability)]
        expected, guaranteed = _convolved(instance, found, level)
        return expected, guaranteed, tuple(sure)
    sure = [("independent epochs", exact_probability(instance, found.datasets, found.models))]
    paths = Paths(instance, settings.belief, made.past or NoisePast(), seed=made.seed + 1)
    losses = paths.losses(found.datasets, found.models)
    sure.append((str(settings.belief), float((losses[-1] <= instance.target.loss + 1e-9).mean())))
    return losses.mean(axis=1), np.quantile(losses, level, axis=1), tuple(sure)


def _convolved(instance: DeplProblem, found: DeplPlan, level: float) -> tuple[Real, Real]:
    after = losses_by_epoch(instance, found.datasets, found.models)
    means = np.array([loss.mean for loss in after])
    if not after[0].log_cf.any():  # nothing is random, or the first epoch is not
        return means, np.array([loss.quantile(level) if loss.log_cf.any() else loss.mean for loss in after])
    return means, np.array([loss.quantile(level) for loss in after])
