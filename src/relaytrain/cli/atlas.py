"""`relaytrain atlas`: the losses of all relays of a scenario on a grid, recorded or summarised."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import UsageError
from .options import Format, Output, Sets, whole_numbers
from .output import check_file, emit, emit_json, note, progress
from .reading import need_torch

if TYPE_CHECKING:
    from ..scenario import Scenario
    from ..traces.atlas import Atlas

SHORT = "Record the losses of all relays on a grid, for many seeds."
HELP = """Record an atlas: losses after every epoch of every relay of SCENARIO, up to given lengths, for several seeds.

A leg of a relay may be given up every few epochs (--every) for another pair of version and nodes, so one seed's atlas
says what any schedule on that grid would have come to: rules can be compared on the same luck, without training again.
--epochs 24,20,14 are the most epochs of a first, second and third leg. Shared beginnings are trained once.

With every seed other images, weights and batches are drawn (data.seed, training.seed). The estimate comes first;
--dry-run stops there. Interrupted, or killed, the same command goes on, and the file comes to the same bytes; with more
seeds or epochs it adds them. One word, a FILE or the name of a bundled atlas, is summarised: with it, the fixed
schedule that would have met the target of the scenario (--set target.loss=...) at least energy.
"""
EXAMPLES = """\b
Examples:
  relaytrain atlas quickstart quickstart.npz --dry-run
  relaytrain atlas quickstart quickstart.npz --seeds 8
  relaytrain atlas my.toml mine.npz --epochs 12,8 --every 2 --pair "full on gold" --pair "small on bronze"
  relaytrain atlas quickstart.npz
  relaytrain atlas mine.npz --scenario my.toml --set target.loss=0.3
  relaytrain atlas mine.npz --scenario my.toml --teach taught.json
"""
LENGTHS = "24,20,14"

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="[SCENARIO] FILE", help="What to record and the *.npz to write; a FILE alone is summarised."
    ),
]
Seeds = Annotated[int | None, typer.Option("--seeds", metavar="N", help="How many seeds (4).", show_default=False)]
First = Annotated[int | None, typer.Option("--seed", metavar="FIRST", help="The first (0).", show_default=False)]
Epochs = Annotated[
    str | None,
    typer.Option(
        "--epochs", metavar="N,N...", help="Most epochs of a first, second ... leg (24,20,14).", show_default=False
    ),
]
Every = Annotated[
    int | None,
    typer.Option("--every", metavar="N", help="Epochs between two ways out of a leg (4).", show_default=False),
]
PairNames = Annotated[
    list[str] | None,
    typer.Option("--pair", metavar="PAIR", help='"VERSION on NODES", repeatable; all that can train without it.'),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", help="Processes (2); the file does not depend on it.", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only the estimate: legs, epochs and CPU time.")]
Judge = Annotated[
    str | None,
    typer.Option("--scenario", metavar="SCENARIO", help="Of a summary: whose target and costs (the preset recorded)."),
]

Teach = Annotated[
    Path | None,
    typer.Option(
        "--teach", metavar="OUT.json", help="Of a FILE: write the scenario with the [law] and [prior] that it teaches."
    ),
]


def atlas(
    words: Words,
    seeds: Seeds = None,
    first: First = None,
    epochs: Epochs = None,
    every: Every = None,
    pair: PairNames = None,
    workers: Workers = None,
    dry_run: DryRun = False,
    scenario: Judge = None,
    teach: Teach = None,
    sets: Sets = None,
    output: Output = Format.text,
) -> int:
    """Estimate and record, or summarise."""
    if len(words) == 1:
        of_recordings = {
            "--seeds": seeds, "--seed": first, "--epochs": epochs, "--every": every, "--pair": pair,
            "--workers": workers, "--dry-run": dry_run or None,
        }  # fmt: skip
        for option, value in of_recordings.items():
            if value is not None:
                raise UsageError(f"{option}: got one word, expected a FILE to record to: atlas {words[0]} FILE.npz ...")
        return _summarise(words[0], scenario, teach, sets or [], output)
    if len(words) != 2:
        got = f"{len(words)} words ({' '.join(words)[:80]})"
        raise UsageError(f"atlas: got {got}, expected SCENARIO and FILE to record, or FILE alone to summarise")
    if teach is not None:
        raise UsageError("--teach: got two words beside it, expected FILE alone, to learn from it")
    if scenario is not None:
        raise UsageError("--scenario: got two words beside it, expected FILE alone, to summarise it")
    path = Path(words[1])
    check_file("FILE", path, ".npz")
    begin, count = _number("--seed", first, 0, (0, 2**31)), _number("--seeds", seeds, 4, (1, 10_000))
    crew = _number("--workers", workers, 2, (1, 1000))
    step = _number("--every", every, 4, (1, 100_000))
    listed = LENGTHS if epochs is None else epochs
    lengths = whole_numbers("--epochs", listed, f"lengths of legs such as {LENGTHS}", most=999_999)
    need_torch("atlas")
    from .. import api
    from ..campaigns.atlas_recording import AtlasRecording, LegGrid

    loaded = api.scenario(words[0], overrides=sets or ())
    grid = LegGrid(lengths, step, tuple(pair or ()))
    recording = AtlasRecording(loaded, path, grid, range(begin, begin + count))
    expected_s = recording.expected_cpu_s() if recording.left else 0.0
    left = recording.epochs - recording.found
    lines = (
        f"   legs  {len(recording.legs):,} a seed, {count} {_seeds(range(begin, begin + count))}\n"
        f" epochs  {left:,} to train, {recording.found:,} are there\n"
        f"    CPU  about {expected_s:,.0f} s"
    )
    if dry_run:
        if output is Format.json:
            emit_json(
                {
                    "schema": "relaytrain.atlas-estimate/1",
                    "scenario": loaded.name,
                    "seeds": recording.seeds,
                    "pairs": sorted({str(loaded.problem.pairs[key.pair]) for key, _ in recording.legs}),
                    "legs_per_seed": len(recording.legs),
                    "epochs": left,
                    "epochs_found": recording.found,
                    "cpu_s": expected_s,
                }
            )
        else:
            emit(lines)
        return 0
    note(lines)
    with progress("epochs") as bar:
        recorded = recording.train(crew, bar)
    if output is Format.json:
        about = {"epochs_trained": recorded.trained, "epochs_found": recorded.found, "cpu_s": recorded.cpu_s}
        emit_json({"schema": "relaytrain.atlas-recorded/1", "file": str(path), **_facts(recorded.atlas), **about})
    else:
        emit(
            f"{_in_words(recorded.atlas)} -> {path}\n{recorded.trained:,} epochs trained, {recorded.found:,} found; "
            f"{recorded.cpu_s:.0f} CPU-s; what they say: relaytrain atlas {path}"
        )
    return 0


def _summarise(name: str, source: str | None, teach: Path | None, sets: list[str], output: Format) -> int:
    """What a file holds and, where the scenario is known, the best fixed schedule in it."""
    from .. import api
    from ..scenario import preset_names
    from ..traces.atlas import read_atlas
    from ..traces.atlas_scenario import best_fixed, fits, same_training

    held = read_atlas(name)
    source = source or (held.scenario if held.scenario in preset_names() else None)
    if source is None and sets:
        raise UsageError(f"--set: got no --scenario, and '{held.scenario}' is no preset; say whose target it is")
    if source is None and teach is not None:
        raise UsageError(f"--teach: got no --scenario, and '{held.scenario}' is no preset; say which one to write")
    body: dict[str, Any] = {"schema": "relaytrain.atlas-summary/1", **_facts(held), "meta": dict(held.meta)}
    lines = [_in_words(held), f"   pairs  {', '.join(body['pairs'])}"]
    lines += [
        f"   longest legs  {', '.join(map(str, body['longest_legs']))} epochs; values are the target's {held.figure}"
    ]
    if source is not None:
        loaded = api.scenario(source, overrides=sets)
        problem = loaded.problem
        if not fits(held, problem):
            raise UsageError(
                f"{name}: got an atlas of other pairs, start or metric than {loaded.name} has; name its own"
            )
        fixed = best_fixed(held, loaded.costs, problem)
        deadline_s = problem.target.deadline_s if math.isfinite(problem.target.deadline_s) else None
        same = same_training(held, loaded)
        body |= {"target_loss": problem.target.loss, "deadline_s": deadline_s}
        body |= {"same_training": same, "best_fixed": None}
        asked = f"{problem.target.metric} {problem.target.loss:g}"
        if fixed is None:
            lines += [f"   best fixed schedule for {asked}: none that is held meets it in time"]
        else:
            legs = [[*held.pairs[pair], epochs] for pair, epochs in (*fixed.before, (fixed.last, None))]
            kept = {key: getattr(fixed, key) for key in ("met", "seeds", "energy_j", "elapsed_s")}
            body["best_fixed"] = {"legs": legs, **kept}
            relay = "".join(f"{held.pairs[pair]} x{epochs}, " for pair, epochs in fixed.before)
            lines += [
                f"   best fixed schedule for {asked}: {relay}{held.pairs[fixed.last]} until met: "
                f"{fixed.energy_j:.4g} {problem.units.energy}, {fixed.elapsed_s:.4g} {problem.units.time}, "
                f"{fixed.met} of {fixed.seeds} seeds met it (chosen on these seeds)"
            ]
        if teach is not None:
            lines += [_taught(loaded, held, teach)]
            body["taught"] = str(teach)
        if not same:
            lines += [f"   {loaded.name} has other data, versions or training now than when this was recorded"]
    if output is Format.json:
        emit_json(body)
    else:
        emit("\n".join(lines))
    return 0


def _taught(scenario: Scenario, held: Atlas, path: Path) -> str:
    """Write the scenario that the atlas teaches; in words."""
    from ..estimators.prior.fitting import taught
    from ..scenario import load_scenario
    from ..store.files import write_atomic

    check_file("--teach", path, ".json")
    tables = taught(scenario, held)
    load_scenario(tables)  # nothing is written that could not be read
    write_atomic(path, json.dumps(tables, indent=1) + "\n")
    return f"   taught  {path}: try relaytrain plan {path} --rule sampled"


def _facts(atlas: Atlas) -> dict[str, Any]:
    depths: dict[int, int] = {}
    for legs in atlas.seeds.values():
        for key, leg in legs.items():
            depths[len(key.before)] = max(depths.get(len(key.before), 0), len(leg.losses))
    return {
        "scenario": atlas.scenario,
        "figure": atlas.figure,
        "seeds": sorted(atlas.seeds),
        "pairs": [str(atlas.pairs[i]) for i in sorted({k.pair for legs in atlas.seeds.values() for k in legs})],
        "legs": sum(len(legs) for legs in atlas.seeds.values()),
        "epochs": atlas.epochs,
        "longest_legs": [depths[depth] for depth in sorted(depths)],
    }


def _in_words(atlas: Atlas) -> str:
    legs = sum(len(legs) for legs in atlas.seeds.values())
    return f"{atlas.scenario}: {len(atlas.seeds)} {_seeds(sorted(atlas.seeds))}, {legs:,} legs, {atlas.epochs:,} epochs"


def _seeds(seeds: Sequence[int]) -> str:
    """Which they are: first to last, where none is missing between."""
    if len(seeds) < 2:
        return f"seed ({seeds[0]})" if seeds else "seeds"
    whole = seeds[-1] - seeds[0] == len(seeds) - 1
    return f"seeds ({seeds[0]} to {seeds[-1]}{'' if whole else ', not all'})"


def _number(option: str, given: int | None, usual: int, bounds: tuple[int, int]) -> int:
    if given is not None and not bounds[0] <= given <= bounds[1]:
        raise UsageError(f"{option}: got {given}, expected {bounds[0]} to {bounds[1]}")
    return usual if given is None else given
