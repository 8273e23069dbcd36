"""Would a probe leg pay: some epochs on another pair for what they teach, then on from the checkpoint before them?

    python benchmarks/probes.py quickstart                # three targets, every fourth development seed
    python benchmarks/probes.py deeper --belief wide      # where nothing was measured

The rule `sampled` is played on the development seeds of a bundled atlas, deciding at its nodes (`on_grid.py`). At every
node each other pair that could be begun is thought of as probed for two, four or eight epochs. What that would teach is
worked out over 512 worlds of the estimator's own belief: every world in turn is the truth and shows losses with luck
drawn anew; the other half of the worlds is weighted by how likely those losses are in them, and the schedule is chosen
that is cheapest so weighted. What it then costs in the true world, against the schedule chosen without the probe, is
the probe's value; its cost is the way there and its epochs. A probe pays where its value, on the side of the doubt
(mean plus two standard errors), exceeds its cost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from decisions import Bench, Cell, Legs, believing, cells_of, development_of, parser_of
from numpy.typing import NDArray
from on_grid import SAMPLED, NodeLoop

from relaytrain.core.worlds import Worlds
from relaytrain.planners.pact.sampled import best_schedule
from relaytrain.planners.pact.schedules import Walker, packed, trails_of

WORLDS = 512
EPOCHS = (2, 4, 8)
MOST_SCHEDULES = 96


@dataclass(frozen=True)
class Worth:
    """What a probe would teach, in joules, with its standard error, and what it would cost."""

    pair: int
    epochs: int
    value_j: float
    error_j: float
    cost_j: float

    @property
    def pays(self) -> bool:
        """Given the benefit of the doubt."""
        return self.value_j + 2.0 * self.error_j > self.cost_j


def by_world(walker: Walker, schedules: list[Legs]) -> NDArray[np.float64]:
    """Expected joules (N, S) of every schedule in every world."""
    tried = packed(schedules)
    single = []
    for world in range(len(walker.worlds)):
        alone = Walker.__new__(Walker)
        alone.__dict__.update(walker.__dict__)
        alone.worlds = walker.worlds.only(np.array([world]))
        single.append(alone.follow(tried, 1)[0])
    return np.array(single)


def shown(walker: Walker, pair: int, epochs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logarithms (N, K) of the losses that a probe would show but for luck, and the spread (N, K) of luck."""
    worlds: Worlds = walker.worlds
    goal = walker.goal
    walker.goal = np.array([-20.0, np.inf, 1e9])  # a probe is not the run: it neither arrives nor is late
    trails, _ = trails_of(walker, ((pair, epochs),), epochs)
    walker.goal = goal
    columns = np.minimum(np.arange(epochs), worlds.scatter.shape[1] - 1)
    return np.log(np.maximum(trails[:, :epochs, 2], 1e-9)), worlds.luck[:, [pair]] * worlds.scatter[pair, columns]


def saved(
    joules: NDArray[np.float64], curves: NDArray[np.float64], luck: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """What is saved in each world by having seen what it shows; schedules are chosen on the other half of them."""
    gains = np.empty(len(joules))
    halves = np.arange(0, len(joules), 2), np.arange(1, len(joules), 2)
    for mine, others in (halves, halves[::-1]):
        blind = int(np.argmin(joules[others].mean(axis=0)))
        for world in mine:
            seen = curves[world] + luck[world] * rng.standard_normal(curves.shape[1])
            away = (seen - curves[others]) / luck[others]
            logs = -0.5 * (away**2).sum(axis=1) - np.log(luck[others]).sum(axis=1)
            weights = np.exp(logs - logs.max())
            chosen = int(np.argmin(weights @ joules[others]))
            gains[world] = joules[world, blind] - joules[world, chosen]
    return gains


class Probing(NodeLoop):
    """The loop at nodes, with a look at every probe before each decision."""

    def __init__(self, bench: Bench, seed: int, cell: Cell) -> None:
        super().__init__(bench, bench.scenario, seed, cell)
        self.worths: list[tuple[int, Worth]] = []

    def _sampled(self) -> int | None:
        worlds = self.estimator.sample(self.history, self.problem.pairs, WORLDS, self.seed)  # type: ignore[attr-defined]
        best = best_schedule(self.problem, self.bench.costs, worlds, self.state)
        if best is not None:
            walker = Walker(self.problem, self.bench.costs, worlds, self.state)
            left = best.runners_up
            joules = by_world(walker, [left.legs(index) for index in range(min(len(left), MOST_SCHEDULES))])
            rng = np.random.default_rng([self.seed, self.state.epoch])
            for pair in np.flatnonzero(walker.open[self.state.pair] & walker.open.diagonal()):
                if pair != self.state.pair:
                    self.worths += [(self.state.epoch, self._worth(walker, joules, int(pair), n, rng)) for n in EPOCHS]
        return super()._sampled()

    def _worth(
        self, walker: Walker, joules: NDArray[np.float64], pair: int, epochs: int, rng: np.random.Generator
    ) -> Worth:
        gains = saved(joules, *shown(walker, pair, epochs), rng)
        costs, at = self.bench.costs, self.state.pair
        cost_j = float(costs.epoch_j[at, pair] + (epochs - 1) * costs.epoch_j[pair, pair])
        return Worth(pair, epochs, float(gains.mean()), float(gains.std() / np.sqrt(len(gains))), cost_j)


def main() -> None:
    """Play, look, print."""
    given = parser_of(__doc__).parse_args()
    bench = Bench(given.scenario, given.atlas or given.scenario)
    bench.scenario = believing(bench.scenario, given.belief)
    for cell in cells_of(given)[::3] if not given.cells else cells_of(given):
        nodes, looked, paid = 0, Counter[str](), Counter[str]()
        best: tuple[float, str] = (-np.inf, "")
        for seed in development_of(bench.atlas)[::4]:
            loop = Probing(bench, seed, cell)
            loop.play(SAMPLED)
            nodes += len({epoch for epoch, _ in loop.worths})
            for epoch, worth in loop.worths:
                name = str(bench.scenario.problem.pairs[worth.pair])
                looked[name] += 1
                paid[name] += worth.pays
                said = f"{name} x{worth.epochs} after {epoch} epochs of seed {seed}: "
                said += f"teaches {worth.value_j:.1f} +- {2 * worth.error_j:.1f} J, costs {worth.cost_j:.1f} J"
                best = max(best, (worth.value_j - worth.cost_j, said))
        rows = ", ".join(f"{name} {paid[name]} of {count}" for name, count in sorted(looked.items()))
        print(f"{given.scenario} {cell[0]:g} by {cell[1]:g} s, {nodes} decisions: would pay: {rows}", flush=True)
        print(f"  the best: {best[1]}", flush=True)


if __name__ == "__main__":
    main()
