"""The campaign of a user's own scenario: every handover that it allows, at the epochs asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.errors import ScenarioError, UsageError
from ..core.problem import Pair
from ..scenario import Scenario
from .campaign import Campaign, Growing

SEEDS = 3
"""Repetitions, unless the user asks for another number."""


@dataclass(frozen=True)
class SwitchGrid:
    """When to switch: after these epochs of the start pair, and after these of the pair entered first.

    `epochs`: of every branch, at least as many as the last second switch needs.
    """

    first: tuple[int, ...] = (2, 5, 10)
    second: tuple[int, ...] = (3,)
    epochs: int = 8

    def __post_init__(self) -> None:
        if not self.first or min((*self.first, *self.second, self.epochs)) < 1:
            raise UsageError(
                f"campaign: switches {self.first}, then {self.second}, {self.epochs} epochs; expected numbers from 1"
            )


def campaign_of(scenario: Scenario, grid: SwitchGrid) -> Campaign:
    """The tree of `scenario`: its start pair, every pair that can follow it, and every pair that can follow that one.

    Pairs and changes that the scenario forbids (infinite costs), or that training has no way to, are left out.
    """
    if not scenario.data:
        raise ScenarioError(
            f"{scenario.name}: no table [data], so there is nothing to train on; add one, or take --preset"
        )
    problem, tree = scenario.problem, Growing()
    start = problem.pairs[problem.start]
    follows = _follows(scenario)
    last = max((*grid.first, grid.epochs))
    stay = max((grid.epochs, *grid.second))
    root = tree.root(start.version, start.nodes, last)
    for after in grid.first:
        for pair in follows[start]:
            entered = tree.branch(root, after, pair.version, pair.nodes, stay)
            for more in grid.second:
                for then in follows[pair]:
                    if then != start:
                        tree.branch(entered, more, then.version, then.nodes, grid.epochs)
    if len(tree.branches) == 1:
        raise ScenarioError(f"{scenario.name}: no pair can follow {start}, so there is no handover to learn about")
    folder = None if scenario.folder is None else str(scenario.folder.resolve())
    known = scenario.name, scenario.resolved, tuple(tree.branches), _meta(scenario)
    return Campaign(*known, own_classes=False, folder=folder, seeds=SEEDS)


def _follows(scenario: Scenario) -> dict[Pair, list[Pair]]:
    """By pair: those to which a handover can lead."""
    from ..relay.assembly import possible_changes
    from ..training.setup import TrainingSetup

    problem = scenario.problem
    setup = TrainingSetup.from_scenario(scenario)
    costs = possible_changes(setup, problem, scenario.costs)
    back = {name for name, plan in setup.versions.items() if plan.grow == "checkpoint"}

    def regrown(before: Pair, now: Pair) -> bool:
        """Back to a version that only an earlier checkpoint can give."""
        larger = setup.plan(now.version).ratio <= setup.plan(before.version).ratio
        return now.version in back and now.version != before.version and larger

    open_ways = np.isfinite(costs.run_s) & np.isfinite(costs.change_s) & ~np.eye(len(problem.pairs), dtype=bool)
    return {
        before: [now for now, is_open in zip(problem.pairs, row, strict=True) if is_open and not regrown(before, now)]
        for before, row in zip(problem.pairs, open_ways, strict=True)
    }


def _meta(scenario: Scenario) -> dict[str, str]:
    target = scenario.problem.target
    return {
        "loss": str(scenario.training.get("loss", "cross-entropy")) + ", nats",
        "train_loss": "running mean over the epoch, nodes weighted by samples",
        "test_loss": f"after the epoch's average, on the {target.on} set of the scenario",
        "before_after": "forward losses on the NEW node set's data: "
        "the network before the handover, and the one it made",
        "change_target": "jump",
        "preset": scenario.name,
        "model": ", ".join(version.name for version in scenario.problem.versions),
        "data": str(scenario.data.get("source")),
    }
