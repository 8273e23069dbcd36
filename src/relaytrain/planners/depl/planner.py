"""DepL behind the planners' common face: problem, costs, law and state -> plan.

The distributions come from the scenario's `[depl]`; a law that has learned from the run (`IncrementLaw`) brings the x
seen so far, which condition those to come, and the data already staged, which is not paid for again. A target that
cannot be met as asked is tried at lower probabilities, as PACT does; below one half the quickest way is shown.

Paper: DepL Fig. 3; section VI-B for the strategies it is compared with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.cost import CostTable
from ...core.depl import DeplProblem, DeplTarget
from ...core.depl_settings import MOST_EPOCHS, DeplSettings
from ...core.increments import IncrementLaw
from ...core.law import LossLaw
from ...core.plan import Plan
from ...core.problem import Problem
from ...core.state import State
from ..pact.rules import LADDER
from .composed import Composed, composed
from .exact.dependent import plan_dependent
from .exact.joint import DeplPlan
from .nearest import nearest
from .paper.best_exp import best_expected
from .procedures import Options, plan_by
from .quickest import quickest

METHODS = {
    "depl": "joint",
    "depl-sweep": "sweep",
    "depl-proxy": "proxy",
    "depl-merged": "merged",
    "depl-literal": "literal",
    "best-exp": "best-exp",
    "best-exp-greedy": "best-exp-greedy",
}
"""Planners and the procedures behind them; all of them allocate clusters and resources alike."""


@dataclass(frozen=True)
class Depl:
    """DepL, or one of the strategies it is compared with, for the scenario that `settings` were made from.

    `depl` counts the dependence of epochs in; the others plan for independent ones, as the paper does.
    """

    settings: DeplSettings
    method: str = "depl"
    explained: bool = True
    seed: int = 0

    @property
    def name(self) -> str:
        """How plans and tables call this planner."""
        return self.method

    def plan(self, problem: Problem, costs: CostTable, law: LossLaw, state: State, warm: Any = None) -> Plan:
        """The plan from `state`."""
        known = law if isinstance(law, IncrementLaw) else None
        settings = self.settings if known is None else self.settings.widened(known.widening)
        instance = current(settings, problem, costs, state, known)
        made = self._found(instance, known)
        made = replace(made, settings=replace(settings, instance=instance))
        if known is not None and known.widening > 1.0:
            words = f"epochs fell short of their bands: those to come are taken {known.widening:.2g} times as wide as stated"
            made = replace(made, warnings=(words,))
        if not self.explained:
            return composed(made, problem, state, self.name)
        # what else could be done is asked before a run, not after each of its epochs
        others = self._others(instance, made) if made.found.feasible and state.epoch == 0 else ()
        ways = nearest(instance, self._at_level) if made.level < problem.target.probability - 1e-12 else ()
        return composed(made, problem, state, self.name, alternatives=others, nearest=ways)

    def _found(self, instance: DeplProblem, known: IncrementLaw | None) -> Composed:
        past = known.past if known is not None else None
        asked = instance.target.probability
        plain = Composed(self.settings, DeplPlan(False), 0.0, self.seed, past, instance.target.deadline_s)
        if instance.target.max_epochs < 1 or instance.target.deadline_s <= 0.0:
            done = instance.initial_loss <= instance.target.loss
            return replace(plain, found=DeplPlan(done, 0.0, probability=float(done)), level=asked if done else 0.0)
        for level in (asked, *(level for level in LADDER if level < asked)):
            found = self._at_level(replace(instance, target=replace(instance.target, probability=level)), past)
            if found.feasible:
                return replace(plain, found=found, level=level)
        return replace(plain, found=quickest(instance))

    def _at_level(self, instance: DeplProblem, past: Any = None) -> DeplPlan:
        """The best plan for an instance; `depl` under the believed dependence."""
        belief = self.settings.belief
        if self.method == "depl" and not belief.independent:
            extra = {} if past is None else {"past": past}
            return plan_dependent(
                instance, belief, switches=self.settings.switches, seed=self.seed, within=self.settings.within, **extra
            )
        return self._by(self.method, instance)

    def _by(self, method: str, instance: DeplProblem, switches: int | None = None) -> DeplPlan:
        most = self.settings.switches if switches is None else switches
        return plan_by(METHODS[method], instance, Options(most, self.settings.eta, within=self.settings.within))

    def _others(self, instance: DeplProblem, made: Composed) -> tuple[tuple[str, DeplPlan], ...]:
        """What else could have been done: each version alone, planning by the mean, other data."""
        if not made.found.models:
            return ()
        others = []
        for m, model in enumerate(instance.models):
            if set(made.found.models) != {m}:
                others.append((f"{model.name} alone", self._by("depl", _alone(instance, m), 0)))
        if self.method == "depl":
            all_data = made.found.datasets == tuple(range(len(instance.datasets)))
            known = (
                made.found
                if all_data and self.settings.belief.independent and made.level == instance.target.probability
                else None
            )
            others.append(("best-exp", best_expected(instance, switches=self.settings.switches, known=known)))
            others.append(("best-exp-greedy", self._by("best-exp-greedy", instance)))
        else:
            others.append(("depl", self._by("depl", instance)))
        for d, source in enumerate(instance.datasets if len(instance.datasets) > 1 else ()):
            if made.found.datasets != (d,):
                kept = replace(instance, datasets=(source,), charges=instance.charges[[d]])
                others.append((f"{source.name} as the only data", self._by("depl", kept)))
        return tuple(others)


def _alone(instance: DeplProblem, m: int) -> DeplProblem:
    """The instance in which only version `m` may run: others cannot be switched to or from."""
    runs_on = (
        np.ones((len(instance.models), len(instance.clusters)), bool) if instance.runs_on is None else instance.runs_on
    )
    only = np.zeros_like(runs_on)
    only[m] = runs_on[m]
    return replace(instance, runs_on=only)


def current(
    settings: DeplSettings, problem: Problem, costs: CostTable, state: State, known: IncrementLaw | None = None
) -> DeplProblem:
    """The settings' instance as it stands in `state`: what is left of time and epochs, what is forbidden, what is paid."""
    instance, target = settings.instance, problem.target
    runs_on = np.zeros((len(instance.models), len(instance.clusters)), bool)
    for i, pair in enumerate(problem.pairs):
        possible = math.isfinite(costs.run_s[i]) and math.isfinite(costs.run_j[i])
        runs_on[settings.version(pair.version), settings.cluster(pair.nodes)] = possible
    charges = instance.charges.copy()
    for dataset, nodes in known.staged if known is not None else ():
        charges[settings.chosen((dataset,))[0], settings.cluster(nodes)] = 0.0
    free = settings.free_start and state.epoch == 0
    most = (problem.max_epochs or state.epoch + MOST_EPOCHS) - state.epoch
    before = None if free else settings.version(problem.pairs[state.pair].version)
    return replace(
        instance,
        models=settings.placed(state.epoch, state.loss, before),
        charges=charges,
        initial_loss=state.loss,
        target=DeplTarget(target.loss, target.probability, target.deadline_s - state.elapsed_s, most),
        before=before,
        epochs_done=state.epoch,
        runs_on=runs_on,
    )
