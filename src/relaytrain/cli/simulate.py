"""`relaytrain simulate`: rules side by side in many noisy worlds."""

from __future__ import annotations

from typing import Annotated

import typer

from ..core.errors import UsageError
from .compiled import compiled
from .options import SCENARIO, Format, Output, Report, Scenario, Sets, Without
from .output import check_file, emit_json, emit_view, note, progress, write_report

SHORT = "The relay in many noisy worlds, all rules side by side."
HELP = """Play the relay in many noisy worlds, planning again after every epoch, with all rules side by side.

The estimators are biased and every epoch has noise, as the scenario's [world] says. Shown are missed targets and the
energy over a clairvoyant optimum, with 95 % intervals. Exit status 0 once computed.

The default of 400 worlds takes minutes; --worlds 40 takes a tenth of them, with intervals three times as wide.

Without --rule all rules that decide again after each epoch are played; sampled, which takes longer than all others
together, only where the scenario would be decided by it.
"""
EXAMPLES = """\b
Examples:
  relaytrain simulate worlds
  relaytrain simulate worlds --rule adaptive --rule sampled
  relaytrain simulate quickstart --worlds 40 --rule adaptive --rule literal --seed 7
"""

Worlds = Annotated[int, typer.Option("--worlds", metavar="N", help="How many worlds (400).", show_default=False)]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="Draws the worlds; same seed, same worlds (0).", show_default=False)
]
Rules = Annotated[list[str] | None, typer.Option("--rule", metavar="NAME", help="Only these rules (repeatable).")]
Modes = Annotated[
    list[str] | None, typer.Option("--mode", metavar="NAME", help="Only these modes, e.g. tight (repeatable).")
]
Workers = Annotated[
    int | None, typer.Option("--workers", metavar="N", help="Processes; the result does not depend on it.")
]


def simulate(
    scenario: Scenario = SCENARIO,
    worlds: Worlds = 400,
    seed: Seed = 0,
    rules: Rules = None,
    modes: Modes = None,
    workers: Workers = None,
    sets: Sets = None,
    without: Without = None,
    report: Report = None,
    output: Output = Format.text,
) -> int:
    """Simulate and show."""
    from .. import api

    check_file("--report", report, ".html", ".htm")
    if workers is not None and workers < 1:
        raise UsageError(f"--workers: got {workers}, expected at least 1")
    loaded = api.scenario(scenario, overrides=sets or (), without=without or ())
    with compiled(all_imports=loaded.depl is not None):
        from ..simulate import simulate as play

        with progress("worlds") as step:
            result = play(loaded, worlds, seed=seed, rules=rules, modes=modes, workers=workers, progress=step)
    if output is Format.json:
        emit_json(result.to_dict())
    else:
        from ..report.tables import simulation_table

        emit_view(simulation_table(result))
    if report is not None:
        from ..report.answer_html import simulation_report

        write_report(report, lambda command: simulation_report(result, command))
    left_out = "" if rules or "sampled" in result.rules else "; --rule sampled plays that one, too"
    note(f"{worlds} worlds in {result.elapsed_s:.1f} s{left_out}")
    return 0
