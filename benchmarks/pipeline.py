"""What weight versions cost in a pipeline: bytes against PipeDream and mcPipe, planned speed under a cap, CPU a step.

    python benchmarks/pipeline.py [--quick]

Bytes are weights with their versions at the peak, window 1f1b, equal-size split, by the closed form that the tests hold
against runs. CPU is thread time of all stages in one process, medians of interleaved runs, against stash.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from relaytrain.core.errors import InfeasibleError
from relaytrain.experiments.mcpipe.savings import saving, smallest
from relaytrain.pipeline.networks import chain, network, published_vgg
from relaytrain.pipeline.simulator import simulate
from relaytrain.pipeline.unit_counter import measure
from relaytrain.pipeline.update_rules import SGD
from relaytrain.planners.pipeline.chain import Policy
from relaytrain.planners.pipeline.partition import Device, partition, split
from relaytrain.planners.pipeline.policy_choice import Keeping, within_stage
from relaytrain.planners.pipeline.schedules import async_1f1b
from relaytrain.planners.pipeline.stage_memory import all_by, replay_flops, stage_bytes
from relaytrain.planners.pipeline.version_lifetimes import steady_peaks

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "pipeline"))
from equal_shares import equal_size

QUICK = "--quick" in sys.argv
MIB = 2**20


def facts(units, batch, side=32):
    return measure(units, torch.empty(batch, 3, side, side), F.cross_entropy, torch.zeros(batch, dtype=torch.long))


def stored(part, alive, last):
    """Stash, on-demand, best-of."""
    layers = [layer for unit in part for layer in unit.layers]
    choices = all_by(Policy.stash, layers), all_by(Policy.on_demand, layers), smallest(layers, alive)
    return [stage_bytes(part, choice, alive, state_tensors=0, last=last).stored for choice in choices]


def show_bytes():
    units = facts(chain(network("vgg16-4096")), 8)
    cuts = equal_size([unit.weight_bytes for unit in units], 4)
    print(f"VGG16, B = 8, N = m = 4, cuts {cuts}: bytes by stage (stash, on-demand, best-of)")
    for at, part in enumerate(split(units, cuts)):
        stash, demand, best = stored(part, steady_peaks(4, 4)[at], at == 3)
        print(
            f"  stage {at}: {stash:>11} {demand:>11} {best:>11}   "
            f"best-of {best / stash:.3f}x stash, {best / demand:.3f}x on-demand"
        )
    worse, worst, plain = 0, 0.0, 0.0
    for name in ("vgg11-4096", "vgg16-4096"):
        for batch in (1, 8, 64):
            units = facts(chain(network(name)), batch)
            for stages, m in sorted({(n, m) for n in (2, 3, 4) for m in (n, 4)}):
                parts = split(units, equal_size([unit.weight_bytes for unit in units], stages))
                for at, part in enumerate(parts):
                    stash, demand, best = stored(part, steady_peaks(stages, m)[at], at == stages - 1)
                    worse += best > min(stash, demand)
                    worst, plain = max(worst, best / min(stash, demand)), max(plain, demand / stash)
    print(
        f"grid: best-of above either at {worse} stages, at most {worst:.2f}x; on-demand alone up to {plain:.1f}x stash"
    )


def show_caps():
    units = facts(chain(network("vgg16-4096")), 8)
    print("VGG16, B = 8: planned speed over one device, by memory of each device")
    for stages in (3, 4):
        for cap in (70, 80e6 / MIB, 80, 90, 100, 110):
            said = []
            for keeping in Keeping:
                try:
                    plan = partition(
                        units, [Device(f"{i}", 1e10, cap * MIB) for i in range(stages)], m=stages, keeping=keeping
                    )
                    said.append(f"{keeping.value} {plan.speedup:.2f}x")
                except InfeasibleError:
                    said.append(f"{keeping.value} does not fit")
            print(f"  N = {stages}, {cap:.4g} MiB: {', '.join(said)}")


def show_cpu():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    batch, count, repeats = 8, 8 if QUICK else 16, 3 if QUICK else 7
    model = published_vgg("vgg11", width=0.25 if QUICK else 0.5, hidden=1024)
    units, alive = chain(model), steady_peaks(2, 4)
    counted = facts(units, batch)
    cuts = equal_size([unit.weight_bytes for unit in counted], 2)
    modules, parts = [nn.Sequential(*part) for part in split(units, cuts)], split(counted, cuts)
    data = [(torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))) for _ in range(count)]
    ways = {"stash": [Policy.stash] * 2, "on-demand": [Policy.on_demand] * 2}
    layers = [layer for unit in parts[0] for layer in unit.layers]
    total = sum(unit.train_flops for unit in counted)
    planned = {"on-demand": sum(replay_flops(layer, Policy.on_demand, alive[0]) for layer in layers) / total}
    for share in (0.5, 0.8, 1.0):
        chosen = saving(parts[0], alive[0], share, state_tensors=1, last=False)
        if chosen.extra_flops == 0:
            continue
        planned[f"best-of {share:.0%}"] = chosen.extra_flops / total
        policies = within_stage(chosen.policies, 0)
        ways[f"best-of {share:.0%}"] = [policies, Policy.stash]
        fused = {name: Policy.fused if p is Policy.on_demand else p for name, p in policies.items()}
        ways[f"best-of {share:.0%} fused"] = [fused, Policy.stash]
    times = {name: [] for name in ways}
    for _ in range(repeats):
        for name, policies in ways.items():
            begin = time.thread_time()
            schedule = async_1f1b(2, count, 4)
            simulate(modules, schedule, data, F.cross_entropy, SGD(0.01, 0.9), policies, count_bytes=False)
            times[name].append(time.thread_time() - begin)
    print(
        f"CPU of a minibatch, VGG11, B = {batch}, N = 2, m = 4, momentum, both stages, "
        f"{repeats} runs of {count} minibatches"
    )
    base = statistics.median(times["stash"])
    for name, found in times.items():
        middle = statistics.median(found)
        said = f", {1 + planned[name]:.2f}x by FLOPs" if name in planned else ""
        print(f"  {name:<20} {1e3 * middle / count:7.1f} ms  {middle / base:.2f}x{said}")
    print("planned FLOPs against stash, by saving at every stage (50 %, 80 %, all), momentum, equal-size split, B = 8")
    for title, stages in (("VGG16, N = m = 2", 2), ("VGG16, N = m = 3", 3), ("VGG16, N = m = 4", 4)):
        print(f"  {title}: " + ", ".join(f"{planned_flops(stages, share):.2f}x" for share in (0.5, 0.8, 1.0)))


def planned_flops(stages, share):
    units = facts(chain(network("vgg16-4096")), 8)
    extra = 0
    for at, part in enumerate(split(units, equal_size([unit.weight_bytes for unit in units], stages))):
        extra += saving(
            part, steady_peaks(stages, stages)[at], share, state_tensors=1, last=at == stages - 1
        ).extra_flops
    return 1 + extra / sum(unit.train_flops for unit in units)


if __name__ == "__main__":
    show_bytes()
    show_caps()
    show_cpu()
