"""Our planners under the public suite, and a third party's in miniature."""

import pytest

from relaytrain.core.state import Grid
from relaytrain.planners.pact.baselines import OneSwitch, Single, StaticLearn
from relaytrain.planners.pact.planner import Optimum, Pact
from relaytrain.testing.fakes import StayPlanner
from relaytrain.testing.planner_suite import PlannerSuite


class TestOptimum(PlannerSuite):
    optimal_when_exact = True

    def planner(self):
        return Optimum()


class TestOptimumOnAGrid(PlannerSuite):
    def planner(self):
        return Optimum(grid=Grid(0.02, 0.05))


class TestAdaptive(PlannerSuite):
    optimal_when_exact = True

    def planner(self):
        return Pact()


class TestRobust(PlannerSuite):
    optimal_when_exact = True

    def planner(self):
        return Pact(rule="robust")


class TestExpected(PlannerSuite):
    optimal_when_exact = True

    def planner(self):
        return Pact(rule="expected")


class TestLiteral(PlannerSuite):
    def planner(self):
        return Pact(rule="literal")


class TestClamped(PlannerSuite):
    def planner(self):
        return Pact(rule="clamped")


class TestOpportunity(PlannerSuite):
    def planner(self):
        return Pact(rule="opportunity")


class TestOneSwitch(PlannerSuite):
    names_nearest = False

    def planner(self):
        return OneSwitch()


class TestSingle(PlannerSuite):
    names_nearest = False

    def planner(self):
        return Single()


class TestStaticLearn(PlannerSuite):
    names_nearest = False
    blind_to_order = False  # it goes down the versions in the order given

    def planner(self):
        return StaticLearn()


class TestStayPlanner(PlannerSuite):
    names_nearest = False

    def planner(self):
        return StayPlanner()


def test_the_suite_asks_for_a_planner():
    with pytest.raises(NotImplementedError, match="return the planner"):
        PlannerSuite().planner()
