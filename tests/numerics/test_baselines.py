"""The strategies to compare with look at every choice they have, or say that they did not."""

import numpy as np
import pytest

from relaytrain.core.cost import CostTable
from relaytrain.core.law import LevelLaw
from relaytrain.core.problem import Pair, Problem, Target
from relaytrain.core.state import State
from relaytrain.planners.pact import baselines
from relaytrain.planners.pact.baselines import CUT, OneSwitch, Single, StaticLearn

FIRST = State(0, 1.0, 0.0, 0)


def fleet(pairs: list[Pair], joules: list[float]) -> tuple[Problem, CostTable, LevelLaw]:
    """Equal curves and seconds; what an epoch costs differs, a handover costs a tenth of a joule."""
    count = len(pairs)
    off = 1.0 - np.eye(count)
    costs = CostTable(np.ones(count), 0.1 * off, np.array(joules), 0.1 * off)
    curves = np.tile([0.1, 0.9, 10.0, 1.0], (count, 1))
    law = LevelLaw(curves, 0.01 * off, 0.0 * off, np.ones((1, count)), loss_top=1.3)
    return Problem("fleet", tuple(pairs), 0, 1.0, Target(0.3, 1e4)), costs, law


def test_one_switch_goes_to_the_cheapest_pair_however_many_there_are() -> None:
    pairs = [Pair("full", "here"), *[Pair(f"v{i}", f"n{i}") for i in range(90)]]
    problem, costs, law = fleet(pairs, [5.0, *[1.0] * 89, 0.2])
    plan = OneSwitch().plan(problem, costs, law, FIRST)
    assert plan.feasible and (plan.legs[-1].version, plan.legs[-1].nodes) == ("v89", "n89")


def test_static_learn_says_how_many_orders_it_tried() -> None:
    pairs = [Pair("full", "here"), *[Pair("small", f"n{i}") for i in range(70)]]
    problem, costs, law = fleet(pairs, [2.0, *[1.0] * 70])
    assert any("64 of 70 orders" in words for words in StaticLearn().plan(problem, costs, law, FIRST).warnings)
    few = StaticLearn().plan(*fleet(pairs[:5], [2.0, *[1.0] * 4]), FIRST)
    assert not any("orders" in words for words in few.warnings)


def test_a_search_that_was_cut_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [Pair("full", "here"), *[Pair("small", f"n{i}") for i in range(3)]]
    problem, costs, law = fleet(pairs, [2.0, 1.0, 1.0, 1.0])
    planners = OneSwitch(), StaticLearn(), Single()
    for planner in planners:
        plan = planner.plan(problem, costs, law, FIRST)
        assert plan.exact and CUT not in plan.warnings
    monkeypatch.setattr(baselines, "MOST_NODES", 20)
    for planner in planners:
        plan = planner.plan(problem, costs, law, FIRST)
        assert not plan.exact and plan.warnings[-1] == CUT
        assert planner.plan(problem, costs, law, State(5, 0.2, 1.0, 0)).exact  # already there
