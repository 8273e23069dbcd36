"""What the processes of a pipeline find in their folder: the data, the first snapshot, the job of an attempt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from ..planners.pipeline.partition import Device
from ..planners.pipeline.partition import split as parts_of
from ..store.files import write_atomic
from .addresses import interface_of
from .blueprint import blueprint, names_in, units_from
from .job_file import Pace, StageJob
from .links import Wire
from .pipeline_work import Batches, PipelineWork, Split
from .snapshots import SnapshotContent, newest, place, write_part
from .tensorfile import dtype_name

DATA = "data.safetensors"


def write_start(work: PipelineWork, folder: Path) -> None:
    """The data, and the model as it is as the snapshot after 0 updates; one that was trained from is gone on with."""
    write_data(work.batches, folder)
    latest = newest(folder, set(names_in(work.chain, work.model)))
    if latest is None or latest[0] == 0:
        write_part(place(folder, 0, 0), "000-1", start_content(work))


def write_data(batches: Batches, folder: Path) -> Path:
    """The minibatches, as their owner reads them."""
    inputs, labels = (torch.cat(list(part)).contiguous() for part in zip(*batches, strict=True))
    write_atomic(folder / DATA, save({"inputs": inputs, "labels": labels}))
    return folder / DATA


def start_content(work: PipelineWork) -> SnapshotContent:
    """The model as it is, by the names in the chain."""
    names = names_in(work.chain, work.model)
    state = {**dict(work.model.named_parameters()), **dict(work.model.named_buffers())}
    owned = {name for name, _ in nn.Sequential(*work.chain).named_parameters()}
    return SnapshotContent(
        {ours: state[theirs].detach() for ours, theirs in names.items() if ours in owned},
        {ours: work.states[theirs] for ours, theirs in names.items() if theirs in work.states},
        {ours: state[theirs] for ours, theirs in names.items() if ours not in owned},
    )


def make_job(
    work: PipelineWork,
    split: Split,
    devices: Sequence[Device],
    folder: Path,
    *,
    start: int = 0,
    source: Path | None = None,
    attempt: int = 1,
) -> StageJob:
    """The job of `work` under `split`, from the snapshot `source` of `start` updates on."""
    training, runtime = work.training, work.runtime
    stages = len(split.cuts) + 1
    flush = training.flush(len(devices))
    left = len(work.batches) - start * (flush or 1)
    by_name = {device.name: device for device in devices}
    order = [by_name[name] for name in split.devices]
    emulation = runtime.emulation
    limited = [emulation.links and device.link_bytes_per_s < math.inf for device in order[:-1]]
    speeds = [8 * device.link_bytes_per_s if slow else None for device, slow in zip(order, limited, strict=False)]
    wires = [Wire(bits_per_s, emulation.delay_s) for bits_per_s in (*speeds, None)]
    labels = work.batches[0][1]
    return StageJob(
        blueprint=blueprint(work.model, work.spec),
        cuts=split.cuts,
        policies=split.policies,
        checkpoint=tuple(split.again(at) for at in range(stages)),
        rule=training.rule,
        loss=training.loss,
        rows=training.rows(stages, left).letters() if left else ("",) * stages,
        flush=flush,
        batches=tuple(len(inputs) for inputs, _ in work.batches),
        entries={str(size): _entries(work, split, size) for size in {len(inputs) for inputs, _ in work.batches}},
        label=(list(labels.shape[1:]), dtype_name(labels)),
        start=start,
        attempt=attempt,
        source=str(source or place(folder, 0, 0)),
        data=str(folder / DATA),
        owner=runtime.owner,
        snapshots=str(folder),
        every=runtime.snapshot_every,
        wires=tuple(wires),
        paces=tuple(_pace(work, split, at, order[at]) for at in range(stages)),
        interface=interface_of(runtime.bind),
        group_s=runtime.group_s,
        count_bytes=runtime.count_bytes,
        code=None if training.code is None else str(training.code.resolve()),
    )


def _entries(work: PipelineWork, split: Split, size: int) -> list[list[Any]]:
    """What enters each stage for a minibatch of `size`: seen on shapes alone."""
    inputs = work.batches[0][0]
    tensor = torch.empty(size, *inputs.shape[1:], dtype=inputs.dtype, device="meta")
    entries = []
    for at, unit in enumerate(units_from(blueprint(work.model, work.spec), work.training.code)):
        if at in (0, *split.cuts):
            entries.append([list(tensor.shape), dtype_name(tensor)])
        with torch.no_grad():
            tensor = unit(tensor)
    return entries


def _pace(work: PipelineWork, split: Split, stage: int, device: Device) -> Pace:
    emulation = work.runtime.emulation
    if device.name in emulation.seconds:
        return Pace(*emulation.seconds[device.name])
    if not emulation.compute:
        return Pace()
    speed = emulation.speeds.get(device.name, device.flops_per_s)
    part = parts_of(work.units, split.cuts)[stage]
    return Pace(sum(u.forward_flops for u in part) / speed, sum(u.backward_flops for u in part) / speed)
