"""Expected costs of a sampled share against all draws counted out, and against the epochs that are booked."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import combinations

import pytest

from relaytrain.core.problem import NodeSet
from relaytrain.core.sampling import sampled_nodes
from relaytrain.costs.sampled import sampled_cost, slowest_probabilities
from relaytrain.scenario import load_scenario


@pytest.mark.parametrize("seed", range(8))
def test_the_expectation_is_the_mean_over_all_draws(seed: int) -> None:
    luck = random.Random(seed)
    nodes = luck.randint(1, 8)
    count = luck.randint(1, nodes)
    seconds = [luck.choice([1.0, 2.0, 2.0, luck.uniform(0.1, 9.0)]) for _ in range(nodes)]  # ties too
    own = [luck.uniform(0.0, 5.0) for _ in range(nodes)]
    idle = [luck.uniform(0.0, 3.0) for _ in range(nodes)]
    draws = list(combinations(range(nodes), count))
    slowest = [max(seconds[i] for i in draw) for draw in draws]
    joules = [sum(own[i] + idle[i] * top for i in draw) for draw, top in zip(draws, slowest, strict=True)]
    mean = sum(slowest) / len(draws)
    sd = math.sqrt(sum((top - mean) ** 2 for top in slowest) / len(draws))
    cost = sampled_cost(seconds, own, idle, count)
    assert cost.seconds == pytest.approx(mean) and cost.joules == pytest.approx(sum(joules) / len(draws))
    assert cost.seconds_sd == pytest.approx(sd, abs=1e-7)
    assert sum(slowest_probabilities(nodes, count)) == pytest.approx(1.0)


def test_probabilities_of_many_nodes_stay_sound() -> None:
    assert sum(slowest_probabilities(10_000, 37)) == pytest.approx(1.0)


def tables(share: float) -> dict:
    device = {"flops_per_s": 1e9, "busy_w": 5.0, "idle_w": 1.0, "bits_per_s": 1e6, "j_per_bit": 1e-6}
    slow = {**device, "flops_per_s": 4e8, "idle_w": 0.5}
    return {
        "name": "sampled",
        "target": {"loss": 0.5, "deadline": 1000.0},
        "versions": [{"name": v, "parameters": p, "flops_per_sample": 1e6} for v, p in (("full", 1000), ("half", 500))],
        "nodes": [
            {"name": f"n{i}", "device": "quick" if i % 2 else "slow", "samples": 100 * (i + 1)} for i in range(5)
        ],
        "node_sets": [{"name": "all", "nodes": [f"n{i}" for i in range(5)], "sample_share": share}],
        "devices": {"quick": device, "slow": slow},
    }


def test_the_cost_table_holds_the_mean_over_all_draws_of_the_plain_table() -> None:
    """Each draw as a node set of its own, without sampling, is the independent way to the same figures."""
    scenario = load_scenario(tables(0.5))
    assert scenario.problem.node_sets[0].sampled == 3
    draws = [list(draw) for draw in combinations([f"n{i}" for i in range(5)], 3)]
    apart = tables(1.0) | {"node_sets": [{"name": f"d{k}", "nodes": draw} for k, draw in enumerate(draws)]}
    plain = load_scenario(apart)
    for index, pair in enumerate(scenario.problem.pairs):
        same = [i for i, other in enumerate(plain.problem.pairs) if other.version == pair.version]
        assert scenario.costs.run_s[index] == pytest.approx(plain.costs.run_s[same].mean())
        assert scenario.costs.run_j[index] == pytest.approx(plain.costs.run_j[same].mean())
        drawn = plain.costs.run_s[same].std() / scenario.costs.run_s[index]
        assert scenario.costs.spread[index] == pytest.approx(math.hypot(plain.costs.spread[0], drawn))
    other = [i for i, pair in enumerate(plain.problem.pairs) if pair.version == "half"]
    start = plain.problem.index(plain.problem.pairs[0])
    assert scenario.costs.change_s[0, 1] == pytest.approx(plain.costs.change_s[start, other].mean())
    assert scenario.costs.change_j[0, 1] == pytest.approx(plain.costs.change_j[start, other].mean())


def test_a_whole_share_changes_nothing() -> None:
    whole, plain = load_scenario(tables(1.0)), tables(1.0)
    del plain["node_sets"][0]["sample_share"]
    assert (whole.costs.run_s == load_scenario(plain).costs.run_s).all()


def test_every_node_is_drawn_as_often_as_the_others_and_the_same_draw_twice() -> None:
    nodes = tuple("abcdef")
    draws = [sampled_nodes(nodes, 2, seed=1, epoch=epoch) for epoch in range(3000)]
    assert draws == [sampled_nodes(nodes, 2, seed=1, epoch=epoch) for epoch in range(3000)]
    assert draws != [sampled_nodes(nodes, 2, seed=2, epoch=epoch) for epoch in range(3000)]
    assert all(len(set(draw)) == 2 and list(draw) == sorted(draw) for draw in draws)
    pairs = Counter(draws)
    assert len(pairs) == 15 and all(abs(n - 200) < 5 * math.sqrt(200) for n in pairs.values())


@pytest.mark.parametrize(("share", "count"), [(1e-6, 1), (0.2, 1), (0.21, 2), (0.6, 3), (1.0, 5)])
def test_at_least_the_share_is_drawn(share: float, count: int) -> None:
    assert NodeSet("s", tuple("abcde"), sample_share=share).sampled == count
