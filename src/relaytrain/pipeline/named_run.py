"""A network and a dataset, by name or `module:function`, to be trained as a pipeline by `relaytrain pipeline run`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..core.errors import UsageError
from ..core.outcome import Evaluation
from ..data.dataset import Dataset
from ..data.held import FixedBatches
from ..data.source import read
from ..models.rebuild import from_scenario, of_module
from ..models.spec import Spec
from ..planners.pipeline.partition import Device
from ..scenario.resolve import function_at
from ..store.files import make_dir
from ..training.evaluate import evaluate
from .job_writer import make_job, write_start
from .networks import trainable
from .pipeline_work import Batches, PipelineResult, PipelineWork, Runtime, Split, Training
from .process_memory import LEFT_OUT
from .update_rules import Rule, rule_named

SCHEMA = "relaytrain.pipeline-run/1"


@dataclass(frozen=True)
class TrainingOrder:
    """What to train: network and dataset by name or `module:function`, how many minibatches of what size an epoch has,
    which optimizer. `folder` is where code of the user's own is looked for first."""

    network: str
    data: str = "digits"
    width: float = 1.0
    batch: int = 8
    minibatches: int = 40
    optimizer: str = "momentum"
    lr: float = 0.01
    seed: int = 0
    folder: Path | None = None

    @property
    def name(self) -> str:
        """The network's, as a version's name."""
        return re.sub(r"[^A-Za-z0-9_.+-]+", "-", self.network).strip("-._+")[:64] or "network"

    def rule(self) -> Rule:
        """The update rule."""
        return rule_named(self.optimizer, self.lr)


@dataclass(frozen=True, eq=False)
class Network:
    """A network with its weights, the spec of one that has any, and the classes of its data."""

    model: nn.Module
    spec: Spec | None
    classes: int


def prepare(
    order: TrainingOrder, devices: Sequence[Device], training: Training, runtime: Runtime, folder: Path
) -> tuple[Path, int]:
    """Write a folder that torchrun's workers need, on any host: its job file, and how many processes it wants."""
    network = built(order)
    work = PipelineWork.of(network.model, minibatches(order), training, runtime, spec=network.spec)
    split = Split.of(work.plan(devices))
    write_start(work, make_dir(folder))
    job = make_job(work, split, devices, Path())  # paths as seen from the folder, wherever it lies on each host
    job.write(folder / "job.json")
    return folder / "job.json", job.world


def results_json(order: TrainingOrder, results: Sequence[PipelineResult]) -> dict[str, Any]:
    """The JSON form of the results of some epochs; split and bytes are of the last."""
    last = results[-1]
    losses = [loss for result in results for loss in result.losses]
    return {
        "schema": SCHEMA,
        "network": order.network,
        "data": order.data,
        "minibatches": len(losses),
        "first_loss": losses[0],
        "last_loss": losses[-1],
        "losses": losses,
        "elapsed_s": math.fsum(r.elapsed_s for r in results),
        "link_bytes": sum(r.link_bytes for r in results),
        "devices": list(last.splits[-1].devices),
        "cuts": list(last.splits[-1].cuts),
        "peak_bytes": list(last.peak_bytes),
        "predicted_bytes": list(last.predicted_bytes),
        **growth(last),
        "history": [event for result in results for event in result.history],
    }


def growth(result: PipelineResult) -> dict[str, Any]:
    """What the stages' processes grew by, and what of it the closed form leaves out; nothing of a simulated result."""
    if not result.grown_bytes:
        return {}
    beyond = [grown - held for grown, held in zip(result.grown_bytes, result.predicted_bytes, strict=True)]
    grown, code = list(result.grown_bytes), list(result.code_bytes)
    return {"grown_bytes": grown, "code_bytes": code, "beyond_bytes": beyond, "left_out": LEFT_OUT}


def built(order: TrainingOrder) -> Network:
    """The network that is ordered, with weights drawn from its seed.

    Raises:
        UsageError: it is no chain of layers. UserCodeError: the user's function failed.
    """
    for key, value in (("--batch", order.batch), ("--minibatches", order.minibatches)):
        if value < 1:
            raise UsageError(f"{key}: got {value}, expected at least 1")
    data = _data(order)
    if ":" not in order.network:
        model, spec = trainable(
            order.network, seed=order.seed, width=order.width, input=data.input, classes=data.classes
        )
        return Network(model, spec, data.classes)
    follow = from_scenario(order.network, order.folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(order.seed)
        own = follow(order.network)()
    if not isinstance(own, nn.Sequential):
        raise UsageError(
            f"{order.network} returned {type(own).__name__}, expected an nn.Sequential, cut between its layers"
        )
    if not any(True for _ in own.parameters()):
        raise UsageError(f"{order.network} has no weights; give it layers to train")
    return Network(own, of_module(own, order.network)[0], data.classes)


def minibatches(order: TrainingOrder, epoch: int = 1) -> Batches:
    """The minibatches of an epoch: a function of the seed and the epoch alone."""
    data = _data(order)
    chance = np.random.default_rng(order.seed if epoch == 1 else (order.seed, epoch))
    rows = np.concatenate(
        [chance.permutation(len(data)) for _ in range(1 + order.batch * order.minibatches // len(data))]
    )
    batches = []
    for at in range(order.minibatches):
        chosen = rows[at * order.batch : (at + 1) * order.batch]
        batches.append((torch.from_numpy(data.images[chosen]), torch.from_numpy(data.labels[chosen])))
    return batches


def loss_over(model: nn.Module, batches: Batches) -> Evaluation:
    """Mean loss and share of right answers over minibatches, without training; the model's modes stay as they are."""
    return evaluate(model, FixedBatches(tuple(batches)), thread_count=torch.get_num_threads())


def loss_on_test(order: TrainingOrder, model: nn.Module) -> Evaluation:
    """Of the data's test split."""
    return evaluate(model, _data(order, "test"), thread_count=torch.get_num_threads())


def _data(order: TrainingOrder, split: str = "train") -> Dataset:
    return read(order.data, split=split, resolve=lambda reference: function_at(reference, order.folder, "--data"))
