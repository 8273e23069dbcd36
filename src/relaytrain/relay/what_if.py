"""What if: a decision of a run planned again under another target, from the run's events alone.

Every `planned` event holds the costs and the law that the decision rested on; the worlds that a rule over worlds looks
at are drawn again, from the same history with the same seed. With the target that the run had, the plan that was made
comes back (a test holds it to that). No torch, no files, and nothing that a scenario names is imported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..core.cost import CostTable
from ..core.errors import ScenarioError, UsageError
from ..core.law import LossLaw
from ..core.law_json import costs_from_json, law_from_json
from ..core.plan import Plan
from ..core.problem import Problem, Target
from ..core.protocols import Planner
from ..core.state import State
from ..core.worlds import Worlds
from ..estimators.choose import estimator_for
from ..planners.over_worlds import drawn_by, plan_over, worlds_wanted
from ..planners.plan_size import limited
from ..planners.registry import planner_for
from ..scenario import Scenario, load_scenario
from ..store import Event
from .event_bodies import RunPast, state_from
from .widening import widened_worlds, widenings

Body = Mapping[str, Any]
FROM_THE_LAW = "planned from the law that was kept with the decision: the fitted file itself is not read here"


@dataclass(frozen=True)
class WhatIf:
    """A decision as it was to be made: state, costs, law, worlds, and who planned. `note`: where it is not exact."""

    problem: Problem
    costs: CostTable
    law: LossLaw
    state: State
    planner: Planner
    worlds: Worlds | None
    guessed: bool
    note: str = ""

    @classmethod
    def of(cls, events: Iterable[Event], planned: Event) -> WhatIf:
        """The decision of `planned`; `events` are those of its run before it, whose own plans may be left out.

        Raises:
            UsageError: the event does not hold what a plan is made from, or names what cannot be planned here.
        """
        body = planned.body
        past = RunPast.of(events)
        started = past.started
        kept = started.get("scenario")
        if not isinstance(kept, Mapping):
            raise UsageError("this run was started without a scenario that was kept, so it cannot be planned again")
        try:
            scenario = load_scenario(kept)
            problem = replace(scenario.problem, initial_loss=float(started["initial_loss"]))
            costs, law = costs_from_json(body["costs"]), law_from_json(body["law"])
            state = state_from(body["state"], problem)
            if len(costs.run_s) != len(problem.pairs):
                raise ValueError(f"costs of {len(costs.run_s)} pairs")
        except (KeyError, TypeError, ValueError, AttributeError, ScenarioError) as error:
            raise UsageError(
                f"this decision cannot be planned again: {type(error).__name__}: {str(error)[:200]}"
            ) from None
        planner = planner_for(scenario, "pact" if scenario.planner.name == "fixed" else None)
        fitted = scenario.estimator.get("name", "prior") != "prior"
        worlds = None
        if (count := worlds_wanted(planner)) and not fitted:
            worlds = _drawn(scenario, problem, past, count, _seed(started))
        return cls(problem, costs, law, state, planner, worlds, scenario.guessed, FROM_THE_LAW if fitted else "")

    def plan(
        self,
        *,
        loss: float | None = None,
        probability: float | None = None,
        deadline_s: float | None = None,
        way_out: bool = True,
    ) -> Plan:
        """The plan for a target with these figures in the place of the run's own.

        Without `way_out`, the rule `sampled` does not look for targets in reach where this one is not: for whoever
        moves a slider.
        """
        problem = replace(self.problem, target=self.target(loss, probability, deadline_s))
        here = (problem, self.costs, self.law, self.state)
        with limited(self.planner, *here):
            return plan_over(self.planner, lambda _: self.worlds, *here, guess=self.guessed, way_out=way_out)

    def target(self, loss: float | None, probability: float | None, deadline_s: float | None) -> Target:
        """The run's target, changed.

        Raises:
            UsageError: a figure is out of range.
        """
        own = self.problem.target
        target = replace(
            own,
            loss=own.loss if loss is None else loss,
            probability=own.probability if probability is None else probability,
            deadline_s=own.deadline_s if deadline_s is None else deadline_s,
        )
        if not (math.isfinite(target.loss) and target.loss >= 0.0):
            raise UsageError(f"loss: got {target.loss:g}, expected a number from 0 up")
        if not 0.0 < target.probability < 1.0:
            raise UsageError(f"probability: got {target.probability:g}, expected more than 0 and less than 1")
        if not target.deadline_s > 0.0:
            raise UsageError(f"deadline: got {target.deadline_s:g}, expected more than 0")
        return target


def _seed(started: Body) -> int:
    seed = started.get("seed")
    return seed if isinstance(seed, int) else 0


def _drawn(scenario: Scenario, problem: Problem, past: RunPast, count: int, seed: int) -> Worlds | None:
    """Worlds as the run drew them."""
    drawn = drawn_by(estimator_for(scenario, problem), past.history, problem.pairs, count, seed)
    return widened_worlds(drawn, widenings(past.stated, past.history))
