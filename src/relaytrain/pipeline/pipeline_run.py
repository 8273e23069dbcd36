"""`run_pipeline`: train a network as a pipeline, in processes or in the simulator, from one call with one result."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise

from torch import Tensor, nn

from ..models.spec import Spec
from ..planners.pipeline import partition
from ..planners.pipeline.partition import Device
from ..training.losses import loss_named
from .blueprint import names_in
from .factors import Tensors
from .pipeline_work import Batches, PipelineResult, PipelineWork, Progress, Runtime, Split, Training
from .simulator import simulate
from .snapshots import SnapshotContent
from .supervisor import supervise
from .update_rules import OptimizerState


def run_pipeline(
    model: nn.Module,
    batches: Batches,
    devices: Sequence[Device],
    training: Training,
    runtime: Runtime | None = None,
    *,
    spec: Spec | None = None,
    states: Mapping[str, OptimizerState] | None = None,
    split: Split | None = None,
    progress: Progress | None = None,
) -> PipelineResult:
    """Train `model`, which is not changed, on `batches` (inputs, labels), stage by stage over `devices`.

    Args:
        model: an `nn.Sequential` of plain layers, or any model of this package's families with its `spec`.
        batches: in order; every minibatch is one update, or `m` of them are in a synchronous schedule.
        devices: in the order of the stages; the split is planned for their speed, memory and links.
        training: optimizer, loss, minibatches under way, how weight versions are kept.
        runtime: processes or simulator, snapshots, emulated devices.
        spec: how other processes build the model, when it is no plain chain.
        states: the optimizer's, to go on from an earlier result's.
        split: instead of a planned one; after the loss of a device the rest is planned.
        progress: told of everything that happens, as it happens.

    Raises:
        UsageError: arguments that do not fit each other.
        InfeasibleError: no split fits the devices' memory.
        WorkerLost: no device is left, or more restarts than allowed.
    """
    runtime = runtime or Runtime()
    work = PipelineWork.of(model, batches, training, runtime, spec=spec, states=states, progress=progress)
    split = split or Split.of(work.plan(devices))
    return _simulated(work, split) if runtime.where == "simulator" else supervise(work, devices, split)


def _simulated(work: PipelineWork, split: Split) -> PipelineResult:
    training, began_s = work.training, time.monotonic()
    parts = [nn.Sequential(*part) for part in partition.split(work.chain, split.cuts)]
    names = names_in(work.chain, work.model)
    inner = {theirs: ours for ours, theirs in names.items()}
    edges = (0, *split.cuts, len(work.chain))
    given = SnapshotContent(states={inner[name]: state for name, state in work.states.items()})
    run = simulate(
        parts,
        training.rows(len(parts), len(work.batches)),
        [(_aligned(inputs), labels) for inputs, labels in work.batches],
        loss_named(training.loss, training.code),
        training.rule,
        split.policies,
        checkpoint=[split.again(at) for at in range(len(parts))],
        states=[given.within(first, end).states for first, end in pairwise(edges)],
    )
    weights: Tensors = {}
    states: dict[str, OptimizerState] = {}
    for first, own_weights, own_states in zip(edges, run.weights, run.states, strict=False):
        part = SnapshotContent(own_weights, own_states).moved(first)
        weights |= {names[name]: tensor for name, tensor in part.weights.items()}
        states |= {names[name]: state for name, state in part.states.items()}
    return PipelineResult(
        weights=weights,
        states=states,
        losses=run.losses,
        elapsed_s=time.monotonic() - began_s,
        link_bytes=len(work.batches) * 2 * sum(work.units[cut - 1].output[1] for cut in split.cuts),
        peak_bytes=tuple(run.peak_total(at) for at in range(len(parts))),
        predicted_bytes=work.predicted_bytes(split),
        splits=(split,),
    )


def _aligned(tensor: Tensor) -> Tensor:
    """As fresh memory is: products round differently where rows begin elsewhere."""
    return tensor if tensor.data_ptr() % 64 == 0 else tensor.clone()
