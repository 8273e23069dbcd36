"""Learned estimators behind the seam: laws that planners can search, honest about handovers and widths."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drawn_campaign import PAIRS, problem

from relaytrain.core.curve import onward
from relaytrain.core.errors import ScenarioError
from relaytrain.core.law import LevelLaw
from relaytrain.core.law_json import law_to_json
from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.core.problem import Target
from relaytrain.estimators.learned.bounds import Bound
from relaytrain.estimators.learned.features import seen_of
from relaytrain.estimators.learned.learned_law import Learned
from relaytrain.estimators.learned.own_epochs import own_pace
from relaytrain.estimators.learned.zero_trace import zero_trace
from relaytrain.testing.belief_suite import BeliefSuite
from relaytrain.testing.estimator_suite import history_of

pytestmark = [pytest.mark.train, pytest.mark.slow]


def test_predicting_needs_neither_torch_nor_sklearn_and_is_the_same_in_another_process(tmp_path, auto):
    path = auto.save(tmp_path / "fit.npz")
    code = (
        "import sys, json; sys.path.insert(0, sys.argv[2]);"
        "from drawn_campaign import PAIRS, problem; from relaytrain.estimators.learned.learned_law import Learned;"
        "from relaytrain.estimators.learned.fitted import load_fitted; from relaytrain.testing.estimator_suite import "
        "history_of;"
        "from relaytrain.core.law_json import law_to_json; import numpy as np;"
        "law = Learned.of(load_fitted(sys.argv[1]), problem()).law(history_of(PAIRS, np.random.default_rng(3), 9), "
        "PAIRS);"
        "assert not {'torch', 'sklearn'} & set(sys.modules), 'heavy';"
        "print(json.dumps(law_to_json(law)))"
    )
    root = str(Path(__file__).parent)
    there = subprocess.run(
        [sys.executable, "-c", code, str(path), root], capture_output=True, text=True, timeout=300, check=False
    )
    assert there.returncode == 0, there.stderr
    here = Learned.of(auto, problem()).law(history_of(PAIRS, np.random.default_rng(3), 9), PAIRS)
    assert json.loads(there.stdout) == json.loads(json.dumps(law_to_json(here)))


class TestAuto(BeliefSuite):
    @pytest.fixture(autouse=True)
    def _fitted(self, auto):
        self.fitted = auto

    def estimator(self):
        return Learned.of(self.fitted, problem())

    def pairs(self):
        return PAIRS


class TestPaper(TestAuto):
    @pytest.fixture(autouse=True)
    def _fitted(self, paper):
        self.fitted = paper


class TestZeroTrace(TestAuto):
    @pytest.fixture(autouse=True)
    def _fitted(self):
        self.fitted = zero_trace()


def outcomes(losses, pair=0, first=1):
    return tuple(EpochOutcome(Decision(first + i, *PAIRS[pair]), float(v), 1.0, 1.0) for i, v in enumerate(losses))


@pytest.mark.parametrize("made", ["auto", "paper"])
def test_one_simulated_handover_is_one_real_one(request, campaign, made):
    """What the law says of the first epoch after a handover is what the models say of it, whatever they learned."""
    fitted = request.getfixturevalue(made)
    history = outcomes(campaign.curves[0].losses[:9])
    estimator = Learned.of(fitted, problem())
    law = estimator.law(history, PAIRS)
    assert isinstance(law, LevelLaw)
    loss = history[-1].loss
    for now in (1, 2):
        found = float(law.next_loss(10, np.array(loss), 0, now))
        losses = np.array([o.loss for o in history])
        if fitted.run.with_start:
            losses = np.concatenate([[2.3], losses])
        from relaytrain.estimators.learned.handovers import _switch

        facts = estimator.facts
        switch = _switch(losses, facts[PAIRS[0]], facts[PAIRS[now]], same=False)
        change = float(fitted.change.bands(fitted.change.rows([switch])).mean[0])
        if fitted.change.target == "first-epoch":
            assert found == pytest.approx(loss + change, abs=1e-6)
        else:
            images = len(history) * facts[PAIRS[0]][1]
            seen = seen_of([np.array([loss + change])], [0], [(*facts[PAIRS[now]], images)], [1])
            assert found == pytest.approx(loss + change + float(fitted.run.bands(seen).mean[0, 0]), abs=1e-6)


def test_the_next_epochs_band_is_the_models(campaign, auto):
    history = outcomes(campaign.curves[0].losses[:9])
    law = Learned.of(auto, problem()).law(history, PAIRS)
    loss = history[-1].loss
    expected = float(law.next_loss(10, np.array(loss), 0, 0))
    sure = float(law.next_loss(10, np.array(law.begin(loss, 0, 0.95)), 0, 0, 0.95))
    truth = float(campaign.curves[0].losses[9])
    assert expected < sure and abs(truth - expected) < 0.2
    calm = Learned.of(auto, problem()).law(outcomes(2.3 / np.sqrt(1 + 0.2 * np.arange(1, 10) * 2.3**2)), PAIRS)
    wild = Learned.of(auto, problem()).law(
        outcomes(2.3 / np.sqrt(1 + 0.2 * np.arange(1, 10) * 2.3**2) * np.where(np.arange(9) % 2, 1.35, 0.7)), PAIRS
    )
    assert wild.scatter[0] > calm.scatter[0]  # a run that is hard to predict gets wider bands


def test_a_leg_that_has_come_to_rest_is_promised_no_more_falls(campaign, auto):
    expected, deviations = np.full(30, -0.05), np.full(30, 0.03)
    assert (
        own_pace(expected, expected, deviations) == 1.0 and own_pace(expected[:0], expected[:0], deviations[:0]) == 1.0
    )
    stalled = [own_pace(expected[:n], 0.0 * expected[:n], deviations[:n]) for n in (1, 4, 30)]
    assert 1.0 > stalled[0] > stalled[1] > stalled[2] and stalled[2] < 0.15
    assert own_pace(expected, -expected, deviations) == 0.0  # it rises
    assert own_pace(expected / 100, 0.0 * expected, deviations) > 0.95  # what scatter hides is no evidence
    falling = campaign.curves[0].losses[:9]
    going = Learned.of(auto, problem()).law(outcomes(falling), PAIRS)
    still = Learned.of(auto, problem()).law(outcomes(np.append(falling, np.full(40, falling[-1]))), PAIRS)
    ends = [law.next_loss(50, law.next_loss(49, np.array(falling[-1]), 0, 0), 0, 0) for law in (going, still)]
    assert falling[-1] >= ends[1] > ends[0]


def test_planners_search_a_learned_law(auto):
    from relaytrain.core.cost import CostTable
    from relaytrain.core.state import State
    from relaytrain.planners.pact.planner import Pact

    costs = CostTable(np.array([3.0, 2.0, 1.0]), np.zeros((3, 3)), np.array([9.0, 3.0, 1.0]), np.zeros((3, 3)))
    made = problem()
    made = replace(made, target=replace(made.target, loss=0.9))  # above the floors it believes in after so short a fit
    law = Learned.of(auto, made).law((), PAIRS)
    plan = Pact().plan(made, costs, law, State(0, 2.3, 0.0, 0))
    assert plan.feasible and plan.losses[-1] <= 0.9 + 1e-6


def test_fits_of_another_loss_and_pairs_without_facts_are_refused(auto):
    with pytest.raises(ScenarioError, match=r"fit --metric test"):
        Learned.of(auto, problem("validation"))
    with pytest.raises(ScenarioError, match="parameters"):
        Learned.of(auto, replace(problem(), versions=()))
    with pytest.raises(ScenarioError, match="samples"):
        Learned.of(auto, replace(problem(), nodes=()))
    with pytest.raises(ScenarioError, match="metric"):
        Learned.of(auto, replace(problem(), target=Target(0.1, metric="error", on="train")))


def test_bounds_are_respected_and_told(auto):
    """A bound that lets nothing fall raises the robust side alone, is told in the notes, and expected <= robust
    holds."""
    history = outcomes(2.3 / np.sqrt(1 + 0.2 * np.arange(1, 10) * 2.3**2))
    free = Learned.of(auto, problem(), bound=Bound("off"))
    bound = Learned.of(auto, problem(), bound=Bound("shape", 1e6))
    loss = history[-1].loss
    laws = [estimator.law(history, PAIRS) for estimator in (free, bound)]
    expected = [float(law.next_loss(10, np.array(loss), 0, 0)) for law in laws]
    robust = [float(law.next_loss(10, np.array(law.begin(loss, 0, 0.95)), 0, 0, 0.95)) for law in laws]
    assert expected[0] == expected[1] and robust[1] >= loss - 1e-3 and robust[1] >= robust[0] - 1e-9
    assert free.law(history, PAIRS).notes == () and "raised" in bound.law(history, PAIRS).notes[0]


# --- worlds


def within_worlds(fitted, history, truth, now) -> float:
    """The share of a leg's losses that lie between the worlds' 5 % and 95 % quantiles, scatter drawn."""
    worlds = Learned.of(fitted, problem()).sample(history, PAIRS, 400, 1)
    at, loss, held = PAIRS.index(history[-1].decision.pair), worlds.stands, 0
    curves = worlds.curves[:, now].copy()
    if now != at:
        loss = loss + worlds.jump0[:, at, now] + worlds.jump1[at, now] * loss
        lift, pace = worlds.entered[min(len(history), len(worlds.entered) - 1), now]
        curves[:, 0], curves[:, 2] = np.maximum(curves[:, 0] + lift, 0.0), curves[:, 2] / pace
    rng = np.random.default_rng(2)
    for epoch, seen in enumerate(truth):
        progress = worlds.mult[min(len(history) + epoch, len(worlds.mult) - 1), now]
        loss = onward(tuple(curves.T), np.maximum(loss, 1e-6), progress)
        scatter = worlds.scatter[now, min((worlds.leg_epochs if now == at else 0) + epoch, worlds.scatter.shape[1] - 1)]
        low, high = np.quantile(loss * np.exp(scatter * rng.standard_normal(len(loss))), (0.05, 0.95))
        held += low <= seen <= high
    return held / len(truth)


def test_worlds_hold_the_legs_of_other_seeds(auto):
    from drawn_campaign import drawn_bundle

    legs = {(c.seed, c.run): c for c in drawn_bundle(9).curves}
    shares = []
    for seed in range(6, 9):  # those that `auto` has not seen
        gold = legs[seed, 0]
        for run, now in ((3, 1), (4, 2), (5, 1), (6, 2)):
            leg = legs[seed, run]
            history = outcomes(gold.losses[: leg.epoch])
            shares.append(within_worlds(auto, history, leg.losses[:12], now))
        shares.append(within_worlds(auto, outcomes(gold.losses[:8]), gold.losses[8:18], 0))
    assert np.mean(shares) >= 0.8


@pytest.mark.parametrize("made", ["auto", "paper", "zero"])
def test_worlds_follow_from_history_and_seed_alone(request, campaign, made):
    fitted = zero_trace() if made == "zero" else request.getfixturevalue(made)
    for epochs in (0, 9):
        history = outcomes(campaign.curves[0].losses[:epochs])
        estimator = Learned.of(fitted, problem())
        estimator.law(history[:4], PAIRS)
        one, again = (each.sample(history, PAIRS, 64, 5) for each in (estimator, Learned.of(fitted, problem())))
        other = estimator.sample(history, PAIRS, 64, 6)
        for mine, theirs in zip(one.arrays, again.arrays, strict=True):
            assert np.array_equal(mine, theirs) and not np.isnan(mine).any()
        assert not np.array_equal(one.curves, other.curves) and (one.stands > 0.0).all()


def test_scatter_is_that_of_the_traces(campaign, auto):
    assert auto.misses.scatter[:, 10] == pytest.approx(0.03, rel=0.25)  # as they were drawn
    worlds = Learned.of(auto, problem()).sample(outcomes(campaign.curves[0].losses[:9]), PAIRS, 8, 1)
    assert np.array_equal(worlds.scatter[0], auto.misses.scatter[0])


def test_worlds_of_a_leg_at_rest_are_at_rest(campaign, auto):
    falling = campaign.curves[0].losses[:9]
    resting = np.append(falling, falling[-1] * np.exp(0.01 * np.random.default_rng(4).standard_normal(40)))
    moving, still = (Learned.of(auto, problem()).sample(outcomes(each), PAIRS, 256, 1) for each in (falling, resting))
    ahead = [onward(tuple(worlds.curves[:, 0].T), worlds.stands, 20.0) / worlds.stands for worlds in (moving, still)]
    assert np.quantile(ahead[1], 0.1) > 0.85 > np.quantile(ahead[0], 0.1)


def test_a_file_without_misses_is_read_and_drawn_from_its_bands(tmp_path, campaign, auto):
    from relaytrain.core import npz
    from relaytrain.estimators.learned.fitted import load_fitted

    path = auto.save(tmp_path / "new.npz")
    assert np.array_equal(load_fitted(path).misses.bias, auto.misses.bias)
    body, arrays = npz.read(path.read_bytes())
    body = {key: value for key, value in body.items() if key != "misses"}
    old = {key: value for key, value in arrays.items() if not key.startswith("misses.")}
    (tmp_path / "old.npz").write_bytes(npz.write_arrays(body, old))
    fitted = load_fitted(tmp_path / "old.npz")
    history = outcomes(campaign.curves[0].losses[:9])
    wide = Learned.of(fitted, problem()).sample(history, PAIRS, 256, 1)
    known = Learned.of(auto, problem()).sample(history, PAIRS, 256, 1)
    assert wide.curves[:, 1, 0].std() > known.curves[:, 1, 0].std()
