"""Server optimizers against their equations written out in numpy, and their state on its way through handovers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from opened_updates import open_updates

from relaytrain.core.plan import Decision
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.inprocess import InProcess
from relaytrain.models.spec import family_spec
from relaytrain.testing.small_training import small_setup
from relaytrain.training.aggregate import average
from relaytrain.training.checkpoint import Checkpoint
from relaytrain.training.handover import hand_over
from relaytrain.training.server import server_step
from relaytrain.training.settings import TrainingSettings
from relaytrain.training.task import NodeTask

pytestmark = pytest.mark.train
SPEC = family_spec("cnn", input=(1, 8, 8), classes=10)
X0, AVERAGES = [1.0, -2.0], [[1.5, -2.0], [1.0, -1.0], [1.2, -1.4]]


def stepped(**settings: Any) -> list[list[float]]:
    """Weights after each of three epochs, whose nodes average to AVERAGES whatever they began with."""
    at, reached = Checkpoint(SPEC, {"w": torch.tensor(X0, dtype=torch.float64)}), []
    for mean in AVERAGES:
        averaged = Checkpoint(SPEC, {"w": torch.tensor(mean, dtype=torch.float64)})
        at = server_step(at, averaged, TrainingSettings(**settings), ["w"])
        reached.append(at.weights["w"].tolist())
    return reached


def test_fedavg_takes_the_average() -> None:
    assert stepped() == AVERAGES


def test_fedavgm_by_hand() -> None:
    """m1 = d1 = (.5, 0), x1 = (1.5, -2); d2 = (-.5, 1), m2 = .5 m1 + d2 = (-.25, 1), x2 = x1 + .8 m2, and so on."""
    wanted, x, m = [], np.array(X0), np.zeros(2)
    for mean in np.array(AVERAGES):
        m = 0.5 * m + (mean - x)
        x = x + 0.8 * m
        wanted.append(x)
    reached = stepped(strategy="fedavgm", server_momentum=0.5, server_lr=0.8)
    assert reached[0] == pytest.approx([1.0 + 0.8 * 0.5, -2.0])
    assert np.allclose(reached, wanted, rtol=1e-14)
    assert np.allclose(stepped(strategy="fedavgm", server_momentum=0.0), AVERAGES, rtol=1e-14)


def test_fedadam_by_hand() -> None:
    """Reddi et al., Algorithm 2: v starts at tau^2, nothing is corrected for bias."""
    tau, beta1, beta2, lr = 0.01, 0.9, 0.99, 0.1
    wanted, x, m, v = [], np.array(X0), np.zeros(2), np.full(2, tau**2)
    for mean in np.array(AVERAGES):
        d = mean - x
        m, v = beta1 * m + (1 - beta1) * d, beta2 * v + (1 - beta2) * d**2
        x = x + lr * m / (np.sqrt(v) + tau)
        wanted.append(x)
    assert np.allclose(stepped(strategy="fedadam", server_tau=tau), wanted, rtol=1e-14)
    assert wanted[0][0] == pytest.approx(1.0 + 0.1 * 0.05 / (np.sqrt(0.99e-4 + 0.01 * 0.25) + 0.01))


def test_an_epoch_is_the_average_and_then_the_servers_step() -> None:
    setup = small_setup(strategy="fedadam", server_lr=0.02)
    transport, first = InProcess(setup), setup.first_checkpoint()
    done = FederatedEpoch(setup, transport).run_epoch(Decision(1, "full", "silver"), first).checkpoint
    tasks = [NodeTask("run", 1, 0, node, first, setup.settings) for node in ("edge-1", "edge-2")]
    updates, _ = open_updates(list(transport.send(tasks)), first)
    mean = average(updates, first)
    parameters = {name for name, _ in first.model().named_parameters()}
    for name, tensor in done.weights.items():
        if name not in parameters:
            assert torch.equal(tensor, mean.weights[name]), name  # statistics of batch norm
            continue
        d = (mean.weights[name].double() - first.weights[name].double()).numpy()
        step = 0.02 * 0.1 * d / (np.sqrt(0.99e-6 + 0.01 * d**2) + 1e-3)
        assert np.allclose(tensor.numpy(), first.weights[name].numpy() + step, rtol=1e-6, atol=1e-7), name
    assert set(done.server) == {f"{buffer}/{name}" for buffer in ("first", "second") for name in parameters}
    assert done.optimizer.keys() == mean.optimizer.keys()
    assert not done.for_nodes.server and Checkpoint.from_bytes(done.to_bytes()).server.keys() == done.server.keys()


def test_the_servers_state_follows_pruning_and_begins_anew_with_other_weights() -> None:
    """A state that repeats the weights is pruned as they are."""
    setup = small_setup(strategy="fedavgm")
    first = setup.first_checkpoint()
    names = [name for name, _ in first.model().named_parameters()]
    held = replace(first, server={f"first/{name}": first.weights[name].clone() for name in names})
    handed = hand_over(setup, held, "half", "silver")
    assert handed.kind == "prune" and handed.note is None
    for name in names:
        assert torch.equal(handed.checkpoint.server[f"first/{name}"], handed.checkpoint.weights[name]), name
    grown = replace(setup, versions={**setup.versions, "full": replace(setup.versions["full"], grow="distill")})
    back = hand_over(grown, handed.checkpoint, "full", "silver")
    assert back.kind == "distill" and not back.checkpoint.server and "fedavgm" in (back.note or "")


def test_an_optimizer_that_factors_its_state_begins_anew_after_pruning() -> None:
    setup = small_setup()
    first = setup.first_checkpoint()
    name = next(name for name, tensor in first.weights.items() if tensor.ndim == 4)
    odd = replace(first, optimizer={f"row_var/{name}": torch.ones(first.weights[name].shape[0], 1)})
    handed = hand_over(setup, Checkpoint.from_bytes(odd.to_bytes()), "half", "silver")
    assert not handed.checkpoint.optimizer and "begins anew" in (handed.note or "")
