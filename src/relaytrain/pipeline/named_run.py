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
from ..models.spec import Spec
from ..planners.pipeline.partition import Device
from ..store.files import make_dir
from .job_writer import make_job, write_start
from .networks import trainable
from .pipeline_run import run_pipeline
from .pipeline_work import Batches, PipelineResult, PipelineWork, Progress, Runtime, Split, Training
from .update_rules import Rule, rule_named

SCHEMA = "relaytrain.pipeline-run/1"


@dataclass(frozen=True)
class TrainingOrder:
    """What to train: network, width and dataset by name, how many minibatches of what size, which optimizer."""

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
        return rule_named(self.optimizer, self.lr)


def run_order(
    order: TrainingOrder,
    devices: Sequence[Device],
    training: Training,
    runtime: Runtime,
    progress: Progress | None = None,
) -> PipelineResult:
    """Train what is ordered; see `run_pipeline`."""
    model, spec, batches = _ordered(order)
    return run_pipeline(model, batches, devices, training, runtime, spec=spec, progress=progress)


def prepare(
    order: TrainingOrder, devices: Sequence[Device], training: Training, runtime: Runtime, folder: Path
) -> tuple[Path, int]:
    """Write a folder that torchrun's workers need, on any host: its job file, and how many processes it wants."""
    model, spec, batches = _ordered(order)
    work = PipelineWork.of(model, batches, training, runtime, spec=spec)
    split = Split.of(work.plan(devices))
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
        "elapsed_s": result.elapsed_s, "link_bytes": result.link_bytes,
        "devices": list(split.devices), "cuts": list(split.cuts), "peak_bytes": list(result.peak_bytes),
        "predicted_bytes": list(result.predicted_bytes), "history": list(result.history),
    }  # fmt: skip


def _ordered(order: TrainingOrder) -> tuple[nn.Module, Spec | None, Batches]:
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
    model, spec = trainable(order.network, seed=order.seed, width=order.width, input=data.input, classes=data.classes)
    return model, spec, batches
