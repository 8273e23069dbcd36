"""The belief where nothing is known: of the problem's own size, as uncertain as it says, and quick to learn."""

from __future__ import annotations

import gc
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import relaytrain as rt
from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.estimators.choose import estimator_for
from relaytrain.estimators.legs import past_of
from relaytrain.estimators.prior.reweighting import CLOSER, Prior
from relaytrain.estimators.prior.shared_prior import Given

PLAIN = {
    "target": {"loss": 0.3, "deadline": 600, "probability": 0.9},
    "start": {"loss": 2.3, "version": "full", "nodes": "cloud"},
    "versions": [{"name": "full"}, {"name": "small"}],
    "node_sets": [{"name": "cloud"}, {"name": "edge"}],
    "pairs": [
        {"version": "full", "nodes": "cloud", "seconds": 1, "energy": 1},
        {"version": "small", "nodes": "edge", "seconds": 2, "energy": 3},
        {"version": "full", "nodes": "edge", "seconds": math.inf, "energy": 3, "reason": "too large"},
    ],
    "changes": [{"seconds": 1, "energy": 1}],
}
COUNT = 200


def scaled(factor: float) -> rt.Scenario:
    target, start = ({**PLAIN[key], "loss": PLAIN[key]["loss"] * factor} for key in ("target", "start"))
    return rt.load_scenario({**PLAIN, "target": target, "start": start})


def seen(losses: list[float], version: str = "full", nodes: str = "cloud") -> list[EpochOutcome]:
    return [EpochOutcome(Decision(i, version, nodes), loss, 1.0, 1.0) for i, loss in enumerate(losses, 1)]


def test_a_scenario_without_a_law_is_believed_of_widely_and_none_with_one():
    known = {**PLAIN, "law": {"kind": "level", "curves": [{"floor": 0.1, "drop": 2.2, "scale": 5, "power": 1}]}}
    guessed, sure = rt.load_scenario(PLAIN), rt.load_scenario(known)
    assert guessed.guessed and estimator_for(guessed).guessed
    assert not sure.guessed and not estimator_for(sure).guessed and sure.warnings == ()
    assert guessed.resolved["law"]["kind"] == "wide" and rt.load_scenario(guessed.resolved) == guessed


@pytest.mark.parametrize("factor", [0.01, 50.0])
def test_losses_of_another_size_are_treated_alike(factor):
    """Everything in units of loss scales; what a plan does, does not change."""
    one, other = scaled(1.0), scaled(factor)
    losses = [1.6, 1.3, 1.1, 1.0, 0.95, 0.93, 0.92]
    pairs = one.problem.pairs
    for history in ([], losses):
        mine = estimator_for(one).sample(seen(history), pairs, COUNT, 3)
        theirs = estimator_for(other).sample(seen([loss * factor for loss in history]), pairs, COUNT, 3)
        middles = [np.median(each.curves, axis=0) for each in (mine, theirs)]
        np.testing.assert_allclose(middles[1][:, :2], middles[0][:, :2] * factor, rtol=0.1)
        np.testing.assert_allclose(middles[1][:, 2:], middles[0][:, 2:], rtol=0.02)
    legs = [rt.plan(each, rule="sampled").summary() for each in (one, other)]
    assert legs[0] == legs[1]


def test_an_epochs_law_and_worlds_close_in_once_and_few_posteriors_are_kept(monkeypatch):
    calls: Counter[str] = Counter()
    for name in ("_closed_in", "_posterior"):

        def counted(self, *arguments, plain=getattr(Prior, name), name=name):
            calls[name] += 1
            return plain(self, *arguments)

        monkeypatch.setattr(Prior, name, counted)
    scenario = rt.load_scenario(PLAIN)
    estimator, pairs = estimator_for(scenario), scenario.problem.pairs
    first = seen([2.0, 1.8, 1.6, 1.5, 1.4])
    second = [EpochOutcome(Decision(6 + i, "small", "edge"), 1.3 - 0.05 * i, 1.0, 1.0) for i in range(5)]
    history = [*first, replace(second[0], handover_loss=2.1), *second[1:]]
    gc.collect()
    before = sum(type(each) is Given for each in gc.get_objects())
    for epoch in range(1, len(history) + 1):
        calls.clear()
        estimator.law(history[:epoch], pairs)
        estimator.sample(history[:epoch], pairs, 8, 0)
        assert calls == {"_closed_in": 1, "_posterior": len(CLOSER) + 1}, "the leg before is closed in on already"
    gc.collect()
    assert sum(type(each) is Given for each in gc.get_objects()) - before <= 4


def test_before_any_epoch_floors_lie_on_both_sides_of_the_target_and_one_pair_that_can_be_run_reaches_it():
    worlds = estimator_for(rt.load_scenario(PLAIN)).sample([], rt.load_scenario(PLAIN).problem.pairs, COUNT, 0)
    floors = worlds.curves[:, :, 0]
    assert 0.15 < floors.std(axis=0).min() < 0.5
    assert ((floors > 0.3).mean(axis=0) > 0.1).all() and ((floors > 0.3).mean(axis=0) < 0.6).all()
    assert (floors[:, :2].min(axis=1) < 0.3).all(), "somebody named the target"
    assert np.corrcoef(floors[:, 0], floors[:, 2])[0, 1] > 0.05, "pairs have something in common"
    assert 0.7 < np.log(worlds.curves[worlds.curves[:, 0, 3] == 4.0, 0, 2]).std() < 1.5


@pytest.mark.parametrize("scatter", [0.003, 0.1])
def test_floor_and_scatter_are_learned_from_the_run(scatter):
    """A curve that comes to rest at 0.8 well above the target, whatever its losses scatter by."""
    chance = np.random.default_rng(5)
    curve = 0.8 + 1.5 * (1.0 + np.arange(1, 25) / 4.0) ** -4.0
    losses = (curve * np.exp(scatter * chance.standard_normal(24))).tolist()
    scenario = rt.load_scenario(PLAIN)
    worlds = estimator_for(scenario).sample(seen(losses), scenario.problem.pairs, COUNT, 0)
    low, high = np.quantile(worlds.curves[:, 0, 0], [0.05, 0.95])
    assert 0.6 < low <= 0.81 and 0.75 <= high < 0.9 and high - low < (0.03 if scatter < 0.01 else 0.25)
    late = (worlds.luck[:, 0] * worlds.scatter[0, 20]).mean()
    assert scatter / 3.0 < late < scatter * 3.0
    assert np.median(worlds.luck[:, 1]) == pytest.approx(1.0), "of the other pair nothing was seen"


def test_losses_that_fall_ever_more_slowly_are_not_taken_for_losses_at_rest():
    curve = 0.3 + 2.0 * (1.0 + np.arange(1, 13) / 2.0) ** -1.0
    scenario = rt.load_scenario(PLAIN)
    worlds = estimator_for(scenario).sample(seen(curve.tolist()), scenario.problem.pairs, COUNT, 0)
    assert (worlds.curves[:, 0, 3] == 1.0).mean() > 0.7
    assert abs(np.median(worlds.curves[:, 0, 0]) - 0.3) < 0.1 and curve[-1] > 0.55


def test_losses_that_rise_again_are_no_luck_to_come():
    """A network learns its few images by heart: down to a little above the target, and up again."""
    chance = np.random.default_rng(1)
    falling = 0.32 + 1.8 * (1.0 + np.arange(1, 25) / 3.0) ** -4.0
    whole = np.concatenate([falling, np.linspace(0.32, 0.42, 24)]) * np.exp(0.01 * chance.standard_normal(48))
    scenario = rt.load_scenario(PLAIN)
    before, after = (
        estimator_for(scenario).sample(seen(whole[:count].tolist()), scenario.problem.pairs, COUNT, 0)
        for count in (24, 48)
    )
    assert np.quantile(before.curves[:, 0, 0], 0.05) < 0.32, "as long as they fall they may fall on"
    assert (after.curves[:, 0, 0] > 0.39).all() and np.median(after.stands) == pytest.approx(0.41, abs=0.02)
    late = (after.luck[:, 0] * after.scatter[0, 47]).mean()
    assert late < 0.06, "held against a curve that falls to a floor it is 0.15"


def test_losses_at_rest_or_still_falling_are_seldom_taken_to_rise():
    chance = np.random.default_rng(2)
    for curve in (np.full(40, 0.5), 0.3 + 2.0 * (1.0 + np.arange(1, 41) / 2.0) ** -1.0):
        risen = [bool(past_of((curve * np.exp(0.05 * chance.standard_normal(40))).tolist())) for _ in range(400)]
        assert np.mean(risen) < 0.1
    assert past_of([0.5] * 15 + [5.0] * 15) == 22 and past_of([0.5] * 7 + [5.0] * 8) == 0


def test_a_pair_with_fewer_samples_is_taken_to_be_slower_by_the_root():
    nodes = [{"name": "big", "samples": 800}, {"name": "tiny", "samples": 50}]
    sets = [{"name": "cloud", "nodes": ["big"]}, {"name": "edge", "nodes": ["tiny"]}]
    law = rt.load_scenario({**PLAIN, "nodes": nodes, "node_sets": sets}).law
    assert law.mult[0].tolist() == pytest.approx([1.0, 0.25, 0.25])


def test_another_target_moves_the_belief_of_the_problem_at_hand():
    scenario = rt.load_scenario(PLAIN)
    problem = replace(scenario.problem, target=replace(scenario.problem.target, loss=0.6))
    first, other = estimator_for(scenario), estimator_for(scenario, problem)
    assert other.belief.curves[0, 0] == pytest.approx(2 * first.belief.curves[0, 0])
