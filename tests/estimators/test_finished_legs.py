"""What is remembered of finished legs changes no bit of a law or of worlds, and spares looking at them again."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

import numpy as np
import pytest

import relaytrain as rt
from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.core.problem import Problem
from relaytrain.estimators.choose import estimator_for
from relaytrain.estimators.legs import past_of
from relaytrain.estimators.prior.reweighting import Prior
from relaytrain.estimators.prior.shared_prior import Given

NOTHING_KNOWN = {
    "target": {"loss": 0.3, "deadline": 600},
    "start": {"loss": 2.3, "version": "L", "nodes": "gold"},
    "versions": [{"name": "L"}, {"name": "S"}],
    "node_sets": [{"name": "gold"}, {"name": "bronze"}],
    "pairs": [{"version": v, "nodes": n, "seconds": 1, "energy": 1} for v in "LS" for n in ("gold", "bronze")],
    "changes": [{"seconds": 1, "energy": 1}],
}
CURVES = {"law": {"kind": "level", "curves": [{"floor": 0.2, "drop": 2.0, "scale": 5, "power": 1}]}}
SPREAD = {"curves": [{"spread": 0.9, "floor_spread": 0.1}], "recovers": True}
SCENARIOS = {
    "wide": NOTHING_KNOWN,
    "closing": {**NOTHING_KNOWN, **CURVES, "prior": SPREAD},
    "narrow": {**NOTHING_KNOWN, **CURVES, "prior": {"curves": [{"spread": 0.3, "floor_spread": 0.05}]}},
    "fitted": "quickstart",
}


class Plain(Prior):
    """The same, with everything worked out from all legs each time it is asked for."""

    def _remembered(self, key, make):
        return make()

    def _posterior(self, legs, share=1.0):
        lattice = self.belief.lattice
        logs = np.zeros((len(lattice.luck), *self.hypotheses[0].shape)) + lattice.luck_chance[:, None, None]
        for leg in legs:
            logs[:, leg.pair] += share * self._log_likelihood(leg)
        given = Given(np.exp(logs - logs.max(axis=(0, 2), keepdims=True)), self._shape)
        common = np.log(self.prior_of(0).chance)
        for pair in sorted({leg.pair for leg in legs}):
            common = common + np.log(np.maximum(self.prior_of(pair).evidence(given.of(pair)), 1e-300))
        common = np.exp(common - common.max())
        return given, common / common.sum()

    def anchored(self, legs):
        belief = self.belief
        for position, leg in enumerate(legs):
            leg.experience = self.experience(legs[:position])
            leg.past = past_of(leg.losses) if self.guessed else 0
            if not position and leg.jumped_from is None:
                leg.start *= self.begins
            if belief.recovers and leg.jumped_from is not None and position:
                before, closer = legs[position - 1], self.closed_in(legs[:position])
                weights = closer.weights(legs[:position])[before.pair]
                stood = float(np.exp(weights @ np.log(closer.along(before)[0][:, -1] + self.tiny)))
                start = stood + belief.jump0[before.pair, leg.pair] + belief.jump1[before.pair, leg.pair] * stood
                leg.start = float(max(start, self.tiny))
                leg.doubt = float(belief.jump_spread[before.pair, leg.pair]) / leg.start
        return legs


def drawn(problem: Problem, seed: int, legs: int = 7) -> list[EpochOutcome]:
    """A history of short legs; not every handover was probed."""
    rng = np.random.default_rng(seed)
    loss, at, history = problem.initial_loss, problem.start, list[EpochOutcome]()
    for _ in range(legs):
        probed = float(loss * rng.uniform(1.0, 1.3)) if history and rng.random() < 0.8 else None
        for _ in range(int(rng.integers(1, 5))):
            loss = 0.3 + 0.9 * (loss - 0.3) * float(np.exp(0.03 * rng.standard_normal()))
            decision = Decision(len(history) + 1, *problem.pairs[at])
            history.append(EpochOutcome(decision, loss, 1.0, 1.0, handover_loss=probed))
            probed = None
        at = int(rng.choice([pair for pair in range(len(problem.pairs)) if pair != at]))
    return history


def told(estimator: Prior, history: list[EpochOutcome], problem: Problem) -> list[bytes]:
    """The law and worlds after a history, to the last bit."""
    made = estimator.law(history, problem.pairs), estimator.sample(history, problem.pairs, 16, 3)
    figures = [getattr(each, field.name) for each in made for field in fields(each)]
    return [np.asarray(value, np.float64).tobytes() for value in figures]


@pytest.mark.parametrize("name", SCENARIOS)
def test_laws_and_worlds_are_those_worked_out_from_all_legs_anew(name):
    scenario = rt.load_scenario(SCENARIOS[name])
    problem, lives = scenario.problem, estimator_for(scenario)
    plain = Plain(lives.belief, lives.start, lives.initial_loss)
    history, other = drawn(problem, 1), drawn(problem, 2)
    went_back = [history[:epochs] for epochs in (5, 6)] + [history[:5] + other[5:9]]  # as after a roll-back
    after_that = [other, other[:1], [], history]
    for seen in [history[:epochs] for epochs in range(len(history) + 1)] + went_back + after_that:
        assert told(lives, seen, problem) == told(plain, seen, problem), f"after {len(seen)} epochs"


@pytest.mark.parametrize("name", ["wide", "closing", "narrow"])
def test_a_decision_asks_of_finished_legs_no_more_than_it_has_to(name, monkeypatch):
    calls: Counter[str] = Counter()
    for method in ("_closed_in", "_log_likelihood"):

        def counted(self, *arguments, plain=getattr(Prior, method), method=method):
            calls[method] += 1
            return plain(self, *arguments)

        monkeypatch.setattr(Prior, method, counted)
    scenario = rt.load_scenario(SCENARIOS[name])
    estimator, problem = estimator_for(scenario), scenario.problem
    closes, legs, before = estimator.belief.lattice.closes, 0, problem.start
    history = drawn(problem, 3, legs=12)
    for epoch, outcome in enumerate(history, 1):
        pair = problem.index(outcome.decision.pair)
        switched = epoch > 1 and (pair != before or outcome.handover_loss is not None)
        legs, before = legs + (epoch == 1 or switched), pair
        calls.clear()
        told(estimator, history[:epoch], problem)
        fixed = 1 + switched  # the present leg, and the one that has just been finished
        assert calls["_closed_in"] == closes
        assert calls["_log_likelihood"] == fixed + 2 * legs * closes, "twice on hypotheses that are this epoch's own"
