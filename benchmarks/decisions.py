"""Which rule decides best, on recorded losses: rules x targets x deadlines, the same luck for all.

    python benchmarks/decisions.py quickstart                    # test seeds of the bundled atlas, all cells
    python benchmarks/decisions.py deeper --rules adaptive sampled --cells 0.26/600
    python benchmarks/decisions.py quickstart --dev              # development seeds: look at them at will
    python benchmarks/decisions.py quickstart --rows rows.json   # rows are kept; what is there is not played again
    python benchmarks/decisions.py quickstart --belief wide      # as if nothing were known: without [law] and [prior]
    python benchmarks/decisions.py quickstart --belief my.json   # with what `scout` or `atlas --teach` wrote

Every loop is the product's own (`relay.loop`), its runner an atlas: losses of real training, recorded for relays of up
to three legs; what a rule asks for beyond the recorded grid is trained and remembered. Nothing but the rule differs
between two rows of a cell.

Yardsticks. `fixed`: the schedule (epochs here, epochs there, then the last pair until the target) that was cheapest on
the *development* seeds in that cell, played on the test seeds. `hindsight`: the cheapest of the grid's schedules, seed
by seed, which nobody can know. Both know only what was recorded: a last leg that is longer counts as a miss. A run that
misses is charged until it meets the target, its last pair training on, or `CAP_J`. Ratios are of mean energies;
intervals are paired t-intervals at 95 %, also corrected for the number of cells (Bonferroni).

Seeds: 5000 and on are for development (beliefs are fitted and rules chosen on them), 6000 and on are reported.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from relaytrain import api
from relaytrain.core.state import TOLERANCE
from relaytrain.estimators.choose import estimator_for
from relaytrain.planners.registry import planner_named
from relaytrain.relay.job import Job, Settings
from relaytrain.relay.journal import MemoryJournal
from relaytrain.relay.loop import RelayLoop
from relaytrain.relay.replay import AtlasRunner, Place
from relaytrain.relay.steering import legs_of
from relaytrain.scenario.model import Scenario
from relaytrain.traces.atlas import LegKey, read_atlas

DEVELOPMENT, TEST = 5000, 6000
"""First seeds; each has a thousand."""
CELLS = {
    "quickstart": [(loss, late) for loss in (0.28, 0.32, 0.35) for late in (600.0, 110.0, 80.0)],
    "fashion": [(loss, late) for loss in (0.75, 0.80, 0.85) for late in (300.0, 110.0, 80.0)],
    "deeper": [(loss, late) for loss in (0.26, 0.28, 0.32) for late in (600.0, 80.0, 50.0)],
}
"""Targets and deadlines (s)."""
CAP_J = 200.0
BELIEF = ("law", "prior", "estimator")
"""Tables of a scenario that say what is thought of its losses."""
Legs = tuple[tuple[int, int], ...]
Cell = tuple[float, float]


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
    known = {} if belief == "wide" else api.scenario(belief).resolved
    kept = {key: value for key, value in scenario.resolved.items() if key not in BELIEF}
    return api.scenario({**kept, **{key: known[key] for key in BELIEF if known.get(key) is not None}})


class Bench:
    """One scenario with its atlas; missing cells are trained."""

    def __init__(self, name: str, path: str, belief: str | None = None) -> None:
        from relaytrain.campaigns.atlas_recording import off_grid
        from relaytrain.relay.assembly import possible_changes
        from relaytrain.training.setup import TrainingSetup

        self.scenario = believing(api.scenario(name), belief)
        self.atlas = read_atlas(path)
        problem = self.scenario.problem
        self.costs = possible_changes(TrainingSetup.from_scenario(self.scenario), problem, self.scenario.costs)
        self.missing = off_grid(self.scenario, self.atlas)

    def runner(self, seed: int) -> AtlasRunner:
        """Plays one seed."""
        return AtlasRunner(self.atlas, seed, self.missing)

    def play(self, seed: int, rule: str, cell: Cell) -> Row:
        """A closed loop of `rule`."""
        began = time.process_time()
        scenario, runner = self.scenario, self.runner(seed)
        target = replace(scenario.problem.target, loss=cell[0], deadline_s=cell[1])
        problem = replace(scenario.problem, target=target)
        planner = replace(planner_named("pact", rule=rule), explained=False)  # type: ignore[type-var]
        job = Job(
            problem, self.costs, scenario.law, lambda probed: estimator_for(scenario, probed), planner, runner,
            Settings(seed=seed),
        )  # fmt: skip
        first = runner.first()
        journal = MemoryJournal("played", first, problem.pairs, problem.start)
        ended = RelayLoop(job, journal, runner.probe(first).loss).begin(first)
        path = [problem.index(outcome.decision.pair) for outcome in ended.outcomes]
        relay = " -> ".join(f"{pair} x{count}" for pair, count in legs_of(ended.outcomes))
        met = ended.verdict == "met"
        energy_j = ended.energy_j if met else self.charged(seed, path, ended.energy_j, cell[0])
        return Row(seed, rule, *cell, met, energy_j, relay, time.process_time() - began)

    def charged(self, seed: int, path: list[int], energy_j: float, loss: float) -> float:
        """What a run that missed would have spent until the target, or the cap."""
        while path and energy_j < CAP_J:
            path.append(path[-1])
            energy_j += float(self.costs.epoch_j[path[-1], path[-1]])
            if self.runner(seed).probe(_place(path)).loss <= loss + TOLERANCE:
                return energy_j
        return CAP_J

    def follow(self, seed: int, legs: Legs, cell: Cell) -> tuple[bool, float]:
        """A fixed schedule, the last pair training on: whether in time, and joules."""
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
                if leg is None or len(leg.losses) < place.epochs:
                    return False, CAP_J
                if leg.losses[place.epochs - 1] <= cell[0] + TOLERANCE:
                    return elapsed_s <= cell[1] + TOLERANCE, energy_j
        return False, CAP_J

    def grid(self) -> Iterator[Legs]:
        """The schedules that the atlas was recorded for."""
        seed = min(self.atlas.seeds)
        for key in sorted(self.atlas.seeds[seed]):
            if key.before and key.before[0][0] == self.atlas.start and all(n % 4 == 0 for _, n in key.before):
                yield (*key.before, (key.pair, 0))


def _place(path: Sequence[int]) -> Place:
    legs: list[tuple[int, int]] = []
    for pair in path:
        legs = [*legs[:-1], (pair, legs[-1][1] + 1)] if legs and legs[-1][0] == pair else [*legs, (pair, 1)]
    return Place(LegKey(tuple(legs[:-1]), legs[-1][0]), legs[-1][1])


def one_seed(
    name: str, path: str, belief: str | None, seed: int, rules: list[str], cells: list[Cell], fixed: list[Legs]
) -> list[Row]:
    """All rules, the fixed schedules and hindsight with one seed."""
    import torch

    torch.set_num_threads(1)
    bench = Bench(name, path, belief)
    rows = [bench.play(seed, rule, cell) for cell in cells for rule in rules]
    for cell, legs in zip(cells, fixed, strict=True):
        met, energy_j = bench.follow(seed, legs, cell)
        rows.append(Row(seed, "fixed", *cell, met, energy_j, _said(bench, legs), 0.0))
        tried = [(bench.follow(seed, other, cell), other) for other in bench.grid()]
        (late, energy_j), other = min((((not met, joules), other) for (met, joules), other in tried))
        rows.append(Row(seed, "hindsight", *cell, not late, energy_j, _said(bench, other), 0.0))
    return rows


def _said(bench: Bench, legs: Legs) -> str:
    return " -> ".join(f"{bench.atlas.pairs[pair]} x{count or 'on'}" for pair, count in legs)


def on_development(name: str, path: str, seed: int, cells: list[Cell]) -> list[dict[Legs, tuple[bool, float]]]:
    """Every schedule of the grid with one development seed, by cell."""
    bench = Bench(name, path)
    return [{legs: bench.follow(seed, legs, cell) for legs in bench.grid()} for cell in cells]


def summary(rows: list[Row], rules: list[str], cells: list[Cell]) -> list[str]:
    """A line for each cell: mean joules and successes, ratios to `fixed`, the paired difference of two rules."""
    from scipy.stats import t

    by = {(row.rule, row.loss, row.deadline_s, row.seed): row for row in rows}
    seeds = sorted({row.seed for row in rows})
    lines = [
        f"{len(seeds)} seeds; mean J (successes), over fixed; then {rules[-1]} minus {rules[0]}: 95 % alone, 95 % all"
    ]
    ratios: dict[str, list[float]] = {rule: [] for rule in rules}
    for cell in cells:
        words = [f"{cell[0]:g} by {cell[1]:g} s:"]
        means = {}
        for rule in (*rules, "fixed", "hindsight"):
            mine = [by[rule, *cell, seed] for seed in seeds]
            means[rule] = float(np.mean([row.energy_j for row in mine]))
            over = ""
            if rule in rules:
                ratios[rule].append(means[rule] / float(np.mean([by["fixed", *cell, s].energy_j for s in seeds])))
                over = f", {ratios[rule][-1]:.2f}x"
            words.append(f"{rule} {means[rule]:.1f} ({sum(row.met for row in mine)}{over})")
        gaps = np.array([by[rules[-1], *cell, s].energy_j - by[rules[0], *cell, s].energy_j for s in seeds])
        if len(seeds) > 1 and len(rules) > 1:
            error = float(gaps.std(ddof=1)) / math.sqrt(len(seeds))
            alone, all_ = (t.ppf(1 - 0.025 / n, len(seeds) - 1) * error for n in (1, len(cells)))
            words.append(f"| {gaps.mean():+.1f} +- {alone:.1f}, {all_:.1f}")
        lines.append("  ".join(words))
    lines += [f"{rule}: {np.mean(figures):.3f}x fixed over all cells" for rule, figures in ratios.items()]
    return lines


def main() -> None:
    """Play, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", help="a preset or file; of quickstart, fashion and deeper atlases are bundled")
    parser.add_argument("--atlas", metavar="FILE", help="its atlas (the bundled one)")
    parser.add_argument("--rules", nargs="+", default=["adaptive", "sampled"])
    parser.add_argument(
        "--belief", metavar="wide|SCENARIO", help="what is thought of the losses, instead of the preset"
    )
    parser.add_argument("--cells", nargs="+", metavar="LOSS/SECONDS", help="targets with their deadlines")
    parser.add_argument("--dev", action="store_true", help="play development seeds instead of test seeds")
    parser.add_argument("--seeds", type=int, metavar="N", help="so many of them at most")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="keep rows here; what is there is not played again")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    path = given.atlas or given.scenario
    held = sorted(read_atlas(path).seeds)
    development, test = ([s for s in held if first <= s < first + 1000] for first in (DEVELOPMENT, TEST))
    seeds = (development if given.dev else test)[: given.seeds]
    cells: list[Cell] = CELLS.get(given.scenario, [])
    if given.cells:
        cells = [(float(loss), float(late)) for loss, late in (words.split("/") for words in given.cells)]
    if not seeds or not cells:
        parser.error("no seeds or no cells: give --cells LOSS/SECONDS and an atlas with seeds from 5000 and 6000 on")
    rows: list[Row] = []
    if given.rows is not None and given.rows.exists():
        rows = [Row(**row) for row in json.loads(given.rows.read_text())]
    began = time.monotonic()
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        tried = list(
            pool.map(on_development, *zip(*((given.scenario, path, seed, cells) for seed in development), strict=True))
        )
        fixed = []
        for index in range(len(cells)):
            means = {
                legs: (sum(not seed[index][legs][0] for seed in tried), sum(seed[index][legs][1] for seed in tried))
                for legs in tried[0][index]
            }
            fixed.append(min(means, key=lambda legs: (means[legs][0], means[legs][1])))
        print(f"fixed schedules chosen on {len(development)} seeds, {time.monotonic() - began:.0f} s", flush=True)
        missing = [seed for seed in seeds if not any(row.seed == seed for row in rows)]
        waiting = [
            pool.submit(one_seed, given.scenario, path, given.belief, s, given.rules, cells, fixed) for s in missing
        ]
        for future in as_completed(waiting):
            rows += future.result()
            print(f"seed {rows[-1].seed}, {time.monotonic() - began:.0f} s", flush=True)
            if given.rows is not None:
                given.rows.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    print("\n".join(summary([row for row in rows if row.seed in seeds], given.rules, cells)))


if __name__ == "__main__":
    main()
