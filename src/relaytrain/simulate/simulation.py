"""The public function: a scenario, a number of worlds, rules and modes -> a table. A crew shares out the worlds."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np

from ..core.errors import RelayTrainError, UsageError
from ..core.planner_names import SAMPLED
from ..crew import Crew, WorkerEnded
from ..scenario import Scenario, load_scenario
from .clairvoyant import Clairvoyant, clairvoyant
from .closed_loop import CLOSED_RULES, KNOWN_RULES, Outcome, run_rule
from .simulation_table import SimulationResult, WorldResult, summarise
from .world_draws import WorldMode, default_modes, draw_world

WORLDS_A_WORKER = 8
"""Fewer worlds than this are not worth the start of another process."""


def simulate(
    source: str | PathLike[str] | Mapping[str, Any] | Scenario,
    worlds: int = 400,
    *,
    seed: int = 0,
    rules: Sequence[str] | None = None,
    modes: Sequence[str] | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SimulationResult:
    """Every rule in `worlds` worlds of every mode, with the same luck in the same epoch.

    Args:
        source: A scenario, a path, a preset's name, or tables. Without random worlds its own law is the truth.
        worlds: How many worlds; each is played in every mode.
        seed: World i of a seed is always the same.
        rules: Out of `KNOWN_RULES`; by default all that decide again after each epoch (`default_rules`).
        modes: Words joined by hyphens (`given slack tight`, `reversible irreversible`, `perfect`); by default the
            deadlines the scenario names, noisy and with perfect predictions.
        workers: Processes; by default as many as there are processors. The table does not depend on it.
        progress: Called with worlds done and worlds in all.

    Raises:
        ScenarioError: The scenario is wrong. UsageError: a rule, a mode or a number is. InfeasibleError: the target
            cannot be reached in the true world, whatever the deadline.
    """
    began = time.monotonic()
    scenario = source if isinstance(source, Scenario) else load_scenario(source)
    if worlds < 1:
        raise UsageError(f"worlds: got {worlds}, expected at least 1")
    if seed < 0:
        raise UsageError(f"seed: got {seed}, expected a number >= 0")
    chosen = tuple(dict.fromkeys(default_rules(scenario) if rules is None else rules))
    for rule in chosen:
        if rule not in KNOWN_RULES:
            raise UsageError(f"rule: got '{rule}', expected one of: {', '.join(KNOWN_RULES)}")
    named = tuple(dict.fromkeys(default_modes(scenario) if modes is None else modes))
    for mode in named:
        WorldMode.named(mode)
    processes = min(worlds, workers if workers is not None else min(os.cpu_count() or 1, worlds // WORLDS_A_WORKER))
    if processes > 1 and not _reloads(scenario):
        processes = 1
    results: list[WorldResult] = []
    with closing(_played(scenario, WorldTask(seed, named, chosen), worlds, processes)) as worlds_played:
        for number, played in enumerate(worlds_played, 1):
            results += played
            if progress is not None:
                progress(number, worlds)
    results.sort(key=lambda result: (named.index(result.mode), result.index))
    return SimulationResult(
        scenario=scenario.name,
        worlds=worlds,
        seed=seed,
        modes=named,
        rules=chosen,
        elapsed_s=time.monotonic() - began,
        inexact=sum(not result.best.exact for result in results),
        rows=summarise(results, named, chosen, seed),
        results=tuple(results),
    )


def default_rules(scenario: Scenario) -> tuple[str, ...]:
    """All rules that decide again after each epoch; `sampled`, which takes most of the time, where it would decide."""
    return tuple(rule for rule in CLOSED_RULES if rule != SAMPLED or scenario.rule == SAMPLED)


@dataclass(frozen=True)
class WorldTask:
    """What every world is put through."""

    seed: int
    modes: Sequence[str]
    rules: Sequence[str]


def play(scenario: Scenario, task: WorldTask, index: int) -> list[WorldResult]:
    """World `index` in every mode, under every rule."""
    results = []
    for mode in task.modes:
        world = draw_world(scenario, index, task.seed, mode)
        outcomes = {rule: run_rule(world, rule) for rule in task.rules}
        known = min((o.energy_j for o in outcomes.values() if o.met), default=math.inf)
        results.append(WorldResult(index, mode, world.reversible, clairvoyant(world, known), outcomes))
    return results


def worker(opening: Mapping[str, Any]) -> Callable[[int], list[dict[str, Any]]]:
    """What a process of the crew does with the number of a world."""
    scenario, task = load_scenario(opening["scenario"]), WorldTask(**opening["task"])
    return lambda index: [asdict(result) for result in play(scenario, task, index)]


def _played(scenario: Scenario, task: WorldTask, worlds: int, workers: int) -> Generator[list[WorldResult]]:
    """Results world by world, in the order they are done; with more than one worker, in processes."""
    if workers <= 1:
        yield from (play(scenario, task, index) for index in range(worlds))
        return
    waiting = iter(range(worlds))
    with Crew("simulate.simulation", {"scenario": scenario.resolved, "task": asdict(task)}, workers) as crew:
        for _ in range(worlds):
            for number, index in zip(crew.idle, waiting, strict=False):
                crew.give(number, index)
            try:
                _, rows = crew.take()
            except WorkerEnded as ended:
                where = f"simulate: a worker ended without an answer about world {ended.task}"
                raise RelayTrainError(f"{where}; try again with workers=1 to see why") from None
            yield [_result(row) for row in rows]


def _result(row: dict[str, Any]) -> WorldResult:
    outcomes = {name: Outcome(**{**o, "actions": tuple(o["actions"])}) for name, o in row["outcomes"].items()}
    return WorldResult(**{**row, "best": Clairvoyant(**row["best"]), "outcomes": outcomes})


def _reloads(scenario: Scenario) -> bool:
    """Whether `resolved` gives the same scenario again, as workers need; one changed in Python may not."""
    again = load_scenario(scenario.resolved)
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return all(
            repr(getattr(scenario, part)) == repr(getattr(again, part)) for part in ("problem", "costs", "law", "world")
        )
