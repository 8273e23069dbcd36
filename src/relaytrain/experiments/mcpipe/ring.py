"""Data-parallel training over the same links as a pipeline's: what pipelines are compared with.

    python -m relaytrain.experiments.mcpipe.ring JOB RANK WORLD STORE

Each of WORLD processes trains the whole network of a pipeline's job file on minibatches of its own, at the pace of
stage RANK; after each the gradients go around a ring, 2 (WORLD - 1) messages of a WORLD-th of the weights each.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import FileStore

from ...launcher import environment
from ...pipeline.blueprint import units_from
from ...pipeline.job_file import StageJob, read_job
from ...pipeline.links import GlooReceiver, GlooSender, Receiver, Wire
from ...pipeline.snapshots import read
from ...pipeline.stage_program import MinibatchFile
from ...pipeline.update_rules import OptimizerState
from ...training.losses import loss_named

RING = 1
"""The tag of the ring's links."""
LIMIT_S = 120.0
"""A ring that takes longer has come to a halt."""


@dataclass
class Ring:
    """One process's place in a ring of `world`."""

    rank: int
    world: int
    to: GlooSender
    back: Receiver

    @classmethod
    def of(cls, rank: int, world: int, share: int, wire: Wire) -> Ring:
        """Over gloo, for messages of `share` numbers."""
        shapes = (((share,), torch.float32) for _ in iter(int, 1))
        return cls(
            rank, world, GlooSender((rank + 1) % world, RING, wire), GlooReceiver((rank - 1) % world, RING, shapes)
        )

    def average(self, flat: Tensor) -> None:
        """The mean over all processes in place; `flat` is a multiple of `world` long."""
        parts = flat.view(self.world, -1)
        for turn in range(self.world - 1):
            self.to.send(parts[(self.rank - turn) % self.world].clone())
            parts[(self.rank - turn - 1) % self.world] += self.back.recv()
        for turn in range(self.world - 1):
            self.to.send(parts[(self.rank - turn + 1) % self.world].clone())
            parts[(self.rank - turn) % self.world] = self.back.recv()
        flat /= self.world


def share_of(model: nn.Module, world: int) -> int:
    """Numbers in a message of the ring."""
    return -(-sum(p.numel() for p in model.parameters()) // world)


def exchange(model: nn.Module, ring: Ring) -> None:
    """Every gradient becomes the mean over the ring's."""
    parameters = list(model.parameters())
    flat = torch.zeros(share_of(model, ring.world) * ring.world)
    ends = (0, *itertools.accumulate(p.numel() for p in parameters))
    parts = [flat[a:b].view_as(p) for (a, b), p in zip(itertools.pairwise(ends), parameters, strict=True)]
    for part, parameter in zip(parts, parameters, strict=True):
        if parameter.grad is not None:
            part.copy_(parameter.grad)
    ring.average(flat)
    for part, parameter in zip(parts, parameters, strict=True):
        parameter.grad = part.clone()


def train(job: StageJob, rank: int, world: int) -> list[float]:
    """The moments at which this process's updates were done; the process group is there already."""
    torch.set_num_threads(1)
    model = nn.Sequential(*units_from(job.blueprint))
    held = read(Path(job.source))
    model.load_state_dict({**held.weights, **held.buffers}, assign=True)
    data, loss, states = MinibatchFile(job), loss_named(job.loss), [OptimizerState() for _ in model.parameters()]
    ring = Ring.of(rank, world, share_of(model, world), job.wires[0])
    pace_s = job.paces[rank].forward_s + job.paces[rank].backward_s
    moments = []
    for index in range(rank, len(job.batches) // world * world, world):
        began_s = time.monotonic()
        model.zero_grad()
        loss(model(data.inputs(index)), data.labels(index)).backward()  # type: ignore[no-untyped-call]
        time.sleep(max(0.0, pace_s - (time.monotonic() - began_s)))
        exchange(model, ring)
        for at, parameter in enumerate(model.parameters()):
            assert parameter.grad is not None
            weight, states[at] = job.rule.step(parameter.detach(), parameter.grad, states[at])
            parameter.data = weight
        moments.append(time.monotonic())
    return moments


def measured_s(path: Path, world: int, store: Path) -> float:
    """Seconds of an update with `world` fresh processes; the first is left out."""
    program = [sys.executable, "-m", "relaytrain.experiments.mcpipe.ring", str(path)]
    crew = [
        subprocess.Popen(
            [*program, str(rank), str(world), str(store)], env=environment(), stdout=subprocess.PIPE, text=True
        )
        for rank in range(world)
    ]
    try:
        moments = [json.loads(process.communicate(timeout=LIMIT_S)[0]) for process in crew]
    finally:
        for process in crew:
            process.kill()
            process.wait()
    return float(moments[0][-1] - moments[0][0]) / (len(moments[0]) - 1)


def main() -> None:
    """One process of the ring; its moments as JSON."""
    path, rank, world, store = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    job = read_job(path)
    meeting = FileStore(store, world)
    dist.init_process_group("gloo", store=meeting, rank=rank, world_size=world, timeout=timedelta(seconds=60))
    moments = train(job, rank, world)
    dist.barrier()
    print(json.dumps(moments), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
