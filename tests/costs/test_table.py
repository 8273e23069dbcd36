"""A cost table that is told what was measured."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from relaytrain.core.cost import CostTable
from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.core.problem import Pair
from relaytrain.costs.table import LearningCosts

PAIRS = [Pair("L", "gold"), Pair("S", "iron")]
TABLE = CostTable(
    run_s=np.array([10.0, 4.0]),
    change_s=np.array([[0.0, 1.0], [math.inf, 0.0]]),
    run_j=np.array([100.0, 20.0]),
    change_j=np.array([[0.0, 5.0], [math.inf, 0.0]]),
)


def told(pair: Pair, seconds: float, joules: float, **more: float) -> EpochOutcome:
    return EpochOutcome(Decision(1, *pair), 0.5, seconds, joules, provenance="measured", **more)  # type: ignore[arg-type]


def test_before_anything_was_measured_it_is_the_table() -> None:
    model = LearningCosts(PAIRS, TABLE)
    assert model.table() is TABLE
    assert "2 pairs" in repr(model)


def test_what_was_measured_stands_for_its_pair_alone() -> None:
    model = LearningCosts(PAIRS, TABLE)
    model.tell(told(PAIRS[0], 14.0, 140.0))
    table = model.table()
    assert (table.run_s[0], table.run_j[0]) == (14.0, 140.0)
    assert table.run_s[1] == 4.0
    assert table.provenance == "measured"
    assert TABLE.run_s[0] == 10.0


def test_an_outage_is_outvoted_wherever_it_falls() -> None:
    for seconds in ([60.0, 12.0], [12.0, 60.0], [60.0, 12.0, 12.0], [12.0, 60.0, 12.0], [12.0, 12.0, 60.0]):
        model = LearningCosts(PAIRS, TABLE)
        for one in seconds:
            model.tell(told(PAIRS[0], one, 100.0))
        assert model.table().run_s[0] == 12.0


def test_figures_that_scatter_count_by_their_mean_for_deadlines_are_sums() -> None:
    model = LearningCosts(PAIRS, TABLE)
    for seconds in (7.0, 13.0, 8.5):
        model.tell(told(PAIRS[0], seconds, 100.0))
    assert model.table().run_s[0] == pytest.approx(9.5)


def test_what_lasts_is_believed_from_the_second_epoch_on() -> None:
    model = LearningCosts(PAIRS, TABLE)
    for seconds in [12.0] * 9 + [36.0] * 2:
        model.tell(told(PAIRS[0], seconds, 100.0))
    assert model.table().run_s[0] == 36.0


def test_of_drawn_nodes_the_mean_counts() -> None:
    """One slow node among three, one of them drawn an epoch: two of three epochs would hide it from a median."""
    model = LearningCosts(PAIRS, TABLE, drawn=PAIRS[:1])
    for seconds in [6.0, 6.0, 30.0] * 4:
        model.tell(told(PAIRS[0], seconds, 100.0))
    assert model.table().run_s[0] == pytest.approx(14.0)


def test_it_converges_and_keeps_the_spread() -> None:
    model = LearningCosts(PAIRS, TABLE)
    rng = np.random.default_rng(1)
    for _ in range(400):
        model.tell(told(PAIRS[0], 20.0 * (1 + 0.1 * rng.standard_normal()), 50.0))
    table = model.table()
    assert table.run_s[0] == pytest.approx(20.0, rel=0.15)
    assert table.run_j[0] == pytest.approx(50.0, rel=1e-6)
    assert table.spread is not None
    assert 0.03 < table.spread[0] < 0.3
    assert table.spread[1] == 0.0


def test_a_change_is_shared_between_run_and_change() -> None:
    model = LearningCosts(PAIRS, TABLE)
    model.tell(told(PAIRS[1], 10.0, 50.0))  # believed 1 + 4 s, 5 + 20 J
    table = model.table()
    assert (table.run_s[1], table.change_s[0, 1]) == (8.0, 2.0)
    assert (table.run_j[1], table.change_j[0, 1]) == (40.0, 10.0)
    model.tell(told(PAIRS[1], 6.0, 40.0))  # stays: no change this time
    assert (model.table().run_s[1], model.table().change_s[0, 1]) == (7.0, 2.0)  # the mean of both


def test_a_handover_that_was_measured_is_no_share_of_anything() -> None:
    table = replace(TABLE, change_s=np.ones((2, 2)) - np.eye(2), change_j=np.ones((2, 2)) - np.eye(2))
    model = LearningCosts(PAIRS, table)
    for _ in range(2):
        model.tell(told(PAIRS[1], 10.0, 50.0, handover_s=0.5, handover_j=0.25))
        model.tell(told(PAIRS[0], 8.0, 70.0, handover_s=3.0, handover_j=20.0))
    now = model.table()
    assert (now.run_s.tolist(), now.run_j.tolist()) == ([5.0, 9.5], [50.0, 49.75])
    assert (now.change_s.tolist(), now.change_j.tolist()) == ([[0.0, 0.5], [3.0, 0.0]], [[0.0, 0.25], [20.0, 0.0]])
    assert now.epoch_s[0, 1] == 10.0


def test_lost_work_and_nonsense_do_not_count() -> None:
    model = LearningCosts(PAIRS, TABLE)
    model.tell(told(PAIRS[0], 15.0, 130.0, wasted_s=5.0, wasted_j=30.0))
    assert (model.table().run_s[0], model.table().run_j[0]) == (10.0, 100.0)
    model.tell(told(PAIRS[0], math.nan, math.inf))
    assert (model.table().run_s[0], model.table().run_j[0]) == (10.0, 100.0)


def test_what_is_forbidden_stays_forbidden() -> None:
    model = LearningCosts(PAIRS, TABLE, start=1)
    model.tell(told(PAIRS[0], 12.0, 100.0))
    assert math.isinf(model.table().change_s[1, 0])
    assert model.table().run_s[0] == 10.0
