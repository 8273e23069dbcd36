"""`relaytrain resume`: go on with a run that was interrupted, stopped or failed."""

from __future__ import annotations

from typing import Annotated

import typer

from .compiled import compiled
from .options import Format, Output, Quiet, Verbose
from .reading import LastRun, Store, find_run, need_torch, open_store
from .signals import signals
from .watching import conclude, say

SHORT = "Go on with an interrupted, stopped or failed run."
HELP = """Go on with a run that was interrupted, stopped or failed, from its last whole checkpoint.

At most the epoch that was running is repeated, and the result is the one an undisturbed run would have had. Exit
status as of `relaytrain run`.
"""
EXAMPLES = """\b
Examples:
  relaytrain resume
  relaytrain resume quickstart-1a2b3c4d
  relaytrain resume mine-1a2b3c4d --scenario mine.toml
"""

ScenarioFile = Annotated[
    str | None, typer.Option("--scenario", metavar="FILE", help="Its scenario, when that names code of your own.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Take it over from a process that is gone but cannot be seen to be.")
]
Inexact = Annotated[
    bool, typer.Option("--allow-inexact", help="Go on although packages, threads or code have changed since.")
]


def resume(
    run: LastRun = None,
    scenario: ScenarioFile = None,
    force: Force = False,
    allow_inexact: Inexact = False,
    store: Store = None,
    output: Output = Format.text,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Find, go on, judge."""
    need_torch("resume")
    from ..relay import runs

    opened = open_store(store)
    name = find_run(opened, run)
    with compiled(), signals.stopping() as stop:
        ended = runs.resume(
            name, store=opened, source=scenario, force=force, allow_inexact=allow_inexact, told=say, stop=stop
        )
        return conclude(ended, opened, output)
