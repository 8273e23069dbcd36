"""Is what a plan states kept? Its probability and 80 % interval of the energy, against loops with scatter drawn anew.

    python benchmarks/stated.py                             # four settings, 400 loops each, test seeds
    python benchmarks/stated.py quickstart 0.28/600 --loops 100 --dev
    python benchmarks/stated.py --every 4                    # a quarter of the plans: each is kept to for four epochs
    python benchmarks/stated.py quickstart 0.28/600 --exact  # each test seed once, as it was recorded
    python benchmarks/stated.py quickstart 0.28/80 --dev --others    # each with a belief fitted to the other ones

A loop is the product's own over a seed of the bundled atlas: every recorded leg is smoothed (a running mean of the
logarithm, as wide as the ends of the leg allow, at most seven epochs), and the scatter that was taken away is drawn
anew from that of the same pair at about the same epoch of a leg, all seeds together. A way that was not recorded is
played by the nearest one that was, a leg that goes on beyond its end rests there. What is stated is the first plan's;
what is kept is counted with its Wilson interval at 95 %, as if every loop were a draw of its own. Loops of one seed
mostly end alike, so beside it stands the interval of a mean over seeds (seeds drawn again, 10,000 times).

With `--exact` a seed is played as it was recorded, and what a plan asks for beside that is trained.

Seeds: all that no belief was fitted to (6000 and on), or with `--dev` those that it was (5000 and on). `--rows FILE`
keeps every loop with its seed.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from decisions import DEVELOPMENT, Bench, Cell, development_of
from fit_presets import taught_scenario
from numpy.typing import NDArray

from relaytrain import api
from relaytrain.core.law import LossLaw
from relaytrain.core.plan import Plan
from relaytrain.core.problem import Problem
from relaytrain.core.worlds import Worlds
from relaytrain.estimators.choose import estimator_for
from relaytrain.planners.registry import planner_for
from relaytrain.relay.job import Job, Settings
from relaytrain.relay.journal import MemoryJournal
from relaytrain.relay.loop import RelayLoop
from relaytrain.relay.replay import AtlasRunner
from relaytrain.report.audit_rates import wilson
from relaytrain.traces.atlas import Atlas, AtlasLeg, LegKey, read_atlas

SETTINGS = [
    ("quickstart", (0.28, 600.0)),
    ("quickstart", (0.28, 80.0)),
    ("fashion", (0.80, 300.0)),
    ("deeper", (0.26, 600.0)),
]
HALF_WIDTH = 3
NEAR_EPOCHS = 2.0
"""Scatter is drawn from epochs of a leg within this factor."""


@dataclass(frozen=True)
class Kept:
    """One loop of a seed: what the first plan stated, and what came of it."""

    seed: int
    stated: float
    low_j: float
    high_j: float
    expected_j: float
    met: bool
    energy_j: float


def smoothed(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Running mean of the logarithm."""
    logs = np.log(losses)
    widths = [min(i, len(logs) - 1 - i, HALF_WIDTH) for i in range(len(logs))]
    return np.array([logs[i - w : i + w + 1].mean() for i, w in enumerate(widths)])


class Surface:
    """Smooth legs of all seeds, and the scatter taken away, by pair and epoch of a leg."""

    def __init__(self, atlas: Atlas) -> None:
        self.atlas = atlas
        self.legs = {
            (seed, key): smoothed(np.array(leg.losses))
            for seed, legs in atlas.seeds.items()
            for key, leg in legs.items()
        }
        heaps: dict[int, list[tuple[int, float]]] = {}
        for (seed, key), smooth in self.legs.items():
            logs = np.log(atlas.seeds[seed][key].losses)
            for i in range(len(logs)):
                width = 2 * min(i, len(logs) - 1 - i, HALF_WIDTH) + 1
                if width > 1:  # what a mean of `width` leaves of independent scatter
                    heaps.setdefault(key.pair, []).append(
                        (i + 1, float(logs[i] - smooth[i]) / math.sqrt(1 - 1 / width))
                    )
        self.scatter = {pair: np.array(heap) for pair, heap in heaps.items()}

    def scattered(self, pair: int, smooth: NDArray[np.float64], epochs: int, rng: np.random.Generator) -> list[float]:
        """Losses of a leg with scatter drawn anew."""
        heap = self.scatter[pair]
        losses = []
        for i in range(epochs):
            epoch = min(i + 1, float(heap[:, 0].max()))  # later than was recorded, as late as was
            near = heap[np.abs(np.log(heap[:, 0] / epoch)) <= math.log(NEAR_EPOCHS), 1]
            drawn = float(rng.choice(near))
            losses.append(math.exp(float(smooth[min(i, len(smooth) - 1)]) + drawn))
        return losses

    def nearest(self, seed: int, key: LegKey) -> LegKey:
        """The recorded leg whose way is most like this one's."""

        def away(other: LegKey) -> tuple[float, float]:
            mine, theirs = [leg for leg in key.before if leg[1]][-2:], list(other.before)
            if [pair for pair, _ in mine] != [pair for pair, _ in theirs]:
                epochs = (sum(n for _, n in before) for before in (key.before, other.before))
                return 1.0, abs(next(epochs) - next(epochs))
            return 0.0, sum(abs(n - m) for (_, n), (_, m) in zip(mine, theirs, strict=True))

        return min((other for other in self.atlas.seeds[seed] if other.pair == key.pair), key=lambda o: (away(o), o))

    def loop(self, seed: int, chance: int) -> AtlasRunner:
        """One seed with new scatter."""
        rng = np.random.default_rng([seed, chance])
        atlas = replace(self.atlas, seeds={seed: {}})

        def missing(seed: int, key: LegKey, epochs: int) -> AtlasLeg:
            like = self.nearest(seed, key)
            held = atlas.seeds[seed].setdefault(
                key, AtlasLeg(self.atlas.seeds[seed][like].start, [], self.atlas.seeds[seed][like].handed)
            )
            whole = self.scattered(key.pair, self.legs[seed, like], max(2 * epochs, 32), rng) if epochs else []
            held.losses += whole[len(held.losses) :] if len(held.losses) < epochs else []
            return held

        return AtlasRunner(atlas, seed, missing)


class Noting:
    """A planner that remembers its first plan, and keeps to each for `every` epochs."""

    def __init__(self, planner: Any, every: int) -> None:
        self.planner, self.every, self.name = planner, every, planner.name
        self.first: Plan | None = None
        self.last: tuple[int, Plan] | None = None

    def anew(self) -> Plan:
        """The first plan; forgets both."""
        assert self.first is not None
        plan, self.first, self.last = self.first, None, None
        return plan

    @property
    def worlds(self) -> int:
        """None are wanted as long as the last plan is kept to."""
        return 0 if self._stale() is not None else int(self.planner.worlds)

    def _stale(self) -> Plan | None:
        if self.last is None:
            return None
        gone, plan = self.last
        return plan if gone + 1 < min(self.every, len(plan.decisions)) else None

    def plan(self, *given: Any) -> Plan:
        """As the planner does."""
        if (plan := self._stale()) is not None:
            assert self.last is not None
            gone = self.last[0] + 1
            self.last = gone, plan
            left = {name: getattr(plan, name)[gone:] for name in ("decisions", "losses", "guaranteed")}
            return replace(plan, **left)
        fresh: Plan = self.planner.plan(*given)
        self.first, self.last = self.first or fresh, (0, fresh)
        return fresh


@dataclass(frozen=True)
class Drawing:
    """An estimator's worlds alone: the law that a loop asks for, too, is the scenario's, and decides nothing."""

    estimator: Any
    usual: LossLaw

    def law(self, history: Any, pairs: Any) -> LossLaw:
        """The scenario's."""
        return self.usual

    def sample(self, *given: Any) -> Worlds:
        """As the estimator does."""
        worlds: Worlds = self.estimator.sample(*given)
        return worlds


def tested_of(atlas: Atlas) -> list[int]:
    """Seeds that are not for development."""
    return [seed for seed in sorted(atlas.seeds) if seed >= DEVELOPMENT + 1000]


def without(name: str, seed: int) -> Any:
    """The scenario with a belief fitted to all development seeds but one."""
    atlas = read_atlas(name)
    return taught_scenario(api.scenario(name), atlas.only([other for other in development_of(atlas) if other != seed]))


def play(name: str, cell: Cell, seed: int, chances: range, given: argparse.Namespace) -> list[Kept]:
    """Loops of one seed."""
    from relaytrain.relay.assembly import possible_changes
    from relaytrain.training.setup import TrainingSetup

    every, exact = given.every, given.exact
    scenario = without(name, seed) if given.others else api.scenario(name)
    surface = Bench(name, name) if exact else Surface(read_atlas(name))
    costs = possible_changes(TrainingSetup.from_scenario(scenario), scenario.problem, scenario.costs)
    target = replace(scenario.problem.target, loss=cell[0], deadline_s=cell[1])
    problem = replace(scenario.problem, target=target)
    noting = Noting(replace(planner_for(scenario), explained=False), every)  # type: ignore[type-var]
    rows = []

    def believed(probed: Problem) -> Drawing:
        return Drawing(estimator_for(scenario, probed), scenario.law)

    for chance in chances:
        runner = surface.runner(seed) if isinstance(surface, Bench) else surface.loop(seed, chance)
        settings = Settings(seed=seed if exact else seed * 1000 + chance)
        job = Job(problem, costs, scenario.law, believed, noting, runner, settings)
        first = runner.first()
        journal = MemoryJournal("played", first, problem.pairs, problem.start)
        ended = RelayLoop(job, journal, runner.probe(first).loss).begin(first)
        plan = noting.anew()
        low_j, high_j = plan.energy_interval_j or (math.nan, math.nan)
        rows.append(Kept(seed, plan.probability, low_j, high_j, plan.energy_j, ended.verdict == "met", ended.energy_j))
    return rows


def over_seeds(rows: list[Kept], draws: int = 10_000) -> tuple[float, float]:
    """Between what shares of loops kept 95 % of draws lie, if seeds are drawn again with all their loops."""
    kept = np.array([np.mean([row.met for row in rows if row.seed == seed]) for seed in {row.seed for row in rows}])
    means = np.random.default_rng(0).choice(kept, (draws, len(kept))).mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", nargs="?")
    parser.add_argument("cell", nargs="?", metavar="LOSS/SECONDS")
    parser.add_argument("--loops", type=int, default=400)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="plan after so many epochs (1)")
    parser.add_argument("--exact", action="store_true", help="every seed once, as recorded")
    parser.add_argument("--dev", action="store_true", help="development seeds")
    parser.add_argument(
        "--others", action="store_true", help="each seed with a belief fitted to the other ones (--dev)"
    )
    parser.add_argument("--rows", type=Path, metavar="FILE", help="keep every loop here")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    settings = SETTINGS
    if given.scenario and given.cell:
        loss, late = given.cell.split("/")
        settings = [(given.scenario, (float(loss), float(late)))]
    if given.others and not given.dev:
        parser.error("--others goes with --dev: no belief is fitted to the other seeds")
    kept: list[dict[str, Any]] = []
    for name, cell in settings:
        seeds = (development_of if given.dev else tested_of)(read_atlas(name))
        each = 1 if given.exact else math.ceil(given.loops / len(seeds))
        began = time.monotonic()
        with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
            jobs = [pool.submit(play, name, cell, seed, range(each), given) for seed in seeds]
            rows = [row for job in jobs for row in job.result()]
        kept += [{"scenario": name, "cell": cell, **asdict(row)} for row in rows]
        if given.rows is not None:
            given.rows.write_text(json.dumps(kept, indent=1))
        met = sum(row.met for row in rows)
        low, high = wilson(met, len(rows))
        seeds_low, seeds_high = over_seeds(rows)
        stated = float(np.mean([row.stated for row in rows]))
        within = sum(row.low_j <= row.energy_j <= row.high_j for row in rows)
        bounds = wilson(within, len(rows))
        joules = {key: float(np.mean([getattr(row, key) for row in rows])) for key in ("expected_j", "low_j", "high_j")}
        print(
            f"{name} {cell[0]:g} by {cell[1]:g} s, {len(rows)} loops over {len(seeds)} seeds, "
            f"{time.monotonic() - began:.0f} s\n"
            f"  stated {stated:.3f}, kept {met / len(rows):.3f} [{low:.3f}, {high:.3f}]: "
            f"{'holds' if stated <= high else 'does not hold'}; over seeds [{seeds_low:.3f}, {seeds_high:.3f}]: "
            f"{'holds' if stated <= seeds_high else 'does not hold'}\n"
            f"  energy stated {joules['expected_j']:.1f} J, {joules['low_j']:.1f} to {joules['high_j']:.1f}; "
            f"spent {np.mean([row.energy_j for row in rows]):.1f} J, "
            f"{within / len(rows):.3f} [{bounds[0]:.3f}, {bounds[1]:.3f}] of them within",
            flush=True,
        )


if __name__ == "__main__":
    main()
