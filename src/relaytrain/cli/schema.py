"""`relaytrain schema`: the scenario file as JSON Schema, for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .output import emit, note

SHORT = "The scenario file's JSON Schema, for editors."
HELP = """Print the JSON Schema of scenario files, so that editors complete and check them.

With Taplo (Even Better TOML) put  #:schema ./scenario.schema.json  on the first line of a scenario.
"""
EXAMPLES = """\b
Examples:
  relaytrain schema --out scenario.schema.json
"""

Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it here instead of stdout.")]


def schema(out: Out = None) -> int:
    """Write the schema."""
    text = schema_text()
    if out is None:
        emit(text)
    else:
        from ..store.files import write_atomic

        write_atomic(out, text)
        note(f"schema: {out}")
    return 0


def schema_text() -> str:
    """The schema as indented JSON."""
    from ..scenario import json_schema

    return json.dumps(json_schema(), indent=2, allow_nan=False) + "\n"
