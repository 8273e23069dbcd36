"""Whether a run may go on: which scenario it was started with, and what its bits depend on that has changed since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import UsageError
from ..scenario import Scenario, load_scenario
from ..scenario.own_code import changed_code, references_of
from . import event_bodies
from .job import Job


def check_code(started: Mapping[str, Any], folder: Path | None, *, allow_inexact: bool = False) -> list[str]:
    """Files of the user's code that have changed since a run was started; to be asked before they are imported.

    Raises:
        UsageError: some have, and `allow_inexact` is not given.
    """
    return _allowed(changed_code(started.get("code") or {}, folder), allow_inexact)


def check_same(started: Mapping[str, Any], job: Job, *, allow_inexact: bool = False) -> list[str]:
    """What else has changed since a run was started, of what its last bits depend on.

    Raises:
        UsageError: something has, and `allow_inexact` is not given.
    """
    now, then = event_bodies.packages(), started.get("packages", {})
    changed = [
        f"{name} {then[name]} -> {now.get(name)}"
        for name in event_bodies.EXACT_PACKAGES
        if name in then and then[name] != now.get(name)
    ]
    if started.get("threads", job.settings.threads) != job.settings.threads:
        changed.append(f"threads {started['threads']} -> {job.settings.threads}")
    fits = [entry.get("estimator", {}).get("sha256") for entry in (started, job.manifest)]
    if fits[0] != fits[1]:
        changed.append("the fitted estimator")
    return _allowed(changed, allow_inexact)


def _allowed(changed: list[str], allow_inexact: bool) -> list[str]:
    if changed and not allow_inexact:
        raise UsageError(
            f"changed since this run was started: {'; '.join(changed)}; the result could differ from an undisturbed "
            "run. Go back to what it was, or go on all the same with --force"
        )
    return changed


def scenario_of(
    started: Mapping[str, Any], given: Scenario | None = None, code: Path | None = None, *, command: str
) -> Scenario:
    """The scenario that a run was started with, as stored; its paths and code are looked for where they were then.

    A store may come from anywhere, so code of the user's own needs leave, from the local command line or from Python:
    `code`, the folder it may be imported from, or `given`, a scenario that names the same functions. `command` is what
    a user types to give it.
    """
    kept = started.get("scenario")
    if not isinstance(kept, Mapping) or started.get("in_memory"):
        raise UsageError(
            "this run was started from Python, with a module of that process; go on with rt.train(..., resume=RUN)"
        )
    needed, folder = references_of(kept), code
    if given is not None:
        missing = [name for name in needed if name not in references_of(given.resolved)]
        if missing:
            raise UsageError(
                f"the scenario given is not the one this run was started with: it does not name {', '.join(missing)}"
            )
        folder = folder or given.folder
    before = started.get("folder")
    place = Path(before) if isinstance(before, str) else None
    if needed and code is None and given is None:
        raise UsageError(
            f"this run uses code of your own ({', '.join(needed)}), which is imported only from a folder that you "
            f"name. If you trust what is in it:  {command}"
        )
    if code is not None and not code.is_dir():
        raise UsageError(f"--code: got '{code}', expected the folder of your code; the run was started from {place}")
    loaded = load_scenario(kept)
    folder = folder or place
    return loaded if folder is None else replace(loaded, source=folder.absolute() / f"{loaded.name}.json")
