"""A named network on a named dataset, trained as a pipeline: what `relaytrain pipeline run` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..core.errors import UsageError
from ..data.source import read
from ..models.rebuild import build
from ..models.spec import Spec, family_spec
from ..planners.pipeline.partition import Device
from ..store.files import make_dir
from .networks import CONVOLUTIONS, PUBLISHED, chain, published_vgg
from .pipeline_run import Batches, PipelineResult, PipelineWork, Progress, Runtime, Training, run_pipeline, split_of
from .supervisor import make_job, write_start
from .unit_counter import measure
from .update_rules import SGD, Adam, Rule

RULES = ("sgd", "momentum", "adam")
SCHEMA = "relaytrain.pipeline-run/1"


@dataclass(frozen=True)
class TrainingOrder:
    """What to train: a network by name and width, a dataset by name, how many minibatches of what size, which optimizer."""

    network: str
    data: str = "digits"
    width: float = 1.0
    batch: int = 8
    minibatches: int = 40
    optimizer: str = "momentum"
    lr: float = 0.01
    seed: int = 0

    def rule(self) -> Rule:
        """The update rule."""
        if self.optimizer not in RULES:
            raise UsageError(f"--optimizer: got {self.optimizer[:40]!r}, expected one of {', '.join(RULES)}")
        return Adam(self.lr) if self.optimizer == "adam" else SGD(self.lr, 0.9 if self.optimizer == "momentum" else 0.0)


def run_order(
    order: TrainingOrder,
    devices: Sequence[Device],
    training: Training,
    runtime: Runtime,
    progress: Progress | None = None,
) -> PipelineResult:
    """Train what is ordered; see `run_pipeline`."""
    model, spec, batches = _made(order)
    return run_pipeline(model, batches, devices, training, runtime, spec=spec, progress=progress)


def prepare(
    order: TrainingOrder, devices: Sequence[Device], training: Training, runtime: Runtime, folder: Path
) -> tuple[Path, int]:
    """Write a folder that torchrun's workers need, on this or other hosts: its job file, and how many processes it wants."""
    model, spec, batches = _made(order)
    from ..training.losses import loss_named

    units = chain(model)
    facts = measure(units, batches[0][0], loss_named(training.loss), batches[0][1])
    work = PipelineWork(model, units, facts, batches, training, runtime, spec, {}, lambda _: None)
    split = split_of(work.plan(devices))
    write_start(work, make_dir(folder))
    job = make_job(work, split, devices, Path())  # paths as seen from the folder, wherever it lies on each host
    job.write(folder / "job.json")
    return folder / "job.json", job.world


def said(order: TrainingOrder, result: PipelineResult) -> dict[str, Any]:
    """The JSON form of a result."""
    split = result.splits[-1]
    return {
        "schema": SCHEMA, "network": order.network, "data": order.data, "minibatches": len(result.losses),
        "first_loss": result.losses[0], "last_loss": result.losses[-1], "losses": list(result.losses),
        "elapsed_s": result.elapsed_s, "link_bytes": result.link_bytes, "devices": list(split.devices), "cuts": list(split.cuts),
        "peak_bytes": list(result.peak_bytes), "predicted_bytes": list(result.predicted_bytes), "history": list(result.history),
    }  # fmt: skip


def _made(order: TrainingOrder) -> tuple[nn.Module, Spec | None, Batches]:
    for key, value in (("--batch", order.batch), ("--minibatches", order.minibatches)):
        if value < 1:
            raise UsageError(f"{key}: got {value}, expected at least 1")
    data = read(order.data)
    chance = np.random.default_rng(order.seed)
    rows = np.concatenate(
        [chance.permutation(len(data)) for _ in range(1 + order.batch * order.minibatches // len(data))]
    )
    batches = []
    for at in range(order.minibatches):
        chosen = rows[at * order.batch : (at + 1) * order.batch]
        batches.append((torch.from_numpy(data.images[chosen]), torch.from_numpy(data.labels[chosen])))
    plain = order.network.removesuffix(PUBLISHED)
    if plain in CONVOLUTIONS and order.network.endswith(PUBLISHED):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(order.seed)
            return published_vgg(plain, width=order.width, input=data.input, classes=data.classes), None, batches
    spec = family_spec(order.network, input=data.input, classes=data.classes, width=order.width)
    return build(spec, seed=order.seed), spec, batches
