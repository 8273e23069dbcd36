"""What a run foresees of its next epoch comes from whatever its plan was made over: worlds, or else the law."""

from dataclasses import replace

import pytest

from relaytrain import api
from relaytrain.estimators.choose import estimator_for
from relaytrain.planners.registry import planner_for
from relaytrain.relay.steering import Steering, after


def steered(rule: str) -> Steering:
    scenario = api.scenario("quickstart")
    planner = replace(planner_for(scenario, "pact", rule), explained=False)  # type: ignore[type-var]
    return Steering(scenario.problem, scenario.costs, estimator_for(scenario), planner, scenario.law)


def test_bounds_are_those_of_the_worlds_that_were_planned_over():
    step = steered("sampled").next()
    assert step is not None
    plan = step.plan
    assert (step.predicted, step.guaranteed, step.level) == (plan.losses[0], plan.guaranteed[0], plan.asked)
    assert step.predicted < step.guaranteed < 1.5 * step.predicted


def test_a_rule_that_plans_by_levels_states_the_laws_bounds():
    steering = steered("adaptive")
    step = steering.next()
    assert step is not None
    now = steering.problem.index(step.decision.pair)
    bound = after(step.law, 1, steering.state.loss, steering.state.pair, now, step.level)
    assert step.guaranteed == pytest.approx(max(bound, step.predicted))
