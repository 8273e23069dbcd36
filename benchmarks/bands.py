"""Are bands as wide as losses miss? Where recorded losses lie in what the belief foresaw, so many epochs ahead.

    python benchmarks/bands.py                                 # quickstart, fashion, deeper; test seeds
    python benchmarks/bands.py quickstart --belief FILE --every 1

Along recorded ways (`WAYS`), after every so many epochs, worlds are drawn from what the run has shown by then, and the
loss that came `AHEAD` epochs later is placed among them, their luck included. A share of 0.9 below the 0.9 level is
what a bound stated at 90 % promises. `within` means without a handover on the way, `across` with one. Seeds: all that
no belief was fitted to; epochs of one run are not independent, so shares are as sure as seeds are many.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace

import numpy as np
from decisions import Bench, Legs, believing
from scipy.special import ndtr
from stated import tested_of

from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.core.state import State
from relaytrain.core.worlds import Worlds
from relaytrain.estimators.choose import estimator_for
from relaytrain.planners.pact.sampled import WORLDS
from relaytrain.planners.pact.schedules import Walker, trails_of
from relaytrain.scenario import Scenario
from relaytrain.traces.atlas import LegKey

AHEAD = (1, 4, 16)
LEVELS = (0.05, 0.1, 0.5, 0.9, 0.95)
REST = 99
WAYS: dict[str, tuple[Legs, ...]] = {
    name: (((0, most), (3, next_)), ((0, 8), (3, 8)), ((0, 12),))
    for name, most, next_ in (("quickstart", 24, 16), ("fashion", 24, 16), ("deeper", 16, 12))
}
"""Epochs on gold and on silver; then bronze as far as it was recorded."""
LAST = 5


@dataclass(frozen=True)
class Placed:
    """A loss: epochs ahead, whether a handover lay between, where it lies among the worlds, 0 to 1."""

    ahead: int
    across: bool
    share: float


def placed(bench: Bench, scenario: Scenario, seed: int, way: Legs, every: int) -> list[Placed]:
    """All losses of one way."""
    atlas, costs = bench.atlas, bench.costs
    path, losses, probes = [], [], []
    for i, (pair, count) in enumerate(way):
        leg = atlas.seeds[seed][LegKey(way[:i], pair)]
        for epoch, loss in enumerate(leg.losses[:count]):
            path.append(pair)
            losses.append(loss)
            probes.append(leg.start if i and not epoch else None)
    first = atlas.seeds[seed][LegKey((), atlas.start)].start
    target = replace(scenario.problem.target, loss=1e-9, deadline_s=1e9)
    problem = replace(scenario.problem, target=target, initial_loss=first)
    estimator = estimator_for(scenario, problem)
    history: list[EpochOutcome] = []
    state, found = State(0, first, 0.0, atlas.start), []
    for done, pair in enumerate(path):
        if done % every == 0:
            worlds = estimator.sample(history, problem.pairs, WORLDS, seed)  # type: ignore[attr-defined]
            trails, _ = trails_of(Walker(problem, costs, worlds, state), _legs(path[done:]))
            for ahead in AHEAD:
                if done + ahead <= len(path):
                    share = _share(worlds, trails[:, ahead - 1, 2], path[: done + ahead], losses[done + ahead - 1])
                    across = len({state.pair, *path[done : done + ahead]}) > 1
                    found.append(Placed(ahead, across, share))
        at, named = state.pair, problem.pairs[pair]
        elapsed_s, energy_j = float(costs.epoch_s[at, pair]), float(costs.epoch_j[at, pair])
        state = State(done + 1, losses[done], state.elapsed_s + elapsed_s, pair, state.energy_j + energy_j)
        decision = Decision(done + 1, named.version, named.nodes)
        history.append(
            EpochOutcome(decision, losses[done], state.elapsed_s, state.energy_j, handover_loss=probes[done])
        )
    return found


def _legs(path: list[int]) -> Legs:
    legs: list[tuple[int, int]] = []
    for pair in path:
        legs = [*legs[:-1], (pair, legs[-1][1] + 1)] if legs and legs[-1][0] == pair else [*legs, (pair, 1)]
    return tuple(legs)


def _share(worlds: Worlds, shown: np.ndarray, path: list[int], loss: float) -> float:
    """How many of the worlds, with luck, lie below a loss at the end of `path`."""
    pair, on_leg = path[-1], _legs(path)[-1][1]
    scatter = worlds.scatter[pair, min(on_leg, worlds.scatter.shape[1]) - 1] * worlds.luck[:, pair]
    return float(ndtr((math.log(loss) - np.log(shown)) / scatter).mean())


def main() -> None:
    """Place and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", default=list(WAYS), metavar="SCENARIO", help=", ".join(WAYS))
    parser.add_argument("--belief", metavar="wide|FILE", help="what is thought of the losses, instead of the preset")
    parser.add_argument("--every", type=int, default=4, metavar="N", help="foresee after so many epochs (4)")
    given = parser.parse_args()
    print(f"{'':34}{'losses':>7}  below the level " + "  ".join(f"{level:5}" for level in LEVELS))
    for name in given.scenarios:
        bench = Bench(name, name)
        scenario, seeds = believing(bench.scenario, given.belief), tested_of(bench.atlas)
        rows = [
            one
            for seed in seeds
            for way in WAYS[name]
            for one in placed(bench, scenario, seed, (*way, (LAST, REST)), given.every)
        ]
        for ahead in AHEAD:
            for across in (False, True):
                shares = np.array([row.share for row in rows if (row.ahead, row.across) == (ahead, across)])
                if len(shares) >= 5:
                    said = f"{name}, {len(seeds)} seeds, {ahead:2} ahead, {'across' if across else 'within'}"
                    below = "  ".join(f"{np.mean(shares <= level):5.3f}" for level in LEVELS)
                    print(f"{said:34}{len(shares):>7}  {'':15} {below}", flush=True)


if __name__ == "__main__":
    main()
