"""Stages of a pipeline set on nodes of their own: the same bits, and nobody in between who has not the key.

Nodes are threads here, over sockets of loopback; `test_flower.py` has them behind Flower, `test_flower_hosts.py` on
hosts with TLS.
"""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from relaytrain.core.errors import ScenarioError, UsageError, WorkerLost  # noqa: E402
from relaytrain.core.plan import Decision  # noqa: E402
from relaytrain.costs.meters import Reading  # noqa: E402
from relaytrain.executors.epoch import EpochLost, EpochNonFinite  # noqa: E402
from relaytrain.executors.flower.environment import free_ports  # noqa: E402
from relaytrain.executors.pipelined import PipelinedEpoch  # noqa: E402
from relaytrain.executors.stage_node import StageNode  # noqa: E402
from relaytrain.executors.stage_order import StageOrder  # noqa: E402
from relaytrain.executors.stages import StagesOnNodes  # noqa: E402
from relaytrain.pipeline.host_links import StagePlace  # noqa: E402
from relaytrain.pipeline.snapshots import part_pieces, read  # noqa: E402
from relaytrain.pipeline.update_rules import OptimizerState  # noqa: E402
from relaytrain.relay.assembly import job_of  # noqa: E402
from relaytrain.scenario import load_scenario  # noqa: E402
from relaytrain.store.files import write_atomic  # noqa: E402
from relaytrain.testing.fakes import ReplayMeter  # noqa: E402
from relaytrain.training.task import NodeResult  # noqa: E402

pytestmark = [pytest.mark.train, pytest.mark.slow]
SMALL = ("nodes.cloud.samples=40", "versions.full.width=0.5")
LATE_S, SOON_S = 60.0, 0.5
"""How long stages wait for each other; soon, where one of them will not come."""
DECISION = Decision(1, "full", "far-pipe", mode="pipeline")


class Neighbours:
    """Nodes in threads; `change` may make another task, or an answer, of one."""

    def __init__(self, setup, change=lambda task: task, late_s=LATE_S):
        self.setup, self.change, self.tasks, self.late_s = setup, change, [], late_s

    def stage_places(self, nodes):
        return [StagePlace(name, "127.0.0.1", port) for name, port in zip(nodes, free_ports(len(nodes)), strict=True)]

    def send(self, tasks):
        tasks = list(tasks)
        self.tasks += tasks
        results = []

        def play(task):
            results.append(StageNode(self.setup, None).play(task, lambda: None))

        changed = [self.change(task) for task in tasks]
        threads = [threading.Thread(target=play, args=(one,), daemon=True) for one in changed if hasattr(one, "stage")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LATE_S)
        yield from [*results, *(one for one in changed if not hasattr(one, "stage"))]


@pytest.fixture(scope="module")
def runner():
    return job_of(load_scenario("far_pipeline", list(SMALL))).runner


def staged(runner, transport):
    members = runner.pipelined.members
    on_nodes = StagesOnNodes(runner.setup, transport, lambda decision: transport.late_s)
    return PipelinedEpoch(runner.setup, members, runner.epochs.evaluate, None, on_nodes)


def test_nodes_of_their_own_give_the_bits_of_one_process(runner):
    first = runner.first()
    inside = runner.run_epoch(DECISION, first, run="test")
    transport = Neighbours(runner.setup)
    apart = staged(runner, transport).run_epoch(DECISION, first, run="test")
    assert inside.checkpoint.data == apart.checkpoint.data
    assert (inside.outcome.loss, inside.train_loss) == (apart.outcome.loss, apart.train_loss)
    second = replace(DECISION, epoch=2)
    again = staged(runner, transport).run_epoch(second, apart.checkpoint, run="test")
    assert again.checkpoint.data == runner.run_epoch(second, inside.checkpoint, run="test").checkpoint.data
    assert [node.node for node in apart.nodes] == ["far-1", "far-2", "far-3"]
    assert all(node.cpu_s > 0 and node.flops > 0 for node in apart.nodes)
    keys = [task.stage["key"] for task in transport.tasks]
    assert len(set(keys[:3])) == 1 and len(set(keys)) == 2, "one key an attempt, and another the next time"


def test_a_stage_with_a_wrong_key_is_refused(runner):
    def forged(task):
        return replace(task, stage={**task.stage, "key": "00" * 32}) if task.node == "far-2" else task

    with pytest.raises(EpochLost, match=r"refuses our key") as caught:
        staged(runner, Neighbours(runner.setup, forged, SOON_S)).run_epoch(DECISION, runner.first(), run="test")
    assert "has not the key of this job" in str(caught.value)
    assert {report.node for report in caught.value.lost.failures} == {"far-1", "far-2", "far-3"}


def test_a_stage_that_fails_once_is_tried_again_with_the_same_result(runner):
    def once(task):
        refused = replace(task, stage={**task.stage, "rank": 9})
        return refused if (task.node, task.attempt) == ("far-3", 4) else task if task.attempt > 4 else soon(task)

    def soon(task):
        return replace(task, timeout_s=SOON_S)

    first = runner.first()
    done = staged(runner, Neighbours(runner.setup, once)).run_epoch(DECISION, first, run="test", attempt=4)
    assert done.checkpoint.data == runner.run_epoch(DECISION, first, run="test").checkpoint.data
    assert {report.attempt for report in done.failures} == {4} and {node.attempt for node in done.nodes} == {5}


class Metered(Neighbours):
    """Neighbours with a meter each."""

    def send(self, tasks):
        for result in super().send(tasks):
            yield replace(result, energy_j=result.energy_j or 2.0, provenance="measured")


@pytest.mark.parametrize("wrong", [{"error": "no", "kind": "refused"}, {"checkpoint": b"", "samples": 120}])
def test_joules_that_no_stage_can_draw_are_not_booked(runner, wrong):
    def once(task):
        key = (task.run, task.node, task.epoch, task.attempt)
        if task.attempt:
            return task
        return NodeResult(*key, energy_j=9e18, **wrong) if task.node == "far-2" else replace(task, timeout_s=SOON_S)

    epochs = staged(runner, Metered(runner.setup, once))
    epochs.meter = ReplayMeter([Reading(12.0, "modelled", "replay", 1.0, 1.0)])
    done = epochs.run_epoch(DECISION, runner.first(), run="test")
    assert {report.node for report in done.failures} == {"far-1", "far-2", "far-3"}
    assert done.outcome.energy_j == 2.0 * 5, "five stages at work, two of them in vain"


def test_parts_that_are_none_do_not_count(runner, tmp_path):
    """An answer holds what was asked for: its names, shapes, finite numbers."""

    def answered(part):
        def change(task):
            if task.node != "far-2":
                return task
            key = (task.run, task.node, task.epoch, task.attempt)
            return NodeResult(*key, samples=120, checkpoint=part(task), train_loss=1.0)

        return Neighbours(runner.setup, change, SOON_S)

    def changed(task, how):
        write_atomic(tmp_path / "part.safetensors", task.checkpoint)
        held = read(tmp_path)
        weights = {name: how(tensor) for name, tensor in held.weights.items()}
        return b"".join(part_pieces(replace(held, weights=weights)))

    def with_states(task, *tensors, steps=1):
        write_atomic(tmp_path / "part.safetensors", task.checkpoint)
        held = read(tmp_path)
        name, weight = next(iter(held.weights.items()))
        state = OptimizerState(steps, tuple(make(weight) for make in tensors))
        return b"".join(part_pieces(replace(held, states={name: state})))

    nan = answered(lambda task: changed(task, lambda tensor: tensor * float("nan")))
    longer = answered(lambda task: changed(task, lambda tensor: torch.cat([tensor, tensor])))
    like = torch.ones_like
    for transport, error, words in (
        (answered(lambda task: with_states(task, like, like)), EpochLost, "keeps 2 tensors of .*, expected 1"),
        (answered(lambda task: with_states(task)), EpochLost, "keeps 0 tensors of .*, expected 1"),
        (answered(lambda task: with_states(task, torch.Tensor.double)), EpochLost, "of another shape or kind"),
        (answered(lambda task: with_states(task, like, steps="x")), EpochLost, "is no table of updates by weight"),
        (answered(lambda task: b"nothing"), EpochLost, "far-2: its part is none"),
        (longer, EpochLost, r"far-2: its .* expected"),
        (nan, EpochNonFinite, "far-2: its weights are not finite"),
    ):
        with pytest.raises(error, match=words):
            staged(runner, transport).run_epoch(DECISION, runner.first(), run="test")


def test_a_node_follows_only_references_of_its_own_scenario(runner):
    def foreign(**changes):
        def change(task):
            job = {**task.stage["job"], **changes}
            return replace(task, stage={**task.stage, "job": job})

        return Neighbours(runner.setup, change)

    factory = {"spec": {"factory": "somebody:network", "shapes": {"weight": [1]}}}
    for changes in ({"loss": "somebody:loss"}, {"blueprint": factory}):
        with pytest.raises(EpochLost, match="which this machine's scenario does not name"):
            staged(runner, foreign(**changes)).run_epoch(DECISION, runner.first(), run="test")


def test_orders_are_checked(runner):
    transport = Neighbours(runner.setup)
    staged(runner, transport).run_epoch(DECISION, runner.first(), run="test")
    order = dict(transport.tasks[0].stage)
    assert StageOrder.from_dict(order).to_dict() == order
    wrong = {"rank": (3, "rank 3"), "key": ("ab", "rank 0"), "places": (["one"], "NAME=HOST:PORT"), "job": (1, "job")}
    for key, (value, words) in wrong.items():
        with pytest.raises((UsageError, ScenarioError), match=words):
            StageOrder.from_dict({**order, key: value})


def test_where_nodes_say_that_they_listen():
    pytest.importorskip("flwr")
    from relaytrain.executors.flower.transport import places_among
    from relaytrain.executors.shares import divide

    near, far = {"stages": "127.0.0.1:9000"}, {"stages": "10.0.0.2:9000"}
    found = places_among(["a", "b"], {"a": 1, "b": 2}, {1: far, 2: {"stages": "[fe80::1]:9001"}})
    assert found == [StagePlace("a", "10.0.0.2", 9000), StagePlace("b", "fe80::1", 9001)]
    with pytest.raises(WorkerLost, match="plays b is connected"):
        places_among(["a", "b"], {"a": 1}, {1: near})
    with pytest.raises(UsageError, match="a SuperNode each"):
        places_among(["a", "b"], {"a": 1, "b": 1}, {1: near})
    with pytest.raises(WorkerLost, match=r"a=127\.0\.0\.1:9000: on loopback"):
        places_among(["a", "b"], {"a": 1, "b": 2}, {1: near, 2: far})
    with pytest.raises(WorkerLost, match="b does not say"):
        places_among(["a", "b"], {"a": 1, "b": 2}, {1: near, 2: {"stages": None}})
    shares = divide({"a": 9, "b": 1, "c": 1}, 2, [("b", "c")])
    assert not any({"b", "c"} <= set(share) for share in shares)
    with pytest.raises(UsageError, match="need one each"):
        divide({"a": 4, "b": 3, "c": 2}, 1, [("b", "c")])


def test_where_a_node_listens():
    pytest.importorskip("flwr")
    from pathlib import Path

    from relaytrain.executors.flower.security import Link, stage_address

    here, away = Link("127.0.0.1:8000"), Link("192.0.2.1:8000", Path("certs"))
    assert stage_address(here, None).startswith("127.0.0.1:")
    assert stage_address(here, "127.0.0.1:9000") == "127.0.0.1:9000"
    assert stage_address(away, "10.0.0.2").startswith("10.0.0.2:")
    with pytest.raises(UsageError, match="flower certs"):
        stage_address(here, "10.0.0.2:9000")
    for wrong in ("10.0.0.2:port", "0.0.0.0:9000", "::"):
        with pytest.raises(UsageError, match="--listen"):
            stage_address(away, wrong)
