"""Which rule decides best on the nodes of an atlas: no training, all targets and deadlines in minutes.

    python benchmarks/on_grid.py quickstart                   # reported seeds, nine cells
    python benchmarks/on_grid.py deeper --dev --others        # each development seed with a belief fitted to the others
    python benchmarks/on_grid.py fashion --belief wide --cells 0.80/300

`benchmarks/decisions.py` plays the product's own loop and trains what a rule asks for beside the recorded grid, which
takes seconds a loop. Here a rule decides at the grid's nodes alone, every fourth epoch of a leg, and a leg ends where
its record does: then the next pair of the plan is taken. `sampled` compares the schedules of the grid that are left, by
the criterion and the worlds of the product; `before` is the rule `adaptive` with the belief that the presets had before
they were fitted to atlases (`benchmarks/before/`), asked for its next pair at every node. Yardsticks as in
`decisions.py`: `fixed`, chosen on the development seeds, `hindsight`, and `known`, who knows curves and not the luck.

A run that misses is charged until it meets the target as far as its last leg was recorded, else `CAP_J`. Ratios are of
mean energies; intervals are paired at 95 %, also corrected for the number of cells.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from decisions import (
    BEFORE,
    CAP_J,
    FIXED,
    HINDSIGHT,
    KNOWN,
    Bench,
    Cell,
    KeptRows,
    Legs,
    Row,
    Tried,
    believing,
    cells_of,
    chosen_on,
    development_of,
    parser_of,
    reported_of,
    summary,
)
from fit_presets import taught_scenario

from relaytrain import api
from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.core.problem import Problem
from relaytrain.core.state import TOLERANCE, State
from relaytrain.estimators.choose import estimator_for
from relaytrain.planners.pact.planner import Pact
from relaytrain.planners.pact.sampled import WORLDS
from relaytrain.planners.pact.schedules import NEAR, ON, Walker, packed, ranked
from relaytrain.scenario import Scenario
from relaytrain.traces.atlas import LegKey

SAMPLED = "sampled"
EVERY = 4


class NodeLoop:
    """One seed under one rule: decides at nodes, walks the record between them."""

    def __init__(self, bench: Bench, scenario: Scenario, seed: int, cell: Cell) -> None:
        self.bench, self.seed, self.cell = bench, seed, cell
        target = replace(scenario.problem.target, loss=cell[0], deadline_s=cell[1])
        first = bench.atlas.seeds[seed][LegKey((), bench.atlas.start)].start
        self.problem: Problem = replace(scenario.problem, target=target, initial_loss=first)
        self.estimator = estimator_for(scenario, self.problem)
        self.way: list[tuple[int, int]] = []
        self.history: list[EpochOutcome] = []
        self.state = State(0, first, 0.0, bench.atlas.start)
        self.met, self.cpu_s = False, 0.0

    def play(self, rule: str) -> Row:
        """Until the target, the end of a record, or the cap."""
        began = time.process_time()
        while self._walk(self._sampled() if rule == SAMPLED else self._adaptive()):
            pass
        legs: Legs = tuple(self.way)
        energy_j = self.state.energy_j if self.state.loss <= self.cell[0] + TOLERANCE else CAP_J
        return Row(
            self.seed, rule, *self.cell, self.met, min(energy_j, CAP_J), self.bench.said(legs),
            time.process_time() - began,
        )  # fmt: skip

    def _walk(self, pair: int | None) -> bool:
        """To the next node on `pair`; whether the run goes on."""
        if pair is None:
            return False
        costs = self.bench.costs
        for _ in range(EVERY):
            done = self.way[-1][1] if self.way and self.way[-1][0] == pair else 0
            before = tuple(self.way[:-1] if done else self.way)
            leg = self.bench.atlas.leg(self.seed, LegKey(before, pair))
            if leg is None or len(leg.losses) <= done:
                return False
            at, loss = self.state.pair, leg.losses[done]
            self.way = [*before, (pair, done + 1)]
            self.state = State(
                self.state.epoch + 1,
                loss,
                self.state.elapsed_s + float(costs.epoch_s[at, pair]),
                pair,
                self.state.energy_j + float(costs.epoch_j[at, pair]),
            )
            named = self.problem.pairs[pair]
            decision = Decision(self.state.epoch, named.version, named.nodes)
            probed = leg.start if at != pair else None
            self.history.append(
                EpochOutcome(decision, loss, self.state.elapsed_s, self.state.energy_j, handover_loss=probed)
            )
            if loss <= self.cell[0] + TOLERANCE:
                self.met = self.state.elapsed_s <= self.cell[1] + TOLERANCE
                return False
            if self.state.energy_j >= CAP_J:
                return False
        return True

    def _left(self) -> list[Legs]:
        """What is left of the grid's schedules that begin as the run did."""
        found = []
        done = self.way[-1][1] if self.way else 0
        for legs in self.bench.schedules:
            same = len(legs) >= len(self.way) and legs[: len(self.way) - 1] == tuple(self.way[:-1])
            if not self.way:
                found.append(legs)
            elif same and legs[len(self.way) - 1][0] == self.way[-1][0]:
                last = len(legs) == len(self.way)
                more = ON if last else legs[len(self.way) - 1][1] - done
                if more >= 0 and not (last and done >= self._recorded()):
                    found.append((*(((self.way[-1][0], more),) if more else ()), *legs[len(self.way) :]))
        return [(*legs[:-1], (legs[-1][0], ON)) for legs in found if legs]

    def _recorded(self) -> int:
        """Epochs of the present leg that the atlas holds."""
        leg = self.bench.atlas.leg(self.seed, LegKey(tuple(self.way[:-1]), self.way[-1][0]))
        return 0 if leg is None else len(leg.losses)

    def _sampled(self) -> int | None:
        schedules = self._left()
        if not schedules:
            return None
        worlds = self.estimator.sample(self.history, self.problem.pairs, WORLDS, self.seed)  # type: ignore[attr-defined]
        walker = Walker(self.problem, self.bench.costs, worlds, self.state)
        asked, tried = walker.enough, packed(schedules)
        energy, missed = walker.follow(tried, WORLDS)
        if np.min(missed) > 1.0 - NEAR * walker.coverage:  # as `best_schedule` does where in time is next to none
            walker.put_off(tried)
            asked, (energy, missed) = 1.0, walker.follow(tried, WORLDS)
        best = int(ranked(energy, missed, asked)[0])
        return schedules[best][0][0]

    def _adaptive(self) -> int | None:
        law = self.estimator.law(self.history, self.problem.pairs)
        plan = Pact("adaptive", explained=False).plan(self.problem, self.bench.costs, law, self.state)
        path = [self.problem.index(decision.pair) for decision in plan.decisions] or [self.state.pair]
        may = {legs[0][0] for legs in self._left()}
        return next((pair for pair in path if pair in may), max(may)) if may else None


def fixed_on(bench: Bench, seeds: Sequence[int], cells: list[Cell]) -> dict[tuple[str, Cell], Legs]:
    """The schedules that were cheapest on `seeds`."""

    def tried(seed: int, cell: Cell) -> dict[str, Tried]:
        return {FIXED: {legs: bench.follow(seed, legs, cell) for legs in bench.schedules}}

    return chosen_on([[tried(seed, cell) for cell in cells] for seed in seeds], cells)


def main() -> None:
    """Play, compare, print."""
    parser = parser_of(__doc__)
    parser.add_argument(
        "--others", action="store_true", help="the belief fitted to all development seeds but that played"
    )
    given = parser.parse_args()
    bench = Bench(given.scenario, given.atlas or given.scenario)
    cells = cells_of(given)
    development = development_of(bench.atlas)
    seeds = development if given.dev else reported_of(bench.atlas, given.first)
    choices = fixed_on(bench, development, cells)
    past = Path(__file__).parent / "before" / f"{Path(given.scenario).stem}.json"
    contenders = [*([BEFORE] if past.exists() else []), SAMPLED]
    beliefs = {BEFORE: believing(bench.scenario, str(past)) if past.exists() else bench.scenario}
    kept = KeptRows(given.rows)
    for seed in seeds:
        rows: list[Row] = []
        beliefs[SAMPLED] = believing(bench.scenario, given.belief)
        if given.others:
            others = bench.atlas.only([other for other in development if other != seed])
            beliefs[SAMPLED] = taught_scenario(api.scenario(given.scenario), others)
        for cell in cells:
            rows += [
                NodeLoop(bench, beliefs[rule], seed, cell).play(rule)
                for rule in contenders
                if kept.lacks(seed, rule, cell)
            ]
            if kept.lacks(seed, FIXED, cell):
                chosen = bench.chosen(seed, FIXED, choices[FIXED, cell], cell)
                rows += [chosen, bench.known(seed, cell, longest=0), bench.hindsight(seed, cell)]
        kept.add(rows)
        print(f"seed {seed}", flush=True)
    told = [row for row in kept.rows if row.seed in seeds]
    print("\n".join(summary(told, contenders, [FIXED, KNOWN, HINDSIGHT], cells)))


if __name__ == "__main__":
    main()
