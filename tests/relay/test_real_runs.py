"""Real training from Python and from the command line: verdicts, exit statuses, resume, the model that comes out."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from compare import trace
from run_faults import small_relay
from torch import nn

import relaytrain as rt
from relaytrain.cli.app import main
from relaytrain.core.errors import UsageError
from relaytrain.store import RunStore

pytestmark = pytest.mark.train
torch.set_num_threads(1)


HEARD: list[Any] = []
"""What the user's functions were called with by the run of `finished`."""


@pytest.fixture(scope="module")
def scenario_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("scenario") / "relay.json"
    path.write_text(json.dumps(small_relay()))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory, scenario_file):
    folder = tmp_path_factory.mktemp("runs")
    HEARD.clear()
    return rt.run(scenario_file, store=folder, name="straight-run", on_epoch=HEARD.append, on_verdict=HEARD.append)


def stop_at(epoch: int, folder: Path, run: str):
    def told(line) -> None:
        if line.epoch == epoch:
            RunStore.open(folder).request_stop(run)

    return told


def test_a_run_calls_the_users_functions_and_is_drawn_in_notebooks(finished):
    *lines, last = HEARD
    assert [line.epoch for line in lines] == list(range(1, len(finished.outcomes) + 1)) and last == finished
    assert all(0.0 <= line.accuracy <= 1.0 and line.train_loss > 0.0 for line in lines)
    page = finished._repr_html_()
    assert "<svg" in page and finished.run in page and "<script" not in page


def test_a_run_trains_and_hands_over(finished):
    assert finished.verdict == "missed" and finished.exit_status == 5 and len(finished.outcomes) == 9
    assert len({o.decision.pair for o in finished.outcomes}) >= 2
    assert finished.loss < 2.2 and 0.0 < finished.test_accuracy < 1.0
    events = RunStore.open(finished.store).events("straight-run")
    started = events[0].body
    assert set(started["versions"]) == {"full", "half", "small"} and started["packages"]["torch"]
    done = [e.body for e in events if e.kind == "epoch_done"]
    assert all(body["cpu_s"] > 0 and body["nodes"] and 0 <= body["accuracy"] <= 1 for body in done)


def test_the_model_that_comes_out_has_the_loss_that_was_recorded(finished, scenario_file):
    from relaytrain.training.evaluate import evaluate
    from relaytrain.training.setup import TrainingSetup

    setup = TrainingSetup.from_scenario(rt.load_scenario(scenario_file))
    assert evaluate(finished.model, setup.validation).loss == finished.loss
    found = evaluate(rt.load_model("straight-run", store=finished.store), setup.test)
    assert (found.loss, found.accuracy) == (finished.test_loss, finished.test_accuracy)
    best = rt.load_model("straight-run", store=finished.store, which="best")
    assert evaluate(best, setup.validation).loss == min(o.loss for o in finished.outcomes)


def test_a_run_without_checkpoints_has_no_model_to_load(tmp_path):
    store = RunStore.open(tmp_path)
    with store.create_run("no-spec-1", {}) as writer:
        with pytest.raises(UsageError, match="run no-spec-1 has no epoch done yet"):
            rt.load_model("no-spec-1", store=tmp_path, which="best")
        writer.append("planned", {}, 1)
        writer.append("epoch_done", {"loss": 1.0, "energy_j": 1.0, "elapsed_s": 1.0}, 1)
        writer.append("verdict", {"verdict": "met"})
    for which in ("final", "best"):
        with pytest.raises(UsageError, match="run no-spec-1 kept no checkpoint"):
            rt.load_model("no-spec-1", store=tmp_path, which=which)


def test_stop_and_resume_are_bit_equal(finished, scenario_file, tmp_path):
    stopped = rt.run(scenario_file, store=tmp_path, name="stopped-run", told=stop_at(5, tmp_path, "stopped-run"))
    assert stopped.verdict == "stopped" and len(stopped.outcomes) == 5
    again = rt.resume("stopped-run", store=tmp_path)
    assert again.loss == finished.loss
    assert trace(RunStore.open(tmp_path), "stopped-run") == trace(RunStore.open(finished.store), "straight-run")


def test_another_seed_is_another_run_and_is_kept_with_it(finished, scenario_file, tmp_path):
    other = rt.run(scenario_file, store=tmp_path, name="other-seed", seed=5, overrides=["target.max_epochs=2"])
    assert other.outcomes[0].loss != finished.outcomes[0].loss
    kept = RunStore.open(tmp_path).events("other-seed")[0].body
    assert kept["seed"] == 5 and kept["scenario"]["training"]["seed"] == 5


def test_baselines_are_run_by_name(scenario_file, tmp_path):
    ended = rt.run(scenario_file, store=tmp_path, name="one-switch-1", planner="one-switch")
    assert len({o.decision.pair for o in ended.outcomes}) <= 2
    with pytest.raises(UsageError, match="one-switch"):
        rt.run(scenario_file, store=tmp_path, planner="two-switch")
    with pytest.raises(UsageError, match="in-process"):
        rt.run(scenario_file, store=tmp_path, transport="pigeon")


@pytest.mark.slow
def test_changed_packages_are_refused_unless_accepted(scenario_file, tmp_path, monkeypatch):
    from relaytrain.relay import event_bodies

    rt.run(scenario_file, store=tmp_path, name="stopped-run", told=stop_at(1, tmp_path, "stopped-run"))
    plain = event_bodies.packages
    monkeypatch.setattr(event_bodies, "packages", lambda: {**plain(), "torch": "9.9"})
    with pytest.raises(UsageError, match=r"torch .* -> 9\.9"):
        rt.resume("stopped-run", store=tmp_path)
    assert rt.resume("stopped-run", store=tmp_path, allow_inexact=True).verdict == "missed"


class Net(nn.Module):
    """A user's own module."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten())
        self.head = nn.Linear(32, 10)

    def forward(self, images):
        return self.head(self.body(images))


def own_data():
    from relaytrain.data.digits import digits

    whole = digits()
    sizes = {"cloud": 128, "edge-1": 64, "edge-2": 48, "validation": 200, "test": 200}
    cuts = np.cumsum([0, *sizes.values()])
    return {
        name: (whole.images[start:end], whole.labels[start:end])
        for name, start, end in zip(sizes, cuts, cuts[1:], strict=False)
    }


def own_problem():
    made = small_relay()
    del made["data"]
    versions = [{key: value for key, value in v.items() if key not in ("family", "width")} for v in made["versions"]]
    return {**made, "versions": versions}


def test_train_takes_a_module_and_arrays(tmp_path):
    torch.manual_seed(0)
    net = Net()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    result = rt.train(net, own_data(), own_problem(), store=tmp_path, name="own-module")
    assert len(result.outcomes) == 9 and result.verdict == "missed"
    for name, tensor in net.state_dict().items():  # the caller's module is not touched
        assert torch.equal(tensor, before[name])
    images = torch.from_numpy(own_data()["test"][0])
    assert result.model(images).shape == (200, 10)
    if result.outcomes[-1].decision.version != "full":
        assert sum(p.numel() for p in result.model.parameters()) < sum(p.numel() for p in net.parameters())


@pytest.mark.slow
def test_train_takes_a_fitted_estimator(tmp_path):
    from dataclasses import replace

    from relaytrain.estimators.learned.zero_trace import zero_trace

    file = replace(zero_trace(), name="auto", metric="test").save(tmp_path / "fit.npz")
    few = ["target.max_epochs=2"]
    result = rt.train(
        Net(), own_data(), own_problem(), store=tmp_path, name="with-a-fit", rule="adaptive", fitted=file, overrides=few
    )
    started = RunStore.open(tmp_path).events("with-a-fit")[0].body
    assert started["estimator"]["name"] == "auto" and len(result.outcomes) == 2


@pytest.mark.slow
def test_train_goes_on_with_the_same_call(tmp_path):
    def call(**options):
        torch.manual_seed(0)
        return rt.train(Net(), own_data(), own_problem(), store=tmp_path, **options)

    call(name="undisturbed")
    call(name="stopped-run", told=stop_at(4, tmp_path, "stopped-run"))
    call(resume="stopped-run")
    store = RunStore.open(tmp_path)
    assert trace(store, "stopped-run") == trace(store, "undisturbed")
    with pytest.raises(UsageError, match=r"rt\.train"):
        rt.resume("stopped-run", store=tmp_path)


def test_data_without_a_test_set_is_refused_in_words():
    with pytest.raises(UsageError, match="test"):
        rt.train(Net(), {"cloud": own_data()["cloud"], "validation": own_data()["validation"]}, own_problem())


NET = """
from torch import nn


def net():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(32, 10))
"""


@pytest.mark.slow
def test_code_of_the_user_s_own_is_run_only_with_leave(tmp_path, monkeypatch):
    made = small_relay()
    made["versions"][0] = {
        "name": "full",
        "factory": "own_net_of_a_test:net",
        "parameters": 1000,
        "flops_per_sample": 3e6,
    }
    (tmp_path / "own_net_of_a_test.py").write_text(NET)
    path = tmp_path / "own.json"
    path.write_text(json.dumps(made))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    store = tmp_path / "runs"
    rt.run(path, store=store, name="own-factory", told=stop_at(1, store, "own-factory"))
    with pytest.raises(UsageError, match="--code"):
        rt.resume("own-factory", store=store)
    with pytest.raises(UsageError, match="not the one"):
        rt.resume("own-factory", store=store, source=small_relay())
    (tmp_path / "own_net_of_a_test.py").write_text(NET + "# changed\n")
    with pytest.raises(UsageError, match="own_net_of_a_test"):
        rt.resume("own-factory", store=store, source=path)
    (tmp_path / "own_net_of_a_test.py").write_text(NET)
    assert rt.resume("own-factory", store=store, source=path).verdict == "missed"
    with pytest.raises(UsageError, match="has ended"):
        rt.resume("own-factory", store=store)


# --- the command line


def test_run_tells_every_epoch_and_ends_with_the_outcome(scenario_file, tmp_path, capsys):
    status = main(["run", str(scenario_file), "--store", str(tmp_path), "--name", "from-shell"])
    out, err = capsys.readouterr()
    assert status == 5 and "target missed" in out and "test loss" in out
    lines = [line for line in err.splitlines() if line.startswith("k ")]
    assert len(lines) == 9 and " | full on gold | loss " in lines[0] and " of 60s" in lines[0]
    status = main(
        ["run", str(scenario_file), "--store", str(tmp_path), "--set", "target.loss=9", "--format", "json", "-q"]
    )
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert status == 0 and result["verdict"] == "met" and result["epochs"] == 0 and err == ""


def test_ls_show_stop_rm(finished, scenario_file, tmp_path, capsys):
    store = ["--store", str(tmp_path)]
    assert main(["ls", *store]) == 0 and "no runs yet" in capsys.readouterr().out
    rt.run(scenario_file, store=tmp_path, name="shown-run", overrides=["target.max_epochs=2"])
    assert main(["ls", *store]) == 0 and "shown-run" in capsys.readouterr().out
    assert main(["ls", *store, "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert row["status"] == "missed" and row["epochs"] == 2
    assert main(["show", "shown", *store]) == 0
    assert "full on gold" in capsys.readouterr().out
    assert main(["show", *store, "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["epochs"]) == 2
    assert main(["stop", "shown-run", *store]) == 2 and "not running" in capsys.readouterr().err
    assert main(["resume", "shown-run", *store]) == 2 and "has ended" in capsys.readouterr().err
    assert main(["rm", "shown-run", *store]) == 2 and "--yes" in capsys.readouterr().err
    assert main(["rm", "shown-run", "--yes", *store]) == 0
    assert RunStore.open(tmp_path).runs() == ()


def test_ctrl_c_stops_in_order_and_says_how_to_resume(finished, scenario_file, tmp_path, capsys, monkeypatch):
    from relaytrain.cli.watching import Watcher

    plain = Watcher.__call__

    def heard(watcher, line) -> None:
        plain(watcher, line)
        if line.epoch == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Watcher, "__call__", heard)
    before = signal.getsignal(signal.SIGINT)
    status = main(["run", str(scenario_file), "--store", str(tmp_path), "--name", "ctrl-c-run"])
    out, err = capsys.readouterr()
    assert status == 6 and "relaytrain resume ctrl-c-run" in out and "stopping after this epoch" in err
    assert signal.getsignal(signal.SIGINT) is before
    assert main(["resume", "ctrl-c-run", "--store", str(tmp_path)]) == 5
    assert trace(RunStore.open(tmp_path), "ctrl-c-run") == trace(RunStore.open(finished.store), "straight-run")


def test_a_scenario_without_data_says_what_is_missing(tmp_path, capsys):
    assert main(["run", "smart_factory", "--store", str(tmp_path)]) == 3
    assert "[data]" in capsys.readouterr().err
    assert not (tmp_path / "runs.sqlite").exists()
