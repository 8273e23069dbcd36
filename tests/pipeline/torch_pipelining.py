"""Prints the largest difference between our gradients and torch.distributed.pipelining's Schedule1F1B's, float64.

Three ranks are forked from this process, each plays one stage of torch's; ours come from one step of SGD with rate 1
in the simulator, to which our processes are equal.
"""

import os
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from relaytrain.pipeline.networks import chain, published_vgg
from relaytrain.pipeline.pipeline_run import run_pipeline
from relaytrain.pipeline.pipeline_work import Runtime, Split, Training
from relaytrain.pipeline.update_rules import SGD
from relaytrain.planners.pipeline.partition import Device, split

STAGES, M, SIZE, CUTS = 3, 4, 2, (3, 8)


def setup():
    torch.manual_seed(1)
    model = published_vgg("vgg11", width=1 / 16, hidden=64, input=(3, 16, 16), classes=5).double()
    made = torch.Generator().manual_seed(2)
    inputs = torch.randn(M * SIZE, 3, 16, 16, generator=made, dtype=torch.float64)
    return model, inputs, torch.randint(0, 5, (M * SIZE,), generator=made)


def theirs(rank, meeting, out):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    limit = timedelta(seconds=30)
    dist.init_process_group("gloo", store=dist.FileStore(meeting, STAGES), rank=rank, world_size=STAGES, timeout=limit)
    model, inputs, labels = setup()
    part = nn.Sequential(*split(chain(model), CUTS)[rank])
    stage = PipelineStage(part, rank, STAGES, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=M, loss_fn=F.cross_entropy)
    if rank == 0:
        schedule.step(inputs)
    else:
        schedule.step(**({"target": labels} if rank == STAGES - 1 else {}))
    torch.save({name: p.grad for name, p in part.named_parameters()}, f"{out}/{rank}.pt")
    dist.destroy_process_group()


def ours():
    model, inputs, labels = setup()
    batches = [(inputs[a : a + SIZE], labels[a : a + SIZE]) for a in range(0, M * SIZE, SIZE)]
    devices = [Device(f"d{i}", 1e9) for i in range(STAGES)]
    where = Split(CUTS, ({},) * STAGES, tuple(device.name for device in devices))
    training = Training(SGD(1.0), m=M, schedule="1f1b")
    found = run_pipeline(model, batches, devices, training, Runtime(where="simulator"), split=where)
    return {name: value - found.weights[name] for name, value in model.named_parameters()}


def main():
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(STAGES):
            pid = os.fork()
            if pid == 0:
                try:
                    theirs(rank, f"{folder}/meeting", folder)
                    os._exit(0)
                finally:
                    os._exit(1)
            children.append(pid)
        assert all(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0 for pid in children)
        found = ours()
        model, _, _ = setup()
        names = {id(p): name for name, p in model.named_parameters()}
        largest = 0.0
        for rank, part in enumerate(split(chain(model), CUTS)):
            grads = torch.load(f"{folder}/{rank}.pt", weights_only=True)
            for name, parameter in nn.Sequential(*part).named_parameters():
                largest = max(largest, float((grads[name] - found[names[id(parameter)]]).abs().max()))
        print(len(found), "gradients, at most apart", largest)


if __name__ == "__main__":
    main()
