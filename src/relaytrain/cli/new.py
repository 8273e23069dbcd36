"""`relaytrain new`: a commented scenario to start from."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import UsageError, did_you_mean
from .options import Format, Output, Quiet, Verbose
from .output import check_folder, emit, emit_json
from .schema import schema_text

SHORT = "Write a commented scenario to start from."
HELP = """Write a commented scenario to start from, and the schema that lets editors complete it.

Nothing is overwritten unless --force is given.
"""
EXAMPLES = """\b
Examples:
  relaytrain new my.toml
  relaytrain new factory.toml --from smart_factory && relaytrain plan factory.toml
  relaytrain new my.toml --model my_package:net --data my_package:images
"""
SCHEMA_FILE = "scenario.schema.json"

File = Annotated[
    Path, typer.Argument(metavar="[FILE.toml]", help="The file to write (scenario.toml).", show_default=False)
]
From = Annotated[str | None, typer.Option("--from", metavar="PRESET", help="Copy a preset instead of the skeleton.")]
Model = Annotated[
    str | None, typer.Option("--model", metavar="MODULE:NAME", help="A function that returns your torch module.")
]
Data = Annotated[
    str | None, typer.Option("--data", metavar="MODULE:NAME", help="A function that returns your images and labels.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]


def new(
    file: File = Path("scenario.toml"),
    preset: From = None,
    model: Model = None,
    data: Data = None,
    force: Force = False,
    output: Output = Format.text,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Write a skeleton, or a preset under a new name."""
    from ..scenario import new_scenario_text
    from ..store.files import write_atomic

    _check(file, force=force)
    if preset is not None and (model is not None or data is not None):
        raise UsageError("new: got --from with --model or --data, expected one or the other: presets name their own")
    name = re.sub(r"[^A-Za-z0-9_.+-]+|\.\.+", "-", file.stem).strip("-._+")[:64] or "scenario"
    if preset is None:
        text = new_scenario_text(name, model=model, data=data, file=shlex.quote(str(file)))
    else:
        text = _preset_text(preset, name)
    texts = {file: text}
    beside = file.parent / SCHEMA_FILE
    if force or not beside.exists():
        texts[beside] = schema_text()
    for path, content in texts.items():
        write_atomic(path, content)
    if output is Format.json:
        emit_json({"schema": "relaytrain.new/1", "written": [str(path) for path in texts]})
    else:
        wrote = "\n".join(f"wrote {path}" for path in texts)
        emit(f"{wrote}\nnext: edit it, then  relaytrain plan {shlex.quote(str(file))}")
    return 0


def _check(file: Path, *, force: bool) -> None:
    if file.suffix.lower() != ".toml" or not str(file).isprintable():
        raise UsageError(f"new: got {str(file)!r}, expected a file name that ends in .toml")
    check_folder("new", file)
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
