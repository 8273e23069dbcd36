"""`relaytrain resume`: go on with a run that was interrupted, stopped or failed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import UsageError
from .compiled import compiled
from .on_flower import Certificates, LocalFlower, SuperLinkAddress, Where, on_flower
from .options import Format, Logs, Output
from .reading import LastRun, Store, find_run, need_torch, open_store
from .signals import signals

if TYPE_CHECKING:
    from ..store import RunStore

SHORT = "Go on with an interrupted, stopped or failed run."
HELP = """Go on with a run that was interrupted, stopped or failed, from its last whole checkpoint.

At most the epoch that was running is repeated, and the result is the one an undisturbed run would have had. The
scenario is the one that is stored with the run, whatever its file says by now. Code of your own is imported only from a
folder that you name here: a store may come from anywhere. Exit status as of `relaytrain run`.
"""
EXAMPLES = """\b
Examples:
  relaytrain resume
  relaytrain resume quickstart-1a2b3c4d
  relaytrain resume mine-1a2b3c4d --code .
"""

CodeFolder = Annotated[
    Path | None, typer.Option("--code", metavar="DIR", help="Where code of your own may be imported from.")
]
ScenarioFile = Annotated[
    str | None, typer.Option("--scenario", metavar="FILE", help="Its scenario: code may come from that file's folder.")
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Go on whatever has changed, and take it over from a process that only seems alive."),
]
Inexact = Annotated[
    bool, typer.Option("--allow-inexact", help="Go on although packages, threads or code have changed since.")
]


def resume(
    run: LastRun = None,
    code: CodeFolder = None,
    scenario: ScenarioFile = None,
    log: Logs = None,
    force: Force = False,
    allow_inexact: Inexact = False,
    local_flower: LocalFlower = None,
    superlink: SuperLinkAddress = None,
    certs: Certificates = None,
    store: Store = None,
    output: Output = Format.text,
) -> int:
    """Find, go on, judge."""
    need_torch("resume")
    from ..relay import runs
    from .watching import Watcher, conclude

    opened = open_store(store)
    name = find_run(opened, run)
    started = opened.summary(name).started
    if "pipeline" in started:
        given = {"--log": log, "--scenario": scenario, "--local-flower": local_flower, "--superlink": superlink}
        for option, value in given.items():
            if value:
                raise UsageError(f"{option}: {name} is a run of `pipeline run`, which has none; resume it without")
        return _pipeline(name, opened, code, force, allow_inexact, output)
    kept = runs.kept_scenario(name, store=opened, source=scenario, code=code)
    where = Where(local_flower, superlink, certs)
    if where.is_outside(kept):
        return on_flower(kept, where)
    with compiled(all_imports=True), signals.stopping() as stop:
        with Watcher.watching() as told:
            ended = runs.resume(
                name,
                store=opened,
                source=scenario,
                code=code,
                force=force,
                allow_inexact=allow_inexact,
                log=log or (),
                told=told,
                stop=stop,
            )
        return conclude(ended, opened, output, told)


def _pipeline(name: str, store: RunStore, code: Path | None, force: bool, allow_inexact: bool, output: Format) -> int:
    """Go on with a run of `pipeline run`."""
    from ..relay import pipeline_runs
    from .pipeline_run import conclude_pipeline, watch

    store.sound(name)
    with signals.stopping() as stop:
        ended, job = pipeline_runs.resume(
            name, store, code=code, force=force, allow_inexact=allow_inexact, watch=watch, stop=stop
        )
    return conclude_pipeline(ended, job, store, output)
