"""DepL behind the planners' common face: problem, costs, law and state -> plan.

The distributions come from the scenario's `[depl]`; a law that has learned from the run (`IncrementLaw`) brings the x
seen so far, which condition those to come, and the data already staged, which is not paid for again. A target that
cannot be met as asked is tried at lower probabilities, as PACT does; below one half the quickest way is shown.

Paper: DepL Fig. 3; section VI-B for the strategies it is compared with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...core.cost import CostTable
from ...core.dependence import NoisePast
from ...core.depl import DeplProblem
from ...core.depl_settings import MOST_EPOCHS, DeplSettings
from ...core.increments import IncrementLaw
from ...core.law import LossLaw
from ...core.plan import Plan
from ...core.planner_names import DEPL_PLANNERS
from ...core.problem import Problem
from ...core.state import State
from ..pact.rules import LADDER
from .composed import DeplAnswer, composed
from .exact.dependent_epochs import best_dependent, plan_dependent
from .exact.sampled_paths import NOTHING
from .nearest import Instead
from .paper.best_exp import best_expected
from .procedures import Options, plan_by
from .quickest import quickest
from .solution import DeplPlan

METHODS = {name: "joint" if name == "depl" else name.removeprefix("depl-") for name in DEPL_PLANNERS}
"""Planners and the procedures behind them; all of them allocate node sets and resources alike."""


@dataclass(frozen=True)
class Depl:
    """DepL, or one of the strategies it is compared with, for the scenario that `settings` were made from.

    `depl` counts the dependence of epochs in; the others plan for independent ones, as the paper does.
    """

    settings: DeplSettings
    name: str = "depl"
    explained: bool = True
    seed: int = 0

    def plan(self, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> Plan:
        """The plan from `state`."""
        known = law if isinstance(law, IncrementLaw) else None
        settings = self.settings if known is None else self.settings.widened(known.widening)
        instance = current(settings, problem, costs, state, known)
        past = NOTHING if known is None else known.past
        solution, level = self._solved(instance, past)
        warnings = _warnings(1.0 if known is None else known.widening)
        answer = DeplAnswer(replace(settings, instance=instance), solution, level, self.seed, past, warnings)
        if not self.explained:
            return composed(answer, problem, state, self.name)
        # what else could be done is asked before a run, not after each of its epochs
        others = self._others(answer) if solution.feasible and state.epoch == 0 else ()
        plan = composed(answer, problem, state, self.name, alternatives=others)
        if level >= problem.target.probability - 1e-12 or instance.max_epochs < 1 or instance.target.deadline_s <= 0.0:
            return plan
        instead = self._instead(instance, past, solution)
        ways = tuple(replace(n, deadline_s=n.deadline_s + state.elapsed_s) for n in instead.nearest())
        return replace(plan, nearest=ways, attainable=instead.attainable(level))

    def _instead(self, instance: DeplProblem, past: NoisePast, known: DeplPlan) -> Instead:
        """What else might be asked of this planner."""
        dependent = self.name == "depl" and not self.settings.belief.independent
        return Instead(
            instance,
            lambda asked: self._at_level(asked, past),
            best_dependent(instance, self.settings.belief, past, known, switches=self.settings.switches, seed=self.seed)
            if dependent
            else None,
        )

    def _solved(self, instance: DeplProblem, past: NoisePast) -> tuple[DeplPlan, float]:
        """The best plan and the probability it holds with, the one asked or lower; 0 where nothing can be promised."""
        target = instance.target
        if instance.max_epochs < 1 or target.deadline_s <= 0.0:
            done = instance.initial_loss <= target.loss
            return DeplPlan(done, 0.0, probability=float(done)), target.probability if done else 0.0
        for level in (target.probability, *(level for level in LADDER if level < target.probability)):
            solution = self._at_level(replace(instance, target=replace(target, probability=level)), past)
            if solution.feasible:
                return solution, level
        return quickest(instance), 0.0

    def _at_level(self, instance: DeplProblem, past: NoisePast = NOTHING) -> DeplPlan:
        """The best plan for an instance; `depl` under the believed dependence."""
        settings = self.settings
        if self.name != "depl" or settings.belief.independent:
            return self._by(self.name, instance)
        return plan_dependent(
            instance, settings.belief, past, switches=settings.switches, seed=self.seed, within=settings.within
        )

    def _by(self, method: str, instance: DeplProblem, switches: int | None = None) -> DeplPlan:
        most = self.settings.switches if switches is None else switches
        return plan_by(METHODS[method], instance, Options(most, self.settings.eta, within=self.settings.within))

    def _others(self, answer: DeplAnswer) -> tuple[tuple[str, DeplPlan], ...]:
        """What else could have been done: each version alone, planning by the mean, other data."""
        instance, solution = answer.settings.instance, answer.solution
        if not solution.versions:
            return ()
        others = []
        for m, version in enumerate(instance.versions):
            if set(solution.versions) != {m}:
                others.append((f"{version.name} alone", self._by("depl", _alone(instance, m), 0)))
        if self.name == "depl":
            as_asked = self.settings.belief.independent and answer.level == instance.target.probability
            known = solution if as_asked and solution.datasets == instance.all_data else None
            if instance.tables is None:
                others.append(("best-exp", best_expected(instance, switches=self.settings.switches, known=known)))
            others.append(("best-exp-greedy", self._by("best-exp-greedy", instance)))
        else:
            others.append(("depl", self._by("depl", instance)))
        for d, source in enumerate(instance.datasets if len(instance.datasets) > 1 else ()):
            if solution.datasets != (d,):
                tables = None if instance.tables is None else instance.tables.only(d)
                kept = replace(instance, datasets=(source,), charges=instance.charges[[d]], tables=tables)
                alone = replace(self._by("depl", kept), datasets=(d,))  # as the whole instance counts
                others.append((f"{source.name} as the only data", alone))
        return tuple(others)


def _warnings(widening: float) -> tuple[str, ...]:
    if widening <= 1.0:
        return ()
    return (f"epochs fell short of their bands: those to come are taken {widening:.2g} times as wide as stated",)


def _alone(instance: DeplProblem, m: int) -> DeplProblem:
    """The instance in which only version `m` may run: others cannot be switched to or from."""
    only = np.zeros_like(instance.admissible)
    only[m] = instance.admissible[m]
    return replace(instance, runs_on=only)


def current(
    settings: DeplSettings, problem: Problem, costs: CostTable, state: State, known: IncrementLaw | None = None
) -> DeplProblem:
    """The settings' instance as of `state`: what is left of time and epochs, what is forbidden, what is paid."""
    instance, target = settings.instance, problem.target
    runs_on = np.zeros_like(instance.admissible)
    for i, pair in enumerate(problem.pairs):
        possible = math.isfinite(costs.run_s[i]) and math.isfinite(costs.run_j[i])
        runs_on[settings.version(pair.version), settings.nodes(pair.nodes)] = possible
    charges = instance.charges.copy()
    staged = known.staged if known is not None and instance.charged == "once" else ()
    for dataset, nodes in staged:
        charges[settings.chosen((dataset,))[0], settings.nodes(nodes)] = 0.0
    free = settings.free_start and state.epoch == 0
    most = (problem.max_epochs or state.epoch + MOST_EPOCHS) - state.epoch
    before = None if free else settings.version(problem.pairs[state.pair].version)
    return replace(
        instance,
        versions=settings.placed(state.epoch, state.loss, before),
        charges=charges,
        initial_loss=state.loss,
        target=replace(target, deadline_s=target.deadline_s - state.elapsed_s),
        max_epochs=most,
        before=before,
        epochs_done=state.epoch,
        runs_on=runs_on,
    )
