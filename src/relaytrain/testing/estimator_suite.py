"""What every estimator must do: inherit `EstimatorSuite`, return your estimator, and pytest runs the contract.

::

    from relaytrain.testing.estimator_suite import EstimatorSuite

    class TestMine(EstimatorSuite):
        def estimator(self):
            return MyEstimator()

        def pairs(self):
            return (Pair("L", "gold"), Pair("S", "bronze"))

Histories are small, random and fixed by their seeds. The first pair is taken to hold the network before epoch 1.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence

import numpy as np

from ..core.law import TABLE, Level, LossLaw, evaluate
from ..core.law_json import law_from_json, law_to_json
from ..core.outcome import EpochOutcome
from ..core.plan import Decision
from ..core.problem import Pair
from ..core.protocols import Estimator

LEVELS: tuple[Level, ...] = ("expected", 0.6, 0.75, 0.9, 0.95, 0.99)
AHEAD = 12
SLACK = 1e-9


def history_of(pairs: Sequence[Pair], rng: np.random.Generator, epochs: int) -> tuple[EpochOutcome, ...]:
    """Falling losses with scatter over one to three legs, each later one begun by a probed jump."""
    loss, at, outcomes = 2.3, 0, []
    for epoch in range(1, epochs + 1):
        probed = None
        if epoch > 1 and len(pairs) > 1 and rng.uniform() < 0.15:
            at = int(rng.integers(len(pairs)))
            loss += float(rng.uniform(0.0, 0.5))
            probed = loss
        loss = max(loss * float(rng.uniform(0.85, 1.0)) * float(np.exp(0.03 * rng.standard_normal())), 0.05)
        outcomes.append(EpochOutcome(Decision(epoch, *pairs[at]), loss, 1.0, 1.0, handover_loss=probed))
    return tuple(outcomes)


class EstimatorSuite:
    """The contract of `core.protocols.Estimator`."""

    histories: int = 6

    def estimator(self) -> Estimator:
        """The estimator under test."""
        raise NotImplementedError("return the estimator to be tested")

    def pairs(self) -> tuple[Pair, ...]:
        """The pairs it knows, the one that holds the network first."""
        raise NotImplementedError("return the pairs to be asked about")

    def each(self) -> Iterator[tuple[tuple[EpochOutcome, ...], LossLaw]]:
        """Histories from none to two dozen epochs, with the estimator's laws."""
        pairs = self.pairs()
        for seed in range(self.histories):
            history = history_of(pairs, np.random.default_rng([7, seed]), (0, 1, 3, 8, 15, 24)[seed % 6])
            yield history, self.estimator().law(history, pairs)

    def path(self, law: LossLaw, level: Level, loss: float, before: int, now: int) -> list[float]:
        """Losses at a level over some epochs of `now`, the first with the handover from `before`."""
        begin = getattr(law, "begin", None)
        loss = float(begin(loss, before, level)) if begin is not None else loss
        losses = []
        for step in range(AHEAD):
            loss = float(law.next_loss(step + 1, np.array(loss), before if step == 0 else now, now, level))
            losses.append(loss)
        return losses

    def test_laws_cover_the_pairs_with_numbers(self) -> None:
        """Every pair and level: finite or infinite losses, never NaN, never negative; staying is finite."""
        count = len(self.pairs())
        for history, law in self.each():
            loss = history[-1].loss if history else 2.3
            for level in LEVELS:
                assert law.form(level).pairs == count
                for before in range(count):
                    for now in range(count):
                        losses = np.array([0.0, loss, 2.3])
                        landed = law.next_loss(len(history) + 1, losses, before, now, level)
                        assert np.shape(landed) == (3,) and losses.tolist() == [0.0, loss, 2.3]
                        assert not np.isnan(landed).any() and (landed >= 0.0).all()
                        assert before != now or np.isfinite(landed).all()

    def test_the_form_is_the_law(self) -> None:
        """Planners search on `form`: it says what `next_loss` says, up to the cells of a table."""
        for history, law in self.each():
            losses = np.linspace(0.1, 2.3, 12)
            for level in ("expected", 0.95):
                form = law.form(level)
                for before, now in itertools.product(range(len(self.pairs())), repeat=2):
                    told = law.next_loss(len(history) + 1, losses, before, now, level)
                    searched = evaluate(form, len(history) + 1, losses, before, now)
                    assert np.allclose(told, searched, rtol=1e-6, atol=2e-2 if form.kind == TABLE else 1e-9)

    def test_levels_never_cross_and_widen(self) -> None:
        """A higher level never promises a lower loss, at any epoch ahead, whoever trains."""
        for history, law in self.each():
            loss = history[-1].loss if history else 2.3
            at = self.pairs().index(history[-1].decision.pair) if history else 0
            for now in range(len(self.pairs())):
                paths = [self.path(law, level, loss, at, now) for level in LEVELS]
                for lower, higher in itertools.pairwise(paths):
                    assert all(a <= b + SLACK + 1e-6 * abs(a) for a, b in zip(lower, higher, strict=True))

    def test_laws_are_functions_of_the_history_alone(self) -> None:
        """Asked twice, or by another object, the answer is the same to the last bit; nothing is remembered."""
        pairs = self.pairs()
        for history, law in self.each():
            again = self.estimator()
            again.law(history[: len(history) // 2], pairs)
            assert self._text(again.law(history, pairs)) == self._text(law)

    def test_laws_survive_being_kept(self) -> None:
        """Written as JSON and read back, the law gives the same losses."""
        for history, law in self.each():
            kept = law_from_json(json.loads(self._text(law)))
            losses = np.linspace(0.1, 2.5, 7)
            for now in range(len(self.pairs())):
                one, other = (at.next_loss(len(history) + 1, losses, 0, now) for at in (law, kept))
                assert np.allclose(one, other, rtol=1e-6, atol=2e-2 if "levels" in self._text(law)[:80] else 1e-9)

    def test_flags_are_true(self) -> None:
        """`monotone` and `autonomous` hold on a sample of losses and epochs wherever they are claimed."""
        for history, law in self.each():
            top = max([2.3, *(outcome.loss for outcome in history)])
            losses = np.linspace(0.0, top, 60)
            for level in ("expected", 0.95):
                for before, now in itertools.product(range(len(self.pairs())), repeat=2):
                    landed = law.next_loss(1, losses, before, now, level)
                    if law.monotone:
                        assert (np.diff(landed[np.isfinite(landed)]) >= -1e-9).all()
                    if law.autonomous:
                        assert np.array_equal(landed, law.next_loss(40, losses, before, now, level))

    def _text(self, law: LossLaw) -> str:
        return json.dumps(law_to_json(law, pairs=len(self.pairs()), top=4.0))
