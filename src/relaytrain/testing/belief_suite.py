"""What every belief must do, an estimator that draws worlds too: inherit `BeliefSuite`, return your estimator.

::

    from relaytrain.testing.belief_suite import BeliefSuite

    class TestMine(BeliefSuite):
        def estimator(self):
            return MyBelief()

        def pairs(self):
            return (Pair("L", "gold"), Pair("S", "bronze"))

The contract of estimators is part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..core.cost import CostTable
from ..core.curve import Array
from ..core.outcome import EpochOutcome
from ..core.problem import Problem, Target
from ..core.protocols import Belief
from ..core.state import State
from ..core.worlds import Worlds
from ..planners.over_worlds import plan_over
from ..planners.pact.sampled import Sampled
from .estimator_suite import EstimatorSuite, history_of

START_LOSS = 2.3


class BeliefSuite(EstimatorSuite):
    """The contract of `core.protocols.Belief`."""

    worlds: int = 48
    epochs_of_histories: tuple[int, ...] = (0, 1, 3, 8, 15, 24)

    def estimator(self) -> Belief:
        """The belief under test."""
        raise NotImplementedError("return the belief to be tested")

    def each_past(self) -> Iterator[tuple[EpochOutcome, ...]]:
        """Histories from none to two dozen epochs."""
        for seed, epochs in enumerate(self.epochs_of_histories):
            yield history_of(self.pairs(), np.random.default_rng([7, seed]), epochs)

    def test_worlds_cover_the_pairs_with_numbers(self) -> None:
        """As many as were asked for, of all pairs; infinite is only what is impossible, and nothing is NaN."""
        count = len(self.pairs())
        for history in self.each_past():
            worlds = self.estimator().sample(history, self.pairs(), self.worlds, 1)
            assert len(worlds) == self.worlds and np.isfinite(worlds.stands).all() and (worlds.stands > 0.0).all()
            assert worlds.jump0.shape == (self.worlds, count, count) and not np.isnan(worlds.jump0).any()
            assert worlds.jump1.shape == (count, count) and not np.isnan(worlds.jump1).any()
            assert worlds.scatter.shape[0] == count and np.isfinite(worlds.scatter).all()
            assert (worlds.scatter >= 0.0).all()
            assert worlds.luck.shape == (self.worlds, count) and np.isfinite(worlds.luck).all()
            if worlds.table is None:
                floor, drop, scale, power = np.moveaxis(worlds.curves, -1, 0)
                assert worlds.curves.shape == (self.worlds, count, 4) and np.isfinite(worlds.curves).all()
                assert (floor >= 0.0).all() and (drop >= 0.0).all() and (scale > 0.0).all() and (power > 0.0).all()
                assert worlds.mult.shape[1] == count and (worlds.mult >= 0.0).all()
            else:
                assert worlds.table.gains.shape[1] == worlds.table.factors.shape[2] == count
                assert np.isfinite(worlds.table.factors).all()
            assert 0.0 < worlds.coverage <= 1.0

    def test_the_present_leg_is_as_long_as_it_was(self) -> None:
        """Scatter falls with the epoch of a leg, so a world has to know how many the present one has."""
        for history in self.each_past():
            legs = [index for index, outcome in enumerate(history) if outcome.handover_loss is not None]
            on_leg = len(history) - (legs[-1] if legs else 0)
            worlds = self.estimator().sample(history, self.pairs(), self.worlds, 1)
            assert worlds.leg_epochs in (on_leg, 0)  # 0: its scatter knows no legs
            assert worlds.leg_epochs == on_leg or worlds.scatter.shape[1] == 1

    def test_worlds_are_functions_of_history_and_seed(self) -> None:
        """Drawn again, by an object that was asked of another past before, they are the same to the last bit."""
        for history in self.each_past():
            worlds = self.estimator().sample(history, self.pairs(), self.worlds, 5)
            again = self.estimator()
            again.sample(history[: len(history) // 2], self.pairs(), self.worlds, 6)
            assert _same(again.sample(history, self.pairs(), self.worlds, 5), worlds)
            other = again.sample(history, self.pairs(), self.worlds, 6)
            assert _all_alike(worlds) or not _same(other, worlds)

    def test_drawing_leaves_the_law_as_it_is(self) -> None:
        """A law asked for after worlds were drawn is the law."""
        for history in self.each_past():
            estimator = self.estimator()
            estimator.sample(history, self.pairs(), self.worlds, 1)
            law = self.estimator().law(history, self.pairs())
            assert self._text(estimator.law(history, self.pairs())) == self._text(law)

    def test_a_planner_can_decide_over_them(self) -> None:
        """The rule `sampled` finds a plan with a probability and an energy between its ends."""
        problem, costs = self._free_to_change()
        for history in self.each_past():
            loss = history[-1].loss if history else START_LOSS
            at = self.pairs().index(history[-1].decision.pair) if history else 0
            state = State(len(history), loss, float(len(history)), at, float(len(history)))
            aimed = replace(problem, target=replace(problem.target, loss=0.8 * loss))
            estimator = self.estimator()

            def draw(count: int, estimator: Belief = estimator, history: tuple[EpochOutcome, ...] = history) -> Worlds:
                return estimator.sample(history, self.pairs(), count, 1)

            law = estimator.law(history, self.pairs())
            plan = plan_over(Sampled(self.worlds, way_out=False), draw, aimed, costs, law, state)
            assert 0.0 <= plan.probability <= 1.0 and plan.energy_interval_j is not None
            low_j, high_j = plan.energy_interval_j
            assert 0.0 <= low_j <= plan.energy_j <= high_j < np.inf
            assert not np.isnan(plan.losses).any() and not np.isnan(plan.guaranteed).any()

    def _free_to_change(self) -> tuple[Problem, CostTable]:
        """The pairs at one second and one joule an epoch, handovers at no cost."""
        count = len(self.pairs())
        problem = Problem("contract", self.pairs(), 0, START_LOSS, Target(START_LOSS, 200.0, 0.9))
        free = np.zeros((count, count))
        return problem, CostTable(np.ones(count), free, np.ones(count), free.copy())


def _same(one: Worlds, other: Worlds) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one.arrays, other.arrays, strict=True))


def _all_alike(worlds: Worlds) -> bool:
    """Nothing differs between the worlds: all is known."""
    return all(np.array_equal(part, np.broadcast_to(part[:1], part.shape)) for part in _by_world(worlds))


def _by_world(worlds: Worlds) -> Iterator[Array]:
    yield from (worlds.curves, worlds.jump0, worlds.stands, worlds.luck)
    if worlds.table is not None:
        yield worlds.table.factors
