"""What every planner must do: inherit `PlannerSuite`, return your planner, and pytest runs the contract.

::

    from relaytrain.testing.planner_suite import PlannerSuite

    class TestMine(PlannerSuite):
        def planner(self):
            return MyPlanner()

Class attributes say what is promised beyond the contract. Problems are small, random and fixed by their seeds; a
failure names the seed, and `drawn(seed)` gives the problem back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ..core.plan import Plan
from ..core.protocols import Planner
from ..core.state import TOLERANCE, State
from .brute_force import brute_force, plain_step
from .strategies import Drawn, draw

SAME = 1e-6
"""Energies are sums of a few costs near 1: closer than this they are the same."""
LONGEST = 9
"""No path of a drawn problem has more epochs."""


def drawn(seed: int) -> Drawn:
    """Problem number `seed` of the suite: even ones have an epoch law, odd ones a level law."""
    return draw(np.random.default_rng([2024, seed]), "level" if seed % 2 else "epoch")


class PlannerSuite:
    """The contract of `core.protocols.Planner`.

    `optimal_when_exact`: with one law at all levels the plan is the least-energy one. `names_nearest`: an infeasible
    plan names targets that could be met. `blind_to_order`: the order of the pairs in a problem carries no meaning.
    """

    problems: int = 40
    optimal_when_exact: bool = False
    names_nearest: bool = True
    blind_to_order: bool = True
    _plans: ClassVar[list[tuple[Drawn, Plan]]]

    def planner(self) -> Planner:
        """The planner under test, new at each call."""
        raise NotImplementedError("return the planner to be tested")

    def plan(self, problem: Drawn) -> Plan:
        """The planner's plan for a drawn problem."""
        return self.planner().plan(problem.problem, problem.costs, problem.law, problem.state)

    def each(self) -> Iterator[tuple[int, Drawn, Plan]]:
        """All problems of the suite with their plans; a class plans them once, that it may is a test of its own."""
        if "_plans" not in vars(type(self)):
            problems = [drawn(seed) for seed in range(self.problems)]
            type(self)._plans = [(problem, self.plan(problem)) for problem in problems]
        for seed, (problem, plan) in enumerate(self._plans):
            yield seed, problem, plan

    def test_feasible_plans_keep_the_target_and_infeasible_ones_do_not_claim_to(self) -> None:
        """Decisions replayed in plain arithmetic: possible at every step, low enough, in time, within the cap."""
        answers = set()
        for seed, problem, plan in self.each():
            answers.add(plan.feasible)
            end = walk(problem, actions_of(problem, plan))[-1]
            target, cap = problem.problem.target, problem.problem.max_epochs
            assert plan.feasible or not plan.met, f"problem {seed}: infeasible and met"
            if plan.feasible:
                assert end.loss <= target.loss + 2 * TOLERANCE, f"problem {seed}: ends at loss {end.loss}"
                assert end.elapsed_s <= target.deadline_s + 2 * TOLERANCE, f"problem {seed}: ends at {end.elapsed_s} s"
                assert cap is None or end.epoch <= cap, f"problem {seed}: {end.epoch} epochs, the cap is {cap}"
        assert answers == {True, False}, "the suite's problems should exercise both answers"

    def test_forbidden_changes_are_never_used(self) -> None:
        """Infinity in a table forbids, also in the best effort of an infeasible plan."""
        for seed, problem, plan in self.each():
            for state in walk(problem, actions_of(problem, plan)):
                assert math.isfinite(state.loss + state.elapsed_s + state.energy_j), f"problem {seed}: {state}"

    def test_never_cheaper_than_every_path_there_is(self) -> None:
        """A plan below the brute-force optimum has mispriced something; an optimal planner equals it."""
        for seed, problem, plan in self.each():
            best = brute_force(
                problem.problem, problem.costs, problem.law, problem.state, most_epochs=problem.state.epoch + LONGEST
            )
            if plan.feasible:
                assert plan.energy_j >= best.energy_j - SAME, f"problem {seed}: {plan.energy_j} < {best.energy_j}"
            if self.optimal_when_exact:
                assert plan.feasible == best.feasible, f"problem {seed}: feasible is {plan.feasible}"
                if best.feasible:
                    assert abs(plan.energy_j - best.energy_j) <= SAME, f"problem {seed}: {plan.energy_j}, {best}"

    def test_parts_of_a_plan_agree(self) -> None:
        """Decisions, legs, handovers and the curves by epoch tell one story."""
        for seed, problem, plan in self.each():
            say = f"problem {seed}: {plan.summary()}"
            actions = actions_of(problem, plan)
            states = walk(problem, actions)
            start, end = states[0], states[-1]
            count = len(actions)
            assert [d.epoch for d in plan.decisions] == list(range(start.epoch + 1, start.epoch + 1 + count)), say
            by_leg = [(leg.version, leg.nodes) for leg in plan.legs for _ in range(leg.epochs)]
            assert by_leg == [tuple(d.pair) for d in plan.decisions], say
            changes = [s.epoch + 1 for s, now in zip(states, actions, strict=False) if s.pair != now]
            assert [h.epoch for h in plan.handovers] == changes, say
            for handover in plan.handovers:
                before = states[handover.epoch - 1 - start.epoch]
                assert handover.before == problem.problem.pairs[before.pair], say
                assert handover.after == plan.decisions[handover.epoch - 1 - start.epoch].pair, say
            near(plan.losses, [s.loss for s in states[1:]], say)
            near(plan.times_s, [s.elapsed_s for s in states[1:]], say)
            near(plan.energies_j, [s.energy_j for s in states[1:]], say)
            assert len(plan.guaranteed) == count, say
            assert all(g >= loss - SAME for g, loss in zip(plan.guaranteed, plan.losses, strict=True)), say
            near([plan.energy_j, plan.elapsed_s], [end.energy_j - start.energy_j, end.elapsed_s], say)
            near([sum(leg.energy_j for leg in plan.legs)], [plan.energy_j], say)
            near([start.elapsed_s + sum(leg.elapsed_s for leg in plan.legs)], [plan.elapsed_s], say)
            near([leg.loss for leg in plan.legs], [states[leg.last_epoch - start.epoch].loss for leg in plan.legs], say)
            assert 0.0 <= plan.probability <= 1.0, say
            assert 0.0 <= plan.rung <= 1.0, say
            assert plan.gap >= 0.0, say
            assert not plan.feasible or math.isinf(plan.bound_j) or plan.bound_j <= plan.energy_j + SAME, say

    def test_nothing_to_do_when_the_target_is_met(self) -> None:
        """An empty, feasible plan that costs nothing."""
        for seed in range(0, self.problems, 4):
            problem = drawn(seed)
            target = problem.problem.target
            for loss in (target.loss, target.loss / 2):
                plan = self.plan(replace(problem, state=replace(problem.state, loss=loss, elapsed_s=0.0)))
                assert plan.feasible, f"problem {seed}"
                assert (plan.decisions, plan.legs, plan.handovers, plan.energy_j) == ((), (), (), 0.0), (
                    f"problem {seed}"
                )

    def test_infeasible_is_declared_with_the_nearest_targets(self) -> None:
        """Too early a deadline and too low a loss; a named target lies on the easy side of what was asked."""
        named = 0
        for seed in range(0, self.problems, 2):
            problem = drawn(seed + seed // 2 % 2)
            hopeless = problem.with_target(
                loss=problem.problem.target.loss / 2, deadline_s=problem.state.elapsed_s + 0.05
            )
            if not problem.costs.run_s.min() > 0.05:
                continue  # free epochs: any deadline is met
            plan = self.plan(hopeless)
            assert not plan.feasible, f"problem {seed}"
            assert not plan.met, f"problem {seed}"
            target = hopeless.problem.target
            for near_target in plan.nearest:
                easier = near_target.loss > target.loss or near_target.deadline_s > target.deadline_s
                assert easier, f"problem {seed}: {near_target} is not easier than {target}"
            named += bool(plan.nearest)
        assert named or not self.names_nearest, "no infeasible plan named a target that could be met"

    def test_named_targets_can_be_met(self) -> None:
        """Planning for a nearest target gives a feasible plan."""
        for seed, problem, plan in self.each():
            for target in plan.nearest:
                again = problem.with_target(loss=target.loss + SAME, deadline_s=target.deadline_s + SAME)
                assert self.plan(again).feasible, f"problem {seed}: {target} was named but is not feasible"

    def test_plans_are_plain_json_without_nan(self) -> None:
        """`to_dict` can be written as strict JSON: finite numbers or null."""
        for seed, _, plan in self.each():
            text = json.dumps(plan.to_dict(), allow_nan=False)
            assert json.loads(text)["feasible"] == plan.feasible, f"problem {seed}"
            numbers = [*plan.losses, *plan.guaranteed, *plan.energies_j, *plan.times_s, plan.energy_j, plan.elapsed_s]
            numbers += [plan.rung, plan.probability, plan.bound_j, plan.gap, plan.ahead, plan.value]
            assert not any(math.isnan(number) for number in numbers), f"problem {seed}: NaN"

    def test_same_input_same_plan(self) -> None:
        """No hidden state, no clock, no unseeded randomness; and the input is left as it was."""
        for seed in range(0, self.problems, 3):
            problem, twin = drawn(seed), drawn(seed)
            first, second = self.plan(problem), self.plan(problem)
            assert first == second, f"problem {seed}"
            kept = self.planner()  # a run asks one planner again and again
            for at in (drawn(seed + 1), problem):
                again = kept.plan(at.problem, at.costs, at.law, at.state)
            assert again == first, f"problem {seed}: another plan from a planner that planned before"
            assert first.to_dict() == second.to_dict(), f"problem {seed}"
            for name in ("run_s", "change_s", "run_j", "change_j"):
                assert np.array_equal(getattr(problem.costs, name), getattr(twin.costs, name)), (
                    f"problem {seed}: {name}"
                )

    def test_order_of_the_pairs_does_not_matter(self) -> None:
        """A permuted problem has a plan of the same energy."""
        if not self.blind_to_order:
            return
        for seed, problem, plan in self.each():
            order = np.random.default_rng(seed).permutation(len(problem.problem.pairs))
            other = self.plan(problem.permuted(order))
            assert other.feasible == plan.feasible, f"problem {seed}"
            assert not plan.feasible or abs(other.energy_j - plan.energy_j) <= SAME, f"problem {seed}"


def actions_of(problem: Drawn, plan: Plan) -> list[int]:
    """The plan's decisions as indexes of pairs."""
    return [problem.problem.index(decision.pair) for decision in plan.decisions]


def walk(problem: Drawn, actions: list[int]) -> list[State]:
    """The states from the present one on, after each action, by equations (1)-(3) in plain arithmetic."""
    state, costs = problem.state, problem.costs
    states = [state]
    for now in actions:
        before = state.pair
        state = State(
            state.epoch + 1,
            plain_step(problem.law, state.epoch + 1, state.loss, before, now),
            state.elapsed_s + float(costs.change_s[before, now] + costs.run_s[now]),
            now,
            state.energy_j + float(costs.change_j[before, now] + costs.run_j[now]),
        )
        states.append(state)
    return states


def near(got: Any, expected: Any, message: str) -> None:
    """Two rows of numbers are the same up to rounding."""
    assert len(got) == len(expected), f"{message}: {len(got)} numbers, expected {len(expected)}"
    assert all(abs(a - b) <= SAME for a, b in zip(got, expected, strict=True)), f"{message}: {got}, expected {expected}"
