"""`relaytrain pipeline`: a network too large for one device, split over several."""

from __future__ import annotations

from typing import Annotated

import typer

from . import pipeline_run
from .options import Format, Output, Report, whole_numbers
from .output import check_file, emit, emit_json, emit_view, write_report
from .pipeline_options import Batch, InFlight, Keep, argument, device_option, devices_of, named, option
from .reading import need_torch

SHORT = "Split a network over devices that cannot hold it."
HELP = """Split a network that no device can hold over several, as a pipeline."""
PLAN_HELP = """Which device takes which layers, how each layer keeps its weight versions, and how fast that is.

NETWORK is a family (vgg16, resnet20, mobilenet ...) or vgg11-4096, vgg16-4096: VGG as published, with two hidden layers
of 4096. The split is the fastest that fits every device's memory, proven by an exact search; devices keep their order.
Exit status 4 when nothing fits.
"""
PLAN_EXAMPLES = """\b
Examples:
  relaytrain pipeline plan vgg16-4096
  relaytrain pipeline plan vgg16-4096 --device "pi, 10 GFLOP/s, 80 MiB, 100 Mbit/s" --device "nuc, 40 GFLOP/s, 200 MiB"
  relaytrain pipeline plan vgg16 --batch 64 --keep stash --format json
"""
DEVICES = tuple(f"{name}, 10 GFLOP/s, 80 MiB, 100 Mbit/s" for name in ("one", "two", "three"))

Network = Annotated[str, argument("[NETWORK]", "A family's name; vgg16-4096 without one.")]
Devices = Annotated[list[str] | None, device_option("three of 80 MiB")]
Width = Annotated[float, option("--width", "X", "All widths times this (1).")]
Image = Annotated[str, option("--input", "CxHxW", "The images' shape (3x32x32).")]
Classes = Annotated[int, option("--classes", "N", "Number of classes (10).")]
WindowName = Annotated[str, option("--window", "NAME", "1f1b or uniform (1f1b).")]
Optimizer = Annotated[str, option("--optimizer", "NAME", "sgd, momentum or adam (sgd).")]
Checkpoint = Annotated[
    bool, typer.Option("--checkpoint", help="Allow stages to compute activations twice, to save memory.")
]

COUNT_HELP = """Count the versions of a scenario as chains of units, between which a pipeline node set may split them.

Paste each table behind its [[versions]] entry: planning then knows what a pipeline of the scenario's nodes costs, and
whether it fits, without PyTorch. Figures are of one minibatch of the scenario's training.batch, by unit.
"""
COUNT_EXAMPLES = """\b
Examples:
  relaytrain pipeline count far_pipeline
  relaytrain pipeline count my.toml full --format json
"""
ScenarioName = Annotated[str, argument("SCENARIO", "A file or a preset that trains.")]
VersionName = Annotated[str | None, typer.Argument(metavar="[VERSION]", help="One version; all of them without.")]

app = typer.Typer(name="pipeline", help=HELP, short_help=SHORT, no_args_is_help=True, rich_markup_mode=None)


app.command(name="run", help=pipeline_run.HELP, short_help=pipeline_run.SHORT, epilog=pipeline_run.EXAMPLES)(
    pipeline_run.run
)


@app.command(
    name="plan", help=PLAN_HELP, short_help="Who takes which layers, and how fast that is.", epilog=PLAN_EXAMPLES
)
def plan(
    network: Network = "vgg16-4096",
    device: Devices = None,
    width: Width = 1.0,
    image: Image = "3x32x32",
    classes: Classes = 10,
    batch: Batch = 8,
    in_flight: InFlight = None,
    window: WindowName = "1f1b",
    keep: Keep = "best-of",
    optimizer: Optimizer = "sgd",
    checkpoint: Checkpoint = False,
    report: Report = None,
    output: Output = Format.text,
) -> int:
    """Measure the network, split it, show it."""
    need_torch("pipeline plan")
    check_file("--report", report, ".html", ".htm")
    from ..pipeline.unit_counter import measure_named
    from ..pipeline.update_rules import rule_named
    from ..planners.pipeline.keeping_plans import plan_each_keeping
    from ..planners.pipeline.policy_choice import Keeping
    from ..planners.pipeline.schedules import Window
    from ..planners.pipeline.stage_picture import picture

    devices = devices_of(device or DEVICES)
    way, keeping = named(Window, "--window", window), named(Keeping, "--keep", keep)
    state_tensors = rule_named(optimizer).state_tensors
    expected = "channels x height x width, such as 3x32x32"
    channels, height, side = whole_numbers("--input", image, expected, most=99_999, count=(3,), separator="x")
    units = measure_named(network, width=width, input=(channels, height, side), classes=classes, batch=batch)
    planned = plan_each_keeping(
        network,
        units,
        devices,
        m=in_flight,
        window=way,
        keeping=keeping,
        state_tensors=state_tensors,
        checkpoint=checkpoint,
    )
    if output is Format.json:
        emit_json(planned.to_dict())
    else:
        from ..report.tables import pipeline_tables

        emit_view(pipeline_tables(planned))
        emit("\n" + picture(planned.plan, planned.devices))
    if report is not None:
        from ..report.answer_html import pipeline_report

        write_report(report, lambda command: pipeline_report(planned, command))
    return 0


@app.command(
    name="count",
    help=COUNT_HELP,
    short_help="A scenario's versions as chains, for pipeline node sets.",
    epilog=COUNT_EXAMPLES,
)
def count(
    scenario: ScenarioName,
    version: VersionName = None,
    output: Output = Format.text,
) -> int:
    """Build every version and count it."""
    need_torch("pipeline count")
    from dataclasses import asdict

    from ..pipeline.unit_counter import counted_chain
    from ..scenario import load_scenario
    from ..training.setup import TrainingSetup

    setup = TrainingSetup.from_scenario(load_scenario(scenario))
    names = list(setup.versions) if version is None else [setup.plan(version).name]
    chains = {name: asdict(counted_chain(setup, name)) for name in names}
    if output is Format.json:
        emit_json({"schema": "relaytrain.chains/1", "versions": chains})
        return 0
    for name, figures in chains.items():
        lines = [f"{key} = {list(value) if isinstance(value, tuple) else value}" for key, value in figures.items()]
        emit("\n".join([f"# {name}, for a minibatch of {figures['batch']}", "[versions.chain]", *lines, ""]))
    return 0
