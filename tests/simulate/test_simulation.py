"""Many worlds: the same table whoever computes it, honest intervals, and what the rules are expected to come to."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from relaytrain.core.errors import InfeasibleError, ScenarioError, UsageError
from relaytrain.scenario import load_scenario
from relaytrain.simulate import Row, SimulationResult, simulate
from relaytrain.simulate.simulation_table import bootstrap, wilson

RULES = ("true", "adaptive", "robust", "expected")


def without_clock(result: SimulationResult) -> list[Row]:
    return [replace(row, decision_ms=0.0) for row in result.table()]


def row_of(result: SimulationResult, mode: str, rule: str) -> Row:
    return next(row for row in result.rows if (row.mode, row.rule) == (mode, rule))


def same(one: list[Row], other: list[Row]) -> bool:
    return repr(one) == repr(other)  # NaN equals NaN


@pytest.fixture(scope="module")
def table() -> SimulationResult:
    return simulate("worlds", 24, seed=3, rules=RULES, workers=1)


@pytest.mark.slow
def test_other_processes_give_the_same_table(table):
    calls: list[tuple[int, int]] = []
    again = simulate("worlds", 24, seed=3, rules=RULES, workers=2, progress=lambda done, of: calls.append((done, of)))
    assert same(without_clock(again), without_clock(table))
    assert [r.outcomes["adaptive"].actions for r in again.results] == [
        r.outcomes["adaptive"].actions for r in table.results
    ]
    assert calls == [(done, 24) for done in range(1, 25)]


def test_another_seed_gives_other_worlds(table):
    other = simulate("worlds", 4, seed=4, rules=["true"], modes=["slack"], workers=1)
    energies = [r.best.energy_j for r in table.results if r.mode == "slack"][:4]
    assert [r.best.energy_j for r in other.results] != energies


def test_what_the_rules_come_to(table):
    """Coarse on purpose: 24 worlds."""
    assert table.modes == ("slack", "tight", "perfect-slack", "perfect-tight")
    for mode in ("perfect-slack", "perfect-tight"):
        for rule in RULES:
            row = row_of(table, mode, rule)
            assert row.misses == 0 and row.over_clairvoyant == pytest.approx((1.0, 1.0, 1.0))
    for rule in RULES:
        assert row_of(table, "slack", rule).misses <= 1
        assert 1.0 <= row_of(table, "slack", rule).over_clairvoyant.value < 1.12
    assert row_of(table, "tight", "adaptive").misses < row_of(table, "tight", "expected").misses
    assert row_of(table, "tight", "adaptive").over_true.value < 1.15


def test_rows_are_what_the_outcomes_say(table):
    for row in table.table():
        here = [r for r in table.results if r.mode == row.mode]
        assert row.worlds == len(here) == 24
        assert row.misses == sum(not r.outcomes[row.rule].met for r in here)
        both = [r for r in here if r.outcomes[row.rule].met and r.outcomes["true"].met]
        ratios = [r.outcomes[row.rule].energy_j / r.outcomes["true"].energy_j for r in both]
        assert row.both_met == len(both) and row.over_true.value == pytest.approx(np.mean(ratios))
        assert row.over_true.low <= row.over_true.value <= row.over_true.high
        gap = sum(r.outcomes["true"].met - r.outcomes[row.rule].met for r in here) / 24
        assert row.misses_over_true.value == pytest.approx(gap)


def test_the_result_is_json(table):
    plain = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert plain["schema"] == "relaytrain.simulation/1"
    assert len(plain["rows"]) == 16 and len(plain["results"]) == 96
    assert plain["rows"][0]["miss_rate"][0] == 0.0


def test_a_scenario_changed_in_python_is_played_as_it_is():
    changed = load_scenario("worlds")
    changed = replace(changed, world=replace(changed.world, progress_noise_sd=0.0))
    result = simulate(changed, 2, rules=["true"], modes=["slack"], workers=2)
    assert all(r.outcomes["true"].energy_j == pytest.approx(r.best.energy_j) for r in result.results)


@pytest.mark.slow
def test_errors_of_workers_keep_their_class():
    with pytest.raises(InfeasibleError, match="tight"):
        simulate("smart_factory", 2, rules=["true"], modes=["tight"], workers=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"worlds": 0}, "worlds: got 0"),
        ({"seed": -1}, "seed: got -1"),
        ({"rules": ["best"]}, "rule: got 'best'"),
        ({"modes": ["loose"]}, "mode: got 'loose'"),
    ],
)
def test_wrong_words_are_named(options, message):
    with pytest.raises(UsageError, match=message):
        simulate("worlds", **options)


def test_a_wrong_scenario_is_named():
    with pytest.raises(ScenarioError):
        simulate("no_such_preset", 1)


def test_wilson_intervals_are_those_of_the_textbook():
    assert wilson(0, 10) == pytest.approx((0.0, 0.0, 0.2775), abs=1e-4)
    assert wilson(5, 10) == pytest.approx((0.5, 0.2366, 0.7634), abs=1e-4)
    assert wilson(10, 10) == pytest.approx((1.0, 0.7225, 1.0), abs=1e-4)
    assert math.isnan(wilson(0, 0).value)


def test_bootstrap_intervals_match_the_normal_ones():
    values = np.random.default_rng(0).normal(1.0, 0.1, 400)
    mean = bootstrap(values, 0)
    half = 1.96 * values.std() / math.sqrt(400)
    assert mean.value == pytest.approx(values.mean())
    assert mean.high - mean.value == pytest.approx(half, rel=0.15)
    assert mean.value - mean.low == pytest.approx(half, rel=0.15)
    assert bootstrap([1.0, 1.0], 0) == (1.0, 1.0, 1.0)
