"""Epochs-to-go round by round are what the search in order of weight gives where every step weighs 1."""

from __future__ import annotations

import numpy as np
import pytest
from hostile_files import many_pairs, random_pairs

from relaytrain import api
from relaytrain.planners.search.instance import instance_of
from relaytrain.planners.search.thresholds import fewest_epochs, thresholds


@pytest.mark.parametrize("limit", [5.5, 200.5])
@pytest.mark.parametrize("level", ["expected", 0.9])
@pytest.mark.parametrize("text", [many_pairs(32), random_pairs(16, 1), random_pairs(32, 2)], ids=["line", "16", "32"])
def test_the_highest_threshold_of_every_number_of_epochs_is_the_same(tmp_path, text, level, limit):
    path = tmp_path / "pairs.toml"
    path.write_text(text)
    loaded = api.scenario(path)
    made = instance_of(loaded.problem, loaded.costs, loaded.law, level)
    tops = np.full(len(made.seconds), made.loss_top)
    one = np.where(made.allowed, 1.0, np.inf)
    slow = thresholds(made.relaxed, one, made.goal, tops=tops, limit=limit)
    quick = fewest_epochs(made.relaxed, made.allowed, made.goal, tops=tops, limit=limit)
    assert len(quick.theta) <= len(slow.theta) and quick.limit == slow.limit
    for pair in range(len(tops)):
        highest = [dict(zip(*_steps(table, pair), strict=True)) for table in (slow, quick)]
        assert highest[0] == pytest.approx(highest[1], rel=1e-12)


def _steps(table, pair):
    part = slice(table.offsets[pair], table.offsets[pair + 1])
    return table.weight[part].tolist(), table.theta[part].tolist()
