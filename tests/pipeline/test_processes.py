"""Stages as processes: what comes out is the simulator's result, bit for bit, however messages are delayed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pipeline_cases import DEVICES, SIMULATOR, assert_same, best_of, data_for, model_named  # noqa: E402
from torch import nn  # noqa: E402

from relaytrain.core.errors import ScenarioError, UsageError, WorkerLost  # noqa: E402
from relaytrain.core.user_code import UserCodeError  # noqa: E402
from relaytrain.pipeline.addresses import check_master, interface_of  # noqa: E402
from relaytrain.pipeline.blueprint import blueprint, units_from  # noqa: E402
from relaytrain.pipeline.job_file import read_job  # noqa: E402
from relaytrain.pipeline.links import Traffic, Wire  # noqa: E402
from relaytrain.pipeline.networks import chain  # noqa: E402
from relaytrain.pipeline.pipeline_run import run_pipeline  # noqa: E402
from relaytrain.pipeline.pipeline_work import Emulation, Runtime, Training  # noqa: E402
from relaytrain.pipeline.update_rules import SGD, Adam  # noqa: E402
from relaytrain.planners.pipeline.policy_choice import Keeping  # noqa: E402

pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.usefixtures("in_memory")]


@pytest.mark.parametrize(
    ("name", "rule", "keeping", "owner"),
    [
        ("mlp", SGD(0.05), "stash", "first"),
        ("mlp", Adam(0.01), "on-demand", "master"),
        ("vgg", SGD(0.02, 0.9), "stash", "master"),
        ("vgg", SGD(0.02, 0.9, 0.01), "on-demand", "first"),
        ("vgg", SGD(0.02, 0.9), "smallest", "first"),
        ("resnet", Adam(0.01), "smallest", "first"),
    ],
)
def test_three_processes_are_the_simulator(name, rule, keeping, owner):
    model, spec, shape = model_named(name)
    batches = data_for(shape)
    chosen = best_of(model, batches, 3, 4) if keeping == "smallest" else None
    training = Training(rule, m=4, keeping=Keeping.best_of if chosen else Keeping(keeping))
    disturbed = Emulation(delay_s=(0.0, 0.004))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    expected = run_pipeline(model, batches, DEVICES, training, SIMULATOR, split=chosen)
    runtime = Runtime(owner=owner, snapshot_every=3, count_bytes=True, emulation=disturbed)
    found = run_pipeline(model, batches, DEVICES, training, runtime, spec=spec, split=chosen)
    assert_same(expected, found)
    assert found.peak_bytes == expected.peak_bytes
    assert all(peak <= limit for peak, limit in zip(found.peak_bytes, found.predicted_bytes, strict=True))
    assert found.link_bytes > 0
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def resident(pid, key):
    """What the operating system says of a process, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith(key)))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="another system's words")
@pytest.mark.parametrize("keeping", ["stash", "on-demand"])
def test_a_worker_says_what_it_grew_by_as_seen_from_outside(keeping):
    """Its launcher, of which it is a fork, is where it began; what was predicted and what was left out are the sum."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), *[nn.Linear(1024, 1024) for _ in range(4)], nn.Linear(1024, 10))
    batches = data_for((1, 32, 32), 8)
    pids, seen = [], {}

    def look(event):
        if event["kind"] == "started":
            pids.extend(event["pids"])
        for pid in pids:
            parent = resident(pid, "PPid") // 1024
            seen[pid] = max(seen.get(pid, 0), resident(pid, "RssAnon") - resident(parent, "RssAnon"))

    training = Training(SGD(0.01, 0.9), m=3, keeping=Keeping(keeping))
    found = run_pipeline(model, batches, DEVICES[:2], training, Runtime(count_bytes=True), progress=look)
    for pid, grown, code, predicted in zip(
        pids, found.grown_bytes, found.code_bytes, found.predicted_bytes, strict=True
    ):
        assert predicted > 2**24  # or the process's own few would be all there is
        assert grown > code > 0
        assert abs(grown - code - seen[pid]) <= 0.03 * seen[pid]
    assert run_pipeline(model, batches, DEVICES[:2], training, SIMULATOR).grown_bytes == ()


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_synchronous_schedules_too(schedule):
    model, _, shape = model_named("mlp")
    batches = data_for(shape, 8)
    training = Training(SGD(0.1, 0.9), m=4, schedule=schedule)
    expected = run_pipeline(model, batches, DEVICES, training, SIMULATOR)
    assert_same(expected, run_pipeline(model, batches, DEVICES, training, Runtime(snapshot_every=1)))


def test_a_second_run_goes_on_where_the_first_ended():
    model, _, shape = model_named("vgg")
    batches = data_for(shape, 12)
    training = Training(Adam(0.01), m=3)
    first = run_pipeline(model, batches[:6], DEVICES, training)
    model.load_state_dict(first.weights)
    real = run_pipeline(model, batches[6:], DEVICES, training, states=first.states)
    assert_same(run_pipeline(model, batches[6:], DEVICES, training, SIMULATOR, states=first.states), real)


def test_uneven_minibatches_and_one_stage():
    model, _, shape = model_named("mlp")
    batches = [*data_for(shape, 4), *data_for(shape, 1, size=1)]
    for devices in (DEVICES[:1], DEVICES[:2]):
        training = Training(SGD(0.1))
        assert_same(
            run_pipeline(model, batches, devices, training, SIMULATOR), run_pipeline(model, batches, devices, training)
        )
    master = Runtime(owner="master")
    assert_same(
        run_pipeline(model, batches, DEVICES[:1], training, SIMULATOR),
        run_pipeline(model, batches, DEVICES[:1], training, master),
    )


def test_a_layer_that_fails_says_so():
    model, _, shape = model_named("mlp")
    batches = [(inputs, labels + 90) for inputs, labels in data_for(shape, 3)]
    with pytest.raises(WorkerLost, match="device d2: IndexError"):
        run_pipeline(model, batches, DEVICES, Training(SGD(0.1)))


def test_a_loss_of_the_users_own_is_found_by_its_stage_and_fails_as_the_users(tmp_path):
    (tmp_path / "staged_loss.py").write_text(
        "from torch import distributed, nn\n\n"
        "def plain(outputs, labels):\n    return nn.functional.cross_entropy(outputs, labels)\n\n"
        "def broken(outputs, labels):\n    if distributed.is_initialized():\n        raise KeyError('attic')\n"
        "    return plain(outputs, labels)\n"
    )
    model, _, shape = model_named("mlp")
    batches = data_for(shape, 3)
    own = Training(SGD(0.1), "staged_loss:plain", code=tmp_path)
    assert_same(run_pipeline(model, batches, DEVICES, own, SIMULATOR), run_pipeline(model, batches, DEVICES, own))
    with pytest.raises(UserCodeError, match=r"staged_loss\.py:8: KeyError: 'attic'"):
        run_pipeline(model, batches, DEVICES, replace(own, loss="staged_loss:broken"))


def test_wires_take_their_time():
    traffic = Traffic(Wire(8e6))  # a megabyte a second
    assert traffic.arrival_s(10.0, 500_000) == 10.5
    assert traffic.arrival_s(10.1, 500_000) == 11.0  # waits for the first
    assert traffic.arrival_s(20.0, 0) == 20.0
    delayed = Traffic(Wire(None, (0.1, 0.5)), 3)
    times = [delayed.arrival_s(0.01 * k, 1000) for k in range(200)]
    assert times == sorted(times)
    assert all(0.01 * k + 0.1 <= at for k, at in enumerate(times))
    assert max(times) <= 2.5
    with pytest.raises(UsageError, match="bit/s"):
        Wire(-1.0)
    with pytest.raises(UsageError, match="low <= high"):
        Wire(None, (0.2, 0.1))


def test_stages_listen_on_loopback_alone():
    assert interface_of("localhost") == interface_of("127.0.0.1") == interface_of("lo") == "lo"
    for elsewhere in ("0.0.0.0", "192.0.2.7"):
        with pytest.raises(UsageError, match="--certs and --at"):
            interface_of(elsewhere)
    with pytest.raises(UsageError, match="expected localhost"):
        interface_of("no such thing")
    check_master("127.0.0.1")
    with pytest.raises(UsageError, match="MASTER_ADDR"):
        check_master("192.0.2.7")


def test_blueprints_build_what_they_describe():
    for name in ("mlp", "vgg", "resnet"):
        model, spec, shape = model_named(name)
        units = units_from(blueprint(model, spec))
        assert all(p.is_meta for unit in units for p in unit.parameters())
        twin = nn.Sequential(*units)
        twin.load_state_dict(nn.Sequential(*chain(model)).state_dict(), assign=True)
        inputs = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
        assert torch.equal(twin.eval()(inputs), model.eval()(inputs))
    with pytest.raises(UsageError, match="Bilinear"):
        blueprint(nn.Sequential(nn.Bilinear(2, 2, 2)))
    with pytest.raises(UsageError, match="expected only"):
        units_from({"layers": [["Linear", {"in_features": 2, "out_features": 2, "device": "cuda"}]]})
    with pytest.raises(UsageError, match="expected one of"):
        units_from({"layers": [["Module", {}]]})


def test_a_job_that_is_none(tmp_path):
    path = tmp_path / "job.json"
    for text in ("", "[]", '{"schema": "other"}', '{"schema": "relaytrain.pipeline-job/1"}'):
        path.write_text(text)
        with pytest.raises(ScenarioError, match="not a pipeline job"):
            read_job(path)


def test_gradients_are_those_of_torch_pipelining():
    """In a process of its own: nothing else here may import that package."""
    script = Path(__file__).with_name("torch_pipelining.py")
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    largest = float(ended.stdout.split()[-1])
    assert largest <= 1e-10
    assert "torch.distributed.pipelining" not in sys.modules
