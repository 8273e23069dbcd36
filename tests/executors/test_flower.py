"""Nodes of Flower: the relay of in-process and processes to the last bit, whoever is killed on the way."""

from __future__ import annotations

import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from compare import trace
from flower_runs import MISSED, CliRun, free_port, left_behind, write_scenario
from slow_machine import needs_slow, slow
from small_relays import staged_legs, three_legs

import relaytrain as rt
from relaytrain.store import RunStore
from relaytrain.testing.lying_node import WORD
from relaytrain.testing.small_training import tables

pytest.importorskip("flwr")
pytestmark = [pytest.mark.train, pytest.mark.slow]
MARK = "RELAYTRAIN_TEST_MARK"
REWRITE = "pytest.PytestAssertRewriteWarning"
STOPPED, LOST = 6, 7
EVERYBODY = [word for name in ("cloud", "edge-1", "edge-2", "far") for word in ("--as", name)]


@pytest.fixture
def mark(monkeypatch, tmp_path):
    """A word that all processes of a test carry in their environment; none may be left of them."""
    monkeypatch.setenv(MARK, str(tmp_path))
    yield str(tmp_path)
    monkeypatch.delenv(MARK)
    assert left_behind(f"{MARK}={tmp_path}") == []


def straight(folder: Path, tables: dict[str, Any]) -> tuple[Path, Path, dict[str, Any]]:
    """A scenario's file, the store with its run in this process, and what that came to."""
    scenario, store = write_scenario(folder / "legs.json", tables), folder / "runs"
    ended = rt.run(scenario, store=store, name="in-process-run")
    legs = [str(outcome.decision.pair) for outcome in ended.outcomes]
    assert list(dict.fromkeys(legs)) == ["full on gold", "half on silver", "small on bronze"]
    assert ended.exit_status == MISSED
    return scenario, store, trace(RunStore.open(store), "in-process-run")


def on_flower(scenario: Path, store: Path, *, nodes: int = 1) -> CliRun:
    options = ["--transport", "flower", "--local-flower", nodes, "--store", store, "--name", "flower-run"]
    return CliRun("run", scenario, *options)


def forget(run: CliRun) -> None:
    """Remove what Flower's programs said, which is kept for users."""
    shutil.rmtree(run.said.partition("programs said is in ")[2].split()[0])


def test_a_relay_whose_loop_was_killed_is_the_one_in_process(tmp_path, mark):
    """kill -9 of the ServerApp after an epoch: the exit status says so, and `resume` ends where nothing was killed."""
    scenario, store, wanted = straight(tmp_path, three_legs(epochs=3))
    run = on_flower(scenario, store)
    run.until("k   1")
    run.kill_one("flwr-serverapp")
    assert run.status() == LOST and "relaytrain resume" in run.said, run.said
    forget(run)
    again = CliRun("resume", "--local-flower", 1, "--store", store)
    assert again.status() == MISSED, again.said
    assert trace(RunStore.open(store), "flower-run") == wanted


def test_a_stuck_trainer_is_ended_and_nobody_else(tmp_path, mark):
    """Its socket was bound by whoever started it, here by us: the other end's number is not the trainer's."""
    from relaytrain.executors.flower.trainer_link import TrainerPlace

    place = TrainerPlace(("cloud",), str(tmp_path / "none.json"), str(tmp_path / "t"))
    trainer = place.start(os.getpid())
    place.end_trainer()
    assert trainer.wait(60) == -signal.SIGKILL
    place.end_trainer()  # of one that has gone already


@pytest.mark.soak
@pytest.mark.parametrize("family", ["cnn", "mobilenet", "resnet8", "own", "pipeline"])
def test_three_transports_and_one_result(tmp_path, mark, family):
    """Weights, losses and plans of in-process, processes and Flower with a SuperNode for every node."""
    scenario, store, wanted = straight(tmp_path, _of(family, tmp_path))
    apart = CliRun("run", scenario, "--transport", "processes", "--store", store, "--name", "processes-run")
    assert apart.status() == MISSED, apart.said
    run = on_flower(scenario, store, nodes=4)
    assert run.status() == MISSED, run.said
    opened = RunStore.open(store)
    assert trace(opened, "processes-run") == wanted
    assert trace(opened, "flower-run") == wanted


def _of(family: str, folder: Path) -> dict[str, Any]:
    if family == "pipeline":
        return staged_legs()
    if family != "own":
        pace = {"mobilenet": 0.002}.get(family, 0.02)
        return three_legs(family=family, width={"mobilenet": 0.25}.get(family, 0.5), lr=pace)
    (folder / "ownnet.py").write_text(OWN)
    made = three_legs()
    first = {key: value for key, value in made["versions"][0].items() if key not in ("family", "width")}
    return {**made, "versions": [{**first, "factory": "ownnet:network"}, *made["versions"][1:]]}


OWN = """
from torch import nn


def network():
    return nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 16, 3), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 10))
"""
VICTIMS = ("flower-supernode", "flwr-clientapp", "flower.trainer", "flwr-serverapp", "flower-superlink", "flower.apps")


def next_is_planned(run: CliRun, store: Path, epoch: int, luck: random.Random) -> None:
    run.wait_for(lambda: any(e.epoch == epoch + 1 for e in RunStore.open(store).events("flower-run")))


def task_is_there(run: CliRun, store: Path, epoch: int, luck: random.Random) -> None:
    run.wait_for(lambda: run.pids("flwr-clientapp"))


def node_is_at_work(run: CliRun, store: Path, epoch: int, luck: random.Random) -> None:
    """For some part of an epoch's CPU seconds, in which it trains, answers or is about to."""
    at_work, so_long = run.cpu_s("flower.trainer"), luck.uniform(0.0, 0.04)
    run.wait_for(lambda: run.cpu_s("flower.trainer") - at_work >= so_long)


MOMENTS = {
    "at once": lambda run, store, epoch, luck: None,
    "the next epoch is planned": next_is_planned,
    "a task is at the node": task_is_there,
    "the node is at work": node_is_at_work,
}
"""When somebody is killed, after an epoch."""
ENDS_THE_RUN = ("flwr-serverapp", "flower-superlink", "flower.apps")


@pytest.mark.soak
@pytest.mark.parametrize("moment", range(3))
@pytest.mark.parametrize("victim", VICTIMS)
def test_whoever_is_killed_the_result_is_the_same(tmp_path, mark, victim, moment):
    """At a random moment of the run; a run that it ends says so by its exit status, and is resumed."""
    scenario, store, wanted = straight(tmp_path, three_legs())
    luck = random.Random(f"{victim} {moment}")
    run = on_flower(scenario, store)
    epoch = luck.randrange(1, 3)  # of four: whoever it is has work to do after that
    run.until(f"k   {epoch}")
    when = luck.choice(list(MOMENTS))
    MOMENTS[when](run, store, epoch, luck)
    killed = run.kill_one(victim, luck.choice, wait_s=60.0)
    status = run.status()
    print(f"{victim}, {when}, after epoch {epoch}: status {status}")
    assert killed is not None, run.said
    if status == LOST:
        assert victim in ENDS_THE_RUN, run.said
        forget(run)
        again = CliRun("resume", "--local-flower", 1, "--store", store)
        status = again.status()
    assert status == MISSED, run.said
    assert trace(RunStore.open(store), "flower-run") == wanted


@pytest.mark.soak
def test_flowers_own_supernode_with_our_config(tmp_path, mark):
    """`flower-supernode` as Flower starts it: an interpreter for every message, and a trainer of ours behind it."""
    from relaytrain.executors.flower.environment import environment, program
    from relaytrain.executors.flower.nodes_here import Tethered

    scenario, store, wanted = straight(tmp_path, three_legs(epochs=3))
    at = ("--superlink", f"127.0.0.1:{free_port()}")
    superlink = CliRun("flower", "superlink", "--address", at[1])
    superlink.until("SuperLink at")
    config = f'relaytrain-nodes="cloud,edge-1,edge-2,far" relaytrain-scenario="{scenario}"'
    command = [program("flower-supernode"), "--insecure", *at, "--port", str(free_port()), "--node-config", config]
    node = Tethered("SuperNode", command, tmp_path / "supernode.log", environment(tmp_path / "flwr"))
    try:
        run = CliRun("run", scenario, "--transport", "flower", *at, "--store", store, "--name", "flower-run")
        assert run.status() == MISSED, run.said + (tmp_path / "supernode.log").read_text()[-2000:]
    finally:
        node.end()
    superlink.process.send_signal(signal.SIGTERM)
    assert superlink.status() == STOPPED
    assert trace(RunStore.open(store), "flower-run") == wanted


@pytest.mark.soak
def test_tasks_go_to_nobody_without_the_secret(tmp_path, mark):
    """Whoever reaches the SuperLink's port could else fetch a run's task and answer for its loop."""
    import httpx
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType

    from relaytrain.executors.flower.apps import TaskPlace, _client
    from relaytrain.executors.flower.local import LocalFlower
    from relaytrain.scenario import load_scenario

    room = tmp_path / "r"
    room.mkdir()
    with LocalFlower(load_scenario(three_legs()), [], room) as here:
        request = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
        for secret, refused in ((b"guessed", True), ((room / "flwr" / "secret").read_bytes(), False)):
            with _client(TaskPlace(here.address, None, secret)) as client:
                if refused:
                    with pytest.raises(httpx.HTTPStatusError, match=r"40\d"):
                        client.AcquireTask(request)
                else:
                    assert not client.AcquireTask(request).token


@pytest.mark.soak
def test_nodes_measure_before_the_first_plan(tmp_path, mark):
    """The cost table of the first plan has what the nodes have timed; what the scenario forbids stays forbidden."""
    made = three_legs(epochs=3, clock="measured")
    box = made["devices"]["box"]
    made["devices"] = {"box": box, "big": {**box, "busy_w": 10 * box["busy_w"], "idle_w": 10 * box["idle_w"]}}
    made["nodes"] = [{**node, "device": "big"} if node["name"] == "far" else node for node in made["nodes"]]
    scenario, store = write_scenario(tmp_path / "legs.json", made), tmp_path / "runs"
    options = ("--transport", "flower", "--local-flower", 1, "--store", store, "--name", "flower-run")
    run = CliRun("run", scenario, *options, "--profile-nodes")
    assert run.status() == MISSED, run.said
    events = RunStore.open(store).events("flower-run")
    rows = {(row["version"], row["nodes"]): row for row in events[0].body["scenario"]["pairs"]}
    assert rows["full", "silver"]["energy"] is None  # infinity
    measured = [rows["full", "gold"], rows["half", "silver"], rows["small", "bronze"]]
    assert all(0.0 < row["seconds"] != 2.0 and row["energy"] > 0.0 for row in measured), measured
    watts = {row["nodes"]: row["energy"] / row["seconds"] for row in measured}  # one SuperNode, and meters of all nodes
    assert watts["bronze"] == pytest.approx(10 * watts["gold"], rel=0.02)
    first = next(event for event in events if event.kind == "planned")
    assert first.body["predicted"]["elapsed_s"] == pytest.approx(rows["full", "gold"]["seconds"] + 1.0)


@pytest.mark.soak
def test_the_contract_of_transports(tmp_path, mark, monkeypatch, capfd):
    from relaytrain.executors.flower.local import LocalFlower
    from relaytrain.executors.flower.security import Link
    from relaytrain.executors.flower.submission import submit
    from relaytrain.scenario import load_scenario

    monkeypatch.setenv(WORD, str(tmp_path / "word"))
    scenario = load_scenario(tables(loss="relaytrain.testing.lying_node:loss"))
    room = Path(os.path.relpath(tmp_path)).resolve() / "r"
    room.mkdir()
    suite = Path(__file__).with_name("flower_contract.py")
    with LocalFlower(scenario, [("cloud",), ("edge-1",), ("edge-2",)], room) as here:
        asked = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-W", f"ignore::{REWRITE}", str(suite)]
        status = submit(asked, link=Link(here.address), room=room, lost=here.lost, module="pytest")
    assert status == 0, capfd.readouterr().out[-4000:]


METER = """
from pathlib import Path

from relaytrain.costs.meters import RaplMeter

FOLDER = Path(__file__).parent / "rapl"
RECORDED = iter(range(0, 10**9, 250_000))  # microjoules


class Replayed(RaplMeter):
    def begin(self):
        (FOLDER / "energy_uj").write_text(str(next(RECORDED)))
        return super().begin()

    def end(self, mark, *, cpu_s=None):
        (FOLDER / "energy_uj").write_text(str(next(RECORDED)))
        return super().end(mark, cpu_s=cpu_s)


def replayed():
    return Replayed([FOLDER])
"""


@pytest.mark.soak
def test_joules_are_those_of_the_nodes_meter(tmp_path, mark):
    """A counter as RAPL has it, replayed: a quarter of a joule between two readings, so for every task."""
    scenario = write_scenario(tmp_path / "legs.json", three_legs(epochs=3, clock="measured"))
    (tmp_path / "own_meter.py").write_text(METER)
    (tmp_path / "rapl").mkdir()
    for name, value in (("name", "package-0"), ("energy_uj", "0"), ("max_energy_range_uj", str(10**12))):
        (tmp_path / "rapl" / name).write_text(value)
    at = ("--superlink", f"127.0.0.1:{free_port()}")
    superlink = CliRun("flower", "superlink", "--address", at[1])
    superlink.until("SuperLink at")
    node = CliRun("node", scenario, *EVERYBODY, *at, "--meter", "own_meter:replayed")
    node.until("joined the SuperLink")
    store = tmp_path / "runs"
    run = CliRun("run", scenario, "--transport", "flower", *at, "--store", store, "--name", "flower-run")
    assert run.status() == MISSED, run.said
    listed = CliRun("nodes", *at, "--format", "json")
    assert listed.status() == 0 and '"provenance": "measured"' in listed.said, listed.said
    for one in (node, superlink):
        one.process.send_signal(signal.SIGTERM)
    assert [one.status() for one in (node, superlink)] == [STOPPED] * 2
    done = [event.body for event in RunStore.open(store).events("flower-run") if event.kind == "epoch_done"]
    for body in done:
        assert [(n["energy_j"], n["provenance"]) for n in body["nodes"]] == [(0.25, "measured")] * len(body["nodes"])
        assert body["provenance"] == "measured"


@pytest.mark.soak
@needs_slow
def test_a_node_with_a_twentieth_of_a_processor_is_in_time(tmp_path, mark):
    """Flower's own start of an app takes it longer than the 30 s after which Flower gives the task out once more."""
    scenario, store, wanted = straight(tmp_path, three_legs(epochs=3))
    at = ("--superlink", f"127.0.0.1:{free_port()}")
    superlink = CliRun("flower", "superlink", "--address", at[1])
    superlink.until("SuperLink at")
    with slow(0.05) as slowly:
        node = CliRun("node", scenario, *EVERYBODY, *at, on=slowly)
        node.until("joined the SuperLink")
        run = CliRun("run", scenario, "--transport", "flower", *at, "--store", store, "--name", "flower-run")
        assert run.status() == MISSED, run.said
        for one in (node, superlink):
            one.process.send_signal(signal.SIGTERM)
        assert [one.status() for one in (node, superlink)] == [STOPPED] * 2
    assert trace(RunStore.open(store), "flower-run") == wanted
    assert not [event for event in RunStore.open(store).events("flower-run") if event.kind == "node_failed"]
