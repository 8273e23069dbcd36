"""What may happen between a loss and a step is what people write into a plain PyTorch loop, bit for bit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from relaytrain.core.errors import ScenarioError, UsageError
from relaytrain.core.plan import Decision
from relaytrain.core.user_code import UserCodeError
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.inprocess import InProcess
from relaytrain.executors.processes import Processes
from relaytrain.models import build
from relaytrain.testing.small_training import small_setup
from relaytrain.training.checkpoint import Checkpoint
from relaytrain.training.own_training import OwnTraining
from relaytrain.training.settings import TrainingSettings, seed_of
from relaytrain.training.setup import TrainingSetup
from relaytrain.training.soundness import step_fault
from relaytrain.training.update import Update

pytestmark = pytest.mark.train
EPOCHS = 2
CODE = """
import torch

def adamw(model):
    flat = [p for p in model.parameters() if p.ndim < 2]
    rest = [p for p in model.parameters() if p.ndim >= 2]
    return torch.optim.AdamW([{"params": rest, "weight_decay": 0.1}, {"params": flat, "lr": 5e-4}], lr=1e-3)

def adafactor(model):
    return torch.optim.Adafactor(model.parameters(), lr=1e-2)

class Counting(torch.optim.SGD):
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                seen = self.state[p]["seen"] = self.state[p].get("seen", 0) + 1
                group["lr"] = 0.02 / seen
        return super().step(closure)

def counting(model):
    return Counting(model.parameters(), lr=0.02)

def listing(model):
    made = torch.optim.SGD(model.parameters(), lr=0.02)
    for p in model.parameters():
        made.state[p]["history"] = [1.0]
    return made

def nothing(model):
    return None

def broken(model):
    raise KeyError("no such group")

def foreign(model):
    return torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)

def cycle(optimizer):
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=40)

def by_epoch(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

def plateau(optimizer):
    return torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("own_updates")
    (place / "own_updates.py").write_text(CODE)
    return place


@cache
def base() -> TrainingSetup:
    return small_setup(width=0.25)


def setup_with(folder: Path | None = None, **training: Any) -> TrainingSetup:
    return replace(base().with_settings(**training), folder=folder)


def trained(setup: TrainingSetup, epochs: int = EPOCHS) -> Checkpoint:
    runner, checkpoint = FederatedEpoch(setup, InProcess(setup)), setup.first_checkpoint()
    for epoch in range(1, epochs + 1):
        checkpoint = runner.run_epoch(Decision(epoch, "full", "gold"), checkpoint).checkpoint
        checkpoint = Checkpoint.from_bytes(checkpoint.to_bytes())  # nothing lives on but what is stored
    return checkpoint


def plain_start(setup: TrainingSetup) -> nn.Module:
    assert setup.full.spec is not None
    return build(setup.full.spec, seed=setup.settings.seed)


def batches(setup: TrainingSetup, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
    data = setup.datasets["cloud"]
    images, labels = torch.from_numpy(data.images), torch.from_numpy(data.labels)
    torch.manual_seed(seed_of(setup.settings.seed, epoch, "cloud"))
    for chosen in torch.randperm(len(labels)).split(setup.settings.batch):
        yield images[chosen], labels[chosen]


def same(checkpoint: Checkpoint, model: nn.Module) -> None:
    for name, tensor in model.state_dict().items():
        assert torch.equal(checkpoint.weights[name], tensor), name


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_is_autocast_and_a_scaler(precision: str) -> None:
    setup = setup_with(precision=precision, clip_norm=0.5)
    model = plain_start(setup).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    for epoch in range(1, EPOCHS + 1):
        for images, labels in batches(setup, epoch):
            with torch.autocast("cpu", dtype={"bf16": torch.bfloat16, "fp16": torch.float16}[precision]):
                loss = functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
    checkpoint = trained(setup)
    same(checkpoint, model)
    assert all(tensor.dtype != torch.bfloat16 for tensor in checkpoint.weights.values())
    kept = {key: value.item() for key, value in checkpoint.scaler.items()}
    state = scaler.state_dict()
    assert kept == ({"scale": state["scale"], "growth_tracker": state["_growth_tracker"]} if state else {})


def test_a_scale_that_overflowed_goes_on_smaller() -> None:
    setup = setup_with(precision="fp16")
    first = replace(
        setup.first_checkpoint(), scaler={"scale": torch.tensor(2.0**30), "growth_tracker": torch.tensor(5)}
    )
    done = FederatedEpoch(setup, InProcess(setup)).run_epoch(Decision(1, "full", "silver"), first).checkpoint
    assert done.scaler["scale"] < 2.0**30 and done.scaler["growth_tracker"] < 5


@pytest.mark.parametrize("way", ["clip_norm", "clip_value"])
def test_clipping_is_torchs(way: str) -> None:
    setup = setup_with(**{way: 0.01})
    model = plain_start(setup).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    clip: Callable[..., Any] = nn.utils.clip_grad_norm_ if way == "clip_norm" else nn.utils.clip_grad_value_
    for epoch in range(1, EPOCHS + 1):
        for images, labels in batches(setup, epoch):
            optimizer.zero_grad()
            functional.cross_entropy(model(images), labels).backward()
            clip(model.parameters(), 0.01)
            optimizer.step()
    same(trained(setup), model)


def test_accumulation_is_the_plain_loop_that_divides_the_loss() -> None:
    setup = setup_with(accumulate=3, batch=16)  # 128 images: 8 batches, groups of 3, 3 and 2
    model = plain_start(setup).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(1, EPOCHS + 1):
        parts = list(batches(setup, epoch))
        for group in (parts[:3], parts[3:6], parts[6:]):
            optimizer.zero_grad()
            for images, labels in group:
                (functional.cross_entropy(model(images), labels) / 3).backward()
            if len(group) < 3:
                for parameter in model.parameters():
                    assert parameter.grad is not None
                    parameter.grad.mul_(3 / 2)
            optimizer.step()
    same(trained(setup), model)


def linear(samples: int) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(7)
    return nn.Linear(5, 3).double(), torch.randn(samples, 5).double(), torch.randint(0, 3, (samples,))


def stepped(samples: int, batch: int, **settings: Any) -> nn.Module:
    """A network without batch norm after one pass in the given order, in float64."""
    model, inputs, labels = linear(samples)
    update = Update(model, TrainingSettings(lr=0.1, **settings), 1)
    for one, wanted in zip(inputs.split(batch), labels.split(batch), strict=True):
        update.take(functional.cross_entropy(model(one), wanted), len(wanted))
    update.close()
    return model


@pytest.mark.parametrize("samples", [48, 50, 33])
def test_accumulation_is_a_larger_batch(samples: int) -> None:
    """Also where the last batch, or the last group, is smaller than the others."""
    small, large = stepped(samples, 4, accumulate=4), stepped(samples, 16)
    for one, other in zip(small.parameters(), large.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-14)


def test_fedprox_adds_the_gradient_of_its_term() -> None:
    """Against autograd of loss + mu/2 |w - w0|^2, and its norm clipped."""
    model, inputs, labels = linear(40)
    start = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for one, wanted in zip(inputs.split(8), labels.split(8), strict=True):
        distance = sum(((p - w) ** 2).sum() for p, w in zip(model.parameters(), start, strict=True))
        optimizer.zero_grad()
        (functional.cross_entropy(model(one), wanted) + 0.5 * 3.0 * distance).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.4)
        optimizer.step()
    ours = stepped(40, 8, prox_mu=3.0, clip_norm=0.4)
    for one, other in zip(ours.parameters(), model.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-14)
    far, near = (_moved(stepped(40, 8, prox_mu=mu), start) for mu in (0.0, 5.0))
    assert near < far


def _moved(model: nn.Module, start: list[Tensor]) -> float:
    return sum(float((p.detach() - w).norm() ** 2) for p, w in zip(model.parameters(), start, strict=True))


def test_warm_up_is_a_linear_rise_over_steps() -> None:
    setup = setup_with(warmup_epochs=1.5)
    model = plain_start(setup).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 12))  # 8 an epoch
    for epoch in range(1, EPOCHS + 1):
        for images, labels in batches(setup, epoch):
            optimizer.zero_grad()
            functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            scheduler.step()
    same(trained(setup), model)


@pytest.mark.parametrize(
    ("optimizer", "schedule", "every"),
    [
        ("adamw", "constant", "epoch"),
        ("adafactor", "constant", "epoch"),
        ("counting", "constant", "epoch"),
        ("sgd", "cycle", "step"),
        ("adamw", "by_epoch", "epoch"),
    ],
)
def test_own_optimizers_and_schedules_are_the_plain_ones(
    folder: Path, optimizer: str, schedule: str, every: str
) -> None:
    training = {
        "optimizer": optimizer if optimizer == "sgd" else f"own_updates:{optimizer}",
        "lr_schedule": schedule if schedule == "constant" else f"own_updates:{schedule}",
        "lr_every": every,
    }
    setup = setup_with(folder, **training)
    setup.own_training()
    own_updates = sys.modules["own_updates"]
    model = plain_start(setup).train()
    make = getattr(own_updates, optimizer, lambda m: torch.optim.SGD(m.parameters(), lr=0.02, momentum=0.9))
    plain = make(model)
    scheduler = None if schedule == "constant" else getattr(own_updates, schedule)(plain)
    for epoch in range(1, EPOCHS + 2):
        for images, labels in batches(setup, epoch):
            plain.zero_grad()
            functional.cross_entropy(model(images), labels).backward()
            plain.step()
            if scheduler is not None and every == "step":
                scheduler.step()
        if scheduler is not None and every == "epoch":
            scheduler.step()
    same(trained(setup, EPOCHS + 1), model)


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ({"optimizer": "own_updates:nothing"}, "returned NoneType, expected a torch.optim.Optimizer"),
        ({"optimizer": "own_updates:foreign"}, "parameters that are not the model's"),
        ({"optimizer": "own_updates:broken"}, "own_updates.py"),
        ({"optimizer": "own_updates:listing"}, "keeps a list as 'history'"),
        ({"lr_schedule": "own_updates:plateau"}, "that needs no loss"),
        ({"lr_schedule": "own_updates:missing"}, "expected a name in the module"),
    ],
)
def test_what_is_wrong_with_them_is_found_before_training(folder: Path, training: dict[str, str], words: str) -> None:
    setup = setup_with(folder, **training)
    fault = step_fault(setup, setup.full, "cloud")
    assert fault is not None and words in str(fault)


def test_an_own_optimizer_that_fails_in_an_epoch_is_the_users(folder: Path) -> None:
    setup = setup_with(folder, optimizer="own_updates:broken")
    with pytest.raises(UserCodeError, match=r"own_updates\.py:\d+: KeyError"):
        trained(setup, 1)


def test_functions_of_this_process_are_not_sent_to_others() -> None:
    with pytest.raises(UsageError, match="function of this process only"):
        Processes(replace(base(), given=OwnTraining()))


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps"])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    if device.partition(":")[0] in ("cuda", "mps") and torch.accelerator.is_available():
        pytest.skip("this machine has an accelerator, so the refusal of an absent one cannot be shown")
    for training in ({"device": device}, {"devices": {"cloud": device}}):
        with pytest.raises(ScenarioError, match=rf"training\.device\S*: got '{device}', .* expected one of cpu"):
            small_setup(**training)
