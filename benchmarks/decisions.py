"""Which rule decides best, on recorded losses: rules x estimators x targets x deadlines, the same luck for all.

    python benchmarks/decisions.py quickstart                    # test seeds of the bundled atlas, all cells
    python benchmarks/decisions.py deeper --rules adaptive sampled --cells 0.26/600
    python benchmarks/decisions.py fashion --rules before sampled    # what the default was, and what it is
    python benchmarks/decisions.py quickstart --estimators prior zero-trace auto --fitted own.npz
    python benchmarks/decisions.py quickstart --rules pact one-switch single     # strategies that plan once, too
    python benchmarks/decisions.py quickstart --plain --dev      # beside them one pair alone and a single change
    python benchmarks/decisions.py quickstart --dev              # development seeds: look at them at will
    python benchmarks/decisions.py quickstart --rows rows.json   # rows are kept; what is there is not played again
    python benchmarks/decisions.py quickstart --belief wide      # as if nothing were known: without [law] and [prior]
    python benchmarks/decisions.py quickstart --belief my.json   # with what `scout` or `atlas --teach` wrote

Every loop is the product's own (`relay.loop`), its runner an atlas: losses of real training, recorded for relays of up
to three legs; what a rule asks for beyond the recorded grid is trained and remembered. Nothing but the rule and the
estimator differs between two rows of a cell. `pact` is the product as the scenario has it; `before` is `adaptive` with
the belief that the preset had before it was fitted to an atlas (`benchmarks/before/`); a contender with another
estimator than the prior is called RULE/ESTIMATOR. A file fitted to the seeds that are played would be no test.

Yardsticks. `fixed`: the schedule (epochs here, epochs there, then the last pair until the target) that was cheapest on
the *development* seeds in that cell, played on the test seeds. `hindsight`: the cheapest of the grid's schedules, seed
by seed, which nobody can know. Both know only what was recorded: a last leg that is longer counts as a miss. `known`:
the schedule of the grid that is best for whoever knows the seed's smoothed curves and not its luck (`known_curves.py`),
trained on where it outlasts the record. With `--plain` also what one would do without a planner, chosen on the
development seeds, too: `alone`, one pair until the target, and `once`, one change of pair. A run that misses is charged
until it meets the target, its last pair training on, or `CAP_J`. Ratios are of mean energies; intervals are paired
t-intervals at 95 %, also corrected for the number of cells (Bonferroni).

Seeds: 5000 and on are for development (beliefs are fitted and rules chosen on them). Reported are 9000 and on where an
atlas has them (of `deeper` and `fashion`: not played before their beliefs were fitted to 24 and 16 seeds), else 8000
and on (of `quickstart`: not played before its belief was chosen), else 6000 and on; some of `quickstart`'s 6000s are in
the demo: `--from 6000` plays them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from known_curves import KnownCurves

from relaytrain import api
from relaytrain.core.planner_names import PLAN_ONCE
from relaytrain.core.problem import Problem
from relaytrain.core.protocols import Estimator
from relaytrain.core.state import TOLERANCE
from relaytrain.estimators.choose import estimator_for
from relaytrain.planners.registry import planner_for
from relaytrain.relay.job import Job, Settings
from relaytrain.relay.journal import MemoryJournal
from relaytrain.relay.loop import RelayLoop
from relaytrain.relay.replay import AtlasRunner, Place
from relaytrain.relay.runs import estimator_overrides
from relaytrain.scenario import Scenario
from relaytrain.traces.atlas import Atlas, LegKey, read_atlas

DEVELOPMENT, TEST = 5000, (9000, 8000, 6000)
"""First seeds; each has a thousand. Of the reported ones, the first that an atlas has any of."""
CELLS = {
    "quickstart": [(loss, late) for loss in (0.28, 0.32, 0.35) for late in (600.0, 110.0, 80.0)],
    "fashion": [(loss, late) for loss in (0.75, 0.80, 0.85) for late in (300.0, 110.0, 80.0)],
    "deeper": [(loss, late) for loss in (0.26, 0.28, 0.32) for late in (600.0, 80.0, 50.0)],
}
"""Targets and deadlines (s)."""
CAP_J = 200.0
LONGEST = 60
"""Epochs of a last leg that is trained on beyond the record."""
FIXED, KNOWN, HINDSIGHT = "fixed", "known", "hindsight"
BEFORE = "before"
PLAIN = ("alone", "once")
"""Fixed schedules of one leg, and of at most two."""
BELIEF = ("law", "prior", "estimator")
"""Tables of a scenario that say what is thought of its losses."""
Legs = tuple[tuple[int, int], ...]
Cell = tuple[float, float]
Estimators = dict[str, str]
"""Files of estimators by name; of those that have none, nothing."""


@dataclass(frozen=True)
class Row:
    """What one rule came to with one seed in one cell."""

    seed: int
    rule: str
    loss: float
    deadline_s: float
    met: bool
    energy_j: float
    relay: str
    cpu_s: float


def believing(scenario: Scenario, belief: str | None) -> Scenario:
    """The scenario with another belief: its own, none at all ("wide"), or that of a scenario file."""
    if belief is None:
        return scenario
    known: Any = {}
    if belief.endswith(".json"):
        known = json.loads(Path(belief).read_text())
    elif belief != "wide":
        known = api.scenario(belief).resolved
    kept = {key: value for key, value in scenario.resolved.items() if key not in BELIEF}
    return api.scenario({**kept, **{key: known[key] for key in BELIEF if known.get(key) is not None}})


def before(scenario: Scenario, name: str) -> Scenario:
    """The scenario with the belief that its preset had before atlases."""
    return believing(scenario, str(Path(__file__).with_name("before") / f"{name}.json"))


class Bench:
    """One scenario with its atlas; missing cells are trained."""

    def __init__(self, name: str, path: str, belief: str | None = None) -> None:
        from relaytrain.campaigns.atlas_recording import off_grid
        from relaytrain.relay.assembly import possible_changes
        from relaytrain.training.setup import TrainingSetup

        self.name, self.scenario = name, believing(api.scenario(name), belief)
        self.atlas = read_atlas(path)
        problem = self.scenario.problem
        self.setup = TrainingSetup.from_scenario(self.scenario)
        self.costs = possible_changes(self.setup, problem, self.scenario.costs)
        self.missing = off_grid(self.scenario, self.atlas)
        self.held = deepcopy(self.atlas)
        self.schedules = list(self.grid())
        self._known: dict[int, KnownCurves] = {}

    def runner(self, seed: int) -> AtlasRunner:
        """Plays one seed."""
        return AtlasRunner(self.atlas, seed, self.missing)

    def play(self, seed: int, contender: str, cell: Cell, files: Estimators) -> Row:
        """A closed loop of a contender: RULE, PLANNER, or either with /ESTIMATOR."""
        from relaytrain.relay.assembly import counted

        began = time.process_time()
        rule, _, estimator = contender.partition("/")
        scenario, runner = self.believing(estimator or "prior", files), self.runner(seed)
        if rule == BEFORE:
            rule, scenario = "adaptive", before(scenario, self.name)
        target = replace(scenario.problem.target, loss=cell[0], deadline_s=cell[1])
        problem = replace(scenario.problem, target=target)
        named = rule in ("pact", *PLAN_ONCE)
        planner = planner_for(scenario, rule if named else "pact", None if named else rule)
        if hasattr(planner, "explained"):
            planner = replace(planner, explained=False)  # type: ignore[type-var]

        def believed(probed: Problem) -> Estimator:
            return estimator_for(scenario, counted(self.setup, probed) if estimator else probed)

        settings = Settings(seed=seed, replan=rule not in PLAN_ONCE)
        job = Job(problem, self.costs, scenario.law, believed, planner, runner, settings)
        first = runner.first()
        journal = MemoryJournal("played", first, problem.pairs, problem.start)
        ended = RelayLoop(job, journal, runner.probe(first).loss).begin(first)
        path = [problem.index(outcome.decision.pair) for outcome in ended.outcomes]
        relay = " -> ".join(f"{pair} x{count}" for pair, count in ended.legs)
        met = ended.verdict == "met"
        energy_j = ended.energy_j if met else self.charged(seed, path, ended.energy_j, cell[0])
        return Row(seed, contender, *cell, met, energy_j, relay, time.process_time() - began)

    def believing(self, estimator: str, files: Estimators) -> Scenario:
        """The scenario with another estimator."""
        if estimator == "prior":
            return self.scenario
        file = files.get(estimator)
        return api.scenario(self.name, overrides=estimator_overrides(estimator, Path(file) if file else None))

    def charged(self, seed: int, path: list[int], energy_j: float, loss: float) -> float:
        """What a run that missed would have spent until the target, or the cap."""
        while path and energy_j < CAP_J:
            path.append(path[-1])
            energy_j += float(self.costs.epoch_j[path[-1], path[-1]])
            if self.runner(seed).probe(_place(path)).loss <= loss + TOLERANCE:
                return energy_j
        return CAP_J

    def follow(self, seed: int, legs: Legs, cell: Cell, *, longest: int = 0) -> tuple[bool, float]:
        """A fixed schedule, the last pair training on: whether in time, and joules; unrecorded epochs are trained as
        far as `longest` allows."""
        path: list[int] = []
        at = self.atlas.start
        energy_j = elapsed_s = 0.0
        for index, (pair, count) in enumerate(legs):
            while index == len(legs) - 1 or count:
                energy_j += float(self.costs.epoch_j[at, pair])
                elapsed_s += float(self.costs.epoch_s[at, pair])
                if energy_j >= CAP_J or not math.isfinite(elapsed_s):
                    return False, CAP_J
                path.append(pair)
                at, count = pair, count - 1
                place = _place(path)
                leg = self.atlas.leg(seed, place.leg)
                if (leg is None or len(leg.losses) < place.epochs) and place.epochs <= longest:
                    leg = self.missing(seed, place.leg, place.epochs)
                if leg is None or len(leg.losses) < place.epochs:
                    return False, CAP_J
                if leg.losses[place.epochs - 1] <= cell[0] + TOLERANCE:
                    return elapsed_s <= cell[1] + TOLERANCE, energy_j
        return False, CAP_J

    def known(self, seed: int, cell: Cell, *, longest: int = LONGEST) -> Row:
        """The best schedule for whoever knows the curves."""
        if seed not in self._known:
            self._known[seed] = KnownCurves(self.held, seed, self.costs)
        asked = self.scenario.problem.target.probability
        legs, _, _ = self._known[seed].best(self.schedules, *cell, asked=asked, most_j=CAP_J)
        met, energy_j = self.follow(seed, legs, cell, longest=longest)
        return Row(seed, KNOWN, *cell, met, energy_j, self.said(legs), 0.0)

    def chosen(self, seed: int, name: str, legs: Legs, cell: Cell) -> Row:
        """A schedule that was chosen on other seeds."""
        met, energy_j = self.follow(seed, legs, cell, longest=LONGEST if name in PLAIN else 0)
        return Row(seed, name, *cell, met, energy_j, self.said(legs), 0.0)

    def hindsight(self, seed: int, cell: Cell) -> Row:
        """The cheapest schedule of the grid."""
        tried = [(*self.follow(seed, legs, cell), legs) for legs in self.schedules]
        late, energy_j, legs = min((not met, joules, legs) for met, joules, legs in tried)
        return Row(seed, HINDSIGHT, *cell, not late, energy_j, self.said(legs), 0.0)

    def grid(self) -> Iterator[Legs]:
        """The schedules that the atlas was recorded for."""
        seed = min(self.atlas.seeds)
        for key in sorted(self.atlas.seeds[seed]):
            if key.before and key.before[0][0] == self.atlas.start and all(n % 4 == 0 for _, n in key.before):
                yield (*key.before, (key.pair, 0))

    def plain(self) -> Iterator[Legs]:
        """One pair alone, whichever, and of the grid what changes once."""
        yield from (((key.pair, 0),) for key in sorted(self.atlas.seeds[min(self.atlas.seeds)]) if not key.before)
        yield from (legs for legs in self.schedules if len(legs) == 2)

    def said(self, legs: Legs) -> str:
        """In words."""
        return " -> ".join(f"{self.atlas.pairs[pair]} x{count or 'on'}" for pair, count in legs)


def development_of(atlas: Atlas) -> list[int]:
    """Seeds to choose on."""
    return [seed for seed in sorted(atlas.seeds) if DEVELOPMENT <= seed < DEVELOPMENT + 1000]


def reported_of(atlas: Atlas, first: int | None = None) -> list[int]:
    """Seeds to report: the thousand from `first` on, else of `TEST` the first that there are any of."""
    for begin in TEST if first is None else (first,):
        if found := [seed for seed in sorted(atlas.seeds) if begin <= seed < begin + 1000]:
            return found
    return []


def _place(path: Sequence[int]) -> Place:
    legs: list[tuple[int, int]] = []
    for pair in path:
        legs = [*legs[:-1], (pair, legs[-1][1] + 1)] if legs and legs[-1][0] == pair else [*legs, (pair, 1)]
    return Place(LegKey(tuple(legs[:-1]), legs[-1][0]), legs[-1][1])


Wanted = list[tuple[str, Cell]]
"""Contenders and yardsticks by cell."""
Choices = dict[tuple[str, Cell], Legs]
"""Schedules chosen on the development seeds."""


def one_seed(
    name: str, path: str, seed: int, wanted: Wanted, choices: Choices, files: Estimators, belief: str | None = None
) -> list[Row]:
    """Contenders and yardsticks with one seed."""
    import torch

    torch.set_num_threads(1)
    bench = Bench(name, path, belief)
    rows = []
    for contender, cell in wanted:
        if (contender, cell) in choices:
            rows.append(bench.chosen(seed, contender, choices[contender, cell], cell))
        elif contender == HINDSIGHT:
            rows.append(bench.hindsight(seed, cell))
        elif contender == KNOWN:
            rows.append(bench.known(seed, cell))
        else:
            rows.append(bench.play(seed, contender, cell, files))
    return rows


Tried = dict[Legs, tuple[bool, float]]


def on_development(name: str, path: str, seed: int, cells: list[Cell], plain: bool) -> list[dict[str, Tried]]:
    """Schedules of every kind with one development seed, by cell."""
    import torch

    torch.set_num_threads(1)
    bench = Bench(name, path)
    found = []
    for cell in cells:
        tried = {FIXED: {legs: bench.follow(seed, legs, cell) for legs in bench.schedules}}
        if plain:
            ways = {legs: bench.follow(seed, legs, cell, longest=LONGEST) for legs in bench.plain()}
            tried |= {"alone": {legs: one for legs, one in ways.items() if len(legs) == 1}, "once": ways}
        found.append(tried)
    return found


def chosen_on(development: list[list[dict[str, Tried]]], cells: list[Cell]) -> Choices:
    """Of every kind and cell the schedule that missed least, and of those the cheapest."""
    choices: Choices = {}
    for index, cell in enumerate(cells):
        for kind in development[0][index]:
            every = [seed[index][kind] for seed in development]
            score = {
                legs: tuple(sum(f) for f in zip(*((not s[legs][0], s[legs][1]) for s in every), strict=True))
                for legs in every[0]
            }
            choices[kind, cell] = min(score, key=lambda legs: score[legs])
    return choices


def interval(gaps: list[float], cells: int) -> str:
    """The mean with half widths of its 95 % interval: alone, and among so many cells."""
    from scipy.stats import t

    if len(gaps) < 2:
        return f"{np.mean(gaps):+.1f}"
    error = float(np.std(gaps, ddof=1)) / math.sqrt(len(gaps))
    alone, all_ = (t.ppf(1 - 0.025 / n, len(gaps) - 1) * error for n in (1, cells))
    return f"{np.mean(gaps):+.1f} +- {alone:.1f}, {all_:.1f}"


def summary(rows: list[Row], contenders: list[str], yardsticks: list[str], cells: list[Cell]) -> list[str]:
    """A table for each cell: mean joules, successes, ratios to `fixed` and `known`, paired differences to the first."""
    by = {(row.rule, row.loss, row.deadline_s, row.seed): row for row in rows}
    seeds = sorted({row.seed for row in rows})
    ratios: dict[str, list[tuple[float, float]]] = {}
    wide = max(map(len, (*contenders, *yardsticks))) + 2
    first = contenders[0]
    lines = [f"{len(seeds)} seeds; J: means; the interval: J minus that of {first}, 95 % alone, 95 % over all cells"]
    for cell in cells:
        lines.append(f"\n{cell[0]:g} by {cell[1]:g} s{'J':>{wide + 1}}  met  over fixed  over known  minus {first}")
        energy = {name: [by[name, *cell, seed].energy_j for seed in seeds] for name in (*contenders, *yardsticks)}
        means = {name: float(np.mean(figures)) for name, figures in energy.items()}
        for name in (*contenders, *yardsticks):
            over = means[name] / means[FIXED], means[name] / means[KNOWN]
            ratios.setdefault(name, []).append(over)
            met = sum(by[name, *cell, seed].met for seed in seeds)
            gaps = [mine - theirs for mine, theirs in zip(energy[name], energy[first], strict=True)]
            apart = "" if name == first else interval(gaps, len(cells))
            lines.append(
                f"  {name:{wide}}{means[name]:12.1f}  {met:3}  {over[0]:9.2f}x  {over[1]:9.2f}x  {apart}".rstrip()
            )
    lines.append("")
    for name, figures in ratios.items():
        fixed, known = np.mean(figures, axis=0)
        lines.append(f"{name:{wide}} {fixed:.3f}x fixed, {known:.3f}x known, means of {len(cells)} cells")
    return lines


def parser_of(words: str | None) -> argparse.ArgumentParser:
    """What all benchmarks on an atlas may be asked."""
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", help="a preset or file; of quickstart, fashion and deeper atlases are bundled")
    parser.add_argument("--atlas", metavar="FILE", help="its atlas (the bundled one)")
    parser.add_argument("--belief", metavar="wide|FILE", help="what is thought of the losses, instead of the preset")
    parser.add_argument("--cells", nargs="+", metavar="LOSS/SECONDS", help="targets with their deadlines")
    parser.add_argument("--dev", action="store_true", help="play development seeds instead of those reported")
    parser.add_argument("--from", dest="first", type=int, metavar="SEED", help="play the thousand from this one on")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="keep rows here; what is there is not played again")
    return parser


def cells_of(given: argparse.Namespace) -> list[Cell]:
    """The cells that were asked for, else the scenario's."""
    if given.cells:
        return [(float(loss), float(late)) for loss, late in (words.split("/") for words in given.cells)]
    return CELLS.get(Path(given.scenario).stem, [])


class KeptRows:
    """Rows, in a file if one is given; what is there need not be played again."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        kept = json.loads(file.read_text()) if file is not None and file.exists() else []
        self.rows = [Row(**row) for row in kept]
        self._there = {(row.seed, row.rule, (row.loss, row.deadline_s)) for row in self.rows}

    def lacks(self, seed: int, rule: str, cell: Cell) -> bool:
        """Whether the file did not have it."""
        return (seed, rule, cell) not in self._there

    def add(self, rows: list[Row]) -> None:
        """Keep some more."""
        self.rows += rows
        if self.file is not None:
            self.file.write_text(json.dumps([asdict(row) for row in self.rows], indent=1))


def main() -> None:
    """Play, compare, print."""
    parser = parser_of(__doc__)
    parser.add_argument("--rules", nargs="+", default=["adaptive", "sampled"], help="or planners: pact, one-switch ...")
    parser.add_argument(
        "--estimators", nargs="+", default=["prior"], metavar="NAME[=FILE]", help="prior, zero-trace, auto, paper"
    )
    parser.add_argument("--fitted", metavar="FILE", help="of auto and paper, where they name none")
    parser.add_argument("--plain", action="store_true", help="also one pair alone, and a single change of pair")
    parser.add_argument("--seeds", type=int, metavar="N", help="so many of them at most")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    path = given.atlas or given.scenario
    held = read_atlas(path)
    development = development_of(held)
    seeds = (development if given.dev else reported_of(held, given.first))[: given.seeds]
    cells = cells_of(given)
    if not seeds or not cells:
        parser.error("no seeds or no cells: give --cells LOSS/SECONDS and an atlas with seeds from 5000 and 6000 on")
    files = {name: file or given.fitted or "" for name, _, file in (e.partition("=") for e in given.estimators)}
    needy = [name for name in files if name in ("auto", "paper") and not files[name]]
    if needy:
        parser.error(f"--estimators {needy[0]}: no file; relaytrain fit writes one: {needy[0]}=FILE, or --fitted FILE")
    files = {name: file if name in ("auto", "paper") else "" for name, file in files.items()}
    contenders = [rule if name == "prior" else f"{rule}/{name}" for rule in given.rules for name in files]
    yardsticks = [*(PLAIN if given.plain else ()), FIXED, KNOWN, HINDSIGHT]
    if set(contenders) & set(yardsticks):
        parser.error(f"--rules: {', '.join(yardsticks)} are there anyway")
    kept = KeptRows(given.rows)
    wanted = {
        seed: [(c, cell) for cell in cells for c in (*contenders, *yardsticks) if kept.lacks(seed, c, cell)]
        for seed in seeds
    }
    began = time.monotonic()
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        tried = [pool.submit(on_development, given.scenario, path, s, cells, given.plain) for s in development]
        choices = chosen_on([future.result() for future in tried], cells)
        print(f"fixed schedules chosen on {len(development)} seeds, {time.monotonic() - began:.0f} s", flush=True)
        waiting = [
            pool.submit(one_seed, given.scenario, path, s, wanted[s], choices, files, given.belief)
            for s in seeds
            if wanted[s]
        ]
        for future in as_completed(waiting):
            kept.add(future.result())
            print(f"seed {kept.rows[-1].seed}, {time.monotonic() - began:.0f} s", flush=True)
    print("\n".join(summary([row for row in kept.rows if row.seed in seeds], contenders, yardsticks, cells)))


if __name__ == "__main__":
    main()
