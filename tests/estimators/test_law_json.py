"""Laws and costs to JSON and back: exactly, infinity included, through real JSON text."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relaytrain as rt
from relaytrain.core.cost import CostTable
from relaytrain.core.errors import ScenarioError
from relaytrain.core.law import EpochLaw, LevelLaw, TableLaw, tabulate
from relaytrain.core.law_json import (
    array_from_json,
    array_to_json,
    costs_from_json,
    costs_to_json,
    law_from_json,
    law_to_json,
)

NUMBERS = st.floats(allow_nan=False, min_value=-1e300) | st.just(float("inf")) | st.sampled_from([0.0, -0.0, 5e-324])


def through_text(value):
    return json.loads(json.dumps(value, allow_nan=False))


def same(one, other) -> bool:
    for f in fields(one):
        a, b = getattr(one, f.name), getattr(other, f.name)
        if isinstance(a, np.ndarray):
            if not (np.array_equal(a, b) and np.array_equal(np.signbit(a), np.signbit(b)) and a.shape == b.shape):
                return False
        elif a != b:
            return False
    return True


@given(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=4))
def test_arrays_come_back_bit_for_bit(rows):
    array = np.array(rows)
    back = array_from_json(through_text(array_to_json(array)))
    assert back.tobytes() == array.tobytes() and back.shape == array.shape


def test_one_figure_is_written_once():
    assert array_to_json(np.full((3, 4), 0.5)) == {"shape": [3, 4], "all": 0.5}
    assert array_to_json(np.full((2, 2), np.inf)) == {"shape": [2, 2], "all": None}
    assert array_from_json(through_text(array_to_json(np.zeros((0, 4))))).shape == (0, 4)
    assert array_from_json(array_to_json(None)) is None


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 3), st.randoms(use_true_random=False), st.booleans())
def test_laws_come_back_bit_for_bit(pairs, rows, chance, robust):
    draw = np.random.default_rng(chance.randrange(2**32))
    square = draw.standard_normal((pairs, pairs))
    square[draw.random((pairs, pairs)) < 0.3] = np.inf
    curves, mult = draw.random((pairs, 4)) + 0.1, draw.random((rows, pairs))
    twins = {"mult_robust": mult * 0.7, "jump0_robust": square, "curves_robust": curves * 1.1} if robust else {}
    for law in (
        LevelLaw(curves, square, square * 0.1, mult, **twins),
        LevelLaw(curves, square, square * 0.1, mult, loss_top=3.25),
        LevelLaw(curves, square, square * 0.1, mult, scatter=curves[:, 0], standing=-curves[:, 1]),
        EpochLaw(mult, square[None], mult * 0.5 if robust else None, None),
        TableLaw(draw.random((rows, pairs, pairs, 5)), 0.1, robust),
    ):
        back = law_from_json(through_text(law_to_json(law)))
        assert type(back) is type(law) and same(law, back)


@pytest.mark.parametrize("preset", ["quickstart", "smart_factory", "fig5", "epoch_example"])
def test_presets_come_back(preset):
    loaded = rt.load_scenario(preset)
    assert same(loaded.law, law_from_json(through_text(law_to_json(loaded.law))))
    assert same(loaded.costs, costs_from_json(through_text(costs_to_json(loaded.costs))))


def test_a_foreign_law_is_kept_as_tables():
    class Foreign:
        autonomous = monotone = True

        def next_loss(self, epoch, loss, before, now, level="expected"):
            return np.asarray(loss) * (0.9 if level == "expected" else 0.95)

        def form(self, level="expected"):
            return tabulate(self, level, pairs=2, top=2.0).form()

    kept = through_text(law_to_json(Foreign(), pairs=2, top=2.0))
    for level, factor in (("expected", 0.9), ("0.95", 0.95)):
        back = law_from_json(kept, level=level)
        assert back.next_loss(1, np.array(1.0), 0, 1) == pytest.approx(factor)
    with pytest.raises(ScenarioError):
        law_to_json(Foreign())


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"schema": "relaytrain.law/9", "kind": "level"},
        {"schema": "relaytrain.law/1", "kind": "other"},
        {"schema": "relaytrain.law/1", "kind": "epoch", "run": "x", "change": [[1]]},
        {"schema": "relaytrain.law/1", "kind": "epoch", "run": [[1], [1, 2]], "change": [[1]]},
        {"schema": "relaytrain.law/1", "kind": "epoch", "run": {"shape": [10**9, 10**9], "all": 0}, "change": [[1]]},
        {"schema": "relaytrain.law/1", "kind": "epoch", "change": [[1]]},
    ],
)
def test_what_is_not_ours_is_refused(bad):
    with pytest.raises(ScenarioError):
        law_from_json(bad)


def test_nan_is_never_written():
    with pytest.raises(ScenarioError):
        array_to_json(np.array([np.nan]))
    with pytest.raises(ScenarioError):
        array_to_json(np.array([-np.inf, 1.0]))


def test_reasons_keep_their_keys():
    inf = np.array([[0.0, np.inf], [1.0, 0.0]])
    costs = CostTable(np.ones(2), inf, np.ones(2), inf, None, {(0, 1): "no way", (1,): "too large"}, "modelled")
    assert costs_from_json(through_text(costs_to_json(costs))).reasons == costs.reasons
