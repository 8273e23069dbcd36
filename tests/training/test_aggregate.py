"""FedAvg against numpy, and against the order in which results come."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from opened_updates import open_updates

from relaytrain.models import build, family_spec
from relaytrain.models.rebuild import of_module
from relaytrain.training.aggregate import average, open_update
from relaytrain.training.checkpoint import Checkpoint
from relaytrain.training.optimizer import make_optimizer, read_state
from relaytrain.training.settings import DistillSettings, TrainingSettings
from relaytrain.training.task import NodeResult, NodeTask

pytestmark = pytest.mark.train
SPEC = family_spec("resnet8", input=(1, 8, 8), classes=10, width=0.25)
EXACT = 1e-7
"""float32 against float64: one rounding."""


def result(node: str, samples: int, seed: int) -> NodeResult:
    model = build(SPEC, seed=seed)
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point():
            tensor.fill_(seed)
        elif "running" in name:
            tensor.add_(0.1 * seed)
    momentum = {f"momentum_buffer/{name}": p * seed for name, p in model.named_parameters()}
    checkpoint = Checkpoint.of_model(model, SPEC, "full", momentum)
    return NodeResult("run", node, 1, 0, samples, checkpoint.data, 1.0)


START = Checkpoint.of_model(build(SPEC), SPEC, "full")
RESULTS = [result("b", 30, 1), result("a", 10, 2), result("c", 60, 3)]


def fedavg(results: Sequence[NodeResult]) -> Checkpoint:
    accepted, refused = open_updates(results, START)
    assert refused == {}
    return average(accepted, START)


def test_weights_statistics_and_momentum_are_sample_weighted_means() -> None:
    averaged = fedavg(RESULTS)
    assert tuple(open_updates(RESULTS, START)[0]) == ("a", "b", "c")
    parts = [(r.samples / 100, Checkpoint.from_bytes(r.data or b"")) for r in RESULTS]
    for kind in ("weights", "optimizer"):
        for name, tensor in getattr(averaged, kind).items():
            if tensor.is_floating_point():
                wanted = sum(share * getattr(p, kind)[name].double().numpy() for share, p in parts)
                np.testing.assert_allclose(tensor.numpy(), wanted, rtol=EXACT, atol=EXACT, err_msg=name)
            else:
                assert int(tensor) == 3, name


def test_every_order_gives_the_same_bits() -> None:
    digests = {fedavg(order).digest for order in itertools.permutations(RESULTS)}
    assert len(digests) == 1


def test_one_result_is_taken_as_it_is() -> None:
    alone = fedavg(RESULTS[:1])
    assert alone.digest == Checkpoint.from_bytes(RESULTS[0].data or b"").digest


def test_equal_updates_average_to_themselves() -> None:
    same = [result("a", 10, 4), result("b", 20, 4), result("c", 33, 4)]
    averaged = fedavg(same)
    for name, tensor in Checkpoint.from_bytes(same[0].data or b"").weights.items():
        assert torch.allclose(averaged.weights[name].double(), tensor.double(), rtol=EXACT, atol=0), name


def test_nothing_to_average() -> None:
    assert open_updates([], START) == ({}, {})
    bad = NodeResult("run", "a", 1, 0, error="gone", kind="lost")
    assert open_updates([bad], START) == ({}, {"a": "gone"})
    _, refused = open_updates([NodeResult("run", "a", 1, 0, 0, START.data, 1.0)], START)
    assert "0 samples" in refused["a"]


def trained(optimizer: str, kind: torch.dtype = torch.float32) -> tuple[Checkpoint, Checkpoint, TrainingSettings]:
    """A network of the user's own whose weights are of `kind`, before and after a step."""
    torch.manual_seed(3)
    model = torch.nn.Linear(3, 2).to(kind)
    spec, _ = of_module(model)
    settings = TrainingSettings(optimizer=optimizer, lr=0.01)
    before, torchs = Checkpoint.of_model(model, spec, "full"), make_optimizer(model, settings)
    model(torch.randn(4, 3, dtype=kind)).square().mean().backward()
    torchs.step()
    return before, Checkpoint.of_model(model, spec, "full", read_state(torchs, model)), settings


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16], ids=str)  # in fp16 Adam gives NaN
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_what_torchs_optimizers_keep_passes(optimizer: str, kind: torch.dtype) -> None:
    before, after, settings = trained(optimizer, kind)
    update = open_update(NodeResult("run", "a", 1, 0, 10, after.data, 1.0), before, settings)
    assert isinstance(update, Checkpoint), update
    assert after.optimizer and update.optimizer.keys() == after.optimizer.keys()


LIES = {
    "a step with a dimension": ("step", lambda t: t.reshape(1), r"step/\w+ is torch.float32 \[1\], expected a single"),
    "a step in whole numbers": ("step", lambda t: t.long(), "expected a single float"),
    "a step that cannot count on": ("step", lambda t: t.bfloat16(), "expected a single float"),
    "a moment of another kind": ("exp_avg", lambda t: t.double(), "torch.float64 .*, expected its"),
    "a moment without shape": ("exp_avg_sq", lambda t: t.sum(), r"torch.float32 \[\], expected its weight's"),
    "a moment without arithmetic": ("exp_avg", lambda t: t.to(torch.float8_e4m3fn), "of which no mean can be made"),
    "a complex moment": ("exp_avg", lambda t: t.to(torch.complex64), "of which no mean can be made"),
}


@pytest.mark.parametrize("lie", LIES)
def test_state_that_no_optimizer_leaves_behind_is_refused(lie: str) -> None:
    before, after, settings = trained("adam")
    buffer, change, words = LIES[lie]
    state = {key: change(t) if key.startswith(f"{buffer}/") else t for key, t in after.optimizer.items()}
    data = replace(after, optimizer=dict(sorted(state.items()))).data
    told = open_update(NodeResult("run", "a", 1, 0, 10, data, 1.0), before, settings)
    assert isinstance(told, str) and re.search(words, told), told


def test_state_of_several_forms_begins_anew() -> None:
    """Of an optimizer of the user's own nobody knows what it keeps: where nodes disagree, that weight's state goes."""
    before, after, _ = trained("adam")
    odd = replace(after, optimizer={**after.optimizer, "step/bias": torch.ones(1)})
    less = replace(after, optimizer={key: t for key, t in after.optimizer.items() if key != "exp_avg/bias"})
    for other in (odd, less):
        answers = [NodeResult("run", node, 1, 0, 10, c.data, 1.0) for node, c in (("a", after), ("b", other))]
        accepted, refused = open_updates(answers, before)
        averaged = average(accepted, before)
        assert refused == {} and set(averaged.optimizer) == {"step/weight", "exp_avg/weight", "exp_avg_sq/weight"}


def test_tasks_and_results_survive_the_pipe() -> None:
    settings = TrainingSettings(lr=0.1, devices={"a": "cpu"}, distill=DistillSettings(epochs=3), epoch_timeout_s=2.5)
    task = NodeTask("run", 3, 1, "a", START.data, settings, 0.5, 7.0)
    again = NodeTask.from_bytes(task.to_bytes())
    assert again == task and again.seed == task.seed and again.key == task.key
    assert NodeResult.from_bytes(RESULTS[0].to_bytes()) == RESULTS[0]
    failed = NodeResult("run", "a", 1, 0, error="gone", kind="lost", cpu_s=0.5)
    assert NodeResult.from_bytes(failed.to_bytes()) == failed
