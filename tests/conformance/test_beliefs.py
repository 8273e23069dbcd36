"""Every estimator that draws worlds keeps the contract of beliefs; `test_mutants` has those that break it."""

from __future__ import annotations

from typing import Any

import pytest

import relaytrain as rt
from relaytrain.core.protocols import Belief
from relaytrain.estimators.choose import estimator_for
from relaytrain.testing.belief_suite import BeliefSuite

UNKNOWN = {
    "versions": [{"name": "L"}, {"name": "S"}],
    "node_sets": [{"name": "gold"}, {"name": "bronze"}],
    "pairs": [
        {"version": "L", "nodes": "gold", "seconds": 1.0, "energy": 4.0},
        {"version": "S", "nodes": "bronze", "seconds": 1.0, "energy": 1.0},
    ],
    "target": {"loss": 0.5, "deadline": 100.0},
    "start": {"loss": 2.3},
}
"""Nothing is said of any curve."""


class OfScenario(BeliefSuite):
    """The belief of a scenario."""

    source: Any = "quickstart"

    def estimator(self):
        return estimator_for(rt.load_scenario(self.source))

    def pairs(self):
        problem = rt.load_scenario(self.source).problem
        return (problem.pairs[problem.start], *(p for i, p in enumerate(problem.pairs) if i != problem.start))


class TestPriorFittedToSeeds(OfScenario):
    pass


class TestPriorOfCurvesWrittenDown(OfScenario):
    source = "smart_factory"


class TestNothingKnown(OfScenario):
    source = UNKNOWN


class TestDepl(OfScenario):
    source = "depl_digits"


@pytest.mark.parametrize("source", ["quickstart", "smart_factory", "depl_digits"])
def test_what_draws_worlds_is_a_belief(source):
    assert isinstance(estimator_for(rt.load_scenario(source)), Belief)
