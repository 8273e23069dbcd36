"""Planners, estimators, beliefs and transports that are wrong on purpose: the public suites find every one of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from relaytrain.core.plan import Nearest
from relaytrain.core.worlds import Worlds
from relaytrain.estimators import Prior
from relaytrain.estimators.choose import estimator_for
from relaytrain.planners.pact.planner import Optimum
from relaytrain.scenario import load_scenario
from relaytrain.testing.belief_suite import BeliefSuite
from relaytrain.testing.estimator_suite import EstimatorSuite
from relaytrain.testing.planner_suite import PlannerSuite


def caught_by(suite: type) -> str | None:
    """The first test of a suite that fails."""
    for name in dir(suite):
        if name.startswith("test_"):
            try:
                getattr(suite(), name)()
            except Exception:
                return name
    return None


# --- planners


class Wrong:
    """The optimum, changed by `mutate`; `costs` as it is told them."""

    def __init__(self, mutation: str) -> None:
        self.mutation, self.first = mutation, None

    def plan(self, problem: Any, costs: Any, law: Any, state: Any) -> Any:
        if self.mutation == "remembers" and self.first is not None:
            return self.first
        if self.mutation == "free handovers":
            costs = replace(costs, change_s=np.zeros_like(costs.change_s), change_j=np.zeros_like(costs.change_j))
        if self.mutation == "no deadline":
            problem = replace(problem, target=replace(problem.target, deadline_s=math.inf))
        if self.mutation == "easier target":
            problem = replace(problem, target=replace(problem.target, loss=problem.target.loss * 1.2))
        if self.mutation == "harder target":
            problem = replace(problem, target=replace(problem.target, loss=problem.target.loss * 0.8))
        if self.mutation == "forgets the state":
            state = replace(state, elapsed_s=0.0, energy_j=0.0)
        if self.mutation == "changes its input":
            costs.run_j[:] = costs.run_j * 1.01
        self.first = self._changed(Optimum().plan(problem, costs, law, state))
        return self.first

    def _changed(self, plan: Any) -> Any:
        changes = {
            "none": {},
            "always feasible": {"feasible": True},
            "never feasible": {"feasible": False},
            "cheaper than it is": {"energy_j": plan.energy_j * 0.9},
            "promises too much": {"guaranteed": tuple(loss * 0.9 for loss in plan.losses)},
            "nothing but NaN": {"probability": math.nan},
            "epochs from zero": {"decisions": tuple(replace(d, epoch=d.epoch - 1) for d in plan.decisions)},
            "no legs": {"legs": ()},
            "nearest is farther": {
                "nearest": tuple(Nearest(n.loss / 9, n.deadline_s / 9) for n in plan.nearest),
            },
        }
        return replace(plan, **changes.get(self.mutation, {}))


PLANNERS = """always feasible,never feasible,cheaper than it is,promises too much,nothing but NaN,epochs from zero,
no legs,nearest is farther,remembers,free handovers,no deadline,easier target,harder target,forgets the state,
changes its input"""


@pytest.mark.parametrize("mutation", ["none", *(name.strip() for name in PLANNERS.split(","))])
def test_the_planner_suite(mutation):
    class Suite(PlannerSuite):
        problems = 10

        def planner(self):
            return Wrong(mutation)

    assert (caught_by(Suite) is None) == (mutation == "none"), caught_by(Suite)


# --- estimators

PAIRS = {
    "schema": 1,
    "target": {"loss": 0.4, "deadline": 50.0},
    "start": {"loss": 2.3, "version": "L", "nodes": "gold"},
    "versions": [{"name": "L"}, {"name": "S"}],
    "node_sets": [{"name": "gold"}],
    "pairs": [{"version": version, "nodes": "gold", "seconds": 1.0, "energy": 1.0} for version in ("L", "S")],
    "changes": [{"seconds": 1.0, "energy": 1.0}],
    "law": {
        "kind": "level",
        "robust_progress": 0.7,
        "curves": [{"floor": 0.1, "drop": 2.0, "scale": 3.0, "power": 1.0}],
        "jumps": [{"jump": 0.1}],
    },
}


class WrongLaw:
    """A law whose next losses are changed."""

    def __init__(self, law: Any, mutation: str) -> None:
        self.law, self.mutation = law, mutation

    def __getattr__(self, name: str) -> Any:
        return getattr(self.law, name)

    def form(self, level: Any = "expected") -> Any:
        form = self.law.form(level)
        return form._replace(mult=form.mult * 1.2) if self.mutation == "another form than law" else form

    def next_loss(self, epoch: int, loss: Any, before: int, now: int, level: Any = "expected") -> Any:
        landed = self.law.next_loss(epoch, loss, before, now, level)
        if self.mutation == "NaN after a handover" and before != now:
            return landed * math.nan
        if self.mutation == "below zero":
            return landed - 1.0
        if self.mutation == "levels cross" and level == 0.95:
            return landed * 0.5
        if self.mutation == "not monotone from the second pair" and before == 1:
            return landed + 0.5 * np.sin(20.0 * np.asarray(loss))
        if self.mutation == "knows the epoch":
            return landed * (1.0 + 0.01 * epoch)
        if self.mutation == "one number for many":
            return landed if np.ndim(landed) == 0 else landed[:1]
        if self.mutation == "writes on what it is given" and np.ndim(loss):
            loss[...] = landed
        return landed


class WrongEstimator:
    calls = 0

    def __init__(self, mutation: str) -> None:
        self.mutation, self.seen = mutation, None
        few = {name: PAIRS[name][:1] for name in ("versions", "pairs")} if mutation == "too few pairs" else {}
        self.inner = Prior.of(load_scenario({**PAIRS, **few}))

    def law(self, history: Any, pairs: Any) -> Any:
        WrongEstimator.calls += 1
        if self.mutation == "remembers":
            self.seen = self.seen or history
            history = self.seen
        law = self.inner.law(history, pairs)
        if self.mutation == "another each time":
            return replace(law, curves=law.curves * (1.0 + 1e-6 * WrongEstimator.calls))
        return law if self.mutation in ("none", "remembers", "too few pairs") else WrongLaw(law, self.mutation)


ESTIMATORS = """remembers,too few pairs,another each time,NaN after a handover,below zero,levels cross,
not monotone from the second pair,knows the epoch,one number for many,writes on what it is given,
another form than law"""


@pytest.mark.parametrize("mutation", ["none", *(name.strip() for name in ESTIMATORS.split(","))])
def test_the_estimator_suite(mutation):
    class Suite(EstimatorSuite):
        def estimator(self):
            return WrongEstimator(mutation)

        def pairs(self):
            return load_scenario(PAIRS).problem.pairs

    assert (caught_by(Suite) is None) == (mutation == "none"), caught_by(Suite)


# --- beliefs


class WrongBelief:
    """The quickstart's belief, spoilt."""

    calls = 0

    def __init__(self, mutation: str) -> None:
        self.mutation, self.past = mutation, None
        self.inner: Any = estimator_for(load_scenario("quickstart"))

    def law(self, history: Any, pairs: Any) -> Any:
        if self.mutation == "learns while it draws" and self.past is not None:
            history = self.past
        return self.inner.law(history, pairs)

    def sample(self, history: Any, pairs: Any, count: int, seed: int) -> Worlds:
        WrongBelief.calls += 1
        if self.mutation == "learns while it draws":
            self.past = history[:-1]
        if self.mutation == "remembers":
            history = self.past = self.past or history
        if self.mutation == "one seed for all":
            seed = 0
        worlds = self.inner.sample(history, pairs, count, seed)
        nan = worlds.curves * np.where(np.arange(len(pairs)) == 1, np.nan, 1.0)[None, :, None]
        changes: dict[str, dict[str, Any]] = {
            "too few worlds": {"only": 7},
            "another each time": {"curves": worlds.curves * (1.0 + 1e-9 * WrongBelief.calls)},
            "NaN of one pair": {"curves": nan},
            "floors below zero": {"curves": worlds.curves - np.array([9.0, 0.0, 0.0, 0.0])},
            "forgets the leg": {"leg_epochs": worlds.leg_epochs + 1},
            "negative scatter": {"scatter": -worlds.scatter},
        }
        change = changes.get(self.mutation, {})
        return worlds.only(np.arange(change["only"])) if "only" in change else replace(worlds, **change)


BELIEFS = (
    "too few worlds",
    "another each time",
    "NaN of one pair",
    "floors below zero",
    "forgets the leg",
    "negative scatter",
    "remembers",
    "one seed for all",
    "learns while it draws",
)


@pytest.mark.parametrize("mutation", ["none", *BELIEFS])
def test_the_belief_suite(mutation):
    class Suite(BeliefSuite):
        epochs_of_histories = (0, 8, 15)

        def estimator(self):
            return WrongBelief(mutation)

        def pairs(self):
            return load_scenario("quickstart").problem.pairs

    assert (caught_by(Suite) is None) == (mutation == "none"), caught_by(Suite)
