"""Figures 6 to 9 with measured curves: PACT plans with what `paper` and `auto` predict, in a relay neither has seen.

The world is one seed of the campaign (`measured_factory`); the estimators are fitted to all other seeds. After every
epoch the loss is shown to the estimator, its law is planned with, and the first action is taken. Rule `adaptive`: the
highest level with a feasible path, then the least expected energy; without any feasible path the quickest expected way.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import ScenarioError
from ...core.law import LevelLaw
from ...core.outcome import EpochOutcome
from ...core.plan import Decision
from ...core.problem import Pair
from ...core.state import TOLERANCE, Grid, State
from ...estimators.learned.auto import EPOCHS
from ...estimators.learned.bundle import bundle_of
from ...estimators.learned.fit import fit
from ...estimators.learned.learned_law import Learned
from ...planners.pact.level_tables import Tables
from ...planners.pact.rules import choose
from ..expected import Expected, shipped
from ..figure_traces import campaigns, need_learning
from ..trainings import Progress
from .measured_factory import Replay, place, replay_of, replayed
from .smart_factory_runs import TIME_STEP, Trace

ESTIMATORS = ("paper", "auto")
CAMPAIGN = "v16s"
"""The one to take where there are several: the gold nodes of `digits` are at the targets after five epochs."""
MOST_EPOCHS = 250
"""A run that has not met its target by then is given up."""
LOSS_TOP = 2.5
STYLES: dict[str, dict[str, Any]] = {
    "paper": {"color": "#CC79A7", "linewidth": 1.6, "linestyle": ":", "marker": "v", "markersize": 5},
    "auto": {"color": "#0072B2", "linewidth": 1.6, "linestyle": "-", "marker": "o", "markersize": 5},
}


@dataclass(frozen=True)
class Study:
    """A world, the estimators that have not seen it, and where both come from."""

    world: Replay
    estimators: Mapping[str, Learned]
    campaign: str
    seeds: tuple[int, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What every measured figure says about its curves."""
        trained = "{} epochs of L, {} of M and {} of S".format(*self.world.measured)
        return (
            f"world: seed {self.world.seed} of {self.campaign}, switches in between interpolated, beyond {trained} "
            f"extrapolated; losses over l(0) = {self.world.initial_loss:.3f}; the first {self.world.first} epochs are "
            "L's",
            f"`paper` and `auto` were fitted to the seeds {', '.join(map(str, self.seeds))}; PACT: rule `adaptive`, "
            "planned again after every epoch; energies, durations and deadline are the paper's",
        )


def study(progress: Progress | None = None, epochs: int | None = None) -> Study:
    """The world of the campaign's last seed and both estimators; made once in a process.

    `epochs`: passes over the windows at most, as `fit` takes them.
    """
    need_learning()
    known = campaigns()
    name = CAMPAIGN if CAMPAIGN in known else sorted(known)[0]
    traces = known[name]
    if len(traces.seeds) < 2:
        raise ScenarioError(
            f"traces {name}: got one seed, expected at least two: one is the world, the others are learned from"
        )
    if progress is not None:
        progress(f"{name}: fitting {' and '.join(ESTIMATORS)} to {len(traces.seeds) - 1} seeds, about 20 s each")
    return _study(name, repr((traces.seeds, traces.images)), epochs or EPOCHS)


@lru_cache(maxsize=2)
def _study(name: str, key: str, epochs: int) -> Study:
    bundle = bundle_of(campaigns(name)[name], "train")
    *others, last = bundle.seeds
    world = replay_of(bundle, last)
    known = bundle.of_seeds(others)
    pairs = place(world, 0.5).problem.pairs
    facts = dict(zip(pairs, world.facts, strict=True))
    estimators = {
        which: Learned(
            fit(known, name="paper" if which == "paper" else "auto", epochs=epochs),
            facts,
            pairs[0],
            world.initial_loss,
            by_epoch=False,
        )
        for which in ESTIMATORS
    }
    return Study(world, estimators, name, tuple(others))


def closed_loop(
    name: str, study: Study, which: str, target: float, *, loss_step: float | None = None, bias: float = 0.0
) -> Trace:
    """PACT in the measured world with what an estimator predicts.

    Args:
        name: what the trace is called.
        study: world and estimators.
        which: "paper" or "auto".
        target: l_max over l(0).
        loss_step: gamma_l over l(0); None plans without a grid. On a grid without a feasible path the run ends.
        bias: the planner is told (1 + bias) times the predicted progress of L.
    """
    world, where = study.world, place(study.world, target)
    problem, estimator = where.problem, study.estimators[which]
    unit = world.initial_loss
    grid = None if loss_step is None else Grid(loss_step * unit, TIME_STEP, LOSS_TOP * unit)
    tilt = np.array([1.0 + bias if pair.version == "L" else 1.0 for pair in problem.pairs])
    versions = ["L"] * world.first
    while len(versions) < MOST_EPOCHS:
        so_far = replayed(name, world, where, versions)
        if so_far.losses[-1] * unit <= problem.target.loss + TOLERANCE:
            break
        law = estimator.law(_history(world, so_far, problem.pairs), problem.pairs)
        assert isinstance(law, LevelLaw)
        law = law.biased(tilt) if bias else law
        tables = Tables(problem, where.costs, law, grid)
        at = next(i for i, pair in enumerate(problem.pairs) if pair.version == versions[-1])
        state = State(len(versions), so_far.losses[-1] * unit, so_far.times[-1], at, so_far.costs[-1])
        choice = choose(tables, tables.start(state), "adaptive")
        if not choice.solution.actions or (grid is not None and choice.rung == 0.0):
            break
        versions.append(problem.pairs[choice.solution.actions[0]].version)
    return replayed(name, world, where, versions)


def _history(world: Replay, so_far: Trace, pairs: Sequence[Pair]) -> list[EpochOutcome]:
    """The epochs of a trace as a run would have recorded them, the probe after a handover with them."""
    nodes = {pair.version: pair.nodes for pair in pairs}
    done = dict.fromkeys(nodes, 0)
    outcomes: list[EpochOutcome] = []
    before = so_far.versions[0]
    for k, version in enumerate(so_far.versions[1:], start=1):
        done[version] += 1
        landed = float(world.leg(version, done["L"], done["M"])[0]) if version != before else None
        decision = Decision(k, version, nodes[version])
        outcomes.append(EpochOutcome(decision, so_far.losses[k] * world.initial_loss, 1.0, 1.0, handover_loss=landed))
        before = version
    return outcomes


def verdicts(stated: Mapping[str, Expected], figure: str, which: str) -> dict[str, Expected]:
    """The findings of a figure with the verdicts that ship for measured curves (`measured.toml`), and why not."""
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    known, reasons, silent = tables[figure][which], tables[figure].get("why", {}), tables[figure].get("silent", {})
    findings = {}
    for key, spelt in known.items():
        holds = shipped(spelt)
        why = {True: "", False: reasons.get(key, ""), None: silent.get(key, "No decision changed")}[holds]
        findings[key] = replace(stated[key], holds=holds, why=why, finding=f"{stated[key].finding} [{which}]")
    return findings
