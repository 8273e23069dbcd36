"""What a plan claims about levels, on a problem small enough to be read: one curve whose robust twin has a higher
floor."""

import math

import numpy as np
import pytest

from relaytrain.core.cost import CostTable
from relaytrain.core.law import LevelLaw
from relaytrain.core.problem import Pair, Problem, Target
from relaytrain.core.state import State
from relaytrain.planners.pact.planner import Optimum, Pact

NONE = np.zeros((1, 1))
COSTS = CostTable(np.ones(1), NONE, np.ones(1), NONE)
START = State(0, 1.0, 0.0, 0)


def curve(floor):
    return np.array([[floor, 1.0 - floor, 2.0, 1.0]])


def problem(loss, deadline_s=math.inf):
    return Problem("one pair", (Pair("a", "x"),), 0, 1.0, Target(loss, deadline_s))


@pytest.mark.parametrize("deadline_s", [math.inf, 1e4])
def test_a_level_that_never_arrives_is_not_claimed(deadline_s):
    """The target lies between the expected floor 0.1 and the robust one 0.3: only the lower rungs can reach 0.2."""
    law = LevelLaw(curve(0.1), NONE, NONE, np.ones((1, 1)), curves_robust=curve(0.3))
    plan = Pact().plan(problem(0.2, deadline_s), COSTS, law, START)
    assert plan.feasible
    assert 0.5 <= plan.rung < 0.95
    assert not plan.met
    robust = Pact(rule="robust").plan(problem(0.2, deadline_s), COSTS, law, START)
    assert not robust.feasible
    assert plan.nearest


@pytest.mark.parametrize("planner", [Pact(), Pact(rule="robust"), Pact(rule="literal"), Optimum()])
@pytest.mark.parametrize("deadline_s", [math.inf, 50.0])
def test_a_target_at_the_floor_is_declared_out_of_reach(planner, deadline_s):
    law = LevelLaw(curve(0.0), NONE, NONE, np.ones((1, 1)))
    plan = planner.plan(problem(0.0, deadline_s), COSTS, law, START)
    assert not plan.feasible
    assert all(near.loss > 0.0 for near in plan.nearest)


def test_the_guaranteed_band_lies_above_the_expected_losses():
    law = LevelLaw(curve(0.1), NONE, NONE, np.ones((1, 1)), mult_robust=np.full((1, 1), 0.7))
    plan = Pact().plan(problem(0.3, 100.0), COSTS, law, START)
    assert plan.met
    assert all(sure >= hoped for sure, hoped in zip(plan.guaranteed, plan.losses, strict=True))
    assert plan.guaranteed[-1] > plan.losses[-1]
