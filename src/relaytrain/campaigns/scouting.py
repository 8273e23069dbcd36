"""Scouting: one run, then the branches that it did not take, as far as a budget of joules reaches.

A run shows what its own choices came to and nothing of the others, so runs of one policy teach the next one little.
What teaches is a branch not taken. So the product's own loop runs once, on a seed of its own, and then branches off:

* pairs that it never tried, from where it left the first one;
* the pairs of its later legs, taken early (after a quarter of the first leg) and directly;
* its second leg after a longer first one.

The cheapest lesson comes first; a leg is cut short where the budget ends. When all are known the same is done with
another seed, for what differs between seeds is doubt too. All is trained for real and kept in an atlas, from which the
same scouting goes on after an interruption.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.cost import CostTable
from ..core.state import TOLERANCE
from ..estimators.choose import estimator_for
from ..estimators.prior.fitting import taught
from ..planners.over_worlds import drawn_by
from ..planners.pact.sampled import Sampled, best_schedule
from ..planners.pact.schedules import Legs, Walker, packed
from ..relay.job import Job, Settings
from ..relay.journal import MemoryJournal
from ..relay.loop import RelayLoop
from ..relay.replay import AtlasRunner, Missing
from ..scenario import Scenario, load_scenario
from ..traces.atlas import Atlas, LegKey, Way

LEG, LEAST = 12, 4
"""Epochs of a branch, and the least that a curve can be fitted to."""
MOST_SEEDS = 8
WORLDS = 256


@dataclass(frozen=True)
class Lesson:
    """A leg that was trained for what it teaches."""

    seed: int
    key: LegKey
    epochs: int
    energy_j: float


@dataclass
class Scouted:
    """What a scouting came to: the run itself, the branches, and all that was spent, of the budget."""

    run: Way
    run_met: bool
    run_j: float
    budget_j: float
    spent_j: float = 0.0
    lessons: list[Lesson] = field(default_factory=list)


@dataclass(frozen=True)
class Saving:
    """Joules of the relay that was planned without the scouting and of the one planned with it, followed to the end in
    worlds of what is believed now; `energy_interval_j` of the latter in 8 of 10 worlds, and its `probability`."""

    before_j: float
    after_j: float
    energy_interval_j: tuple[float, float]
    probability: float
    relay: str


class Scouting:
    """One scouting of a scenario.

    Args:
        scenario: with `[data]`; whatever it believes of its losses is what the run begins with.
        costs: with changes that cannot be made taken out.
        atlas: where legs are kept.
        missing: trains them.
        seed: of the run; branches of further seeds follow it.
        worlds: that the run is decided over.
        save: called whenever a leg was added.
        progress: hears joules spent and the budget.
    """

    def __init__(
        self,
        scenario: Scenario,
        costs: CostTable,
        atlas: Atlas,
        missing: Missing,
        *,
        seed: int = 0,
        worlds: int = WORLDS,
        save: Callable[[], None] = lambda: None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.scenario, self.costs, self.atlas, self.missing, self.seed = scenario, costs, atlas, missing, seed
        self.planner, self.save, self.progress = Sampled(worlds, explained=False), save, progress

    def scout(self, budget: Callable[[float], float]) -> Scouted:
        """Run, then branch off; `budget` says how many joules there are in all, by those of the run."""
        done = self._run()
        done.budget_j = budget(done.run_j)
        done.spent_j = self.spent_j()
        for seed in range(self.seed, self.seed + MOST_SEEDS):
            if seed != self.seed and not self._relay_of(seed, done):
                break
            for key in sorted(self._branches(done.run), key=lambda key: self._leg_j(key, LEG)):
                self._lesson(seed, key, LEG, done)
        return done

    def spent_j(self) -> float:
        """Of all legs that are held from the scouting's seeds."""
        seeds = range(self.seed, self.seed + MOST_SEEDS)
        held = [(key, len(leg.losses)) for seed in seeds for key, leg in self.atlas.seeds.get(seed, {}).items()]
        return math.fsum(self._leg_j(key, epochs) for key, epochs in held)

    def _leg_j(self, key: LegKey, epochs: int) -> float:
        if not epochs:
            return 0.0
        before = key.before[-1][0] if key.before else self.atlas.start
        first, on = self.costs.epoch_j[before, key.pair], self.costs.epoch_j[key.pair, key.pair]
        return float(first + (epochs - 1) * on)

    def _held(self, seed: int, key: LegKey) -> int:
        """Epochs of a leg that the atlas has."""
        leg = self.atlas.leg(seed, key)
        return 0 if leg is None else len(leg.losses)

    def _run(self) -> Scouted:
        """The product's own loop."""
        scenario, runner = self.scenario, AtlasRunner(self.atlas, self.seed, self._kept)
        job = Job(
            scenario.problem,
            self.costs,
            scenario.law,
            lambda probed: estimator_for(scenario, probed),
            self.planner,
            runner,
            Settings(seed=self.seed),
        )
        first = runner.first()
        journal = MemoryJournal("scouting", first, scenario.problem.pairs, scenario.problem.start)
        ended = RelayLoop(job, journal, runner.probe(first).metric(scenario.problem.target.metric)).begin(first)
        way = tuple((scenario.problem.index(pair), count) for pair, count in ended.legs)
        return Scouted(way, ended.verdict == "met", ended.energy_j, math.inf)

    def _kept(self, seed: int, key: LegKey, epochs: int) -> Any:
        leg = self.missing(seed, key, epochs)
        self.save()
        return leg

    def _relay_of(self, seed: int, done: Scouted) -> bool:
        """The run's own legs with another seed; whether the budget reached for all of them."""
        for position, (pair, epochs) in enumerate(done.run):
            if not self._lesson(seed, LegKey(done.run[:position], pair), epochs, done):
                return False
        return bool(done.run)

    def _branches(self, run: Way) -> Iterator[LegKey]:
        if not run:
            return
        (first, epochs), later = run[0], list(dict.fromkeys(pair for pair, _ in run[1:]))
        open_to = [q for q in range(len(self.atlas.pairs)) if q != first and self._can(first, q)]
        seen: set[LegKey] = {LegKey(run[:position], pair) for position, (pair, _) in enumerate(run)}
        ways = [((first, epochs), pair) for pair in open_to if pair not in later]
        ways += [((first, max(epochs // 4, 1)), pair) for pair in later]
        ways += [((first, epochs), pair) for pair in later]
        ways += [((first, epochs + max(epochs // 2, 2)), pair) for pair in later[:1]]
        for before, pair in ways:
            key = LegKey((before,), pair)
            if key not in seen and self._can(first, pair):
                seen.add(key)
                yield key

    def _can(self, before: int, now: int) -> bool:
        """Whether the pair `now` can follow `before`, and go on."""
        costs = self.costs.epoch_j + self.costs.epoch_s
        return bool(math.isfinite(costs[before, now]) and math.isfinite(costs[now, now]))

    def _lesson(self, seed: int, key: LegKey, epochs: int, done: Scouted) -> bool:
        """Train a leg if the budget reaches, as far as it does; whether it did for all of it."""
        way = [(LegKey(key.before[:position], pair), count) for position, (pair, count) in enumerate(key.before)]
        before_j = 0.0
        for leg, count in way:
            if (held := self._held(seed, leg)) < count:
                before_j += self._leg_j(leg, count)
                before_j -= self._leg_j(leg, held)
        known = self._held(seed, key)
        left, wanted = done.budget_j - done.spent_j - before_j, epochs
        already = self._leg_j(key, known)
        while wanted > known and self._leg_j(key, wanted) - already > left + TOLERANCE:
            wanted -= 1
        if wanted <= known:
            return known >= epochs
        if wanted < min(LEAST, epochs):
            return False
        self._kept(seed, key, wanted)
        for leg, count in way:  # what the way there took is kept as well
            self._kept(seed, leg, count)
        spent_j = self.spent_j()
        done.lessons.append(Lesson(seed, key, wanted, spent_j - done.spent_j))
        done.spent_j = spent_j
        if self.progress is not None:
            self.progress(round(done.spent_j), max(round(done.budget_j), 1))
        return wanted == epochs

    def taught(self) -> dict[str, Any]:
        """The scenario with what the legs teach."""
        seeds = [seed for seed in range(self.seed, self.seed + MOST_SEEDS) if self.atlas.seeds.get(seed)]
        return taught(self.scenario, self.atlas.only(seeds))

    def saving(self, tables: dict[str, Any]) -> Saving | None:
        """What the next run is expected to save; None where no relay can be planned, or none met the target so far."""
        if not self._met():
            return None
        after = replace(load_scenario(tables), source=self.scenario.source)
        problem = after.problem
        state = problem.first_state
        drawn = [drawn_by(estimator_for(each), (), problem.pairs, WORLDS, 0) for each in (self.scenario, after)]
        plans = [best_schedule(problem, self.costs, worlds, state) for worlds in drawn if worlds is not None]
        if drawn[1] is None or len(plans) < len(drawn) or plans[0] is None or plans[1] is None:
            return None
        walker = Walker(problem, self.costs, drawn[1], state)
        energy, _ = walker.follow(packed([plans[0].legs, plans[1].legs]), WORLDS)
        stated = self.planner.plan(problem, self.costs, after.law, state, drawn[1])
        interval = stated.energy_interval_j or (stated.energy_j, stated.energy_j)
        relay = self.said(plans[1].legs)
        return Saving(float(energy[0]), float(energy[1]), interval, stated.probability, relay)

    def _met(self) -> bool:
        """Whether a relay of the scouting came to the target at all; else what it would take is not known."""
        seeds = range(self.seed, self.seed + MOST_SEEDS)
        legs = (leg for seed in seeds for leg in self.atlas.seeds.get(seed, {}).values())
        return any(loss <= self.scenario.problem.target.loss for leg in legs for loss in leg.losses)

    def said(self, legs: Legs) -> str:
        """A relay in words, its last leg training on."""
        names = [f"{self.atlas.pairs[pair]} x{count}" for pair, count in legs[:-1]]
        return " -> ".join([*names, f"{self.atlas.pairs[legs[-1][0]]} until met"])
