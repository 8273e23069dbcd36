"""Handovers: pruning with its optimizer state, students, the way back, and refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from relaytrain.core.errors import ScenarioError
from relaytrain.core.plan import Decision
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.inprocess import InProcess
from relaytrain.scenario import load_scenario
from relaytrain.testing.small_training import tables
from relaytrain.training.checkpoint import Checkpoint
from relaytrain.training.datasets import Sets
from relaytrain.training.handover import hand_over
from relaytrain.training.setup import TrainingSetup

pytestmark = pytest.mark.train
RATIO_WITHIN = 0.03


def setup_of(made: dict[str, Any]) -> tuple[TrainingSetup, FederatedEpoch]:
    scenario = load_scenario(made)
    setup = TrainingSetup.from_scenario(scenario)
    return setup, FederatedEpoch(setup, InProcess(setup))


def trained(setup: TrainingSetup, runner: FederatedEpoch, epochs: int = 2) -> Checkpoint:
    checkpoint = setup.first_checkpoint()
    for epoch in range(1, epochs + 1):
        checkpoint = runner.run_epoch(Decision(epoch, "full", "gold"), checkpoint).checkpoint
    return checkpoint


@pytest.mark.parametrize(("family", "width"), [("cnn", 1.0), ("resnet8", 1.0)])
def test_pruning_along_the_relay(family: str, width: float) -> None:
    setup, runner = setup_of(tables(family=family, width=width))
    checkpoint = trained(setup, runner)
    for epoch, (version, ratio) in enumerate([("half", 0.5), ("small", 0.75)], start=3):
        handed = hand_over(setup, checkpoint, version, "silver")
        assert handed.kind == "prune" and handed.checkpoint.version == version
        assert handed.checkpoint.spec == setup.version_facts()[version].spec
        assert handed.reached_ratio == pytest.approx(ratio, abs=RATIO_WITHIN)
        assert handed.cpu_s > 0.0 and handed.elapsed_s > 0.0
        again = hand_over(setup, Checkpoint.from_bytes(checkpoint.data), version, "silver")
        assert again.checkpoint.digest == handed.checkpoint.digest, "redone after a crash, it is the same"
        check_momentum(checkpoint, handed.checkpoint)
        checkpoint = runner.run_epoch(Decision(epoch, version, "silver"), handed.checkpoint).checkpoint
        assert checkpoint.spec == handed.checkpoint.spec
    assert hand_over(setup, checkpoint, "small", "gold").kind == "same"


def check_momentum(before: Checkpoint, after: Checkpoint) -> None:
    """Every value left sits beside the same weight as before: (weight, momentum) pairs are among the old ones."""
    assert {k.partition("/")[2] for k in after.optimizer} == {k.partition("/")[2] for k in before.optimizer}
    for key, tensor in after.optimizer.items():
        name = key.partition("/")[2]
        assert tensor.shape == after.weights[name].shape
        old = zip(before.weights[name].reshape(-1).tolist(), before.optimizer[key].reshape(-1).tolist(), strict=True)
        new = zip(after.weights[name].reshape(-1).tolist(), tensor.reshape(-1).tolist(), strict=True)
        assert set(new) <= set(old), name


@pytest.mark.parametrize(
    ("family", "width"), [pytest.param("mobilenet", 0.5, marks=pytest.mark.slow), ("alexnet", 0.25), ("vgg11", 0.1)]
)
def test_a_version_is_one_spec_whatever_path_led_to_it(family: str, width: float) -> None:
    setup, _ = setup_of(tables(family=family, width=width))
    full = setup.first_checkpoint()
    straight = hand_over(setup, full, "small", "gold").checkpoint
    by_half = hand_over(setup, hand_over(setup, full, "half", "silver").checkpoint, "small", "gold").checkpoint
    assert straight.spec == by_half.spec == setup.version_facts()["small"].spec


def test_a_users_module_is_pruned_and_trained_on() -> None:
    base, _ = setup_of(tables())
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 30), nn.ReLU(), nn.Linear(30, 10)
    )
    sets = Sets(base.datasets, base.validation, base.test)
    setup = TrainingSetup.from_model(model, base.problem, sets, ratios={"half": 0.5, "small": 0.75})
    runner = FederatedEpoch(setup, InProcess(setup))
    checkpoint = setup.first_checkpoint()
    for epoch, version in enumerate(["full", "half", "small"], start=1):
        checkpoint = hand_over(setup, checkpoint, version, "gold").checkpoint
        assert checkpoint.spec == setup.version_facts()[version].spec
        checkpoint = runner.run_epoch(Decision(epoch, version, "silver"), checkpoint).checkpoint
    assert sum(t.numel() for t in checkpoint.weights.values()) < 0.3 * sum(p.numel() for p in model.parameters())


@pytest.mark.slow
def test_batch_norm_is_estimated_on_the_new_nodes_data() -> None:
    setup, runner = setup_of(tables(family="resnet8"))
    checkpoint = trained(setup, runner, 1)
    gold, silver = (hand_over(setup, checkpoint, "half", nodes).checkpoint for nodes in ("gold", "silver"))
    same = [torch.equal(gold.weights[name], silver.weights[name]) for name in gold.weights if "running_mean" not in name
            and "running_var" not in name and "tracked" not in name]  # fmt: skip
    means = [torch.equal(gold.weights[name], silver.weights[name]) for name in gold.weights if "running_mean" in name]
    assert all(same) and not any(means)


def students() -> dict[str, Any]:
    made = tables()
    made["versions"][1] = {"name": "half", "student": "cnn", "width": 0.5, "parameters": 500, "flops_per_sample": 2e6}
    made["versions"][2] = {"name": "small", "ratio": 0.75, "parameters": 250, "flops_per_sample": 1e6}
    made["training"]["distill"] = {"epochs": 20, "lr": 0.05}
    return made


@pytest.mark.slow
def test_a_student_learns_from_its_teacher() -> None:
    setup, runner = setup_of(students())
    teacher = trained(setup, runner, 25)
    handed = hand_over(setup, teacher, "half", "gold")
    assert handed.kind == "distill" and handed.checkpoint.spec == setup.versions["half"].spec
    assert handed.checkpoint.optimizer == {}
    fresh, taught = (runner.evaluate(c).loss for c in (setup.initial("half"), handed.checkpoint))
    assert taught < fresh
    assert hand_over(setup, teacher, "half", "gold").checkpoint.digest == handed.checkpoint.digest


def test_a_larger_version_needs_a_declared_way() -> None:
    setup, runner = setup_of(tables())
    full = trained(setup, runner, 1)
    small = hand_over(setup, full, "small", "silver").checkpoint
    with pytest.raises(ScenarioError, match=r"versions.full: larger than small.*grow ="):
        hand_over(setup, small, "full", "gold", last=full)
    with pytest.raises(ScenarioError, match="larger than small"):
        hand_over(setup, small, "half", "gold")
    with pytest.raises(ScenarioError, match="no version 'tiny'"):
        hand_over(setup, small, "tiny", "gold")


def test_the_way_back_is_the_last_checkpoint_or_distillation() -> None:
    made = tables()
    made["versions"][0]["grow"] = "checkpoint"
    made["versions"][1]["grow"] = "distill"
    setup, runner = setup_of(made)
    full = trained(setup, runner, 1)
    small = hand_over(setup, full, "small", "silver").checkpoint
    back = hand_over(setup, small, "full", "gold", last=full)
    assert back.kind == "restore" and back.checkpoint.digest == full.digest
    assert hand_over(setup, small, "full", "gold").checkpoint.digest == setup.first_checkpoint().digest
    grown = hand_over(setup, small, "half", "gold")
    assert grown.kind == "distill" and grown.checkpoint.spec == setup.version_facts()["half"].spec
    made["versions"][1]["grow"] = "checkpoint"
    setup, _ = setup_of(made)
    with pytest.raises(ScenarioError, match="never trained"):
        hand_over(setup, small, "half", "gold")


def test_reset_drops_the_optimizers_state() -> None:
    setup, runner = setup_of(tables(optimizer_state="reset"))
    assert trained(setup, runner, 1).optimizer == {}
