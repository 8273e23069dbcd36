"""C12: one of three stages dies or falls silent; the rest goes on from the newest snapshot, as a fresh run would."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from pipeline_cases import DEVICES, SIMULATOR, assert_same_weights, best_of, data_for, model_named  # noqa: E402
from torch import nn  # noqa: E402

from relaytrain.core.errors import InfeasibleError, WorkerLost  # noqa: E402
from relaytrain.pipeline.networks import chain  # noqa: E402
from relaytrain.pipeline.pipeline_run import run_pipeline  # noqa: E402
from relaytrain.pipeline.pipeline_work import Emulation, Runtime, Training  # noqa: E402
from relaytrain.pipeline.snapshots import newest  # noqa: E402
from relaytrain.pipeline.stragglers import PATIENCE, Straggling  # noqa: E402
from relaytrain.pipeline.unit_counter import measure  # noqa: E402
from relaytrain.pipeline.update_rules import SGD, Adam  # noqa: E402
from relaytrain.planners.pipeline.partition import Device, partition  # noqa: E402
from relaytrain.planners.pipeline.policy_choice import Keeping  # noqa: E402

pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.usefixtures("in_memory")]
KILLS = 10 if os.environ.get("RELAYTRAIN_TIER") == "soak" else 2
LIMIT_S = 15.0
"""From the kill to the restarted stages; the replay comes on top."""


class Killer:
    """Sends `number` to the process of `stage` once it has done minibatch `index`, in the first attempt."""

    def __init__(self, stage, index, number):
        self.stage, self.index, self.number = stage, index, number
        self.pids, self.killed_s, self.restarted_s = [], None, None

    def __call__(self, event):
        if event["kind"] == "started":
            self.pids = event["pids"]
            if event["attempt"] == 2:
                self.restarted_s = time.monotonic()
        done = event["kind"] == "step" and event["stage"] == self.stage and event["index"] == self.index
        if done and event["attempt"] == 1:
            self.killed_s = time.monotonic()
            os.kill(self.pids[self.stage], self.number)


@pytest.mark.parametrize("number", range(KILLS))
def test_a_lost_stage_costs_time_and_nothing_else(number):
    chance = random.Random(f"pipeline loss {number}")
    name = ("vgg", "resnet", "mlp")[number % 3]
    model, spec, shape = model_named(name)
    batches = data_for(shape, 24)
    keeping = chance.choice(["stash", "on-demand", "smallest"])
    chosen = best_of(model, batches, 3, 4) if keeping == "smallest" else None
    training = Training(
        chance.choice([SGD(0.02, 0.9), Adam(0.003)]),
        m=4,
        keeping=Keeping(keeping) if chosen is None else Keeping.best_of,
    )
    killer = Killer(chance.randrange(3), chance.randrange(6, 20), signal.SIGSTOP if number % 2 else signal.SIGKILL)
    runtime = Runtime(snapshot_every=5, count_bytes=True, emulation=Emulation(delay_s=(0.0, 0.004)))
    found = run_pipeline(model, batches, DEVICES, training, runtime, spec=spec, split=chosen, progress=killer)
    assert killer.killed_s is not None
    assert killer.restarted_s is not None
    assert killer.restarted_s - killer.killed_s <= LIMIT_S
    started = [event for event in found.history if event["kind"] == "started"]
    assert [event["attempt"] for event in started] == [1, 2]
    lost = next(event for event in found.history if event["kind"] == "lost")
    assert lost["devices"] == [f"d{killer.stage}"]
    assert lost["why"] == ("silent" if number % 2 else "ended")
    step = started[1]["step"]
    assert step % 5 == 0
    assert step <= killer.index + 4
    # an uninterrupted run that begins where the restart did
    before = run_pipeline(model, batches[:step], DEVICES, training, SIMULATOR, split=chosen) if step else None
    rest = [device for device in DEVICES if device.name not in lost["devices"]]
    states = {} if before is None else before.states
    if before is not None:
        model.load_state_dict(before.weights)
    expected = run_pipeline(model, batches[step:], rest, training, SIMULATOR, states=states)
    assert_same_weights(expected, found)
    assert found.losses[step:] == expected.losses
    assert found.losses[:step] == (() if before is None else before.losses)
    assert all(peak <= limit for peak, limit in zip(found.peak_bytes, found.predicted_bytes, strict=True))
    assert found.splits[1] == expected.splits[0]


def test_when_the_rest_cannot_hold_the_network_it_says_so():
    model, _, shape = model_named("mlp")
    batches = data_for(shape, 12)
    facts = measure(chain(model), batches[0][0], F.cross_entropy, batches[0][1])
    small = [Device(device.name, 1e9, 11_000) for device in DEVICES]
    partition(facts, small, m=3)
    with pytest.raises(InfeasibleError):
        partition(facts, small[:2], m=2)
    killer = Killer(1, 4, signal.SIGKILL)
    with pytest.raises(WorkerLost, match="lost d1, and for the rest: memory"):
        run_pipeline(
            model,
            batches,
            small,
            Training(SGD(0.02)),
            Runtime(emulation=Emulation(delay_s=(0.004, 0.008))),
            progress=killer,
        )


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from pipeline_cases import DEVICES, data_for, model_named
from relaytrain.pipeline.pipeline_work import Emulation, Runtime, Training
from relaytrain.pipeline.pipeline_run import run_pipeline
from relaytrain.pipeline.update_rules import SGD
model, _, shape = model_named("mlp")
runtime = Runtime(folder=Path(sys.argv[1]), snapshot_every=3, emulation=Emulation(delay_s=(0.05, 0.1)))
def say(event):
    if event["kind"] in ("started", "step"):
        print(event.get("pids", event.get("index")), flush=True)
run_pipeline(model, data_for(shape, 200), DEVICES, Training(SGD(0.02, 0.9)), runtime, progress=say)
"""


def _alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_stages_end_with_their_supervisor_and_a_second_one_goes_on(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().strip("[]\n").split(",")]
        for line in process.stdout:
            if int(line) >= 12:
                break
        process.kill()
    end_s = time.monotonic() + LIMIT_S
    while any(_alive(pid) for pid in pids) and time.monotonic() < end_s:
        os.sched_yield()
    assert not any(_alive(pid) for pid in pids)
    model, _, shape = model_named("mlp")
    batches = data_for(shape, 200)
    found = newest(tmp_path, set(nn.Sequential(*chain(model)).state_dict()))
    assert found is not None
    step = found[0]
    assert step > 0
    training = Training(SGD(0.02, 0.9))
    second = run_pipeline(model, batches, DEVICES, training, Runtime(folder=tmp_path, snapshot_every=3))
    assert second.history[0]["step"] == step
    before = run_pipeline(model, batches[:step], DEVICES, training, SIMULATOR)
    model.load_state_dict(before.weights)
    assert_same_weights(run_pipeline(model, batches[step:], DEVICES, training, SIMULATOR, states=before.states), second)


def test_a_slow_stage_is_given_less():
    model, _, shape = model_named("mlp")
    batches = data_for(shape, 90)
    devices = [Device(device.name, 2e7) for device in DEVICES]
    slow = Emulation(compute=True, speeds={"d1": 2e6})
    events = []
    runtime = Runtime(rebalance=True, snapshot_every=10, emulation=slow)
    found = run_pipeline(model, batches, devices[:2], Training(SGD(0.01)), runtime, progress=events.append)
    changed = [event for event in found.history if event["kind"] == "slow"]
    assert [event["device"] for event in changed] == ["d1"]
    assert changed[0]["factor"] > 1.3
    assert len(found.splits) == 2
    assert found.splits[1].cuts[0] > found.splits[0].cuts[0]
    assert len(found.losses) == 90


def test_who_is_slow():
    watch = Straggling([1.0, 2.0, 1.0])
    for step in range(1, 60):  # everyone twice as slow as planned: no straggler
        for stage, each in enumerate((2.0, 4.0, 2.0)):
            watch.note(stage, each * step)
    assert watch.slow() is None
    watch = Straggling([1.0, 1.0, 1.0])
    step = 0
    while watch.slow() is None:
        step += 1
        for stage, each in enumerate((1.0, 1.5, 1.0)):
            watch.note(stage, each * step)
        assert step < 3 * PATIENCE
    assert watch.slow() == 1
    assert watch.factor(1) == pytest.approx(1.5)
    assert step >= PATIENCE
