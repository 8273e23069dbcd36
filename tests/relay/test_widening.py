"""Bounds that break more often than their level allows make bands wider, visibly, and alike after a resume."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import stub
from compare import trace
from scipy.stats import binom
from test_resume import die_at

from relaytrain.cli.watching import words
from relaytrain.core.law import after
from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.estimators.prior.belief import CurveBelief, Noise
from relaytrain.estimators.prior.reweighting import Prior
from relaytrain.planners.registry import planner_named
from relaytrain.relay import loop as orchestrator
from relaytrain.relay.widening import StatedBound, chance_of, widened, widenings
from relaytrain.store import LeaseLost

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("broken", "count", "level"), [(3, 10, 0.95), (1, 4, 0.5), (5, 5, 0.9), (2, 30, 0.8)])
def test_the_chance_of_so_many_broken_bounds_is_the_binomial_one(broken, count, level):
    assert chance_of(broken, [level] * count) == pytest.approx(binom.sf(broken - 1, count, 1.0 - level))


def outcomes(losses):
    return [EpochOutcome(Decision(i, "v", "n"), loss, 1.0, 1.0) for i, loss in enumerate(losses, 1)]


def test_three_early_breaks_widen_and_one_in_twenty_does_not():
    stated = {epoch: StatedBound(0.95, 1.0) for epoch in range(1, 61)}
    assert widenings(stated, outcomes([1.1 if i % 20 == 0 else 0.9 for i in range(60)])) == []
    (first,) = widenings(stated, outcomes([1.1, 0.9, 1.1, 0.9, 1.1, 0.9, 0.9]))
    assert (first.epoch, first.broken, first.judged, first.factor) == (5, 3, 5, 1.5)
    assert "3 of 5 losses broke a bound that was stated at 95%" in first.words() and "1.5 times" in first.words()
    many = widenings(stated, outcomes([1.1] * 60))
    assert [round(one.factor, 3) for one in many] == [1.5, 2.25, 3.375, 4.0], "counted anew, and never above four times"
    assert widenings({}, outcomes([1.1] * 9)) == [], "nothing was stated"


def test_a_widened_law_has_the_same_middle_and_wider_bounds():
    loaded = stub.scenario()
    law = Prior.of(loaded).law((), loaded.problem.pairs)
    wide = widened(law, 2.0)
    for now in range(len(loaded.problem.pairs)):
        expected, bound = (after(law, 1, 2.0, loaded.problem.start, now, level) for level in ("expected", 0.95))
        assert after(wide, 1, 2.0, loaded.problem.start, now, "expected") == expected
        assert bound <= after(wide, 1, 2.0, loaded.problem.start, now, 0.95) and expected < bound
    assert widened(law, 1.0) is law


def test_widened_worlds_are_farther_apart_round_the_same_middle():
    loaded = stub.scenario()
    worlds = Prior.of(loaded).sample((), loaded.problem.pairs, 64, 0)
    wide = worlds.widened(2.0)
    scales, wider = (np.log(each.curves[:, :, 2]) for each in (worlds, wide))
    np.testing.assert_allclose(wider.mean(axis=0), scales.mean(axis=0))
    np.testing.assert_allclose(wider.std(axis=0), 2.0 * scales.std(axis=0))
    np.testing.assert_allclose(wide.luck, 2.0 * worlds.luck)
    assert worlds.widened(1.0) is worlds


def restless(**options):
    """Losses that scatter by a fifth, and an estimator that takes every curve for certain."""
    loaded = stub.scenario(target__loss=0.2, target__deadline=90.0)
    sure = replace(loaded.law, mult_robust=None, jump0_robust=None, jump1_robust=None, curves_robust=None)

    def certain(problem):
        belief = CurveBelief.from_law(problem.pairs, sure, problem.initial_loss, Noise(noise=0.01, correlation=0.0))
        return Prior(belief, problem.start, problem.initial_loss)

    return stub.job(loaded, estimator=certain, noise=0.2, pace=0.6, **options)


def test_a_run_says_when_its_bands_widen_keeps_it_and_resumes_alike(store):
    heard = []
    ended = orchestrator.start(restless(), store, run="restless-1", told=heard.append)
    said = [notice for line in heard for notice in line.notices if "times as wide" in notice.words]
    assert said and said[0].words in ended.notes
    kept = {e.epoch: e.body["notes"] for e in store.events("restless-1") if e.kind == "planned"}
    assert said[0].words in kept[said[0].epoch], "in the plan that is the first to be wider"
    bounds = {line.epoch: (line.loss, line.guaranteed) for line in heard if line.epoch < said[0].epoch}
    assert sum(loss > bound for loss, bound in bounds.values()) >= 3
    with pytest.raises(LeaseLost):
        orchestrator.start(restless(fault=die_at(2 * said[0].epoch + 2)), store, run="restless-2")
    orchestrator.resume(restless(), store, "restless-2")
    assert trace(store, "restless-2") == trace(store, "restless-1")


def test_a_run_that_knows_nothing_learns_on_the_way_and_states_no_probability(store):
    loaded = stub.scenario(target__deadline=300.0)
    can = np.isfinite(loaded.costs.run_s)
    made = stub.job(
        loaded,
        estimator=lambda problem: Prior(CurveBelief.wide(problem, can), problem.start, problem.initial_loss),
    )
    job, lines = replace(made, planner=replace(planner_named("pact", rule="sampled"), explained=False, worlds=64)), []
    ended = orchestrator.start(job, store, run="unknown-1", told=lines.append)
    assert ended.verdict == "met" and all(line.guess for line in lines)
    plans = [e.body["plan"] for e in store.events("unknown-1") if e.kind == "planned"]
    assert all(plan["guess"] and plan["probability"] is None and plan["rung"] is None for plan in plans)
    assert "%" not in words(lines[0]) and "a guess" in words(lines[0])


def test_widenings_are_those_of_looking_after_every_epoch():
    rng = np.random.default_rng(5)
    for share in (0.02, 0.1, 0.2, 0.4):
        levels = rng.choice([0.8, 0.9, 0.95], 120)
        stated = {epoch: StatedBound(float(level), 1.0) for epoch, level in enumerate(levels, 1)}
        losses = np.where(rng.random(120) < share, 1.1, 0.9).tolist()
        expected, since, factor = [], 0, 1.0
        for epoch in range(1, 121):
            seen = [levels[i] for i in range(since, epoch)]
            broken = sum(losses[i] > 1.0 for i in range(since, epoch))
            if factor < 4.0 and broken >= 3 and chance_of(broken, seen) < 0.01:
                factor, since = min(1.5 * factor, 4.0), epoch
                expected.append((epoch, factor))
        assert [(each.epoch, each.factor) for each in widenings(stated, outcomes(losses))] == expected
        assert expected or share < 0.3
