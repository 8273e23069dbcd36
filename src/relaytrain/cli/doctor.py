"""`relaytrain doctor`: what stands in the way, before any training."""

from __future__ import annotations

from typing import Annotated

import typer

from ..core.errors import ScenarioError
from . import completion
from .options import Format, Output, Sets
from .output import emit, emit_json
from .reading import Store

SHORT = "What stands in the way, before any training."
HELP = """Look at this machine and the run store; with a scenario also at its data, networks and memory.

Names the layers that cannot be pruned or rebuilt, pairs that do not fit a memory, and figures of the scenario that are
not what is counted. Runs your own code that the scenario names. Exit status 3 when something stands in the way.
"""
EXAMPLES = """\b
Examples:
  relaytrain doctor
  relaytrain doctor my.toml
"""
MARKS = {"ok": "ok     ", "note": "note   ", "warning": "warning", "error": "ERROR  "}

Maybe = Annotated[
    str | None,
    typer.Argument(
        metavar="[SCENARIO]",
        help="A scenario to look at as well.",
        show_default=False,
        autocompletion=completion.scenarios,
    ),
]


def doctor(
    scenario: Maybe = None,
    sets: Sets = None,
    store: Store = None,
    output: Output = Format.text,
) -> int:
    """Look, list, judge."""
    from .. import api
    from ..doctor.machine_check import check_machine
    from ..doctor.store_check import check_store
    from ..store import store_path

    loaded = api.scenario(scenario, overrides=sets or ()) if scenario is not None else None
    parts = {"machine": check_machine(), "store": check_store(store_path(store))}
    if loaded is not None:
        from ..doctor.scenario_check import check_scenario

        parts["scenario"] = check_scenario(loaded)
    bad = sum(diagnosis.level == "error" for part in parts.values() for diagnosis in part)
    if output is Format.json:
        rows = {name: [diagnosis.to_dict() for diagnosis in part] for name, part in parts.items()}
        emit_json({"schema": "relaytrain.doctor/1", "healthy": bad == 0, **rows})
    else:
        lines = []
        for name, part in parts.items():
            lines.append(name)
            lines += [f"  {MARKS[diagnosis.level]}  {diagnosis.words}" for diagnosis in part]
        lines.append("healthy" if not bad else f"{bad} thing{'s' * (bad > 1)} in the way")
        emit("\n".join(lines))
    return ScenarioError.exit_status if bad else 0
