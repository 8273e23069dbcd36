"""The emulated clock of mcPipe's figures held against processes: each method for some updates, at the devices' pace.

Devices and links are slowed down to their figures, replays included, and then all of them by `SLOWER`, so that a busy
machine still computes faster than they do; what is measured is whether stages, messages and waiting add up to the time
that was predicted. Everything is trained for real.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ...pipeline.job_writer import make_job, write_start
from ...pipeline.pipeline_run import run_pipeline
from ...pipeline.pipeline_work import Emulation, PipelineResult, PipelineWork, Runtime, Split, Training
from ...planners.pipeline.partition import Device, split
from ...planners.pipeline.policy_choice import within_stage
from .accuracy import IN_FLIGHT, UpdateSteps
from .comparison import ComparisonTask, PipelineBench
from .ring import measured_s

WARM, COUNT, RING_COUNT = 6, 12, 3
"""Updates before the clock starts, and those that are timed; an update of the ring takes longest."""
SLOWER = 4.0


def measured(task: ComparisonTask, clock: UpdateSteps) -> Mapping[str, float]:
    """Seconds of an update by each method, with a process for each of the clock's devices (one for Local)."""
    bench = PipelineBench.of(replace(task, images=task.batch * 4, test_images=2))
    slow = tuple(
        Device(d.name, d.flops_per_s / SLOWER, d.memory_bytes, d.link_bytes_per_s / SLOWER) for d in clock.devices
    )
    clock = replace(clock, devices=slow)
    slower_s = {"Local": _pipelined(bench, clock, "Local"), "data-distributed": _ring(bench, clock)}
    slower_s |= {method: _pipelined(bench, clock, method) for method in clock.choices}
    return {method: seconds / SLOWER for method, seconds in slower_s.items()}


def _paces(bench: PipelineBench, clock: UpdateSteps, method: str) -> dict[str, tuple[float, float]]:
    """Forward and backward seconds by device; a forward includes the replays of its layers."""
    units = bench.units()
    parts, replays = [units] * len(clock.devices), [0] * len(clock.devices)
    if method in clock.choices:
        parts, replays = split(units, clock.cuts), [choice.extra_flops for choice in clock.choices[method]]
    paces = {}
    for part, replayed, device in zip(parts, replays, clock.devices, strict=True):
        forward, backward = sum(u.forward_flops for u in part) + replayed, sum(u.backward_flops for u in part)
        paces[device.name] = (forward / device.flops_per_s, backward / device.flops_per_s)
    return paces


def _pipelined(bench: PipelineBench, clock: UpdateSteps, method: str) -> float:
    return timed(bench, clock, method, WARM, COUNT)[0]


def timed(
    bench: PipelineBench, clock: UpdateSteps, method: str, warm: int, count: int, *, count_bytes: bool = False
) -> tuple[float, PipelineResult]:
    """Seconds of an update at the devices' pace, over `count` of them after `warm`; and all that came out."""
    moments: dict[int, float] = {}

    def note(event: Mapping[str, object]) -> None:
        if event["kind"] == "loss":
            moments[int(str(event["index"]))] = time.monotonic()

    devices = clock.devices[:1] if method == "Local" else clock.devices
    cuts = () if method == "Local" else clock.cuts
    choices = clock.choices[method] if cuts else ()
    policies = tuple(within_stage(choice.policies, (0, *cuts)[at]) for at, choice in enumerate(choices)) or ({},)
    emulation = Emulation(links=True, seconds=_paces(bench, clock, method))
    training = Training(bench.task.rule, m=IN_FLIGHT if cuts else 1)
    runtime = Runtime(emulation=emulation, group_s=60.0, count_bytes=count_bytes)
    chosen, batches = Split(cuts, policies, tuple(d.name for d in devices)), bench.minibatches(warm + count)
    result = run_pipeline(
        bench.model(), batches, devices, training, runtime, spec=bench.spec(), split=chosen, progress=note
    )
    return (moments[warm + count - 1] - moments[warm - 1]) / count, result


def _ring(bench: PipelineBench, clock: UpdateSteps) -> float:
    workers = len(clock.devices)
    runtime = Runtime(emulation=Emulation(links=True, seconds=_paces(bench, clock, "data-distributed")))
    training, batches = Training(bench.task.rule, m=IN_FLIGHT), bench.minibatches(workers * (1 + RING_COUNT))
    work = PipelineWork.of(bench.model(), batches, training, runtime, spec=bench.spec())
    chosen = Split(clock.cuts, ({},) * workers, tuple(device.name for device in clock.devices))
    with tempfile.TemporaryDirectory() as folder:
        write_start(work, Path(folder))
        path = Path(folder) / "job.json"
        make_job(work, chosen, clock.devices, Path(folder)).write(path)
        return measured_s(path, workers, Path(folder) / "meeting")
