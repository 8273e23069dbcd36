"""`relaytrain new`: a commented scenario to start from."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import UsageError
from .options import SCENARIO, Format, Output, Quiet, Verbose
from .output import emit, emit_json
from .schema import schema_text

SHORT = "Write a commented scenario to start from."
HELP = """Write a commented scenario to start from, and the schema that lets editors complete it.

Nothing is overwritten unless --force is given.
"""
EXAMPLES = """\b
Examples:
  relaytrain new my.toml
  relaytrain new factory.toml --from smart_factory && relaytrain plan factory.toml
"""
SCHEMA_FILE = "relaytrain.schema.json"

File = Annotated[
    Path, typer.Argument(metavar="[FILE.toml]", help="The file to write (scenario.toml).", show_default=False)
]
From = Annotated[str, typer.Option("--from", metavar="PRESET", help="The preset to copy (quickstart).", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]


def new(
    file: File = Path("scenario.toml"),
    preset: From = SCENARIO,
    force: Force = False,
    output: Output = Format.text,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Copy a preset under a new name."""
    from ..scenario import preset_names
    from ..scenario.read import PRESETS
    from ..store.files import write_atomic

    if file.suffix.lower() != ".toml":
        raise UsageError(f"new: got '{file}', expected a file name that ends in .toml")
    if preset not in preset_names():
        close = difflib.get_close_matches(preset, preset_names(), n=1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise UsageError(f"--from: got '{preset}', expected one of {', '.join(preset_names())}{hint}")
    if not file.parent.is_dir():
        raise UsageError(f"new: got '{file}', expected a folder that exists; make it first: mkdir -p {file.parent}")
    if file.exists() and not force:
        raise UsageError(f"new: {file} is there already; choose another name, or add --force to overwrite it")
    text = (PRESETS / f"{preset}.toml").read_text(encoding="utf-8")
    text = re.sub(r"^#:schema .*\n", f"#:schema ./{SCHEMA_FILE}\n", text)
    text = re.sub(r'^name = ".*"\n', "", text, count=1, flags=re.MULTILINE)  # the file's own name is the name
    beside = file.parent / SCHEMA_FILE
    texts = {file: text}
    if force or not beside.exists():
        texts[beside] = schema_text()
    for path, content in texts.items():
        write_atomic(path, content)
    if output is Format.json:
        emit_json({"schema": "relaytrain.new/1", "written": [str(path) for path in texts]})
    else:
        emit("\n".join(f"wrote {path}" for path in texts) + f"\nnext: edit it, then  relaytrain plan {file}")
    return 0
