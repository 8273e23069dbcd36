"""`relaytrain audit`: was what plans stated true?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Format, Output
from .output import emit_json, emit_view
from .reading import open_store

SHORT = "Was what plans stated true, over all finished runs?"
HELP = """Compare what was stated with what came, over the finished runs of a store.

Stated against observed probability with its interval, promised bands, costs spent over costs predicted by version,
and targets that were called infeasible although some run of the same scenario and seed reached them.
"""
EXAMPLES = """\b
Examples:
  relaytrain audit
  relaytrain audit relaytrain-runs --format json
"""

Folder = Annotated[
    Path | None,
    typer.Argument(
        metavar="[STORE]", help="The folder of runs ($RELAYTRAIN_STORE, else ./relaytrain-runs).", show_default=False
    ),
]


def audit(folder: Folder = None, output: Output = Format.text) -> int:
    """Read all runs, judge, show."""
    from ..report.audit import audit as judge

    result = judge(open_store(folder))
    if output is Format.json:
        emit_json(result.to_dict())
    else:
        from ..report.audit_tables import audit_view

        emit_view(audit_view(result))
    return 0
