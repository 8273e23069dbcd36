"""What an epoch on a pipeline node set costs, by hand arithmetic; and that written chains say what counting says."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import pytest

from relaytrain.core.problem import Chain, Node, NodeSet, PipelineWay
from relaytrain.costs.devices import DeviceProfile
from relaytrain.costs.pipelined import pipeline_epoch, try_pipeline_epoch
from relaytrain.costs.profiled import minibatches
from relaytrain.scenario import load_scenario

CHAIN = Chain(
    batch=10, input_bytes=400, weight_bytes=(1000, 3000), plain_bytes=(0, 20), buffer_bytes=(0, 8),
    factor_bytes=(700, 500), forward_flops=(100, 300), saved_bytes=(50, 60), output_bytes=(80, 40),
    block_bytes=(1000, 3000), slice_bytes=(0, 0), end_bytes=4,
)  # fmt: skip
FIRST = DeviceProfile(
    "first", flops_per_s=100.0, busy_w=5.0, idle_w=1.0, memory_bytes=math.inf, bits_per_s=640.0, j_per_bit=0.01
)
SECOND = DeviceProfile(
    "second", flops_per_s=300.0, busy_w=7.0, idle_w=2.0, memory_bytes=math.inf, bits_per_s=80.0, j_per_bit=0.1
)
A, B = Node("a", "first", 95), Node("b", "second", 41)


def _group(**way: object) -> NodeSet:
    return NodeSet("pipe", ("a", "b"), "pipeline", PipelineWay(**way))  # type: ignore[arg-type]


def test_an_epoch_by_hand() -> None:
    found = pipeline_epoch(CHAIN, _group(), [(A, FIRST), (B, SECOND)], state_tensors=0)
    # 95 samples of a in tens: ten minibatches. 200 FLOP (no error beyond the input) at 100/s; 900 at 300/s; 80 B twice
    compute, link = (2.0, 3.0), 2 * 80 / 80
    assert found.minibatches == 10 and found.plan.step_s == 3.0
    seconds = sum(compute) + link + 9 * 3.0
    assert found.seconds == pytest.approx(seconds)
    joules = 5 * 20 + 1 * (seconds - 20) + 7 * 30 + 2 * (seconds - 30) + 10 * 2 * 80 * 8 * 0.01
    assert found.joules == pytest.approx(joules)


def test_pooled_data_travel_to_the_first_node() -> None:
    alone = pipeline_epoch(CHAIN, _group(), [(A, FIRST), (B, SECOND)], state_tensors=0)
    pooled = pipeline_epoch(CHAIN, _group(share_data=True), [(A, FIRST), (B, SECOND)], state_tensors=0)
    assert pooled.minibatches == 14  # 136 samples
    # b's 41 samples of 40 B over its 80 bit/s take longer than the pipeline
    assert pooled.seconds == 41 * 40 * 8 / 80 > alone.seconds
    thin = replace(SECOND, bits_per_s=1e9)
    quick = pipeline_epoch(CHAIN, _group(share_data=True), [(A, FIRST), (B, thin)], state_tensors=0)
    assert quick.seconds == pytest.approx(5.0 + 2.0 + 13 * 3.0)


def test_what_does_not_fit_is_impossible_in_words() -> None:
    tight = replace(SECOND, memory_bytes=3000)
    seconds, joules, reason = try_pipeline_epoch(CHAIN, _group(), [(A, FIRST), (B, tight)], state_tensors=1)
    assert math.isinf(seconds) and math.isinf(joules) and reason is not None and "no split of 2 units fits" in reason
    four = [(Node(f"n{i}", "first", 9), FIRST) for i in range(4)]
    _, _, reason = try_pipeline_epoch(
        CHAIN, NodeSet("p", tuple(n.name for n, _ in four), "pipeline"), four, state_tensors=0
    )
    assert reason == "4 nodes, but only 2 units to share"


@pytest.mark.parametrize(("samples", "count"), [(1, 1), (9, 1), (10, 1), (11, 1), (12, 2), (20, 2), (21, 2), (22, 3)])
def test_a_lone_last_sample_joins_the_batch_before(samples: int, count: int) -> None:
    assert minibatches(samples, 10) == count


def test_the_far_edge_is_usable_as_a_pipeline_only() -> None:
    scenario = load_scenario("far_pipeline")
    pairs = {pair.nodes: index for index, pair in enumerate(scenario.problem.pairs)}
    assert scenario.costs.why_not(pairs["gold"], pairs["far"]) == "full needs 814 kB, far-1 of far has 600 kB"
    assert math.isfinite(scenario.costs.run_s[pairs["far-pipe"]])
    small = load_scenario("far_pipeline", ["devices.emulated-far-edge.memory_bytes=400 kB"])
    reason = small.costs.why_not(pairs["gold"], pairs["far-pipe"])
    assert reason is not None and reason.startswith("full on far-pipe: memory: no split of 4 units fits far-1")
    assert math.isfinite(
        load_scenario("far_pipeline", ["node_sets.far-pipe.checkpoint=true"]).costs.run_s[pairs["far-pipe"]]
    )


@pytest.mark.train
@pytest.mark.slow
def test_the_presets_chain_is_what_counting_says() -> None:
    pytest.importorskip("torch")
    from relaytrain.pipeline.unit_counter import counted_chain
    from relaytrain.training.setup import TrainingSetup

    scenario = load_scenario("far_pipeline")
    assert scenario.problem.versions[0].chain == counted_chain(TrainingSetup.from_scenario(scenario), "full")


@pytest.mark.train
@pytest.mark.parametrize("name", ["cnn", "vgg11", "alexnet"])
def test_a_chain_written_out_splits_as_the_network_does(name: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.nn import functional

    from relaytrain.core.errors import InfeasibleError
    from relaytrain.pipeline.networks import chain, network
    from relaytrain.pipeline.unit_counter import measure
    from relaytrain.planners.pipeline.chain import chain_of, of_chain
    from relaytrain.planners.pipeline.partition import Device, partition

    modules = chain(network(name, width=0.25, input=(3, 16, 16)))
    units = measure(modules, torch.empty(4, 3, 16, 16), functional.cross_entropy, torch.zeros(4, dtype=torch.long))
    written = of_chain(Chain(**asdict(chain_of(units, 4))))
    compared = 0
    for cap in (1e5, 2e5, 4e5, 1e6, 2e6, 4e6, 1e7, 1e9):
        devices = [Device(f"d{i}", 1e9, cap, 1e7) for i in range(3)]
        plans = []
        for facts in (units, written):
            try:
                plans.append(partition(facts, devices, m=3, state_tensors=1))
            except InfeasibleError:
                plans.append(None)
        assert (plans[0] is None) == (plans[1] is None)
        if plans[0] is not None and plans[1] is not None:
            assert plans[0].cuts == plans[1].cuts and plans[0].step_s == pytest.approx(plans[1].step_s)
            compared += 1
    assert compared >= 2
