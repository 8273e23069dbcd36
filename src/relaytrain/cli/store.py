"""`relaytrain store`: is the folder of runs whole, what is left of it if not, and how to make it smaller."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import StoreDamaged
from .options import Format, Output
from .output import emit, emit_json
from .reading import open_store, store_folder

if TYPE_CHECKING:
    from ..store import Salvage, SalvagedRun

SHORT = "Check, repair or thin the folder of runs."
HELP = """Check, repair or thin the folder of runs."""
CHECK_HELP = """Test every promise of the store on itself: events, sums, checkpoints.

Exit status 0 when all is well, 9 when something is damaged. Notes are litter that `store gc` removes.
"""
CHECK_EXAMPLES = """\b
Examples:
  relaytrain store check
  relaytrain store check relaytrain-runs --format json
"""
REPAIR_HELP = """List what is left of a damaged store, and put it together again.

Every event that is whole is kept, whether the database or the run's trail has it. The damaged files are put aside in
a folder damaged-1, damaged-2, ...; checkpoints are not touched. Exit status 9 when something is lost for good.
"""
REPAIR_EXAMPLES = """\b
Examples:
  relaytrain store repair --dry-run
  relaytrain store repair relaytrain-runs
"""
GC_HELP = """Remove checkpoints that no run needs any more.

Kept are the last two epochs of every run, the best one, the handovers and the start. Runs that are being written, or
that are damaged in any way, are left alone.
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

DryRun = Annotated[bool, typer.Option("--dry-run", help="List only; change nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Although a run seems to be written.")]

app = typer.Typer(name="store", help=HELP, short_help=SHORT, no_args_is_help=True, rich_markup_mode=None)


@app.command(
    name="check", help=CHECK_HELP, short_help="Is everything there and as it was written?", epilog=CHECK_EXAMPLES
)
def check(folder: Folder = None, output: Output = Format.text) -> int:
    """Check and list."""
    from ..store import RunStore
    from ..store import check as look
    from ..store.check import errors

    place = store_folder(folder)
    findings = look(place)
    bad = errors(findings)
    if output is Format.json:
        rows = [{"level": f.level, "where": f.where, "what": f.what} for f in findings]
        emit_json({"schema": "relaytrain.store-check/1", "whole": not bad, "findings": rows})
    else:
        whole = f"{place}: whole, {len(RunStore.open(place).runs())} runs" if not bad else ""
        broken = f"{place}: {len(bad)} promises broken; `relaytrain store repair` lists what is left"
        emit("\n".join([*map(str, findings), whole or broken]))
    return StoreDamaged.exit_status if bad else 0


@app.command(
    name="repair", help=REPAIR_HELP, short_help="What is left of a damaged store, put together.", epilog=REPAIR_EXAMPLES
)
def repair(
    folder: Folder = None,
    dry_run: DryRun = False,
    force: Force = False,
    output: Output = Format.text,
) -> int:
    """List, and put together."""
    from ..store import salvage

    place = store_folder(folder)
    outcome = salvage(place, write=not dry_run, force=force)
    if output is Format.json:
        emit_json(_repair_json(place, outcome))
    else:
        emit("\n".join([*map(_repair_line, outcome.runs), _repair_end(place, outcome, dry_run=dry_run)]))
    return 0 if outcome.without_loss else StoreDamaged.exit_status


def _repair_line(run: SalvagedRun) -> str:
    if not run.rows:
        return f"{run.run}: its start is lost, nothing can go on from it; its checkpoints stay where they are"
    from ..store.lost_events import spans

    lost = f"; lost: epoch {spans(run.lost_epochs)}" if run.lost_epochs else ""
    gone = f"; {run.lost} event(s) lost" if run.lost else ""
    back = f"; {run.restored} event(s) from the trail" if run.restored else ""
    stand_ins = f"; {run.stand_ins} stand-in(s) for lost decisions" if run.stand_ins else ""
    whole = "no whole checkpoint" if run.checkpoint is None else f"newest whole checkpoint: epoch {run.checkpoint}"
    return f"{run.run}: {run.epoch} of {run.acknowledged} epochs{lost}{gone}{back}{stand_ins}; {whole}"


def _repair_end(place: Path, outcome: Salvage, *, dry_run: bool) -> str:
    if not outcome.damaged:
        return f"{place}: the events of {len(outcome.runs)} runs are whole; there is nothing to repair"
    if dry_run:
        return f"{place}: damaged; without --dry-run this is what is put together"
    aside = f"; the damaged files are in {outcome.aside}" if outcome.aside is not None else ""
    return f"{place}: put together from what is left{aside}"


def _repair_json(place: Path, outcome: Salvage) -> dict[str, Any]:
    keys = ("run", "acknowledged", "epoch", "restored", "lost", "stand_ins", "checkpoint")
    runs = [{**{key: getattr(run, key) for key in keys}, "lost_epochs": list(run.lost_epochs)} for run in outcome.runs]
    return {
        "schema": "relaytrain.store-repair/1",
        "store": str(place),
        "damaged": outcome.damaged,
        "aside": None if outcome.aside is None else str(outcome.aside),
        "runs": runs,
    }


@app.command(name="gc", help=GC_HELP, short_help="Remove checkpoints that no run needs.", epilog=GC_EXAMPLES)
def gc(folder: Folder = None, output: Output = Format.text) -> int:
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
