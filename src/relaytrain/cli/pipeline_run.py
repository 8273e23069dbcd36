"""`relaytrain pipeline run`: train a network stage by stage in processes of this host."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import StoppedByUser, TargetMissed, UsageError
from .options import Format, Output
from .output import emit, emit_json, emit_view, note, talk
from .pipeline_options import Batch, InFlight, Keep, argument, device_option, devices_of, named, option
from .reading import Store, need_torch, read_run
from .signals import signals

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..pipeline.pipeline_work import PipelineResult
    from ..relay.pipeline_runs import PipelineEnded, PipelineJob
    from ..store import RunStore

SHORT = "Train a network stage by stage, a process each."
HELP = """Train a network on this host as a pipeline, a process a stage, and show what came out.

NETWORK is a family, or module:function of yours that returns an nn.Sequential, found in the present folder or
installed; --data likewise. The run is kept in the store: relaytrain ls, show, report, export and stop know it, and
`relaytrain resume RUN` goes on after its last epoch, inside an epoch from the newest snapshot of all stages. The
split is planned as by `pipeline plan`. A stage that dies or falls silent is noticed within seconds: the others go on
without it from the newest snapshot. With --emulate, devices and links are as slow as their figures say. On several
hosts: --prepare FOLDER writes what workers need, then start `python -m relaytrain.pipeline.worker FOLDER/job.json` on
each, with the certificates of `relaytrain flower certs`: between hosts tensors go over TLS, and nothing else listens
beyond loopback. On one host torchrun can start the same worker.
"""
EXAMPLES = """\b
Examples:
  relaytrain pipeline run my_pkg:net --data my_pkg:images --epochs 3 --minibatches 200
  relaytrain pipeline run vgg11 --width 0.125
  relaytrain pipeline run vgg11 --width 0.125 --device "pi, 1 GFLOP/s, 4 MiB, 10 Mbit/s" \
--device "nuc, 4 GFLOP/s" --emulate
  relaytrain pipeline run resnet8 --owner master --snapshot-every 10 --folder my-run --format json
"""
THREE = ("one, 10 GFLOP/s", "two, 10 GFLOP/s", "three, 10 GFLOP/s")

Network = Annotated[str, argument("[NETWORK]", "A family's name or module:function; vgg11 without one.")]
Devices = Annotated[list[str] | None, device_option("three alike")]
Data = Annotated[str, option("--data", "NAME", "digits, fashion-mnist, cifar10 ... or module:function (digits).")]
Width = Annotated[float, option("--width", "X", "All widths times this (0.125).")]
Minibatches = Annotated[int, option("--minibatches", "N", "How many an epoch has (40).")]
Epochs = Annotated[int, option("--epochs", "N", "How many to train; each ends with a checkpoint (1).")]
Target = Annotated[
    float | None, typer.Option("--target", metavar="LOSS", help="End once an epoch's mean training loss is below.")
]
Name = Annotated[str | None, typer.Option("--name", metavar="RUN", help="The run's name.", show_default=False)]
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
Bind = Annotated[str, option("--bind", "WHERE", "An interface or address of loopback (localhost).")]
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
    epochs: Epochs = 1,
    target: Target = None,
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
    simulate: Simulate = False,
    prepare: Prepare = None,
    name: Name = None,
    store: Store = None,
    output: Output = Format.text,
) -> int:
    """Plan, start, watch, show."""
    need_torch("pipeline run")
    from ..pipeline.named_run import TrainingOrder
    from ..pipeline.named_run import prepare as write_job
    from ..pipeline.pipeline_work import Emulation, Runtime, Training
    from ..planners.pipeline.policy_choice import Keeping
    from ..relay import pipeline_runs
    from ..store import RunStore, new_run_id

    if owner not in ("first", "master"):
        raise UsageError(f"--owner: got {owner[:40]!r}, expected first or master")
    if not (math.isfinite(lr) and lr > 0):
        raise UsageError(f"--lr: got {lr:g}, expected a positive number")
    devices = devices_of(device or THREE)
    order = TrainingOrder(network, data, width, batch, minibatches, optimizer, lr, seed, Path.cwd())
    keeping = named(Keeping, "--keep", keep)
    training = Training(order.rule(), m=in_flight, keeping=keeping, code=order.folder)
    runtime = Runtime(
        where="simulator" if simulate else "processes",
        owner="master" if owner == "master" else "first",
        folder=folder,
        snapshot_every=snapshot_every,
        bind=bind,
        rebalance=rebalance,
        count_bytes=True,
        emulation=Emulation(links=emulate, compute=emulate),
    )
    if prepare is not None:
        path, world = write_job(order, devices, training, runtime, prepare)
        command = f"torchrun --nnodes 1 --nproc-per-node {world} -m relaytrain.pipeline.worker {path}"
        between = f"python -m relaytrain.pipeline.worker {path} --rank R --certs DIR" + " --at NAME=HOST:PORT" * world
        note(f"between hosts, on each with its own R and certificates: {between}")
        prepared = {"job": str(path), "processes": world, "command": command, "between_hosts": between}
        emit_json({"schema": "relaytrain.pipeline-prepared/1", **prepared})
        return 0
    job = pipeline_runs.PipelineJob(order, tuple(devices), in_flight, keeping.value, runtime, epochs, target)
    typed = shlex.join(["relaytrain", *talk.arguments])
    opened = RunStore.open(store)
    with signals.stopping() as stop:
        ended = pipeline_runs.start(job, opened, name or new_run_id(order.name), command=typed, watch=watch, stop=stop)
    return conclude_pipeline(ended, job, opened, output)


def conclude_pipeline(ended: PipelineEnded, job: PipelineJob, store: RunStore, output: Format) -> int:
    """What came out, on stdout; the exit status is the run's outcome."""
    from ..pipeline.named_run import results_json
    from ..report.verdict import say_tested, verdict_of

    status = {"met": 0, "stopped": StoppedByUser.exit_status}.get(ended.verdict, TargetMissed.exit_status)
    if output is Format.json:
        results = results_json(job.order, ended.results) if ended.results else {"schema": "relaytrain.pipeline-run/1"}
        kept = {"run": ended.run, "store": str(store.folder), "verdict": ended.verdict, "exit_status": status}
        figures = {"test_loss": ended.tested.loss, "test_accuracy": ended.tested.accuracy}
        known = {key: value if math.isfinite(value) else None for key, value in figures.items()}
        emit_json({**results, **kept, "epoch_losses": list(ended.losses), **known, "notes": list(ended.notes)})
        return status
    if ended.results:
        emit_view(_view(job.order.network, ended.results))
    view = read_run(store, ended.run)
    verdict = verdict_of(view, store.folder_to_name)
    emit(f"{ended.run}: {verdict.word}. {verdict.sentence}")
    if tested := say_tested(view.verdict or {}):
        emit(f"  {tested}")
    for words in ended.notes:
        note(f"  note: {words}")
    return status


def watch(event: dict[str, Any]) -> None:
    """What happens, as it happens."""
    if event["kind"] == "started":
        where = f"on {', '.join(event['devices'])}, cut at {event['cuts']}"
        note(f"attempt {event['attempt']}: from update {event['step']} {where}")
    elif event["kind"] == "lost":
        who = ", ".join(event["devices"]) or "a link"
        note(f"lost {who} ({event['why']}): the rest goes on from the newest snapshot")
    elif event["kind"] == "slow":
        note(f"{event['device']} is {event['factor']:.1f}x slower than planned against the others: split anew")
    elif event["kind"] == "epoch":
        note(f"k {event['epoch']:>3} | mean training loss {event['loss']:.4g} | {event['elapsed_s']:.3g} s")


def _view(network: str, results: Sequence[PipelineResult]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from ..core.explain import say_time
    from ..pipeline.named_run import growth
    from ..report.tables import table, titled

    result = results[-1]
    split = result.splits[-1]
    seen = growth(result)
    columns = (
        "device",
        "units from",
        "peak",
        "closed form",
        *(("process grew", "beyond", "of it code") if seen else ()),
    )
    stages = table(columns, numbers=columns[1:])
    for at, name in enumerate(split.devices):
        sizes = [result.peak_bytes[at], result.predicted_bytes[at]]
        sizes += [seen[key][at] for key in ("grown_bytes", "beyond_bytes", "code_bytes") if seen]
        stages.add_row(Text(name), f"{(0, *split.cuts)[at]}", *(f"{size / 2**20:.2f}" for size in sizes))
    losses = [loss for each in results for loss in each.losses]
    elapsed_s = math.fsum(each.elapsed_s for each in results)
    fall = f"loss {losses[0]:.3f} to {losses[-1]:.3f}"
    head = f"{network}: {len(losses)} minibatches in {say_time(elapsed_s)}, {fall}; MiB"
    if not seen:
        return titled(head, stages)
    return Group(titled(head, stages), Text(f"the closed form counts a stage's tensors; beyond it: {seen['left_out']}"))
