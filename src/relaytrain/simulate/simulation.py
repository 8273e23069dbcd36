"""The public function: a scenario, a number of worlds, rules and modes -> a table."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import UsageError
from ..scenario import Scenario, load_scenario
from .closed_loop import CLOSED_RULES, KNOWN_RULES
from .crew import WorldTask, play_all
from .summary import SimulationResult, WorldResult, summarise
from .worlds import Mode, default_modes

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
        rules: Out of `KNOWN_RULES`; by default all that decide again after each epoch.
        modes: Words joined by hyphens (`given slack tight`, `reversible irreversible`, `perfect`); by default the
            deadlines the scenario names, noisy and with perfect predictions.
        workers: Processes; by default as many as there are processors. The table does not depend on it.
        progress: Called with worlds done and worlds in all.

    Raises:
        ScenarioError: The scenario is wrong. UsageError: a rule, a mode or a number is. InfeasibleError: the target
            cannot be reached in the true world, whatever the deadline.
    """
    began = time.monotonic()
    scenario = source if isinstance(source, Scenario) else load_scenario(_readable(source))
    if worlds < 1:
        raise UsageError(f"worlds: got {worlds}, expected at least 1")
    if seed < 0:
        raise UsageError(f"seed: got {seed}, expected a number >= 0")
    chosen = tuple(dict.fromkeys(CLOSED_RULES if rules is None else rules))
    for rule in chosen:
        if rule not in KNOWN_RULES:
            raise UsageError(f"rule: got '{rule}', expected one of: {', '.join(KNOWN_RULES)}")
    named = tuple(dict.fromkeys(default_modes(scenario) if modes is None else modes))
    for mode in named:
        Mode.named(mode)
    crew = workers if workers is not None else min(os.cpu_count() or 1, worlds // WORLDS_A_WORKER)
    if crew > 1 and not _reloads(scenario):
        crew = 1
    results: list[WorldResult] = []
    with closing(play_all(scenario, WorldTask(seed, named, chosen), range(worlds), min(crew, worlds))) as plays:
        for number, played in enumerate(plays, 1):
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
        rows=summarise(results, named, chosen, seed),
        results=tuple(results),
        elapsed_s=time.monotonic() - began,
        inexact=sum(not result.best.exact for result in results),
    )


def _readable(source: str | PathLike[str] | Mapping[str, Any]) -> str | Path | Mapping[str, Any]:
    return Path(source) if isinstance(source, PathLike) else source


def _reloads(scenario: Scenario) -> bool:
    """Whether `resolved` gives the same scenario again, as workers need; one changed in Python may not."""
    again = load_scenario(scenario.resolved)
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return all(
            repr(getattr(scenario, part)) == repr(getattr(again, part)) for part in ("problem", "costs", "law", "world")
        )
