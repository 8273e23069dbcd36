"""Worlds of the prior: drawn from what it believes, joint over pairs, and taught by what a run shows."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from relaytrain import api
from relaytrain.core.errors import ScenarioError
from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.core.state import State
from relaytrain.estimators.prior.belief import Noise
from relaytrain.estimators.prior.drawing import evenly
from relaytrain.estimators.prior.fitting import fit_belief, tables_of
from relaytrain.estimators.prior.reweighting import Prior
from relaytrain.planners.pact.schedules import Walker, trails_of
from relaytrain.scenario import load_scenario
from relaytrain.traces.atlas import Atlas, AtlasLeg, LegKey

GOLD, SILVER, BRONZE = 0, 3, 5


def prior(**noise) -> Prior:
    made = Prior.of(api.scenario("quickstart"))
    assert isinstance(made, Prior)
    return replace(made, belief=replace(made.belief, noise=replace(made.belief.noise, **noise)))


def gold(losses) -> tuple[EpochOutcome, ...]:
    return tuple(EpochOutcome(Decision(k, "full", "gold"), loss, 1.0, 1.0) for k, loss in enumerate(losses, 1))


def test_the_same_seed_draws_the_same_worlds():
    one, again, other = (prior().sample((), prior().belief.pairs, 64, seed) for seed in (7, 7, 8))
    assert np.array_equal(one.curves, again.curves) and np.array_equal(one.jump0, again.jump0)
    assert not np.array_equal(one.curves, other.curves)


def test_worlds_have_the_beliefs_means_and_spreads():
    belief = prior().belief
    worlds = prior().sample((), belief.pairs, 20_000, 1)
    for pair in (SILVER, BRONZE):
        away = np.log(worlds.curves[:, pair, 0] / belief.curves[pair, 0])  # floors vary by ratios
        assert away.mean() == pytest.approx(0.0, abs=0.01)
        wide = 0.8 + 0.2 * 3.0**2  # the prior's second part, of each pair and of all
        spread = belief.floor_spread[pair] / belief.curves[pair, 0]
        assert away.std() == pytest.approx(spread * np.sqrt(wide), rel=0.2)  # tails are cut
        pace = np.log(belief.curves[pair, 2] / worlds.curves[:, pair, 2])
        assert np.median(pace) == pytest.approx(0.0, abs=0.02)
    assert worlds.jump0[:, GOLD, SILVER].std() == pytest.approx(belief.jump_spread[GOLD, SILVER], rel=0.05)


@pytest.mark.parametrize("common", [0.0, 0.7])
def test_floors_have_in_common_what_they_are_said_to(common):
    worlds = prior(floor_common=common).sample((), prior().belief.pairs, 20_000, 3)
    floors = np.clip(worlds.curves[:, :, 0], *np.quantile(worlds.curves[:, :, 0], (0.02, 0.98), axis=0))
    assert np.corrcoef(floors[:, SILVER], floors[:, BRONZE])[0, 1] == pytest.approx(common, abs=0.2)


def test_what_one_pair_shows_is_taught_to_the_others():
    high, low = (
        gold([0.6 + rest for rest in 1.7 * 0.75 ** np.arange(1, 25)]),
        gold(1.9 * 0.75 ** np.arange(1, 25) + 0.3),
    )
    floors = [
        prior(floor_common=0.7).sample(history, prior().belief.pairs, 2_000, 4).curves[:, SILVER, 0].mean()
        for history in (high, low)
    ]
    assert floors[0] > floors[1] + 0.01


def test_scatter_falls_along_a_leg():
    belief = replace(prior().belief, scatter_table=None)
    late = replace(belief, late=belief.scatters / 4.0, fall=np.full(len(belief.pairs), 5.0))
    rows = late.scatter_by_epoch(40)
    assert np.allclose(rows[:, 0], belief.scatters) and np.allclose(rows[:, -1], belief.scatters / 4.0, rtol=0.02)
    level = replace(belief, late=belief.scatters)
    assert np.allclose(level.scatter_by_epoch(3)[:, 2], belief.scatters)
    listed = replace(belief, scatter_table=np.outer(belief.scatters, [1.0, 0.5, 0.25]))
    assert np.allclose(listed.scatter_by_epoch(5)[:, [0, 1, 4]], np.outer(belief.scatters, [1.0, 0.5, 0.25]))


def synthetic(seeds: int) -> tuple[Atlas, dict[int, np.ndarray]]:
    """An atlas of curves that are known: floors by pair and seed, scatter of a tenth that falls to a fiftieth."""
    scenario = api.scenario("quickstart")
    atlas = Atlas("known", scenario.problem.pairs, GOLD)
    rng = np.random.default_rng(5)
    shared = rng.standard_normal(seeds)
    floors = {
        pair: mean + spread * (np.sqrt(0.7) * shared + np.sqrt(0.3) * rng.standard_normal(seeds))
        for pair, mean, spread in ((GOLD, 0.5, 0.08), (SILVER, 0.3, 0.05), (BRONZE, 0.2, 0.04))
    }
    for index in range(seeds):
        legs = atlas.seeds[index] = {}

        def leg(before, pair, start, epochs, legs=legs, index=index):
            floor = floors[pair][index]
            rest = ((start - floor) / 2.3) ** -0.25 + np.arange(1, epochs + 1) / 9.0
            curve = floor + 2.3 * rest**-4
            scatter = 0.02 + 0.08 * np.exp(-np.arange(epochs) / 4.0)
            losses = curve * np.exp(scatter * rng.standard_normal(epochs))
            legs[LegKey(before, pair)] = AtlasLeg(float(start), losses.tolist())
            return curve

        on_gold = leg((), GOLD, 2.3, 24)
        for a in (20, 24):
            on_silver = leg(((GOLD, a),), SILVER, on_gold[a - 1] - 0.05, 20)
            leg(((GOLD, a),), BRONZE, on_gold[a - 1], 20)
            for b in (8, 16):
                leg(((GOLD, a), (SILVER, b)), BRONZE, on_silver[b - 1] + 0.1, 14)
    return atlas, floors


def test_a_belief_is_fitted_at_the_level_of_seeds():
    atlas, floors = synthetic(10)
    belief = fit_belief(atlas)
    for pair in (SILVER, BRONZE):
        found = belief.floors[pair][-1] * np.exp([belief.pairs[pair].floor.seeds[seed] for seed in range(10)])
        assert np.corrcoef(found, floors[pair])[0, 1] > 0.9
        assert found.mean() == pytest.approx(floors[pair].mean(), abs=0.03)
        first, late = belief.scatter[pair][[0, -1]]
        assert 0.05 < first < 0.2 and 0.01 < late < 0.04
        assert np.abs(belief.early[pair]).max() < 0.05  # nothing that all legs do alike
    assert belief.begins == pytest.approx(1.0, abs=0.03)
    assert belief.floor_common > 0.2
    assert set(belief.handovers) == {(GOLD, SILVER), (GOLD, BRONZE), (SILVER, BRONZE)}


def test_a_fitted_belief_is_a_scenarios_own_tables():
    atlas, _ = synthetic(4)
    scenario = api.scenario("quickstart")
    tables = tables_of(fit_belief(atlas), atlas.pairs, "a test")
    law = {**scenario.resolved["law"], **tables["law"]}
    law["curves"] = [*scenario.resolved["law"]["curves"], *tables["law"]["curves"]]
    again = Prior.of(load_scenario({**scenario.resolved, "law": law, "prior": tables["prior"]}))
    assert isinstance(again, Prior) and again.belief.noise == Noise(
        again.belief.noise.noise, 0.0, tables["prior"]["common"], tables["prior"]["floor_common"]
    )
    rows = again.belief.scatter_by_epoch(30)[[SILVER, BRONZE]]
    assert (rows[:, -1] < 0.5 * rows[:, 0]).all()
    assert again.belief.early is not None and again.begins == pytest.approx(1.0, abs=0.05)


def test_a_leg_is_that_of_the_network_that_begins_it():
    """A schedule in a drawn world against the curve written out: floor and pace by the samples seen before a leg."""
    scenario = api.scenario("quickstart")
    problem, worlds = scenario.problem, prior().sample((), scenario.problem.pairs, 3, 1)
    walker = Walker(problem, scenario.costs, worlds, State(0, problem.initial_loss, 0.0, GOLD))
    knots, rules = scenario.prior["entered"], scenario.prior["curves"]
    told = {(rule["version"], rule["nodes"]): rule for rule in rules}
    legs = ((GOLD, 7), (SILVER, 5), (BRONZE, 4))
    trails, _ = trails_of(walker, legs, 16)
    for world in range(3):
        loss, seen, at, found = problem.initial_loss * told["full", "gold"]["begins"], 0.0, GOLD, []
        shown: list[float] = []
        for pair, epochs in legs:
            rule = told[problem.pairs[pair].version, problem.pairs[pair].nodes]
            before = loss
            if pair != at:
                loss += worlds.jump0[world, at, pair] + worlds.jump1[at, pair] * loss
            floor, drop, scale, power = worlds.curves[world, pair]
            rows = np.arange(np.ceil(knots[-1]) + 1)
            floor += np.interp(seen, rows, np.interp(rows, knots, rule["entered_floor"]))
            scale /= np.interp(seen, rows, np.interp(rows, knots, rule["entered_pace"]))
            loss = max(loss, min(before, floor))
            above = loss > floor
            rest = ((loss - floor) / drop) ** (-1.0 / power) if above else np.inf
            found += [floor + drop * (rest + k / scale) ** -power if above else loss for k in range(1, epochs + 1)]
            early = [*rule["early"], *[0.0] * epochs]
            shown += [one * np.exp(off) for one, off in zip(found[-epochs:], early, strict=False)]
            loss, seen, at = found[-1], seen + rule["epoch_worth"] * epochs, pair
        assert trails[world, :16, 2] == pytest.approx(shown, rel=1e-9)


def test_a_handover_leads_below_no_floor():
    """A jump that is taken to be large by its spread must not pass for a target that is met."""
    scenario = api.scenario("quickstart")
    worlds = prior().sample((), scenario.problem.pairs, 64, 2)
    deep = replace(worlds, jump0=np.where(np.isfinite(worlds.jump0), -5.0, worlds.jump0), early=None)
    walker = Walker(scenario.problem, scenario.costs, deep, State(0, scenario.problem.initial_loss, 0.0, GOLD))
    trails, _ = trails_of(walker, ((GOLD, 4), (SILVER, 3)), 7)
    assert deep.entered is not None
    lift = np.interp(4.0, np.arange(len(deep.entered)), deep.entered[:, SILVER, 0])
    assert trails[:, 4:7, 2] == pytest.approx(np.repeat(deep.curves[:, SILVER, :1] + lift, 3, axis=1), rel=1e-9)


def test_tails_are_drawn_as_often_as_is_due():
    """Uniform numbers of a draw lie one in every part, so a share of one in a hundred is not left to luck."""
    numbers = evenly(np.random.default_rng(3), 200, 4)
    assert (np.sort(np.floor(numbers * 200), axis=0) == np.arange(200)[:, None]).all()


def test_experience_has_to_rise_and_every_curve_to_know_it():
    tables = deepcopy(dict(api.scenario("quickstart").resolved))
    tables["prior"]["entered"][1] = 0.0
    tables["prior"]["curves"][1]["entered_pace"].pop()
    with pytest.raises(ScenarioError, match=r"(?s)figures that rise.*as many as prior.entered has, 8"):
        load_scenario(tables)
