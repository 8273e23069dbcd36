"""Epochs of pipeline node sets: one stage is plain training, several are the same in one process and in many."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from relaytrain.core.errors import NonFiniteTraining, ScenarioError  # noqa: E402
from relaytrain.core.plan import Decision  # noqa: E402
from relaytrain.relay.assembly import job_of  # noqa: E402
from relaytrain.scenario import load_scenario  # noqa: E402

pytestmark = pytest.mark.train
SMALL = (
    "nodes.cloud.samples=40",
    "versions.full.width=0.5",
)  # the chain written out is of another width: only costs see it


def _runner(*overrides):
    return job_of(load_scenario("far_pipeline", [*SMALL, *overrides])).runner


def _epochs(runner, nodes, count=2):
    checkpoint, losses = runner.first(), []
    for epoch in range(1, count + 1):
        done = runner.run_epoch(
            Decision(epoch, "full", nodes, mode=runner.setup.problem.mode_of(nodes)), checkpoint, run="test"
        )
        checkpoint = done.checkpoint
        losses.append(done.outcome.loss)
    return checkpoint, losses, done


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_one_stage_is_plain_training(optimizer):
    extra = (f"training.optimizer={optimizer}", "training.weight_decay=0.001", "training.local_epochs=2")
    federated, plain, _ = _epochs(_runner(*extra), "gold")
    staged = _runner(*extra, 'node_sets.gold.mode="pipeline"')
    checkpoint, losses, done = _epochs(staged, "gold")
    assert losses == pytest.approx(plain, abs=1e-5)
    for name, tensor in federated.weights.items():
        torch.testing.assert_close(checkpoint.weights[name], tensor, rtol=0, atol=2e-6)
    assert checkpoint.optimizer.keys() == federated.optimizer.keys()
    for name, tensor in federated.optimizer.items():
        torch.testing.assert_close(checkpoint.optimizer[name], tensor, rtol=0, atol=2e-6)
    assert done.outcome.elapsed_s > 0 and [node.node for node in done.nodes] == ["cloud"]


@pytest.mark.slow
def test_processes_and_one_process_give_the_same_bits():
    inside, losses, _ = _epochs(_runner(), "far-pipe")
    apart, others, done = _epochs(_runner('training.transport="processes"'), "far-pipe")
    assert losses == others and inside.data == apart.data
    assert [node.node for node in done.nodes] == ["far-1", "far-2", "far-3"]


def test_only_the_first_nodes_data_train_unless_they_are_shared():
    runner = _runner()
    assert (
        runner.setup.owners_of("far-pipe") == ("far-1", "far-2", "far-3")
        and len(runner.setup.data_of("far-pipe")) == 120
    )
    apart = _runner("node_sets.far-pipe.share_data=false")
    assert apart.setup.owners_of("far-pipe") == ("far-1",) and len(apart.setup.data_of("far-pipe")) == 40
    assert apart.setup.owners_of("far") == ("far-1", "far-2", "far-3")
    _, losses, done = _epochs(apart, "far-pipe", 1)
    assert math.isfinite(losses[0]) and done.nodes[0].samples == 40


def test_ways_of_keeping_versions_do_not_change_the_result():
    ways = ("keep='stash'", "keep='on-demand'", "checkpoint=true")
    runs = [_epochs(_runner(f"node_sets.far-pipe.{way}"), "far-pipe", 1)[0].data for way in ways]
    assert runs[0] == runs[1] == runs[2]


def test_faults_are_words():
    broken = _runner()
    bad = broken.first()
    bad.weights["classifier.3.bias"].fill_(math.nan)
    with pytest.raises(NonFiniteTraining, match="far-pipe are not finite"):
        broken.run_epoch(Decision(1, "full", "far-pipe", mode="pipeline"), bad, run="test")
    runner = _runner("devices.emulated-far-edge.memory_bytes=560 kB", "versions.full.width=4.0")
    with pytest.raises(ScenarioError, match=r"full on far-pipe: memory: .*pipeline count"):
        _epochs(runner, "far-pipe", 1)
    with pytest.raises(ScenarioError, match=r"share_data of a federated set"):
        _runner("node_sets.far.share_data=true")
    with pytest.raises(ScenarioError, match=r"adamw with the pipeline"):
        _runner('training.optimizer="adamw"')
