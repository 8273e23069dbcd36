"""What re-planning saves, in real training: PACT against its baselines and against hindsight.

    python benchmarks/savings.py                             # digits, ten seeds, a few minutes on two cores
    python benchmarks/savings.py --data fashion-mnist        # the preset `fashion`, five seeds
    python benchmarks/savings.py --seeds 5 --keep savings    # five seeds, runs kept in a store for `relaytrain audit`
    python benchmarks/savings.py --only 0 --others rows.json # one seed; rows for `relaytrain report --baselines`
    python benchmarks/savings.py --only 0 --recorded 4       # beside it, means over four seeds of the bundled atlas
    python benchmarks/savings.py --estimators prior auto=fit.npz zero-trace    # PACT alone, by what predicts for it

For every seed (other data, other weights) each contender trains from the same first checkpoint, on the same prior and
the same estimator, and is charged on the emulated clock what it spent until target or deadline:

* pact: planned again after every epoch;
* one-switch, static-learn, single: planned once and followed, the last pair training on, as in the paper;
* fixed: the schedule that was best on the seeds of the preset's atlas (or of `--atlas`), none of which is trained here;
* hindsight: the cheapest of at most forty schedules (epochs on gold x epochs on silver x order), all trained, so it
  knows what nobody can know beforehand.

With `--estimators` only PACT is run, once with each estimator (`auto=FILE` and `paper=FILE` name what `relaytrain fit`
wrote; a file fitted to seeds of this benchmark would be no test), and compared with the first.

Schedules share their prefixes: an epoch is a function of checkpoint, epoch and pair, so what two have in common is
trained once. Energies are compared in pairs, over the seeds where both succeed; intervals are t-intervals at 95 %.

With `--recorded` the same contenders are played on recorded losses of so many seeds that beliefs were not fitted to
(`decisions.py`), `fixed` being chosen on others; a miss is charged until it meets the target, or the cap named there.

Seeds: priors are fitted on 1000 and on, presets were chosen looking at those alone, 2000 and on check the priors, 0 is
the demo's, 100 and on are this benchmark's and nothing else's (docs/decisions/quickstart.md).
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from relaytrain.core.errors import ScenarioError
from relaytrain.core.problem import Pair
from relaytrain.core.state import TOLERANCE
from relaytrain.data.source import read
from relaytrain.relay import loop as orchestrator
from relaytrain.relay.assembly import job_of
from relaytrain.relay.runs import estimator_overrides
from relaytrain.scenario import Scenario, load_scenario
from relaytrain.store import RunStore
from relaytrain.traces.atlas import read_atlas
from relaytrain.traces.atlas_scenario import best_fixed

GOLD, SILVER, BRONZE = Pair("full", "gold"), Pair("medium", "silver"), Pair("small", "bronze")
PLANNERS = ("pact", "one-switch", "static-learn", "single", "fixed")
PLAYED = ("pact", "one-switch")
"""On recorded losses, beside the schedules that are known there."""
HINDSIGHT = "hindsight"
ON_GOLD, ON_SILVER = (16, 20, 12, 24, 8), (4, 8, 2, 12)
"""Likely ones first: what is dearer than the best so far is not trained to its end."""
MOST_EPOCHS = 60
PRESETS = {"digits": ("quickstart", 10), "fashion-mnist": ("fashion", 5)}
"""Preset and number of seeds by data."""
FIRST_SEED = 100
SHOWN = 6000
"""First of the recorded seeds that the demo shows; nothing is fitted to them, and elsewhere they are not reported."""


@dataclass(frozen=True)
class Row:
    """What one contender came to with one seed."""

    seed: int
    name: str
    success: bool
    energy_j: float
    elapsed_s: float
    loss: float
    relay: str
    how: str = "trained"


def scenario_of(data: str, seed: int, planner: str = "pact", estimator: str = "prior", atlas: str = "") -> Scenario:
    """The preset with this seed's data and weights; `estimator` may be `NAME=FILE`."""
    name, _, file = estimator.partition("=")
    chosen = [] if name == "prior" else estimator_overrides(name, Path(file).resolve() if file else None)
    if atlas:
        chosen = [*chosen, f"planner.atlas={json.dumps(str(Path(atlas).resolve()))}"]
    return load_scenario(
        PRESETS[data][0], overrides=[f"training.seed={seed}", f"data.seed={seed}", f"planner.name={planner}", *chosen]
    )


def schedules() -> Iterator[tuple[tuple[Pair, int], ...]]:
    """At most forty; the last pair trains on until target or deadline."""
    for k1 in ON_GOLD:
        yield from (((GOLD, k1), (SILVER, k2), (BRONZE, MOST_EPOCHS)) for k2 in ON_SILVER)
        yield ((GOLD, k1), (BRONZE, MOST_EPOCHS))
        yield ((GOLD, k1), (SILVER, MOST_EPOCHS))
    yield ((SILVER, 16), (BRONZE, MOST_EPOCHS))
    yield ((GOLD, MOST_EPOCHS),)
    yield ((BRONZE, MOST_EPOCHS),)


def one_seed(data: str, seed: int, folder: Path, estimators: tuple[str, ...] = (), atlas: str = "") -> list[Row]:
    """All contenders with one seed; the planners' runs go into the store in `folder`."""
    import torch
    from branches import Branches

    torch.set_num_threads(1)
    trainer = Branches(scenario_of(data, seed))
    if estimators:
        return [_run(scenario_of(data, seed, "pact", e), trainer, folder, (seed, contender(e))) for e in estimators]
    rows = [
        _run(scenario_of(data, seed, planner, atlas=atlas), trainer, folder, (seed, planner)) for planner in PLANNERS
    ]
    rows.append(hindsight(scenario_of(data, seed), trainer, seed))
    return rows


def contender(estimator: str) -> str:
    """What PACT with an estimator is called: `pact` with the prior, `pact-auto`, or by file `pact-auto-own`."""
    name, _, file = estimator.partition("=")
    return "pact" if name == "prior" else f"pact-{name}" + (f"-{Path(file).stem}" if file else "")


def _run(scenario: Scenario, trainer: object, folder: Path, called: tuple[int, str]) -> Row:
    """A run of the product in the store in `folder`."""
    from branches import Branches

    assert isinstance(trainer, Branches)
    seed, name = called
    job = replace(job_of(scenario, setup=trainer.setup), runner=trainer)
    ended = orchestrator.start(job, RunStore.open(folder), run=f"savings-{name}-{seed}")
    relay = " -> ".join(f"{pair} x{count}" for pair, count in ended.legs) or "nothing"
    return Row(seed, name, ended.verdict == "met", ended.energy_j, ended.elapsed_s, ended.loss, relay)


def hindsight(scenario: Scenario, trainer: object, seed: int) -> Row:
    """The cheapest schedule that succeeds; of those that do not, the one with the lowest loss."""
    from branches import Branches

    assert isinstance(trainer, Branches)
    best: Row | None = None
    for schedule in schedules():
        path = [pair for pair, count in schedule for _ in range(count)]
        row = _follow(scenario, trainer, path, seed, math.inf if best is None or not best.success else best.energy_j)
        if row is not None and (best is None or (row.success, -row.energy_j if row.success else -row.loss) > (
            best.success, -best.energy_j if best.success else -best.loss
        )):  # fmt: skip
            best = row
    assert best is not None
    return best


def _follow(scenario: Scenario, trainer: object, path: list[Pair], seed: int, most_j: float) -> Row | None:
    """A schedule to target or deadline; None as soon as it is dearer than `most_j`."""
    from branches import Branches

    assert isinstance(trainer, Branches)
    problem, costs = scenario.problem, scenario.costs
    energy_j = elapsed_s = 0.0
    loss, done = math.inf, []
    epochs = trainer.follow(path)
    at = problem.start
    for now in path:
        index = problem.index(now)
        late = elapsed_s + float(costs.epoch_s[at, index]) > problem.target.deadline_s + TOLERANCE
        if late or not math.isfinite(costs.epoch_s[at, index]):
            break
        energy_j, elapsed_s = energy_j + float(costs.epoch_j[at, index]), elapsed_s + float(costs.epoch_s[at, index])
        if energy_j >= most_j:
            return None
        loss, at = next(epochs).loss, index
        done.append(now)
        if loss <= problem.target.loss + TOLERANCE:
            break
    relay = " -> ".join(f"{pair} x{count}" for pair, count in _runs(done))
    return Row(seed, HINDSIGHT, loss <= problem.target.loss + TOLERANCE, energy_j, elapsed_s, loss, relay)


def _runs(path: list[Pair]) -> list[tuple[Pair, int]]:
    found: list[tuple[Pair, int]] = []
    for pair in path:
        found = [*found[:-1], (pair, found[-1][1] + 1)] if found and found[-1][0] == pair else [*found, (pair, 1)]
    return found


def interval(values: list[float]) -> tuple[float, float]:
    """Mean and half width of its 95 % t-interval."""
    from scipy.stats import t

    if len(values) < 2:
        return float(np.mean(values)), math.inf
    return float(np.mean(values)), float(
        t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
    )


def summary(rows: list[Row], names: Sequence[str] = (*PLANNERS, HINDSIGHT)) -> list[str]:
    """Successes, then mean energies where both succeed with the paired interval of the difference to the first."""
    seeds = sorted({row.seed for row in rows})
    by = {(row.seed, row.name): row for row in rows}
    first = names[0]
    pact = {seed: by[seed, first] for seed in seeds}
    wide = max(14, *(len(name) + 1 for name in names))
    lines = [
        f"{'':{wide}}{'successes':>10}  {f'energy, {first} there':>24}  {first} minus it, where both succeed (95 %)"
    ]
    for name in names:
        mine = {seed: by[seed, name] for seed in seeds}
        won = sum(row.success for row in mine.values())
        both = [seed for seed in seeds if mine[seed].success and pact[seed].success]
        words = ""
        if both and name != first:
            theirs, ours = (float(np.mean([rows_[s].energy_j for s in both])) for rows_ in (mine, pact))
            gap, half = interval([pact[s].energy_j - mine[s].energy_j for s in both])
            side = "excludes 0" if abs(gap) > half else "contains 0"
            more = f"{gap:+8.1f} J +- {half:.1f} ({side}; ratio {ours / theirs:.2f}, {len(both)} seeds)"
            words = f"{theirs:9.1f} J, {ours:9.1f} J  {more}"
        elif name == first and won:
            words = f"{np.mean([row.energy_j for row in mine.values() if row.success]):9.1f} J"
        lines.append(f"{name:{wide}}{won:>4} of {len(seeds):<4} {words}")
    return lines


def recorded(pool: ProcessPoolExecutor, preset: str, count: int) -> list[Mapping[str, Any]]:
    """Means on recorded losses, as rows for a report: the target and deadline of the preset, seeds nobody fitted to."""
    from decisions import FIXED, HINDSIGHT, development_of, reported_of
    from decisions import one_seed as played

    scenario, atlas = load_scenario(preset), read_atlas(preset)
    seeds = reported_of(atlas, SHOWN)[:count]
    best = best_fixed(atlas.only(development_of(atlas)), scenario.costs, scenario.problem)
    cell = (scenario.problem.target.loss, scenario.problem.target.deadline_s)
    names = [*PLAYED, *([FIXED] if best else []), HINDSIGHT]
    choices = {(FIXED, cell): (*best.before, (best.last, 0))} if best else {}
    wanted = [(name, cell) for name in names]
    waiting = [pool.submit(played, preset, preset, seed, wanted, choices, {}) for seed in seeds]
    rows = [row for future in waiting for row in future.result()]
    means = []
    for name in names:
        mine = [row for row in rows if row.rule == name]
        energy_j, met = float(np.mean([row.energy_j for row in mine])), sum(row.met for row in mine)
        print(f"  {name:18}{met:3} of {len(mine)} met {energy_j:8.1f} J in the mean", flush=True)
        called = f"{name}, mean of {len(mine)} other seeds"
        means.append({"name": called, "energy_j": energy_j, "success": met / len(mine), "how": "trained"})
    return means


def main() -> None:
    """Train, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=list(PRESETS), default="digits")
    parser.add_argument("--seeds", type=int, metavar="N", help="how many; by default 10, of Fashion-MNIST 5")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--only", type=int, metavar="SEED", help="one seed, its rows in full")
    parser.add_argument("--keep", type=Path, metavar="STORE", help="keep the planners' runs here")
    parser.add_argument(
        "--rows", type=Path, metavar="FILE", help="all rows as JSON; what is in it already is not trained again"
    )
    parser.add_argument(
        "--others", type=Path, metavar="FILE", help="all but PACT as rows for `relaytrain report --baselines`"
    )
    parser.add_argument(
        "--estimators", nargs="+", metavar="NAME[=FILE]", default=[],
        help="PACT alone, with each of prior, zero-trace, auto=FILE, paper=FILE",
    )  # fmt: skip
    parser.add_argument("--atlas", metavar="FILE", default="", help="what fixed is chosen from (the bundled one)")
    parser.add_argument("--recorded", type=int, metavar="N", default=0, help="means over N recorded seeds, too")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    began = time.monotonic()
    count = given.seeds or PRESETS[given.data][1]
    seeds = list(range(given.first_seed, given.first_seed + count)) if given.only is None else [given.only]
    if given.data != "digits":
        try:
            read(given.data)
        except ScenarioError as error:
            parser.error(str(error))  # says how to get the files
    rows: list[Row] = []
    if given.rows is not None and given.rows.exists():
        rows = [Row(**row) for row in json.loads(given.rows.read_text()) if row["seed"] in seeds]
    names = tuple(contender(e) for e in given.estimators) or (*PLANNERS, HINDSIGHT)
    missing = [seed for seed in seeds if {row.name for row in rows if row.seed == seed} < set(names)]
    rows = [row for row in rows if row.seed not in missing]
    means: list[Mapping[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        place = given.keep or Path(scratch)
        RunStore.open(place)
        busy = min(given.processes, max(1, len(missing), given.recorded))
        with ProcessPoolExecutor(busy, mp_context=get_context("spawn")) as pool:
            places = [place / str(seed) if given.keep is None else place for seed in missing]
            chosen = [tuple(given.estimators)] * len(missing)
            recorded_at = [given.atlas] * len(missing)
            for found in pool.map(one_seed, [given.data] * len(missing), missing, places, chosen, recorded_at):
                rows += found
                print(f"seed {found[0].seed}, {time.monotonic() - began:.0f} s", flush=True)
                for row in found:
                    print(
                        f"  {row.name:18}{'met' if row.success else 'missed':7}{row.energy_j:8.1f} J "
                        f"{row.elapsed_s:7.1f} s  {row.relay}",
                        flush=True,
                    )
                if given.rows is not None:
                    given.rows.write_text(json.dumps([asdict(row) for row in rows], indent=1))
            if given.recorded:
                print(f"over {given.recorded} recorded seeds, fixed being chosen on others:", flush=True)
                means = recorded(pool, PRESETS[given.data][0], given.recorded)
    if given.others is not None:
        trained = [asdict(row) for row in rows if row.name != "pact"]
        given.others.write_text(json.dumps([*trained, *means], indent=1))
    if given.only is None:
        print("\n" + "\n".join(summary(rows, names)))


if __name__ == "__main__":
    main()
