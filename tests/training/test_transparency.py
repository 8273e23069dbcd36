"""One node, one version, no handover is plain PyTorch training, bit for bit; a pass changes nothing around it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from relaytrain.core.plan import Decision
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.inprocess import InProcess
from relaytrain.models import build
from relaytrain.scenario import load_scenario
from relaytrain.testing.small_training import small_setup, tables
from relaytrain.training.settings import seed_of
from relaytrain.training.setup import TrainingSetup

pytestmark = pytest.mark.train
EPOCHS = 3
FAMILIES = [("cnn", 1.0), ("mobilenet", 0.25), ("resnet8", 0.5)]


def federated(setup: TrainingSetup, costs: Any, epochs: int = EPOCHS, nodes: str = "gold") -> tuple[Any, list[float]]:
    runner = FederatedEpoch(setup, InProcess(setup))
    checkpoint, losses = setup.first_checkpoint(), []
    for epoch in range(1, epochs + 1):
        done = runner.run_epoch(Decision(epoch, "full", nodes), checkpoint)
        checkpoint = done.checkpoint
        losses.append(done.outcome.loss)
    return checkpoint, losses


def plain_pytorch(setup: TrainingSetup, make_optimizer: Any, epochs: int = EPOCHS) -> tuple[Any, Any, list[float]]:
    """A loop that knows nothing of relaytrain but the initial weights, the data and the seeds."""
    data = setup.datasets["cloud"]
    images, labels = torch.from_numpy(data.images), torch.from_numpy(data.labels)
    held_out = torch.from_numpy(setup.validation.images), torch.from_numpy(setup.validation.labels)
    assert setup.full.spec is not None
    model = build(setup.full.spec, seed=setup.settings.seed)
    optimizer = make_optimizer(model.parameters())
    losses = []
    for epoch in range(1, epochs + 1):
        torch.manual_seed(seed_of(setup.settings.seed, epoch, "cloud"))
        model.train()
        for chosen in torch.randperm(len(labels)).split(setup.settings.batch):
            optimizer.zero_grad()
            functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            losses.append(float(functional.cross_entropy(model(held_out[0]), held_out[1])))
    return model, optimizer, losses


@pytest.mark.parametrize(("family", "width"), FAMILIES)
def test_one_node_is_plain_pytorch(family: str, width: float) -> None:
    setup = small_setup(family=family, width=width)
    costs = load_scenario(tables()).costs
    checkpoint, losses = federated(setup, costs)
    model, optimizer, wanted = plain_pytorch(
        setup, lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9)
    )
    for name, tensor in model.state_dict().items():
        assert torch.equal(checkpoint.weights[name], tensor), name
    for name, parameter in model.named_parameters():
        buffer = optimizer.state[parameter]["momentum_buffer"]
        assert torch.equal(checkpoint.optimizer[f"momentum_buffer/{name}"], buffer), name
    assert losses == wanted


def test_adam_is_plain_pytorch_too() -> None:
    setup = small_setup(optimizer="adam", lr=1e-3, weight_decay=1e-4)
    checkpoint, _ = federated(setup, load_scenario(tables()).costs)
    model, _, _ = plain_pytorch(setup, lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=1e-4))
    for name, tensor in model.state_dict().items():
        assert torch.equal(checkpoint.weights[name], tensor), name


def test_the_callers_random_state_threads_and_gradients_stay() -> None:
    setup = small_setup()
    torch.manual_seed(123)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    federated(setup, load_scenario(tables()).costs, epochs=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_runs_of_one_seed_agree_and_of_two_differ() -> None:
    costs = load_scenario(tables()).costs
    one = federated(small_setup(seed=5), costs, 2, "silver")[0].digest
    same = federated(small_setup(seed=5), costs, 2, "silver")[0].digest
    other = federated(small_setup(seed=6), costs, 2, "silver")[0].digest
    assert one == same != other
