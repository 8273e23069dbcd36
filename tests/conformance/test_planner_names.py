"""Planners have one list of names; whoever keeps another has the same."""

from __future__ import annotations

from typing import get_args

import pytest

import relaytrain as rt
from relaytrain.core.errors import UsageError
from relaytrain.core.planner_names import DEPL_PLANNERS, PLAN_ONCE
from relaytrain.planners.depl.planner import METHODS
from relaytrain.planners.pact.planner import Optimum
from relaytrain.planners.registry import PLANNERS, planner_for
from relaytrain.scenario import load_scenario
from relaytrain.scenario.schema import PlannerTable


def test_one_list_of_names():
    named = get_args(PlannerTable.model_fields["name"].annotation)
    assert named == (*PLANNERS, *DEPL_PLANNERS)
    assert tuple(METHODS) == DEPL_PLANNERS
    assert set(PLAN_ONCE) <= set(PLANNERS)


@pytest.mark.parametrize("worlds", [0, None])
def test_a_planner_that_wants_no_worlds_is_called_without(worlds):
    class Own:
        def plan(self, problem, costs, law, state):
            return Optimum().plan(problem, costs, law, state)

    own = Own()
    own.worlds = worlds
    assert rt.plan("smart_factory", planner=own).energy_j == rt.plan("smart_factory", planner="optimum").energy_j


def test_the_scenario_names_the_planner_unless_the_caller_does():
    loaded = load_scenario("smart_factory", ["planner.name=static-learn", "planner.rule=robust"])
    assert planner_for(loaded).name == "static-learn"
    assert planner_for(loaded, "pact").name == "pact/robust"
    assert planner_for(loaded, "pact", "expected").name == planner_for(None, None, "expected").name == "pact/expected"
    own = planner_for(None)
    assert planner_for(loaded, own) is own
    with pytest.raises(UsageError, match="planner: got 'nobody'"):
        planner_for(loaded, "nobody")
