"""`relaytrain pipeline run`: train a network stage by stage in processes of this host."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import UsageError
from .options import Format, Output, Quiet, Verbose
from .output import emit_json, emit_view, note
from .pipeline_options import Batch, InFlight, Keep, argument, devices_of, named, option
from .reading import need_torch

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..pipeline.pipeline_work import PipelineResult

SHORT = "Train a network stage by stage, a process each."
HELP = """Train a network on this host as a pipeline, a process a stage, and show what came out.

The split is planned as by `pipeline plan`. A stage that dies or falls silent is noticed within seconds: the others go
on without it from the newest snapshot. With --emulate, devices and links are as slow as their figures say. On several
hosts: --prepare FOLDER writes what workers need, then start `torchrun ... -m relaytrain.pipeline.worker
FOLDER/job.json` on each. Stages listen on loopback or a named interface; any other address needs --trusted-network, as
gloo does not authenticate.
"""
EXAMPLES = """\b
Examples:
  relaytrain pipeline run vgg11 --width 0.125
  relaytrain pipeline run vgg11 --width 0.125 --device "pi, 1 GFLOP/s, 4 MiB, 10 Mbit/s" \
--device "nuc, 4 GFLOP/s" --emulate
  relaytrain pipeline run resnet8 --owner master --snapshot-every 10 --folder my-run --format json
"""
THREE = ("one, 10 GFLOP/s", "two, 10 GFLOP/s", "three, 10 GFLOP/s")

Network = Annotated[str, argument("[NETWORK]", "A family's name; vgg11 without one.")]
Devices = Annotated[
    list[str] | None,
    typer.Option(
        "--device", metavar="NAME,SPEED[,MEMORY[,LINK]]", help="A device, in order (repeatable; three alike)."
    ),
]
Data = Annotated[str, option("--data", "NAME", "digits, fashion-mnist, cifar10 ... (digits).")]
Width = Annotated[float, option("--width", "X", "All widths times this (0.125).")]
Minibatches = Annotated[int, option("--minibatches", "N", "How many to train (40).")]
Optimizer = Annotated[str, option("--optimizer", "NAME", "sgd, momentum, adam (momentum).")]
Rate = Annotated[float, option("--lr", "X", "Learning rate (0.01).")]
Seed = Annotated[int, option("--seed", "N", "Of weights and order (0).")]
Owner = Annotated[str, option("--owner", "WHO", "Who holds the data: first or master (first).")]
Every = Annotated[int, option("--snapshot-every", "N", "Updates between snapshots (10).")]
Folder = Annotated[
    Path | None, typer.Option("--folder", metavar="DIR", help="Keep snapshots here; a killed run goes on from them.")
]
Emulate = Annotated[bool, typer.Option("--emulate", help="Devices and links as slow as their figures.")]
Rebalance = Annotated[
    bool, typer.Option("--rebalance", help="Give a persistently slow stage less; results then depend on timing.")
]
Bind = Annotated[str, option("--bind", "WHERE", "An interface or address (localhost).")]
Trusted = Annotated[bool, typer.Option("--trusted-network", help="Allow an address that others can reach.")]
Simulate = Annotated[bool, typer.Option("--simulate", help="All stages in one process: the same result.")]
Prepare = Annotated[
    Path | None, typer.Option("--prepare", metavar="DIR", help="Only write what torchrun's workers need.")
]


def run(
    network: Network = "vgg11",
    device: Devices = None,
    data: Data = "digits",
    width: Width = 0.125,
    batch: Batch = 8,
    minibatches: Minibatches = 40,
    in_flight: InFlight = None,
    keep: Keep = "best-of",
    optimizer: Optimizer = "momentum",
    lr: Rate = 0.01,
    seed: Seed = 0,
    owner: Owner = "first",
    snapshot_every: Every = 10,
    folder: Folder = None,
    emulate: Emulate = False,
    rebalance: Rebalance = False,
    bind: Bind = "localhost",
    trusted_network: Trusted = False,
    simulate: Simulate = False,
    prepare: Prepare = None,
    output: Output = Format.text,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Plan, start, watch, show."""
    need_torch("pipeline run")
    from ..pipeline.named_run import TrainingOrder, run_order, said
    from ..pipeline.named_run import prepare as write_job
    from ..pipeline.pipeline_work import Emulation, Runtime, Training
    from ..planners.pipeline.policy_choice import Keeping

    if owner not in ("first", "master"):
        raise UsageError(f"--owner: got {owner[:40]!r}, expected first or master")
    if not (math.isfinite(lr) and lr > 0):
        raise UsageError(f"--lr: got {lr:g}, expected a positive number")
    devices = devices_of(device or THREE)
    order = TrainingOrder(network, data, width, batch, minibatches, optimizer, lr, seed)
    training = Training(order.rule(), m=in_flight, keeping=named(Keeping, "--keep", keep))
    runtime = Runtime(
        where="simulator" if simulate else "processes",
        owner="master" if owner == "master" else "first",
        folder=folder,
        snapshot_every=snapshot_every,
        bind=bind,
        trusted_network=trusted_network,
        rebalance=rebalance,
        count_bytes=True,
        emulation=Emulation(links=emulate, compute=emulate),
    )
    if prepare is not None:
        path, world = write_job(order, devices, training, runtime, prepare)
        note("start on every host, with that host's --node-rank, and with --interface NAME between hosts:")
        command = f"torchrun --nnodes 1 --nproc-per-node {world} -m relaytrain.pipeline.worker {path}"
        emit_json(
            {"schema": "relaytrain.pipeline-prepared/1", "job": str(path), "processes": world, "command": command}
        )
        return 0
    result = run_order(order, devices, training, runtime, _watch)
    if output is Format.json:
        emit_json(said(order, result))
    else:
        emit_view(_view(network, result))
    return 0


def _watch(event: dict[str, Any]) -> None:
    if event["kind"] == "started":
        where = f"on {', '.join(event['devices'])}, cut at {event['cuts']}"
        note(f"attempt {event['attempt']}: from update {event['step']} {where}")
    elif event["kind"] == "lost":
        who = ", ".join(event["devices"]) or "a link"
        note(f"lost {who} ({event['why']}): the rest goes on from the newest snapshot")
    elif event["kind"] == "slow":
        note(f"{event['device']} is {event['factor']:.1f}x slower than planned against the others: split anew")


def _view(network: str, result: PipelineResult) -> RenderableType:
    from rich.text import Text

    from ..core.explain import say_time
    from ..report.tables import table, titled

    split = result.splits[-1]
    columns = ("device", "units from", "peak", "closed form")
    stages = table(columns, numbers=columns[1:])
    for at, name in enumerate(split.devices):
        first = (0, *split.cuts)[at]
        stages.add_row(
            Text(name), f"{first}", f"{result.peak_bytes[at] / 2**20:.2f}", f"{result.predicted_bytes[at] / 2**20:.2f}"
        )
    losses = result.losses
    fall = f"loss {losses[0]:.3f} to {losses[-1]:.3f}"
    head = f"{network}: {len(losses)} minibatches in {say_time(result.elapsed_s)}, {fall}; MiB"
    return titled(head, stages)
