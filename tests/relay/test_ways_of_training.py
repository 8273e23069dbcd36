"""Each way of training in a relay that prunes: stopped and resumed, and in processes, to the same bits."""

from __future__ import annotations

import json
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from compare import trace
from run_faults import small_relay
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR

import relaytrain as rt
from relaytrain.cli.app import main
from relaytrain.core.cost import CostTable
from relaytrain.core.law import LossLaw
from relaytrain.core.plan import Plan
from relaytrain.core.problem import Pair, Problem
from relaytrain.core.state import State
from relaytrain.planners.pact.baselines import planned_path
from relaytrain.planners.pact.level_tables import Tables
from relaytrain.relay.assembly import job_of
from relaytrain.relay.job import Job
from relaytrain.relay.loop import resume, start
from relaytrain.store import RunStore
from relaytrain.training.checkpoint import Checkpoint

pytestmark = [pytest.mark.train, pytest.mark.slow]
torch.set_num_threads(1)
CODE = """
import torch

def nadam(model):
    return torch.optim.NAdam(model.parameters(), lr=2e-3)

def cycle(optimizer):
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=200, cycle_momentum=False)
"""
OWN = {"optimizer": "own_ways:nadam", "lr_schedule": "own_ways:cycle", "lr_every": "step"}
WAYS: dict[str, dict[str, Any]] = {
    "ours": {"precision": "bf16", "clip_value": 0.1, "strategy": "fedavgm", "warmup_epochs": 2.5},
    "all": {**OWN, "precision": "fp16", "accumulate": 2, "clip_norm": 1.0, "prox_mu": 0.1, "strategy": "fedadam"},
}
EPOCHS, STOP = 4, 3
"""Two epochs of the full version, then two of the small one on nodes that are drawn; the stop is between these."""


class Schedule:
    """The same relay for every way, whatever its losses."""

    name = "schedule"

    def plan(self, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> Plan:
        pairs = [Pair("full", "gold")] * 2 + [Pair("small", "silver")] * 2
        actions = np.array([problem.index(pair) for pair in pairs[state.epoch :]], np.int64)
        return planned_path(Tables(problem, costs, law), state, actions, self.name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("own_ways")
    (place / "own_ways.py").write_text(CODE)
    for way, training in WAYS.items():
        made = small_relay(batch=32, **training)
        made["node_sets"][1]["sample_share"] = 0.5
        made["target"]["max_epochs"] = EPOCHS
        del made["pairs"][2]["seconds"], made["pairs"][2]["energy"]  # as modelled
        (place / f"{way}.json").write_text(json.dumps(made))
    return place


def job(folder: Path, way: str, *changes: str) -> Job:
    return job_of(rt.load_scenario(folder / f"{way}.json", changes), planner=Schedule())


@cache
def straight(folder: Path, way: str) -> dict[str, Any]:
    store = RunStore.open(folder / "runs")
    start(job(folder, way), store, run=f"straight-{way}")
    return trace(store, f"straight-{way}")


@pytest.mark.parametrize("way", WAYS)
def test_stop_and_resume_are_bit_equal(folder: Path, way: str) -> None:
    store, name = RunStore.open(folder / "runs"), f"stopped-{way}"

    def told(line: Any) -> None:
        if line.epoch == STOP:
            store.request_stop(name)

    assert start(job(folder, way), store, run=name, told=told).verdict == "stopped"
    resume(job(folder, way), store, name)
    assert trace(store, name) == straight(folder, way)


def test_processes_give_the_same_bits(folder: Path) -> None:
    store, made = (
        RunStore.open(folder / "runs"),
        job(folder, "all", "training.transport=processes", "training.workers=1"),
    )
    with closing(made.runner):
        start(made, store, run="processes")
    assert trace(store, "processes") == straight(folder, "all")
    last = Checkpoint.from_bytes(store.latest_checkpoint("processes").data)
    assert last.scaler and {key.partition("/")[0] for key in last.server} == {"first", "second"}
    assert any(key.startswith("mu_product/") for key in last.optimizer)


def test_a_sampled_share_trains_and_is_booked_as_planned(folder: Path) -> None:
    straight(folder, "all")
    done = [e.body for e in RunStore.open(folder / "runs").events("straight-all") if e.kind == "epoch_done"]
    assert [len(body["nodes"]) for body in done] == [1, 1, 1, 1]
    assert {body["nodes"][0]["node"] for body in done[2:]} <= {"edge-1", "edge-2"}
    scenario = rt.load_scenario(folder / "all.json")
    index = scenario.problem.index(Pair("small", "silver"))
    assert done[3]["elapsed_s"] == scenario.costs.run_s[index] and done[3]["energy_j"] == scenario.costs.run_j[index]


def test_functions_at_hand_train_and_go_on(tmp_path: Path) -> None:
    from relaytrain.data.digits import digits

    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.RMSprop(model.parameters(), lr=1e-3)

    def schedule(made: torch.optim.Optimizer) -> ExponentialLR:
        return ExponentialLR(made, 0.9)

    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(32, 10))
    whole, problem = digits(), small_relay()
    del problem["data"]
    problem["versions"] = [{"name": "full", "parameters": 1000, "flops_per_sample": 3e6}]
    problem |= {"pairs": [{"version": "full", "nodes": "gold", "seconds": 1.0, "energy": 1.0}]}
    problem |= {"law": {"kind": "wide"}, "target": {"loss": 0.01, "max_epochs": 3}}
    places = {"cloud": 0, "edge-1": 128, "edge-2": 192, "validation": 256, "test": 456}
    data = {name: (whole.images[at : at + 64], whole.labels[at : at + 64]) for name, at in places.items()}
    own = {"optimizer": optimizer, "lr_schedule": schedule, "store": tmp_path}
    ended = rt.train(net, data, problem, name="at-hand-1", **own)
    kept = RunStore.open(tmp_path).events("at-hand-1")[0].body["scenario"]["training"]
    assert (kept["optimizer"], kept["lr_schedule"]) == ("in_memory:optimizer", "in_memory:lr_schedule")
    assert len(ended.outcomes) == 3

    def told(line: Any) -> None:
        RunStore.open(tmp_path).request_stop("at-hand-2")

    rt.train(net, data, problem, name="at-hand-2", told=told, **own)
    again = rt.train(net, data, problem, resume="at-hand-2", **own)
    assert [o.loss for o in again.outcomes] == [o.loss for o in ended.outcomes]


def test_doctor_names_an_absent_device(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if torch.accelerator.is_available():
        pytest.skip("this machine has an accelerator, so the refusal of an absent one cannot be shown")
    status = main(["doctor", str(folder / "ours.json"), "--set", "training.device=cuda"])
    shown = " ".join(capsys.readouterr().out.split())
    assert status and "training.device: got 'cuda', which torch cannot use on this machine" in shown
