"""Time that scatters, on the measured clock: the level's quantile of a path's time, against all paths and samples."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from relaytrain.core.cost import CostTable
from relaytrain.core.law import EpochLaw, LevelLaw
from relaytrain.core.problem import Pair, Problem, Target
from relaytrain.core.state import Grid, State
from relaytrain.planners.pact.level_tables import Tables
from relaytrain.planners.pact.planner import Optimum, Pact
from relaytrain.planners.search.solve import Start
from relaytrain.relay.session import Session
from relaytrain.testing.brute_force import plain_step
from relaytrain.testing.strategies import Drawn, draw

Z95 = NormalDist().inv_cdf(0.95)
LONGEST = 9  # no drawn path has more epochs
DRAWS = 400 if os.environ.get("RELAYTRAIN_TIER") == "soak" else 80


def stairs(*, run_s, spread, run_j, deadline_s, gain=0.1, level=0.95, clock="measured"):
    """From loss 1 to 0 in equal steps, on any pair; changes are free. How surely is a matter of time alone."""
    pairs = tuple(Pair(f"v{i}", "n") for i in range(len(run_s)))
    problem = Problem("stairs", pairs, 0, 1.0, Target(0.0, deadline_s, level), clock=clock)
    free = np.zeros((len(run_s), len(run_s)))
    costs = CostTable(np.array(run_s), free, np.array(run_j), free, np.array(spread))
    return problem, costs, EpochLaw(np.full((1, len(run_s)), -gain), free[None]), State(0, 1.0, 0.0, 0, 0.0)


def test_the_quantile_of_summed_seconds_is_that_of_a_million_samples() -> None:
    problem, costs, law, state = stairs(run_s=[2.0], spread=[0.3], run_j=[1.0], deadline_s=30.0)
    plan = Pact().plan(problem, costs, law, state)
    assert plan.rung == 0.95 and len(plan.decisions) == 10
    assert plan.guaranteed_s == pytest.approx(20.0 + Z95 * 0.6 * math.sqrt(10.0), rel=1e-12)
    rng = np.random.default_rng(1)
    sums = sum(rng.normal(2.0, 0.6, 1_000_000) for _ in range(10))
    density = NormalDist().pdf(Z95) / (0.6 * math.sqrt(10.0))
    error = math.sqrt(0.95 * 0.05 / 1e6) / density  # of a sample quantile
    assert plan.guaranteed_s == pytest.approx(np.quantile(sums, 0.95), abs=4 * error)
    assert plan.guaranteed_s < 10 * (2.0 + Z95 * 0.6) - 5.0  # quantiles of single epochs are not summed


def every_path(drawn: Drawn, spread: np.ndarray, z: float) -> np.ndarray:
    """The least mean + z sqrt(variance) of the final time by first action, over all paths, one by one."""
    seconds, joules = drawn.costs.epoch_s, drawn.costs.epoch_j
    target, state = drawn.problem.target, drawn.state
    last = LONGEST if drawn.problem.max_epochs is None else min(LONGEST, drawn.problem.max_epochs)
    best = np.full(len(spread), math.inf)

    def walk(epoch: int, pair: int, loss: float, mean: float, variance: float, first: int) -> None:
        if loss <= target.loss + 1e-9:
            best[first] = min(best[first], mean + z * math.sqrt(variance))
            return
        for now in range(len(spread)) if epoch < last else ():
            later = mean + seconds[pair, now]
            if math.isfinite(joules[pair, now]) and later <= target.deadline_s + 1e-9:
                landed = plain_step(drawn.law, epoch + 1, loss, pair, now)
                if math.isfinite(landed):
                    more = (spread[now] * seconds[pair, now]) ** 2
                    walk(epoch + 1, now, landed, later, variance + more, now if first < 0 else first)

    walk(state.epoch, state.pair, state.loss, state.elapsed_s, 0.0, -1)
    return best


@pytest.mark.parametrize("kind", ["epoch", pytest.param("level", marks=pytest.mark.slow)])
def test_first_actions_in_time_at_a_level_are_those_of_all_paths(kind: str) -> None:
    barred = by_scatter = 0
    for seed in range(DRAWS):
        rng = np.random.default_rng([seed, kind == "level", 7])
        drawn = draw(rng, kind)
        pairs = len(drawn.problem.pairs)
        spread = rng.uniform(0.0, 0.8, pairs) * (rng.random(pairs) < 0.8)
        level = float(rng.choice([0.6, 0.9, 0.99]))
        state, target = drawn.state, drawn.problem.target
        if state.loss <= target.loss or not math.isfinite(target.deadline_s):
            continue
        start = Start(state.epoch, state.pair, state.loss, state.elapsed_s)
        least = every_path(drawn, spread, NormalDist().inv_cdf(level))
        if np.abs(least - target.deadline_s).min() < 1e-7:
            continue  # a tie
        measured = Tables(replace(drawn.problem, clock="measured"), replace(drawn.costs, spread=spread), drawn.law)
        certain = Tables(drawn.problem, drawn.costs, drawn.law)
        mask = measured.in_time(level, start)
        assert mask.tolist() == (least <= target.deadline_s).tolist(), f"draw({seed}, {kind!r})"
        barred += int((~mask).sum())
        by_scatter += int((certain.in_time(level, start) & ~mask).sum())
    assert by_scatter > 0 and barred > by_scatter  # both reasons are exercised


@pytest.mark.parametrize("rule", ["adaptive", "robust", "expected", "literal", "clamped", "opportunity"])
@pytest.mark.parametrize("grid", [None, Grid(0.1, 0.05)])
def test_the_emulated_clock_knows_no_scatter(rule: str, grid: Grid | None) -> None:
    problem, costs, law, state = stairs(
        run_s=[1.0, 1.1], spread=[0.5, 0.0], run_j=[1.0, 2.0], deadline_s=12.0, clock="emulated"
    )
    planner = Pact(rule=rule, grid=grid)
    plain = planner.plan(problem, replace(costs, spread=None), law, state).to_dict()
    assert json.dumps(planner.plan(problem, costs, law, state).to_dict()) == json.dumps(plain)
    measured = planner.plan(replace(problem, clock="measured"), replace(costs, spread=np.zeros(2)), law, state)
    assert json.dumps(measured.to_dict()) == json.dumps(plain)  # nor does one whose seconds never vary


@pytest.mark.parametrize("rule", ["adaptive", "robust", "literal", "clamped", "opportunity"])
@pytest.mark.parametrize("grid", [None, Grid(0.1, 0.05)])
def test_the_cheap_pair_is_left_where_its_seconds_scatter_too_far(rule: str, grid: Grid | None) -> None:
    """A cheap pair of one second on average, a dear one of 1.1 always."""
    problem, costs, law, state = stairs(run_s=[1.0, 1.1], spread=[0.5, 0.0], run_j=[1.0, 2.0], deadline_s=12.0)
    assert (
        Pact(rule=rule, grid=grid).plan(replace(problem, clock="emulated"), costs, law, state).summary()
        == "v0 on n x10"
    )
    spent = replace(state, loss=0.5, elapsed_s=6.2)  # half way and a little late: only five sure epochs are in time
    assert 6.2 + 5 * 1.1 < 12.0 < 6.2 + 1.0 + 4 * 1.1 + Z95 * 0.5
    plan = Pact(rule=rule, grid=grid).plan(problem, costs, law, spent)
    assert plan.rung == 0.95 and plan.decisions[0].version == "v1"


def test_the_ladder_steps_down_to_the_level_that_time_allows() -> None:
    problem, costs, law, state = stairs(run_s=[1.0], spread=[0.5], run_j=[1.0], deadline_s=11.5)
    levels = {level: 10.0 + NormalDist().inv_cdf(level) * 0.5 * math.sqrt(10.0) for level in (0.95, 0.9, 0.75)}
    assert levels[0.9] > 11.5 > levels[0.75]
    plan = Pact().plan(problem, costs, law, state)
    assert plan.feasible and plan.rung == 0.75 and not plan.met
    assert not Pact(rule="robust").plan(problem, costs, law, state).feasible
    assert Pact(rule="expected").plan(problem, costs, law, state).feasible
    later = Pact().plan(
        replace(problem, target=replace(problem.target, deadline_s=plan.nearest[1].deadline_s)), costs, law, state
    )
    assert plan.nearest[1].deadline_s == pytest.approx(levels[0.95], rel=1e-9) and later.met
    higher = Pact().plan(replace(problem, target=replace(problem.target, loss=plan.nearest[0].loss)), costs, law, state)
    assert 9 + Z95 * 0.5 * 3 <= 11.5  # nine epochs fit
    assert plan.nearest[0].loss == pytest.approx(0.1, abs=1e-9) and higher.met


def test_the_stated_probability_is_the_normal_one() -> None:
    problem, costs, law, state = stairs(run_s=[1.0], spread=[0.4], run_j=[1.0], deadline_s=11.0)
    truth = NormalDist().cdf((11.0 - 10.0) / (0.4 * math.sqrt(10.0)))
    for planner in (Pact(), Optimum()):
        stated = planner.plan(problem, costs, law, state).probability
        assert stated == pytest.approx(truth, abs=4 * math.sqrt(truth * (1 - truth) / 2000))


@pytest.mark.slow
def test_the_stated_probability_is_that_of_sampled_curves_and_seconds() -> None:
    """Loss and time both uncertain: each sample draws its level and the seconds of every single epoch."""
    curves = np.array([[0.1, 1.0, 3.0, 1.0], [0.05, 1.0, 6.0, 1.0]])
    none = np.zeros((2, 2))
    law = LevelLaw(curves, none + 0.02 * (1 - np.eye(2)), none, np.ones((1, 2)), mult_robust=np.array([[0.7, 0.6]]))
    pairs = (Pair("L", "gold"), Pair("S", "silver"))
    problem = Problem("both", pairs, 0, 1.1, Target(0.3, 34.0, 0.9), clock="measured")
    change = 0.5 * (1 - np.eye(2))
    costs = CostTable(np.array([2.0, 1.2]), change, np.array([5.0, 1.0]), change, np.array([0.25, 0.4]))
    plan = Pact().plan(problem, costs, law, State(0, 1.1, 0.0, 0, 0.0))
    path = [problem.index(decision.pair) for decision in plan.decisions]
    rng = np.random.default_rng(3)
    count, met = 1500, 0
    for level in rng.uniform(size=count):
        loss, pair, elapsed, epoch = 1.1, 0, 0.0, 0
        while loss > 0.3 and elapsed <= 80.0:
            now = path[min(epoch, len(path) - 1)]
            mean = costs.epoch_s[pair, now]
            elapsed += rng.normal(mean, costs.spread[now] * mean)
            epoch += 1
            loss = float(law.next_loss(epoch, np.array(loss), pair, now, float(level)))
            pair = now
        met += loss <= 0.3 and elapsed <= 34.0
    truth = met / count
    assert 0.3 < truth < 0.97  # else nothing is tested
    error = 4 * math.sqrt(truth * (1 - truth) * (1 / 2000 + 1 / count))
    assert plan.probability == pytest.approx(truth, abs=error)
    blurred = replace(law, scatter=np.full(2, 1e-6))  # losses that scatter are sampled in another way
    again = Pact().plan(problem, costs, blurred, State(0, 1.1, 0.0, 0, 0.0))
    assert again.summary() == plan.summary() and again.probability == pytest.approx(truth, abs=error)


def test_a_session_learns_how_far_its_seconds_scatter() -> None:
    problem, costs, law, _ = stairs(run_s=[1.0], spread=[0.0], run_j=[1.0], deadline_s=10.0, clock="emulated")
    session = Session(problem, costs=costs, law=law)
    assert session.ask() is not None and session.plan is not None and session.plan.guaranteed_s is None
    for seconds in (0.7, 1.3, 0.8):
        session.tell(session.state.loss - 0.1, elapsed_s=seconds, energy_j=1.0)
        assert session.ask() is not None
    assert session.plan is not None and session.plan.guaranteed_s is not None
    assert session.plan.guaranteed_s > session.plan.elapsed_s
    assert session.plan.elapsed_s < 10.0 and session.plan.rung < 0.95  # by the mean alone it would be sure
