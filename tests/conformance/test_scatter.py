"""Observed losses that scatter round their curve: exact paths, honest levels at every horizon, chances by plain
simulation."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from relaytrain.core.cost import CostTable
from relaytrain.core.law import LevelLaw, begin
from relaytrain.core.problem import Pair, Problem, Target
from relaytrain.core.state import Grid, State
from relaytrain.planners.pact.planner import Optimum, Pact

PAIRS = (Pair("a", "x"), Pair("b", "y"))
JUMP = np.array([[0.0, 0.1], [0.2, 0.0]])
SLOPE = np.array([[0.0, -0.1], [0.3, 0.0]])
PLAIN = LevelLaw(np.array([[0.3, 1.7, 6.0, 2.0], [0.1, 1.9, 9.0, 2.0]]), JUMP, SLOPE, np.ones((1, 2)))
SCATTER = np.array([0.1, 0.03])
COSTS = CostTable(np.array([1.0, 2.0]), np.zeros((2, 2)), np.array([1.0, 3.0]), np.zeros((2, 2)))
START = State(0, 2.0, 0.0, 0)


def problem(loss, deadline_s=60.0, probability=0.9):
    return Problem("two pairs", PAIRS, 0, 2.0, Target(loss, deadline_s, probability))


def path(law, level, actions, loss=2.0):
    loss, before, seen = begin(law, loss, 0, level), 0, []
    for epoch, now in enumerate(actions, 1):
        loss = float(law.next_loss(epoch, np.array(loss), before, now, level))
        before = now
        seen.append(loss)
    return np.array(seen)


@pytest.mark.parametrize("level", [0.05, 0.75, 0.95, 0.99])
def test_a_level_is_the_curve_times_one_factor_however_many_epochs_and_handovers(level):
    actions = [0] * 5 + [1] * 7 + [0] * 2
    curve = path(PLAIN, "expected", actions)
    raised = path(replace(PLAIN, scatter=SCATTER), level, actions)
    factor = np.exp(NormalDist().inv_cdf(level) * SCATTER[actions])
    assert raised == pytest.approx(curve * factor, rel=1e-9)


def test_standing_moves_where_every_path_begins_and_nothing_else():
    law = replace(PLAIN, standing=np.array([-0.2, 0.0]))
    assert path(law, "expected", [0] * 6) == pytest.approx(
        path(PLAIN, "expected", [0] * 6, 2.0 * math.exp(-0.2)), rel=1e-12
    )
    assert begin(law, 2.0, 1) == 2.0


@pytest.mark.parametrize("rule", ["adaptive", "robust", "literal", "clamped", "opportunity"])
def test_no_scatter_is_the_same_plan_bit_for_bit(rule):
    none = replace(PLAIN, mult_robust=np.full((1, 2), 0.7))
    zero = replace(none, scatter=np.zeros(2), standing=np.zeros(2))
    one, other = (Pact(rule=rule).plan(problem(0.4), COSTS, law, START) for law in (none, zero))
    assert one.to_dict() == other.to_dict()


def test_the_plan_s_band_is_the_level_s_path_and_its_rung_is_kept_at_the_target():
    law = replace(PLAIN, scatter=SCATTER)
    plan = Pact().plan(problem(0.4), COSTS, law, START)
    actions = [PAIRS.index(d.pair) for d in plan.decisions]
    assert plan.guaranteed == pytest.approx(path(law, plan.rung, actions), rel=1e-9)
    # the same decisions, the last one repeated until the deadline, end below the target at the rung's level
    longer = actions + [actions[-1]] * 40
    late = np.cumsum(COSTS.epoch_s[[0, *longer[:-1]], longer]) > 60.0
    assert path(law, plan.rung, longer)[~late].min() <= 0.4


def test_scatter_asks_for_a_margin_that_the_exact_law_does_not():
    """At the floor 0.1 of the second pair 3 % of scatter raise the 0.9 level by a factor of 1.039."""
    floor = 0.1 * math.exp(NormalDist().inv_cdf(0.9) * 0.03)
    sure, tight = problem(floor + 0.03, math.inf), problem(floor - 1e-4, math.inf)
    law = replace(PLAIN, scatter=SCATTER)
    assert Pact().plan(sure, COSTS, law, START).rung == 0.9
    assert Pact().plan(tight, COSTS, law, START).rung < 0.9
    assert Pact().plan(tight, COSTS, PLAIN, START).rung == 0.9


def test_a_lucky_curve_does_not_count_as_a_target_met():
    law = replace(PLAIN, standing=np.array([-1.9, 0.0]))
    state = State(3, 0.6, 3.0, 0)
    assert begin(law, 0.6, 0) < 0.4
    for planner in (Pact(), Optimum(), Pact(grid=Grid(0.01, 1.0))):
        plan = planner.plan(problem(0.4), COSTS, law, state)
        assert len(plan.decisions) >= 1


def simulated(law, actions, goal, epochs, runs=20_000):
    """Runs drawn as the words say: one level for the curve of a run, fresh scatter an epoch."""
    chance = np.random.default_rng(5)
    curve_only = replace(law, scatter=None)
    longer = list(actions) + [actions[-1]] * (epochs - len(actions))
    curves = np.array([path(curve_only, NormalDist().cdf(z), longer) for z in np.linspace(-3, 3, 61)])
    place = np.clip((chance.standard_normal(runs) + 3) * 10, 0, 60).round().astype(int)
    seen = curves[place] * np.exp(chance.standard_normal((runs, epochs)) * law.scatter[longer])
    return (seen <= goal).any(axis=1).mean()


@pytest.mark.parametrize("goal", [0.28, 0.32, 0.4])
def test_the_stated_chance_is_that_of_first_arrival_when_all_doubt_is_scatter(goal):
    law = replace(PLAIN, scatter=np.array([0.1, 0.1]))
    actions = [0] * 12
    plan_chance = _chance(law, actions, goal, 30.0)
    assert plan_chance == pytest.approx(simulated(law, actions, goal, 30), abs=0.03)


def test_a_curve_s_doubt_and_scatter_together():
    """Scatter on top of a doubt about the curve: the law's levels hold both, so the simulation gets wider curves
    too."""
    law = replace(PLAIN, scatter=np.array([0.05, 0.05]), mult_robust=np.full((1, 2), 0.6))
    some, more = (_chance(law, [0] * 10, 0.45, end) for end in (14.0, 24.0))
    low, high = (simulated(law, [0] * 10, 0.45, int(end)) for end in (14.0, 24.0))
    assert some < more
    assert (some, more) == (pytest.approx(low, abs=0.08), pytest.approx(high, abs=0.08))


def _chance(law, actions, goal, deadline_s):
    from relaytrain.planners.pact.compose import probability
    from relaytrain.planners.pact.level_tables import Tables

    tables = Tables(problem(goal, deadline_s), COSTS, law)
    return probability(tables, START, np.array(actions, np.int64))
