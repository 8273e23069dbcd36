"""`relaytrain new`: a commented scenario to start from."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.errors import UsageError, did_you_mean
from .options import Format, Output
from .output import check_file, emit, emit_json, note, progress
from .reading import need_torch
from .schema import schema_text

SHORT = "Write a commented scenario to start from."
HELP = """Write a commented scenario to start from, and the schema that lets editors complete it.

With --model and --data your network is built and your data are read, once: parameters, FLOPs, bytes, samples, classes,
the loss before training and what an epoch costs on this machine are counted or measured and written down; nothing is
made up. What that cannot tell is left out, and said with the command that finds it. Nothing is overwritten unless
--force is given. Exit status 3 when network or data fail, with your file and line.

Data may be arrays, a Dataset, a DataLoader or an iterable of batches. The function is called without arguments (parts
by name), with "train" and "test", or with the names of --node, "validation" and "test".
"""
EXAMPLES = """\b
Examples:
  relaytrain new my.toml
  relaytrain new factory.toml --from smart_factory && relaytrain plan factory.toml
  relaytrain new my.toml --model my_package:net --data my_package:images --target 0.3
  relaytrain new my.toml --model my_package:net --data cifar10
  relaytrain new my.toml --model my_package:net --data my_package:table --loss mse
  relaytrain new my.toml --model my_package:net --data my_package:loader --node lab --node shop --step my_package:step
"""
SCHEMA_FILE = "scenario.schema.json"

File = Annotated[
    Path, typer.Argument(metavar="[FILE.toml]", help="The file to write (scenario.toml).", show_default=False)
]
From = Annotated[str | None, typer.Option("--from", metavar="PRESET", help="Copy a preset instead of the skeleton.")]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODULE:NAME",
        help="A function that returns your torch module; or a family (cnn, vgg11 ...).",
    ),
]
Data = Annotated[
    str | None,
    typer.Option("--data", metavar="MODULE:NAME", help="A function that returns your data; or digits, cifar10 ..."),
]
Node = Annotated[
    list[str] | None,
    typer.Option("--node", metavar="NAME", help="A name that --data is called with for one node's data; repeatable."),
]
Step = Annotated[
    str | None,
    typer.Option("--step", metavar="MODULE:NAME", help="Your step(model, batch) -> loss.", show_default=False),
]
Evaluate = Annotated[
    str | None,
    typer.Option("--evaluate", metavar="MODULE:NAME", help="Your evaluate(model, batch) -> sums.", show_default=False),
]
Loss = Annotated[
    str | None,
    typer.Option("--loss", metavar="NAME", help="cross-entropy (default), mse, or MODULE:NAME.", show_default=False),
]
Target = Annotated[
    float | None, typer.Option("--target", metavar="LOSS", help="The loss to reach; without it the file leaves it out.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]


def new(
    file: File = Path("scenario.toml"),
    preset: From = None,
    model: Model = None,
    data: Data = None,
    target: Target = None,
    node: Node = None,
    step: Step = None,
    evaluate: Evaluate = None,
    loss: Loss = None,
    force: Force = False,
    output: Output = Format.text,
) -> int:
    """Write a skeleton, or a preset under a new name."""
    from ..store.files import write_atomic

    _check(file, force=force)
    counted: dict[str, Any] = {}
    missing: list[str] = []
    if preset is not None and (model is not None or data is not None):
        raise UsageError("new: got --from with --model or --data, expected one or the other: presets name their own")
    training = {key: value for key, value in (("step", step), ("evaluate", evaluate), ("loss", loss)) if value}
    if (training or node) and (model is None or data is None):
        raise UsageError("new: got --node, --step, --evaluate or --loss, expected them beside --model and --data")
    name = re.sub(r"[^A-Za-z0-9_.+-]+|\.\.+", "-", file.stem).strip("-._+")[:64] or "scenario"
    if preset is not None:
        text = _preset_text(preset, name)
    elif model is not None or data is not None:
        text, counted, missing = _counted(name, file, (model, data), target, tuple(node or ()), training)
    elif target is not None:
        raise UsageError("--target: expected beside --model and --data; the skeleton has a target to edit")
    else:
        from ..scenario import new_scenario_text

        text = new_scenario_text(name, file=shlex.quote(str(file)))
    texts = {file: text}
    beside = file.parent / SCHEMA_FILE
    if force or not beside.exists():
        texts[beside] = schema_text()
    for path, content in texts.items():
        write_atomic(path, content)
    if output is Format.json:
        figures = {"counted": counted, "left_out": missing} if counted else {}
        emit_json({"schema": "relaytrain.new/1", "written": [str(path) for path in texts], **figures})
    else:
        wrote = "".join(f"wrote {path}\n" for path in texts)
        left_out = "".join(f"left out: {words}\n" for words in missing)
        emit(f"{wrote}{left_out}next: edit it, then  relaytrain plan {shlex.quote(str(file))}")
    return 0


def _counted(
    name: str,
    file: Path,
    references: tuple[str | None, str | None],
    target: float | None,
    nodes: tuple[str, ...],
    training: dict[str, str],
) -> tuple[str, dict[str, Any], list[str]]:
    """The text of a scenario whose figures are counted, those figures, and what it leaves out."""
    from ..scenario.resolve import split_reference

    model, data = references
    for given in references:
        if given is not None and not given.isidentifier() and not given.replace("-", "").isalnum():
            split_reference(given)
    if model is None or data is None:
        lacks = "--model" if model is None else "--data"
        raise UsageError(f"new: no {lacks}, expected both: a network is counted on the data it will see")
    if target is not None and not (math.isfinite(target) and target > 0.0):
        raise UsageError(f"--target: got {target:g}, expected a positive number")
    need_torch("new --model")
    from ..core.explain import say_met_before
    from ..doctor.counted_scenario import CountRequest, count_scenario
    from ..doctor.counted_text import counted_text, left_out

    with progress("counting"):
        counted = count_scenario(CountRequest(model, data, file.parent, nodes, training))
    if target is not None and counted.start_loss <= target:
        note(say_met_before(target, counted.start_loss))
    called = shlex.quote(str(file))
    return counted_text(counted, name, called, target), counted.to_dict(), left_out(counted, called, target)


def _check(file: Path, *, force: bool) -> None:
    if not str(file).isprintable():
        raise UsageError(f"new: got {str(file)!r}, expected a file name of characters that are seen")
    check_file("new", file, ".toml")
    if file.exists() and not force:
        raise UsageError(f"new: {file} is there already; choose another name, or add --force to overwrite it")


def _preset_text(preset: str, name: str) -> str:
    from ..scenario import preset_names
    from ..scenario.read import PRESETS

    if preset not in preset_names():
        presets = ", ".join(preset_names()) + did_you_mean(preset, preset_names())
        raise UsageError(f"--from: got '{preset}', expected one of {presets}")
    text = (PRESETS / f"{preset}.toml").read_text(encoding="utf-8")
    text = re.sub(r"^#:schema .*\n", f"#:schema ./{SCHEMA_FILE}\n", text)
    return re.sub(r'^name = ".*"$', f'name = "{name}"', text, count=1, flags=re.MULTILINE)
