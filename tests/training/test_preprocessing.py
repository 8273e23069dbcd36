"""Preprocessing as constants, applied to data in numpy and put in front of a network in torch: the same bits."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from relaytrain.core.errors import ScenarioError, UsageError
from relaytrain.data.dataset import Dataset
from relaytrain.data.domain import Preprocessing
from relaytrain.training.preprocessing import steps_of, with_preprocessing

pytestmark = pytest.mark.train
SHRUNK = 1e-6
"""Means of four float32 numbers, added in another order."""


def some_data() -> Dataset:
    images = np.random.default_rng(3).normal(40.0, 300.0, (50, 3, 4, 4)).astype(np.float32)
    images[:, 2] = 7.0  # a channel that never changes
    return Dataset(images, np.arange(50) % 2, 2)


@pytest.mark.parametrize("shrink", [1, 2])
def test_the_network_sees_what_it_was_trained_on(shrink):
    data = some_data()
    steps = Preprocessing.standardising(Preprocessing(shrink).apply(data), shrink=shrink)
    again = Preprocessing.from_dict(json.loads(json.dumps(steps.to_dict())))
    seen = with_preprocessing(nn.Identity(), again)(torch.from_numpy(data.images)).numpy()
    wanted = steps.apply(data).images
    assert steps.raw_shape((3, 4 // shrink, 4 // shrink)) == (3, 4, 4)
    assert np.array_equal(seen, wanted) if shrink == 1 else np.allclose(seen, wanted, rtol=SHRUNK, atol=SHRUNK)


def test_nothing_to_do_leaves_the_network_alone():
    network = nn.Identity()
    assert with_preprocessing(network, Preprocessing()) is network and Preprocessing().nothing


@pytest.mark.parametrize(
    "change",
    [
        {"shrink": 0},
        {"shrink": "2"},
        {"mean": [1.0]},
        {"mean": None},
        {"deviation": [1.0, 0.0]},
        {"mean": [1.0, float("nan")]},
        {"mean": {}, "deviation": {}},
    ],
    ids=str,
)
def test_constants_of_a_damaged_store_are_refused(change):
    whole = {"shrink": 1, "mean": [1.0, 2.0], "deviation": [1.0, 2.0]}
    assert Preprocessing.from_dict(whole).to_dict() == whole
    with pytest.raises(ScenarioError, match="preprocessing"):
        Preprocessing.from_dict({**whole, **change})


def test_a_run_that_kept_none_is_refused_in_words():
    with pytest.raises(UsageError, match="did not keep its preprocessing"):
        steps_of({}, "old-run")
