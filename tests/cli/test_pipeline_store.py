"""`relaytrain pipeline run` on a network and data of the user's own: kept in the store, killed, and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("torch")
from relaytrain.pipeline.named_run import TrainingOrder
from relaytrain.pipeline.pipeline_work import Runtime
from relaytrain.planners.pipeline.partition import Device
from relaytrain.relay import pipeline_runs
from relaytrain.store import RunStore, check
from relaytrain.store.check import errors

pytestmark = [pytest.mark.train, pytest.mark.slow]
MINE = """
import numpy as np, torch
from torch import nn
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.ones(1))
    def forward(self, x):
        return x * self.by
def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), Scale(), nn.Linear(16, 3))
def images(split):
    rng, labels = np.random.default_rng(len(split)), np.arange(120) % 3
    images = rng.random((120, 1, 8, 8), dtype=np.float32)
    images[np.arange(120), 0, labels, :] += 1
    return images, labels
def single(): return nn.Linear(64, 3)
def untested(split):
    return images(split) if split == "train" else {}["no such split"]
def fails(): raise ValueError("no layers today")
def fails_to_load(split): raise OSError("the disk is away")
def narrow(): return nn.Sequential(nn.Flatten(), nn.Linear(9, 3))
"""
TINY = ("--data", "mine_pipe:images", "--minibatches", "6", "--batch", "4", "--lr", "0.05")
PAIR = ("--device", "pi, 1 GFLOP/s", "--device", "nuc, 2 GFLOP/s")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine_pipe.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mine_pipe", raising=False)
    return tmp_path


def facts(store: RunStore, run: str) -> list[tuple[float, list[float], str | None]]:
    """Loss, losses of the minibatches and checkpoint of every epoch."""
    done = store.events(run, kinds=("epoch_done",))
    return [(event.body["loss"], event.body["pipeline"]["losses"], event.blob) for event in done]


def test_a_run_is_kept_killed_and_gone_on_with_to_the_bit(relaytrain, folder):
    store = RunStore.open(folder / "runs")
    words = ("pipeline", "run", "mine_pipe:net", *TINY, *PAIR, "--epochs", "3", "--store", str(store.folder))
    whole = relaytrain(*words, "--simulate", "--name", "whole-run", "--format", "json")
    assert whole.status == 0, whole.err
    said = json.loads(whole.out)
    assert (said["run"], said["verdict"], said["minibatches"]) == ("whole-run", "met", 18)
    assert store.events("whole-run")[0].body["command"].startswith("relaytrain pipeline run mine_pipe:net")
    assert said["epoch_losses"] == [loss for loss, _, _ in facts(store, "whole-run")] and said["test_accuracy"] > 0.5

    # a process of its own, stages and all, killed while its second epoch is under way
    command = [sys.executable, "-m", "relaytrain", *words, "--snapshot-every", "0", "--name", "killed-run"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        for line in process.stderr:
            if line.startswith("k   1 |"):
                os.killpg(process.pid, signal.SIGKILL)
                break
        process.stderr.read()
    assert 1 <= len(facts(store, "killed-run")) < 3
    refused = relaytrain("resume", "killed-run", "--store", str(store.folder))
    assert refused.status == 2 and f"--code {folder}" in refused.err
    store_named = ("--store", str(store.folder))
    for words in (("--log", "tensorboard=tb"), ("--superlink", "127.0.0.1:8000"), ("--scenario", "quickstart")):
        refused = relaytrain("resume", "killed-run", "--code", str(folder), *words, *store_named)
        assert refused.status == 2 and f"{words[0]}: killed-run is a run of `pipeline run`" in refused.err
    gone_on = relaytrain("resume", "killed-run", "--code", str(folder), "--force", *store_named)
    assert gone_on.status == 0 and "done" in gone_on.out, gone_on.err
    assert facts(store, "killed-run") == facts(store, "whole-run"), "in processes as in the simulator, killed or not"
    assert store.summary("killed-run").status == "met" and not list((store.folder / "scratch").rglob("*.safetensors"))

    shown = json.loads(relaytrain("show", "whole-run", "--format", "json", *store_named).out)
    assert [row["loss"] for row in shown["epochs"]] == said["epoch_losses"]
    assert relaytrain("report", "whole-run", "--out", str(folder / "r.html"), *store_named).status == 0
    assert errors(check(store.folder)) == []
    exported = relaytrain("export", "whole-run", str(folder / "out"), "--model", "mine_pipe:net", *store_named)
    assert exported.status == 0 and "compared bit for bit" in exported.out, exported.err


def test_an_epoch_whose_checkpoint_is_damaged_is_trained_again(relaytrain, folder):
    store = RunStore.open(folder / "runs")
    words = ("pipeline", "run", "mine_pipe:net", *TINY, *PAIR, "--simulate", "--store", str(store.folder))
    assert relaytrain(*words, "--name", "whole-run", "--epochs", "3").status == 0
    order = TrainingOrder("mine_pipe:net", "mine_pipe:images", batch=4, minibatches=6, lr=0.05, folder=folder)
    devices, runtime = (Device("pi", 1e9), Device("nuc", 2e9)), Runtime(where="simulator")
    job, done = pipeline_runs.PipelineJob(order, devices, runtime=runtime, epochs=3), []
    heard = {"watch": lambda event: done.append(event["kind"]), "stop": lambda: done.count("epoch") >= 2}
    assert pipeline_runs.start(job, store, "half-run", **heard).verdict == "stopped"
    (store.folder / "blobs" / "half-run" / facts(store, "half-run")[-1][2]).write_bytes(b"damaged")
    gone_on = relaytrain("resume", "half-run", "--code", str(folder), "--store", str(store.folder))
    assert gone_on.status == 0 and "went back to epoch 1" in gone_on.err
    losses = [loss for loss, _, _ in facts(store, "whole-run")]
    assert [loss for loss, _, _ in facts(store, "half-run")] == [*losses[:2], *losses[1:]]
    [rolled_back] = store.events("half-run", kinds=("rolled_back",))
    assert (rolled_back.epoch, rolled_back.body["to_epoch"]) == (1, 1)


def test_a_network_of_which_no_checkpoint_can_be_kept_is_trained_all_the_same(relaytrain, folder):
    words = ("pipeline", "run", "vgg11-4096", "--width", "0.05", "--batch", "4", "--minibatches", "2", "--epochs", "2")
    call = relaytrain(*words, "--simulate", "--format", "json")
    assert call.status == 0, call.err
    said = json.loads(call.out)
    assert said["verdict"] == "met" and len(said["epoch_losses"]) == 2
    refused = relaytrain("resume", said["run"])
    assert refused.status == 2 and "has ended" in refused.err


def test_a_target_ends_it_and_one_that_is_missed_is_said(relaytrain, folder):
    words = ("pipeline", "run", "mine_pipe:net", *TINY, "--simulate", "--epochs", "4")
    met = relaytrain(*words, "--target", "0.9", "--format", "json")
    assert met.status == 0 and json.loads(met.out)["epoch_losses"][-1] <= 0.9
    assert len(json.loads(met.out)["epoch_losses"]) < 4
    missed = relaytrain(*words, "--epochs", "1", "--target", "1e-9")
    assert missed.status == 5 and "target missed" in missed.out


def test_a_test_set_that_fails_is_noted_and_costs_no_verdict(relaytrain, folder):
    words = ("pipeline", "run", "mine_pipe:net", *TINY, "--simulate", "--data", "mine_pipe:untested")
    done = relaytrain(*words, "--format", "json")
    said = json.loads(done.out)
    assert done.status == 0 and (said["verdict"], said["test_loss"]) == ("met", None)
    assert "not tested" in said["notes"][0] and "no such split" in said["notes"][0]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("mine_pipe:single",), 2, "returned Linear, expected an nn.Sequential"),
        (("mine_pipe:fails",), 3, "mine_pipe.py:20: ValueError: no layers today"),
        (("mine_pipe:nothing",), 3, "expected a name in the module"),
        (("mine_pipe:narrow",), 3, "mine_pipe"),
        (("mine_pipe:net", "--data", "mine_pipe:fails_to_load"), 3, "mine_pipe.py:21: OSError: the disk is away"),
        (("mine_pipe:net", "--epochs", "0"), 2, "--epochs: got 0"),
        (("mine_pipe:net", "--target", "-1"), 2, "--target: got -1"),
    ],
)
def test_faults_are_words_and_keep_no_run(relaytrain, folder, words, status, said):
    call = relaytrain("pipeline", "run", words[0], *TINY, *words[1:], "--simulate")
    assert call.status == status and said in call.err, call.err
    assert not (folder / "relaytrain-runs").exists()
