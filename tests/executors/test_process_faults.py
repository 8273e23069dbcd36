"""Workers killed, stopped, refusing, orphaned: a result in words each time, never a hang, and the next epoch works."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from booking import booked

from relaytrain.core.errors import UsageError
from relaytrain.core.plan import Decision
from relaytrain.data.dataset import Dataset
from relaytrain.executors import processes
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.inprocess import InProcess
from relaytrain.executors.processes import Processes
from relaytrain.models.cnn import Cnn
from relaytrain.relay.assembly import clock_of
from relaytrain.scenario import load_scenario
from relaytrain.testing.small_training import small_setup, tables
from relaytrain.testing.transport_suite import LONG
from relaytrain.training.datasets import Sets
from relaytrain.training.setup import TrainingSetup
from relaytrain.training.task import NodeResult, NodeTask

pytestmark = [pytest.mark.train, pytest.mark.slow]
EXIT_S = 20.0
"""Against a hang only; orphans are gone within two seconds on a machine that is not overloaded."""


@pytest.fixture(scope="module")
def crew() -> Iterator[Processes]:
    with Processes(small_setup(), workers=2) as transport:
        yield transport


def tasks(crew: Processes, *, attempt: int = 0, timeout_s: float | None = None, **settings: Any) -> list[NodeTask]:
    data = crew.setup.first_checkpoint().data
    chosen = replace(crew.setup.settings, **settings)
    return [NodeTask("run", 1, attempt, node, data, chosen, 1.0, timeout_s) for node in crew.setup.datasets]


def by_node(results: list[NodeResult]) -> dict[str, NodeResult]:
    return {result.node: result for result in results}


def test_killed_stopped_and_idle_workers_are_replaced(crew: Processes) -> None:
    healthy = by_node(list(crew.send(tasks(crew))))
    assert not any(r.error for r in healthy.values())
    pids = crew.pids()
    assert len(set(pids.values())) == 2 and set(pids) == set(crew.setup.datasets)
    cloud, edge = pids["cloud"], pids["edge-1"]
    assert cloud != edge

    # Killed while it waits, and stopped while it waits.
    os.kill(cloud, signal.SIGKILL)
    os.kill(edge, signal.SIGSTOP)
    results = by_node(list(crew.send(tasks(crew, attempt=1, timeout_s=0.5))))
    assert results["cloud"].kind == "lost" and "signal 9" in (results["cloud"].error or "")
    assert results["edge-1"].kind == results["edge-2"].kind == "late"

    # Killed in the middle of its work, which is known from its neighbour's being done.
    again = tasks(crew, attempt=2)
    again[0] = replace(again[0], settings=replace(again[0].settings, local_epochs=LONG))
    stream = crew.send(again)
    first = [next(stream), next(stream)]
    assert {r.node: r.data for r in first} == {n: healthy[n].data for n in ("edge-1", "edge-2")}
    os.kill(crew.pids()["cloud"], signal.SIGKILL)
    (last,) = stream
    assert last.node == "cloud" and last.kind == "lost"


def test_an_epoch_survives_a_killed_worker_bit_for_bit(crew: Processes) -> None:
    scenario = load_scenario(tables())
    setup, decision = crew.setup, Decision(1, "full", "silver")
    start = setup.first_checkpoint()
    runs = []
    for transport in (InProcess(setup), crew):
        if transport is crew:
            for pid in set(crew.pids().values()):
                os.kill(pid, signal.SIGKILL)
        clock = clock_of(setup, devices=scenario.resolved["devices"])
        runs.append(booked(FederatedEpoch(setup, transport).run_epoch(decision, start), clock, scenario))
    one, other = runs
    assert one.checkpoint.digest == other.checkpoint.digest
    assert one.outcome.loss == other.outcome.loss and one.outcome.elapsed_s == other.outcome.elapsed_s
    assert one.failures == () and one.outcome.wasted_j == 0.0
    assert {f.node for f in other.failures} == {"edge-1", "edge-2"} and other.outcome.failed_nodes == ()
    assert other.outcome.wasted_j > 0.0
    assert other.outcome.energy_j == pytest.approx(one.outcome.energy_j + other.outcome.wasted_j)


def test_orphans_end_with_their_parent() -> None:
    script = (
        "import sys\n"
        "from relaytrain.executors.processes import Processes\n"
        "from relaytrain.training.task import NodeTask\n"
        "from relaytrain.testing.small_training import small_setup\n"
        "setup = small_setup(local_epochs=100)\n"
        "crew = Processes(setup, workers=1)\n"
        "data = setup.first_checkpoint().data\n"
        "busy = setup.with_settings(local_epochs=100000).settings\n"
        "first = NodeTask('r', 1, 0, 'cloud', data, setup.settings)\n"
        "second = NodeTask('r', 1, 0, 'edge-1', data, busy)\n"
        "next(crew.send([first, second]))\n"
        "print(crew.pids()['cloud'], flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = os.pidfd_open(int(parent.stdout.readline()))  # it trains the second task now
        parent.kill()
    try:
        ended, _, _ = select.select([worker], [], [], EXIT_S)
        assert ended, "the worker outlived its parent"
    finally:
        os.close(worker)


def test_users_code_comes_from_the_scenarios_folder_and_may_print(tmp_path: Path) -> None:
    (tmp_path / "users_net.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "def net():\n"
        "    print('hello from the factory')\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))\n"
        "def loss(outputs, labels):\n"
        "    print('hello from the loss')\n"
        "    return nn.functional.cross_entropy(outputs, labels, label_smoothing=0.1)\n"
    )
    scenario = load_scenario(users_tables("users_net:net", loss="users_net:loss"))
    setup = TrainingSetup.from_scenario(scenario, folder=tmp_path)
    start = setup.first_checkpoint()
    tasks = [NodeTask("run", 1, 0, node, start.data, setup.settings) for node in setup.datasets]
    plain = by_node(list(InProcess(setup).send(tasks)))
    with Processes(setup, workers=1) as crew:
        sent = by_node(list(crew.send(tasks)))
    assert not any(r.error for r in plain.values())
    assert {n: r.data for n, r in plain.items()} == {n: r.data for n, r in sent.items()}


def test_a_deadline_ends_the_wait_for_a_worker_that_is_still_starting(tmp_path: Path) -> None:
    """Its import of the user's module blocks on a pipe that nobody has opened yet."""
    gate = tmp_path / "gate"
    (tmp_path / "gated_net.py").write_text(
        "from pathlib import Path\n"
        "from torch import nn\n"
        "gate = Path(__file__).with_name('gate')\n"
        "if gate.exists():\n"
        "    gate.read_bytes()\n"
        "def net():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    setup = TrainingSetup.from_scenario(load_scenario(users_tables("gated_net:net")), folder=tmp_path)
    os.mkfifo(gate)
    data = setup.first_checkpoint().data
    tasks = [NodeTask("run", 1, 0, node, data, setup.settings, 1.0, 0.1) for node in setup.datasets]
    with Processes(setup, workers=1) as crew:
        late = list(crew.send(tasks))
        pids = crew.pids()
        gate.write_bytes(b"")  # opens as soon as the worker reads
        again = list(crew.send([replace(task, attempt=1, timeout_s=None) for task in tasks]))
        assert crew.pids() == pids  # it was left to start, and did only what was asked last
    assert sorted(r.node for r in late) == sorted(setup.datasets)
    assert all(r.kind == "late" and "still starting" in (r.error or "") for r in late)
    unhurried = [replace(task, timeout_s=None) for task in tasks]
    assert {r.node: r.data for r in again} == {r.node: r.data for r in InProcess(setup).send(unhurried)}


def test_a_worker_that_starts_within_a_tasks_time_has_the_whole_of_it_to_work() -> None:
    """On a clock of its own: else a busy machine, where starting takes most of the time, would never get to work."""
    task = NodeTask("run", 1, 0, "edge-1", b"", small_setup().settings, 1.0, 6.0)
    crew = Processes(small_setup(), workers=1)
    starting, ready = (processes._Worker(("edge-1",), None, ready=at > 0.0, ready_s=at) for at in (0.0, 105.5))
    assert crew._due(task, starting, 100.0) == 106.0 and crew._due(task, ready, 100.0) == 111.5
    assert crew._due(task, ready, 200.0) == 206.0 and crew._due(replace(task, timeout_s=None), ready, 1.0) == math.inf


def test_a_worker_that_cannot_import_the_users_code_says_so(tmp_path: Path) -> None:
    (tmp_path / "fickle_net.py").write_text(
        "from torch import nn\ndef net():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    setup = TrainingSetup.from_scenario(load_scenario(users_tables("fickle_net:net")), folder=tmp_path)
    (tmp_path / "fickle_net.py").write_text("raise RuntimeError('not on this machine')\n")
    data = setup.first_checkpoint().data
    with Processes(setup, workers=1) as crew:
        results = list(crew.send([NodeTask("run", 1, 0, node, data, setup.settings) for node in setup.datasets]))
    assert len(results) == 3
    assert all(r.kind == "user" for r in results)
    assert all("fickle_net.py:1: RuntimeError: not on this machine" in (r.error or "") for r in results)


def test_a_module_of_this_process_is_refused() -> None:
    setup = small_setup()
    sets = Sets(setup.datasets, setup.validation, setup.test)
    model = Cnn((4, 4, 8), (1, 8, 8), 10)
    own = TrainingSetup.from_model(model, setup.problem, sets, ratios={"half": 0.5, "small": 0.75})
    assert isinstance(sets.validation, Dataset)
    with pytest.raises(UsageError, match="module of this process only"):
        Processes(own)


def users_tables(factory: str, **training: Any) -> dict[str, Any]:
    made = tables(**training)
    versions = [{**made["versions"][0], "factory": factory}, *made["versions"][1:]]
    del versions[0]["family"], versions[0]["width"]
    return {**made, "versions": versions}
