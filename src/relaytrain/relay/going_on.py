"""What goes on with a run that was interrupted, stopped or failed, as it is typed in, and that a run may go on."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.errors import UsageError
from ..store.runs import RunSummary


def go_on(run: str, started: Mapping[str, Any], store: Path | None = None) -> str:
    """What goes on with a run: a command that holds for whatever options it was started with.

    Args:
        run: its name.
        started: the body of its `run_started`.
        store: where it is, unless it is found without being named.
    """
    if started.get("in_memory"):
        return f"rt.train(..., resume={run!r}), with the same model and data"
    words = ["relaytrain", "resume", run]
    if started.get("code"):
        folder = started.get("folder")
        words += ["--code", folder if isinstance(folder, str) and folder and folder.isprintable() else "."]
    if store is not None:
        words += ["--store", str(store)]
    return shlex.join(words)


def check_open(summary: RunSummary) -> None:
    """Refuse a run that has come to its end, before anything else is asked for.

    Raises:
        UsageError: its target was met or missed.
    """
    if summary.status in ("met", "missed"):
        raise UsageError(f"run {summary.run} has ended (verdict: {summary.status}); there is nothing to resume")
