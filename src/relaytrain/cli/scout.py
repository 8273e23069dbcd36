"""`relaytrain scout`: train a few relays for what they teach, before the run that counts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import UsageError
from ..core.explain import say_energy, say_share
from .options import Format, Output, Sets
from .output import check_file, emit, emit_json, note, progress
from .reading import need_torch

if TYPE_CHECKING:
    from ..campaigns.scouting import Saving, Scouted
    from ..scenario import Scenario

SHORT = "Train a few relays for what they teach."
HELP = """Train a few relays of SCENARIO for what they teach, and write the scenario OUT with what they taught.

The first is a whole run, planned with what is known; then come branches that it did not take: pairs it never tried,
later ones taken earlier, a longer first leg. The cheapest lesson comes first, and where the budget lasts the same is
done with another seed. --budget is what all of it may cost: "3x" is three times that first run, "150J" an energy.

OUT.json is the scenario with a [law] and a [prior] fitted to these relays; pairs that were not tried stay wide. Give it
to plan and run. What was trained is kept beside it (OUT.npz): killed, the same command goes on from there, and a larger
budget adds to it. Seeds draw other images, weights and batches; take one that no run uses.
"""
EXAMPLES = """\b
Examples:
  relaytrain scout my.toml my.scouted.json --budget 3x
  relaytrain scout my.toml my.scouted.json --budget 150J --seed 7000
  relaytrain plan my.scouted.json --rule sampled
  relaytrain run my.scouted.json --rule sampled
"""

Source = Annotated[str, typer.Argument(metavar="SCENARIO", help="What to train: a file or a preset.")]
Out = Annotated[Path, typer.Argument(metavar="OUT.json", help="The scenario to write.")]
Budget = Annotated[
    str, typer.Option("--budget", metavar="Nx|ENERGY", help="What it may cost: times one run, or an energy.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="The seed of the first relay.")]


def scout(
    source: Source,
    out: Out,
    budget: Budget = "3x",
    seed: Seed = 7000,
    sets: Sets = None,
    output: Output = Format.text,
) -> int:
    """Train, fit, write, say what it is worth."""
    check_file("OUT", out, ".json")
    reach = budget_of(budget)
    if not 0 <= seed < 2**31:
        raise UsageError(f"--seed: got {seed}, expected 0 to {2**31 - 1}")
    need_torch("scout")
    from .. import api
    from ..campaigns.atlas_recording import empty_atlas, off_grid
    from ..campaigns.scouting import Scouting
    from ..relay.assembly import possible_changes
    from ..scenario import load_scenario
    from ..store.files import write_atomic
    from ..traces.atlas import read_atlas
    from ..training.setup import TrainingSetup

    loaded = api.scenario(source, overrides=sets or ())
    costs = possible_changes(TrainingSetup.from_scenario(loaded), loaded.problem, loaded.costs)
    path = out.with_suffix(".npz")
    atlas = read_atlas(path) if path.exists() else empty_atlas(loaded)
    with progress("joules") as bar:
        scouting = Scouting(
            loaded, costs, atlas, off_grid(loaded, atlas), seed=seed, save=lambda: atlas.save(path), progress=bar
        )
        done = scouting.scout(reach)
    tables = scouting.taught()
    load_scenario(tables)  # nothing is written that could not be read
    write_atomic(out, json.dumps(tables, indent=1) + "\n")
    saving = scouting.saving(tables)
    if output is Format.json:
        emit_json(_body(loaded, done, saving, out, path))
    else:
        emit(_words(loaded, done, saving, out))
        if not done.run_met:
            note(_unmet(loaded, saving))
    return 0


def budget_of(text: str) -> Callable[[float], float]:
    """`3x` or an energy: how many joules there are in all, by those of one run."""
    from ..scenario.units import ENERGY

    words = text.strip()
    try:
        times = float(words[:-1]) if words[-1:] in ("x", "X") else None
    except ValueError:
        times = math.nan
    joules = ENERGY.read(words) if times is None else None
    if times is None and joules is None:
        try:
            joules = float(words)
        except ValueError:
            joules = math.nan
    figure = times if times is not None else joules
    if figure is None or not 0.0 < figure < math.inf:
        raise UsageError(
            f"--budget: got '{text[:40]}', expected times of one run such as 3x, or an energy such as 150J"
        )
    return lambda run_j: run_j * times if times is not None else figure


def _relay(scenario: Scenario, way: tuple[tuple[int, int], ...]) -> str:
    return " -> ".join(f"{scenario.problem.pairs[pair]} x{count}" for pair, count in way) or "nothing"


def _words(scenario: Scenario, done: Scouted, saving: Saving | None, out: Path) -> str:
    unit = scenario.problem.units.energy
    lines = [
        f"scouted {scenario.name}: {say_energy(done.spent_j, unit)} of {say_energy(done.budget_j, unit)}",
        f"   the run  {_relay(scenario, done.run)}: {say_energy(done.run_j, unit)}"
        + (", target met" if done.run_met else ", target not met"),
    ]
    for lesson in done.lessons:
        way = (*lesson.key.before, (lesson.key.pair, lesson.epochs))
        lines.append(f"   seed {lesson.seed}  {_relay(scenario, way)}: {say_energy(lesson.energy_j, unit)} more")
    if saving is not None:
        low, high = (say_energy(value, unit) for value in saving.energy_interval_j)
        lines.append(
            f"next run  {saving.relay}: {say_energy(saving.after_j, unit)} expected ({low} to {high} in 8 of 10), "
            f"{say_share(saving.probability)} sure"
        )
        gain = saving.before_j - saving.after_j
        if gain > 0.0:
            runs = math.ceil(done.spent_j / gain)
            lines.append(
                f"   saves  {say_energy(gain, unit)} a run against the relay planned before, as far as these few "
                f"relays tell and if both are followed to the end; it pays after {runs} run{'s' if runs > 1 else ''}"
            )
        else:
            lines.append("   saves  nothing: the relay planned before is as good, as far as these few relays tell")
    return "\n".join([*lines, f"written {out}: try relaytrain plan {out} --rule sampled"])


def _unmet(scenario: Scenario, saving: Saving | None) -> str:
    """That the first relay did not meet the target, and what may be needed for it."""
    target = scenario.problem.target
    later = "a later deadline, " if math.isfinite(target.deadline_s) else ""
    if scenario.problem.max_epochs is not None:
        later += "more epochs (target.max_epochs), "
    whose = "the first relay did not meet" if saving is not None else "no relay met"
    return f"{whose} the target {target.loss:g}; {later}another training.lr or a higher loss may be needed"


def _body(scenario: Scenario, done: Scouted, saving: Saving | None, out: Path, kept: Path) -> dict[str, Any]:
    pairs = scenario.problem.pairs
    lessons = [
        {
            "seed": lesson.seed,
            "legs": [[*pairs[p], n] for p, n in (*lesson.key.before, (lesson.key.pair, lesson.epochs))],
            "energy_j": lesson.energy_j,
        }
        for lesson in done.lessons
    ]
    expected = None
    if saving is not None:
        expected = {
            "relay": saving.relay,
            "before_j": saving.before_j,
            "after_j": saving.after_j,
            "energy_interval_j": list(saving.energy_interval_j),
            "probability": saving.probability,
        }
    return {
        "schema": "relaytrain.scouted/1",
        "scenario": scenario.name,
        "written": str(out),
        "atlas": str(kept),
        "budget_j": done.budget_j,
        "spent_j": done.spent_j,
        "run": {"legs": [[*pairs[p], n] for p, n in done.run], "energy_j": done.run_j, "met": done.run_met},
        "lessons": lessons,
        "next_run": expected,
    }
