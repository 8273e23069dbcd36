"""From DepL's answer to a plan: decisions with data and resources, legs, bands, how sure under which assumption."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...core.dependence import NoisePast
from ...core.depl_settings import DeplSettings
from ...core.fourier import Real
from ...core.plan import Alternative, Plan, gap_to, path_fields
from ...core.problem import Pair, Problem
from ...core.state import State
from ..pact.value import plan_head
from .exact.data_placement import as_planned
from .exact.sampled_paths import NOTHING, Paths
from .schedule_losses import exact_probability, expected_by_epoch, losses_by_epoch
from .solution import DeplPlan


@dataclass(frozen=True)
class DeplAnswer:
    """What a procedure answered, at which level (0: none), for settings whose instance is the present one."""

    settings: DeplSettings
    solution: DeplPlan
    level: float
    seed: int = 0
    past: NoisePast = NOTHING
    warnings: tuple[str, ...] = ()

    @cached_property
    def paths(self) -> Paths:
        """Paths under the believed dependence, those that were searched."""
        return Paths(self.settings.instance, self.settings.belief, self.past, seed=self.seed + 1)


def composed(
    answer: DeplAnswer,
    problem: Problem,
    state: State,
    planner: str,
    *,
    alternatives: Sequence[tuple[str, DeplPlan]] = (),
) -> Plan:
    """The plan that states everything about the answer."""
    settings, solution, target = answer.settings, answer.solution, problem.target
    instance = settings.instance
    pairs = [
        Pair(instance.versions[m].name, instance.node_sets[n].name)
        for m, n in zip(solution.versions, solution.node_sets, strict=True)
    ]
    shares = [x / instance.node_sets[n].capability for x, n in zip(solution.resources, solution.node_sets, strict=True)]
    seconds, prices = _spent(settings, solution, pairs, shares)
    expected, guaranteed, sure = _bands(answer, answer.level or target.probability)
    start = problem.index(pairs[0]) if pairs and settings.free_start and not state.epoch else state.pair
    table = {
        "seconds": seconds,
        "joules": prices,
        "loss": expected,
        "jump": [
            instance.mean_jump(a, b, k, solution.datasets)
            for k, (a, b) in enumerate(
                zip((instance.before, *solution.versions), solution.versions, strict=False), instance.epochs_done + 1
            )
        ],
    }
    path = path_fields(problem, state, [problem.index(pair) for pair in pairs], table, start)
    several = len(instance.datasets) > 1
    path["decisions"] = tuple(
        replace(
            decision,
            datasets=tuple(instance.datasets[d].name for d in solution.data_at(n)) if several else (),
            resources=round(min(share, 1.0), 12),
        )
        for decision, n, share in zip(path["decisions"], solution.node_sets, shares, strict=True)
    )
    feasible = answer.level > 0.0
    bound = solution.dual_bound if feasible else math.inf
    return Plan(
        **plan_head(problem, state),
        planner=planner,
        feasible=feasible,
        **path,
        guaranteed=tuple(guaranteed.tolist()),
        rung=answer.level,
        probability=solution.probability,
        bound_j=bound,
        gap=gap_to(bound, path["energy_j"]),
        exact=solution.exact,
        alternatives=tuple(_alternative(answer, name, other, state) for name, other in alternatives),
        warnings=answer.warnings,
        probabilities=sure,
        bounded="allocation of these versions",
    )


def _alternative(answer: DeplAnswer, name: str, other: DeplPlan, state: State) -> Alternative:
    """Another plan, with its probability under the assumption that this one was made with."""
    if not other.feasible:
        return Alternative(name, None, None, "does not reach the target as asked")
    sure = other.probability
    if not answer.settings.belief.independent:
        sure = answer.paths.probability(other.datasets, other.versions)
    counted = f"{len(other.versions)} epochs, expected loss {other.mean:.4g}, {sure:.1%} sure"
    return Alternative(name, other.cost, state.elapsed_s + other.elapsed_s, counted)


def _spent(
    settings: DeplSettings, solution: DeplPlan, pairs: Sequence[Pair], shares: Sequence[float]
) -> tuple[Real, Real]:
    """Seconds and price of every epoch; a data charge that is paid once, with the first epoch on each node set."""
    instance = settings.instance
    seconds, prices = np.zeros(len(pairs)), np.zeros(len(pairs))
    paid: set[int] = set()
    for i, (pair, n, share) in enumerate(zip(pairs, solution.node_sets, shares, strict=True)):
        held = solution.data_at(n)
        seconds[i], prices[i] = settings.epoch_cost(pair, held, share, instance.epochs_done + i + 1)
        prices[i] += 0.0 if n in paid else float(instance.data_charge(held)[n])
        paid.add(n)
    return seconds, prices


def _bands(answer: DeplAnswer, level: float) -> tuple[Real, Real, tuple[tuple[str, float], ...]]:
    """Expected loss and its quantile at `level` after every epoch, and how sure the end is under either assumption."""
    belief = answer.settings.belief
    instance, chosen, versions = as_planned(answer.settings.instance, answer.solution)
    schedule = chosen, versions
    if not answer.solution.versions:
        return np.zeros(0), np.zeros(0), ()
    if belief.independent or instance is not answer.settings.instance:  # placed data is planned for independent epochs
        after = losses_by_epoch(instance, *schedule)
        expected = expected_by_epoch(instance, *schedule, after)
        guaranteed = np.array([max(loss.quantile(level), 0.0) for loss in after])
        return expected, guaranteed, (("independent epochs", answer.solution.probability),)
    losses = np.maximum(answer.paths.losses(*schedule), 0.0)
    sure = (
        ("independent epochs", exact_probability(instance, *schedule)),
        (str(belief), answer.paths.probability(*schedule)),
    )
    return losses.mean(axis=1), np.quantile(losses, level, axis=1), sure
