"""`relaytrain store`: is the folder of runs whole, and how to make it smaller."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import StoreDamaged
from .options import Format, Output, Quiet, Verbose
from .output import emit, emit_json
from .reading import open_store

SHORT = "Check or thin the folder of runs."
HELP = """Check or thin the folder of runs."""
CHECK_HELP = """Test every promise of the store on itself: events, sums, checkpoints.

Exit status 0 when all is well, 9 when something is damaged. Notes are litter that `store gc` removes.
"""
CHECK_EXAMPLES = """\b
Examples:
  relaytrain store check
  relaytrain store check relaytrain-runs --format json
"""
GC_HELP = """Remove checkpoints that no run needs any more.

Kept are the last two epochs of every run, the best one, the handovers and the start. Runs that are being written, or
that have a damaged checkpoint, are left alone.
"""
GC_EXAMPLES = """\b
Examples:
  relaytrain store gc
  relaytrain store gc relaytrain-runs
"""

Folder = Annotated[
    Path | None,
    typer.Argument(
        metavar="[DIR]", help="The folder of runs ($RELAYTRAIN_STORE, else ./relaytrain-runs).", show_default=False
    ),
]

app = typer.Typer(name="store", help=HELP, short_help=SHORT, no_args_is_help=True, rich_markup_mode=None)


@app.command(
    name="check", help=CHECK_HELP, short_help="Is everything there and as it was written?", epilog=CHECK_EXAMPLES
)
def check(folder: Folder = None, output: Output = Format.text, quiet: Quiet = False, verbose: Verbose = False) -> int:
    """Check and list."""
    from ..store import check as look
    from ..store.check import errors

    store = open_store(folder)
    findings = look(store.folder)
    bad = errors(findings)
    if output is Format.json:
        rows = [{"level": f.level, "where": f.where, "what": f.what} for f in findings]
        emit_json({"schema": "relaytrain.store-check/1", "whole": not bad, "findings": rows})
    else:
        runs = len(store.runs()) if not bad else None
        summary = f"{store.folder}: whole, {runs} runs" if not bad else f"{store.folder}: {len(bad)} promises broken"
        emit("\n".join([*map(str, findings), summary]))
    return StoreDamaged.exit_status if bad else 0


@app.command(name="gc", help=GC_HELP, short_help="Remove checkpoints that no run needs.", epilog=GC_EXAMPLES)
def gc(folder: Folder = None, output: Output = Format.text, quiet: Quiet = False, verbose: Verbose = False) -> int:
    """Thin and say what went."""
    removed = open_store(folder).gc()
    if output is Format.json:
        skipped = list(removed.skipped_runs)
        emit_json(
            {"schema": "relaytrain.store-gc/1", "files": removed.files, "bytes": removed.size_bytes, "skipped": skipped}
        )
    else:
        kept = f"; left alone: {', '.join(removed.skipped_runs)}" if removed.skipped_runs else ""
        emit(f"removed {removed.files} files, {removed.size_bytes / 1e6:.3g} MB{kept}")
    return 0
