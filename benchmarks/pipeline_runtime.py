"""Pipelines as processes against data-parallel training and torch.distributed.pipelining, over the same links.

    python benchmarks/pipeline_runtime.py [links] [emulated] [real] [memory] [--quick]

links     VGG11, half width, B = 8, over 100 Mbit/s: samples a second of a pipeline and of data-parallel with a ring
          all-reduce, N = 2 and 3
emulated  N = 3, m = 4, a forward of 20 ms and a backward of 40 ms at every stage: against Schedule1F1B
real      N = 2, m = 4, real computing, links as fast as they go: against Schedule1F1B, 10 interleaved runs; needs two
          otherwise idle cores
memory    what a worker needs above `import torch`, beyond what its stage holds: all its memory at the peak, and at the
          end that which is not program code mapped from files

All methods use the same Link class; a wire is emulated on the sender. torch's sends go through it too, and never wait.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from machine import calibrated
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, schedules

from relaytrain.experiments.mcpipe.ring import Ring, exchange, share_of
from relaytrain.experiments.mcpipe.savings import saving
from relaytrain.pipeline.job_writer import make_job, write_start
from relaytrain.pipeline.links import GlooSender, Wire
from relaytrain.pipeline.networks import chain, published_vgg
from relaytrain.pipeline.pipeline_run import run_pipeline
from relaytrain.pipeline.pipeline_work import Emulation, PipelineWork, Runtime, Split, Training
from relaytrain.pipeline.supervisor import launcher
from relaytrain.pipeline.unit_counter import measure
from relaytrain.pipeline.update_rules import SGD
from relaytrain.planners.pipeline.partition import Device, partition, split
from relaytrain.planners.pipeline.policy_choice import Keeping, within_stage
from relaytrain.planners.pipeline.version_lifetimes import steady_peaks

QUICK = "--quick" in sys.argv
MBIT = 1e6
BATCH = 8
WARM = 8
"""Minibatches before the clock starts."""


def network(width=0.5):
    torch.manual_seed(0)
    return published_vgg("vgg11", width=width, hidden=1024)


def minibatches(count):
    made = torch.Generator().manual_seed(1)
    return [
        (torch.randn(BATCH, 3, 32, 32, generator=made), torch.randint(0, 10, (BATCH,), generator=made))
        for _ in range(count)
    ]


def crew(world, play, *arguments):
    """What `play(rank, world, *arguments)` returns in each of `world` forked processes of one gloo group."""
    with tempfile.TemporaryDirectory() as folder:
        pids = []
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                try:
                    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
                    store = dist.FileStore(f"{folder}/meeting", world)
                    dist.init_process_group(
                        "gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=120)
                    )
                    Path(folder, str(rank)).write_text(json.dumps(play(rank, world, *arguments)))
                    dist.barrier()
                    os._exit(0)
                finally:
                    os._exit(1)
            pids.append(pid)
        if any(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids):
            raise SystemExit("a process failed")
        return [json.loads(Path(folder, str(rank)).read_text()) for rank in range(world)]


def data_parallel(rank, world, count, wire):
    """Every process trains all layers on minibatches of its own; gradients go around a ring. Samples a second."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    ring = Ring.of(rank, world, share_of(model, world), wire)
    began = 0.0
    for step, (inputs, labels) in enumerate(minibatches(count + 1)):
        if step == 1:
            began = time.monotonic()
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        exchange(model, ring)
        optimizer.step()
    return world * BATCH * count / (time.monotonic() - began)


class _Sent:
    """A send under way: the wire keeps it, whoever sent it goes on."""

    def wait(self):
        return True


def torch_1f1b(rank, world, width, cuts, m, steps, wire, pace):
    """torch's synchronous 1F1B with an update every `m` minibatches. Samples a second."""
    senders = {}

    def through_links(operations, desc=None):
        works = []
        for p in operations:
            if p.op is dist.isend:
                key = p.peer, p.tag
                senders.setdefault(key, GlooSender(p.peer, p.tag, wire)).send(p.tensor)
                works.append(_Sent())
            else:
                works.append(dist.irecv(p.tensor, p.peer, tag=p.tag))
        return works

    schedules._batch_p2p = through_links
    part = nn.Sequential(*split(chain(network(width)), cuts)[rank])
    stage = PipelineStage(part, rank, world, torch.device("cpu"))
    if pace is not None:
        stage.forward_one_chunk = paced(stage.forward_one_chunk, pace[0])
        stage.backward_one_chunk = paced(stage.backward_one_chunk, pace[1])
    schedule = Schedule1F1B(stage, n_microbatches=m, loss_fn=F.cross_entropy)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.01, momentum=0.9)
    warm = WARM // m
    data = minibatches(m * (steps + warm))
    began = 0.0
    for step in range(steps + warm):
        if step == warm:
            began = time.monotonic()
        group = data[m * step : m * (step + 1)]
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(torch.cat([inputs for inputs, _ in group]))
        elif rank == world - 1:
            schedule.step(target=torch.cat([labels for _, labels in group]))
        else:
            schedule.step()
        optimizer.step()
    dist.barrier()
    return BATCH * m * steps / (time.monotonic() - began)


def paced(call, least_s):
    def slow(*arguments, **words):
        began = time.monotonic()
        made = call(*arguments, **words)
        time.sleep(max(0.0, least_s - (time.monotonic() - began)))
        return made

    return slow


def pipeline(devices, m, count, *, width=0.5, chosen=None, emulation=None, keeping=Keeping.stash):
    """Samples a second of ours, from minibatch WARM at the last stage until all stages are done."""
    times = {}

    def note(event):
        if event["kind"] == "loss" and event["index"] == WARM:
            times["began"] = time.monotonic()
        if event["kind"] == "step":
            times["ended"] = time.monotonic()

    training = Training(SGD(0.01, 0.9), m=m, keeping=keeping)
    runtime = Runtime(emulation=emulation or Emulation(), group_s=120.0)
    run_pipeline(network(width), minibatches(count + WARM), devices, training, runtime, split=chosen, progress=note)
    return BATCH * count / (times["ended"] - times["began"])


def facts(width=0.5):
    inputs, labels = minibatches(1)[0]
    return measure(chain(network(width)), inputs, F.cross_entropy, labels)


def savings(units, cuts, m):
    """Best-of at half of what it could save at most, and at all of it, for the given cuts: splits by share."""
    made, peaks = {}, steady_peaks(len(cuts) + 1, m)
    for share in (0.5, 1.0):
        policies = []
        for at, part in enumerate(split(units, cuts)):
            found = saving(part, peaks[at], share, state_tensors=1, last=at == len(cuts))
            policies.append(within_stage(found.policies, (0, *cuts)[at]))
        made[share] = Split(cuts, tuple(policies), tuple(f"d{i}" for i in range(len(cuts) + 1)))
    return made


def links():
    wire = Wire(100 * MBIT)
    weights = sum(unit.weight_bytes for unit in facts())
    print(
        f"links: VGG11 x0.5, {weights / 2**20:.1f} MiB, B = {BATCH}, 100 Mbit/s each way; "
        f"samples/s (load {os.getloadavg()[0]:.1f})"
    )
    for stages in (2, 3):
        devices = [Device(f"d{i}", 1e10, link_bytes_per_s=100 * MBIT / 8) for i in range(stages)]
        emulation = Emulation(links=True)
        plan = partition(facts(), devices, m=4, keeping=Keeping.stash, state_tensors=1)
        best = savings(facts(), plan.cuts, 4)[1.0]
        parallel = crew(stages, data_parallel, 2 if QUICK else 4, wire)[0]
        for name, chosen in (("stash", Split.of(plan)), ("best-of", best)):
            found = pipeline(devices, 4, 16 if QUICK else 48, chosen=chosen, emulation=emulation)
            print(f"  N = {stages}: {name:<8} {found:7.1f}   data-parallel {parallel:7.1f}   {found / parallel:5.1f}x")


def emulated():
    stages, m, steps, small = 3, 4, 6 if QUICK else 20, 1 / 32  # hardly any computing of its own
    units = facts(small)
    devices = [Device(f"d{i}", 1e10, link_bytes_per_s=100 * MBIT / 8) for i in range(stages)]
    plan = partition(units, devices, m=m, keeping=Keeping.stash, state_tensors=1)
    forward_s, backward_s = PACE
    chosen = savings(units, plan.cuts, m)[1.0]
    emulation = Emulation(links=True, seconds={device.name: PACE for device in devices})
    print(
        f"emulated: N = {stages}, m = {m}, forward {1e3 * forward_s:g} ms, backward {1e3 * backward_s:g} ms, 100 Mbit/s"
    )
    theirs = crew(stages, torch_1f1b, small, plan.cuts, m, steps, Wire(100 * MBIT), PACE)[0]
    ideal = BATCH / (forward_s + backward_s)
    print(f"  Schedule1F1B {theirs:7.1f} samples/s; no idle time at all would be {ideal:.1f}")
    for name, way in (("stash", Split.of(plan)), ("best-of", chosen)):
        ours = pipeline(devices, m, m * steps, width=small, chosen=way, emulation=emulation)
        print(f"  {name:<12} {ours:7.1f} samples/s   {ours / theirs:.2f}x")


PACE = (0.02, 0.04)


def real():
    stages, m, steps, repeats = 2, 4, 4 if QUICK else 15, 2 if QUICK else 10
    units = facts()
    devices = [Device(f"d{i}", 1e10) for i in range(stages)]
    plan = partition(units, devices, m=m, keeping=Keeping.stash, state_tensors=1)
    ways = savings(units, plan.cuts, m)
    found = {"Schedule1F1B": [], "stash": [], "best-of 50%": [], "best-of 100%": []}
    for _ in range(repeats):
        found["Schedule1F1B"].append(crew(stages, torch_1f1b, 0.5, plan.cuts, m, steps, Wire(), None)[0])
        for name, chosen in (("stash", Split.of(plan)), ("best-of 50%", ways[0.5]), ("best-of 100%", ways[1.0])):
            found[name].append(pipeline(devices, m, m * steps, chosen=chosen))
    base = statistics.median(found["Schedule1F1B"])
    print(
        f"real: N = {stages}, m = {m}, cuts {plan.cuts}, medians of {repeats} interleaved runs "
        f"of {m * steps} minibatches"
    )
    for name, values in found.items():
        middle = statistics.median(values)
        print(
            f"  {name:<13} {middle:7.1f} samples/s   {middle / base:.2f}x   "
            f"(from {min(values):.1f} to {max(values):.1f})"
        )


def memory():
    """Workers as torchrun would start them: fresh processes, nothing shared."""
    count, stages, m = 12, 3, 4
    say = "import torch; status = open('/proc/self/status'); "
    say += "print(*[int(x.split()[1]) for x in status if x.startswith(('VmRSS', 'RssAnon'))])"
    base, own = (1024 * int(word) for word in subprocess.check_output([sys.executable, "-c", say]).split())
    devices = [Device(f"d{i}", 1e10) for i in range(stages)]
    model, batches = network(), minibatches(count)
    units = facts()
    plan = partition(units, devices, m=m, keeping=Keeping.stash, state_tensors=1)
    print(f"memory: import torch {base / 2**20:.0f} MiB; VGG11 x0.5, N = {stages}, m = {m}, B = {BATCH}, momentum; MiB")
    for name, chosen in (("stash", Split.of(plan)), ("best-of", savings(units, plan.cuts, m)[1.0])):
        with tempfile.TemporaryDirectory() as folder:
            runtime = Runtime(count_bytes=True, group_s=120.0)
            work = PipelineWork.of(model, batches, Training(SGD(0.01, 0.9), m=m), runtime)
            write_start(work, Path(folder))
            path = Path(folder) / "job.json"
            make_job(work, chosen, devices, Path(folder)).write(path)
            done = torchrun_like(path, stages)
        for rank, said in enumerate(done):
            held, above, private = work.predicted_bytes(chosen)[rank], said["rss_bytes"] - base, said["own_bytes"] - own
            print(
                f"  {name:<8} stage {rank}: peak {said['rss_bytes'] / 2**20:6.1f}, "
                f"above import torch {above / 2**20:5.1f}, "
                f"closed form {held / 2**20:5.1f}, beyond that {(above - held) / 2**20:5.1f}; "
                f"without any code {private / 2**20:5.1f}, beyond {(private - held) / 2**20:5.1f}"
            )
            assert not said["pipelining"], "a worker imported torch.distributed.pipelining"
    training, runtime = Training(SGD(0.01, 0.9), m=m), Runtime(count_bytes=True, group_s=120.0)
    result = run_pipeline(model, batches, devices, training, runtime, split=Split.of(plan))
    peaks = ", ".join(f"{worker['rss_bytes'] / 2**20:.0f}" for worker in result.workers)
    print(f"  forked by the supervisor, which share what they do not touch: peaks {peaks}")


def torchrun_like(path, world):
    """Fresh worker processes with the environment that torchrun gives them; what each said at its end."""
    port = str(29500 + os.getpid() % 1000)
    workers = []
    for rank in range(world):
        around = {"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        command = [sys.executable, "-m", "relaytrain.pipeline.worker", str(path)]
        workers.append(subprocess.Popen(command, env={**os.environ, **around}, stdout=subprocess.PIPE, text=True))
    done = []
    for worker in workers:
        out, _ = worker.communicate(timeout=300)
        done.append(next(said for line in out.splitlines() if (said := json.loads(line))["kind"] == "done"))
    return done


if __name__ == "__main__":
    torch.set_num_threads(1)
    asked = [word for word in sys.argv[1:] if not word.startswith("--")] or ["links", "emulated", "real", "memory"]
    launcher("relaytrain.pipeline.worker")
    with calibrated():
        for word in asked:
            {"links": links, "emulated": emulated, "real": real, "memory": memory}[word]()
