"""`relaytrain rm`: remove runs and their checkpoints."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..core.errors import UsageError
from . import completion
from .output import emit
from .reading import Store, find_run, open_store

SHORT = "Remove runs and their checkpoints."
HELP = """Remove runs with their events and checkpoints. A run that is being written is not removed: stop it first."""
EXAMPLES = """\b
Examples:
  relaytrain rm quickstart-1a2b3c4d
  relaytrain rm quickstart-1a2b3c4d quickstart-5e6f7a8b --yes
"""

Runs = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Names of runs, or the beginnings of them.", autocompletion=completion.runs),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def rm(runs: Runs, yes: Yes = False, store: Store = None) -> int:
    """Ask and remove."""
    opened = open_store(store)
    names = list(dict.fromkeys(find_run(opened, run) for run in runs))
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"rm: add --yes to remove {', '.join(names)} without being asked")
        if not typer.confirm(f"remove {', '.join(names)} with all checkpoints?", err=True):
            return 0
    for name in names:
        opened.rm(name)
        emit(f"removed {name}")
    return 0
