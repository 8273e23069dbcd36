"""Whether a run may go on: which scenario it was started with, and what its bits depend on that has changed since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.errors import UsageError
from ..scenario import Scenario, load_scenario
from . import events
from .job import Job


def check_same(started: Mapping[str, Any], job: Job, *, allow_inexact: bool = False) -> list[str]:
    """What has changed since a run was started, of what its last bits depend on.

    Raises:
        UsageError: something has, and `allow_inexact` is not given.
    """
    now, then = events.packages(), started.get("packages", {})
    changed = [
        f"{name} {then[name]} -> {now.get(name)}"
        for name in events.EXACT_PACKAGES
        if name in then and then[name] != now.get(name)
    ]
    if started.get("threads", job.settings.threads) != job.settings.threads:
        changed.append(f"threads {started['threads']} -> {job.settings.threads}")
    fits = [entry.get("estimator", {}).get("sha256") for entry in (started, job.manifest)]
    if fits[0] != fits[1]:
        changed.append("the fitted estimator")
    code = job.manifest.get("code", {})
    changed += [f"the code of {ref}" for ref, sha in started.get("code", {}).items() if code.get(ref) != sha]
    if changed and not allow_inexact:
        raise UsageError(
            f"changed since this run was started: {'; '.join(changed)}; the result could differ from an undisturbed "
            "run. Go back to what it was, or accept that with --allow-inexact"
        )
    return changed


def needs_code(scenario: Scenario) -> bool:
    """Whether a scenario names functions of the user's own."""
    versions = scenario.resolved.get("versions", ())
    named = [scenario.data.get("source"), scenario.training.get("loss")]
    named += [version.get(key) for version in versions for key in ("factory", "student")]
    return any(isinstance(name, str) and ":" in name for name in named)


def scenario_of(started: Mapping[str, Any], given: Scenario | None = None) -> Scenario:
    """The scenario of a run in a store; one that names the user's code has to be `given` again, and be the same.

    A store may come from anywhere, so code is imported only for a scenario of the local command line or of Python.
    """
    kept = started.get("scenario")
    if not isinstance(kept, Mapping) or started.get("in_memory"):
        raise UsageError(
            "this run was started from Python, with a module of that process; go on with rt.train(..., resume=RUN)"
        )
    loaded = load_scenario(kept)
    if given is not None:
        if given.digest != loaded.digest:
            raise UsageError(
                "the scenario given is not the one this run was started with; start a new run for another one"
            )
        return given
    if needs_code(loaded):
        raise UsageError(
            "this run uses code of your own: name its scenario too, `relaytrain resume RUN --scenario FILE`"
        )
    return loaded
