"""`relaytrain validate`: is this scenario right, and what does it say?"""

from __future__ import annotations

import math

from .options import SCENARIO, Format, Output, Scenario, Sets, Without
from .output import emit, emit_json, note

SHORT = "Check a scenario without planning."
HELP = """Check a scenario without planning.

Faults are shown as file:line: key: got X, expected Y; exit status 3. --format json adds the scenario with every
default written out.
"""
EXAMPLES = """\b
Examples:
  relaytrain validate my.toml
  relaytrain validate my.toml --set target.probability=0.99 --format json
"""


def validate(
    scenario: Scenario = SCENARIO,
    sets: Sets = None,
    without: Without = None,
    output: Output = Format.text,
) -> int:
    """Load and summarise."""
    from ..core.explain import say_time
    from ..scenario.load import load_scenario

    loaded = load_scenario(scenario, overrides=sets or (), without=without or ())
    problem, target = loaded.problem, loaded.problem.target
    versions = dict.fromkeys(pair.version for pair in problem.pairs)
    sets_of_nodes = dict.fromkeys(pair.nodes for pair in problem.pairs)
    if output is Format.json:
        emit_json(
            {
                "schema": "relaytrain.validation/1",
                "valid": True,
                "name": loaded.name,
                "digest": loaded.digest,
                "warnings": list(loaded.warnings),
                "resolved": dict(loaded.resolved),
            }
        )
        return 0
    within = f" by {say_time(target.deadline_s, problem.units.time)}" if math.isfinite(target.deadline_s) else ""
    goal = f"{target.metric} {target.loss:g}{within}, {target.probability:.4g} sure"
    planner = loaded.planner.name + (f"/{loaded.rule}" if loaded.planner.name == "pact" else "")
    emit(
        f"valid: {loaded.name}\n"
        f"  versions   {', '.join(versions)}\n"
        f"  node sets  {', '.join(sets_of_nodes)}\n"
        f"  pairs      {len(problem.pairs)}, starting with {problem.pairs[problem.start]}\n"
        f"  target     {goal}; now {problem.initial_loss:g}\n"
        f"  planner    {planner}{' on a grid' if loaded.planner.grid else ''}"
    )
    for words in loaded.warnings:
        note(f"warning: {words}")
    return 0
