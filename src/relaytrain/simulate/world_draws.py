"""Drawing worlds around a scenario. World i of seed s is the same whoever draws it, alone or among others."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..core.cost import CostTable
from ..core.curve import Array
from ..core.errors import InfeasibleError, UsageError
from ..core.law import EpochLaw, LevelLaw
from ..core.problem import Problem
from ..core.random_world import RandomWorld, Range
from ..core.world_settings import WorldSettings
from ..planners.pact.level_tables import Tables
from ..planners.search.solve import Solution, solve
from ..scenario import Scenario
from .biased_estimator import believed
from .world import Luck, World

Law = LevelLaw | EpochLaw
LEAST_FACTOR = 0.2
"""Delays never shorten an epoch below this share of its seconds."""
MOST_DRAWS = 200
"""Draws tried until a tight deadline lies below the duration of the energy optimum."""
MOST_EPOCHS = 20_000
TIE_BREAK = 1e-7
"""Joules a second that decide between relays of equal energy."""
SPARE_EPOCHS = 1.5
"""Epochs of luck drawn, against those the deadline has room for at the quickest pair (delays may be lucky)."""


@dataclass(frozen=True)
class WorldMode:
    """Which kind of world: its deadline, whether changes can be undone (None: as it comes), and perfect predictions."""

    name: str
    deadline: Literal["given", "slack", "tight"] = "given"
    reversible: bool | None = None
    perfect: bool = False

    @classmethod
    def named(cls, name: str) -> WorldMode:
        """A mode from its words joined by hyphens, such as `tight`, `perfect-slack` or `tight-irreversible`."""
        words = name.split("-")
        known = ("given", "slack", "tight", "reversible", "irreversible", "perfect")
        wrong = [word for word in words if word not in known]
        deadlines = [word for word in words if word in ("given", "slack", "tight")]
        ways = [word for word in words if word.endswith("reversible")]
        if wrong or len(deadlines) > 1 or len(ways) > 1 or len(set(words)) != len(words):
            raise UsageError(f"mode: got '{name}', expected words joined by hyphens, one a kind: {', '.join(known)}")
        deadline = deadlines[0] if deadlines else "given"
        return cls(name, deadline, ways[0] == "reversible" if ways else None, "perfect" in words)  # type: ignore[arg-type]


def default_modes(scenario: Scenario) -> tuple[str, ...]:
    """The deadlines the scenario asks for (its own one without random worlds), noisy and with perfect predictions."""
    drawn = scenario.world.random
    deadlines = ("given",) if drawn is None else tuple(dict.fromkeys(drawn.deadlines)) or ("given",)
    return (*deadlines, *(f"perfect-{name}" for name in deadlines))


def draw_world(scenario: Scenario, index: int, seed: int, mode: str) -> World:
    """World number `index` of `seed`. Modes share its parameters, luck and errors; only what a mode names differs.

    A tight deadline that is no tighter than the energy optimum's own duration makes the world be drawn anew, so tight
    worlds are others than slack ones (about one draw in ten is kept).

    Raises:
        InfeasibleError: No way to the target under the true law, or no tight deadline in `MOST_DRAWS` draws.
    """
    kind = WorldMode.named(mode)
    for attempt in range(MOST_DRAWS):
        streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed, spawn_key=(index, attempt)).spawn(3)]
        drawn = _parameters(scenario, index, streams[0], kind)
        if drawn is not None:
            problem, costs, law, reversible, longest = drawn
            epochs = _room(problem, costs, longest)
            seen = law if kind.perfect else _topped(believed(scenario.world, law, scenario.law, streams[1]), problem)
            luck = _luck(scenario.world, streams[2].spawn(4), (epochs, len(problem.pairs)), perfect=kind.perfect)
            return World(index, kind.name, problem, costs, law, seen, luck, reversible)
        if scenario.world.random is None:
            break
    raise InfeasibleError(
        f"{scenario.name}: no tight deadline lies between the quickest relay and the cheapest one; use another mode"
    )


def _parameters(
    scenario: Scenario, index: int, rng: np.random.Generator, mode: WorldMode
) -> tuple[Problem, CostTable, Law, bool, int] | None:
    """Problem with its deadline, costs, true law, reversibility, epochs of the energy optimum; None: draw again."""
    ranges = scenario.world.random or RandomWorld()
    law, costs, problem = _plain(scenario.law), scenario.costs, scenario.problem
    share = rng.uniform(*ranges.tight_share)
    if isinstance(law, LevelLaw) and scenario.world.random is not None:
        law = _drawn_curves(law, ranges, rng)
    if ranges.target_loss is not None:
        problem = replace(problem, target=replace(problem.target, loss=float(rng.uniform(*ranges.target_loss))))
    if ranges.change_cost:
        costs = _with_change_cost(costs, float(rng.choice(ranges.change_cost)))
    way = mode.reversible
    if way is None and ranges.reversible:
        way = ranges.reversible[index % len(ranges.reversible)]
    if way is not None:
        law, costs = _one_way(law, costs, ranges, reversible=way)
    law = _topped(law, problem)
    cheapest, quickest_s = _anchors(problem, costs, law)
    if not cheapest.feasible:
        raise InfeasibleError(f"{scenario.name}: world {index} cannot reach loss {problem.target.loss:g} at all")
    if mode.deadline != "given":
        deadline = ranges.slack_factor * cheapest.elapsed_s + ranges.slack_extra_s
        if mode.deadline == "tight":
            deadline = ranges.tight_factor * quickest_s + share * (cheapest.elapsed_s - quickest_s)
            if deadline >= cheapest.elapsed_s:
                return None
        problem = replace(problem, target=replace(problem.target, deadline_s=deadline))
    open_ways = bool(np.isfinite(np.tril(costs.epoch_j, -1)[np.tril_indices(len(problem.pairs), -1)]).any())
    return problem, costs, law, open_ways if way is None else way, len(cheapest.actions)


def _plain(law: Law) -> Law:
    """The law's expected figures alone."""
    if isinstance(law, LevelLaw):
        return LevelLaw(law.curves, law.jump0, law.jump1, law.mult, loss_top=law.loss_top)
    return EpochLaw(law.run, law.change)


def _drawn_curves(law: LevelLaw, ranges: RandomWorld, rng: np.random.Generator) -> LevelLaw:
    pairs = len(law.curves)

    def factors(span: Range | None) -> Array:
        return np.ones(pairs) if span is None else rng.uniform(*span, size=pairs)

    a, b, s, alpha = law.curves.T
    a = a * factors(ranges.floor)
    b = b if ranges.curve_top is None else ranges.curve_top - a
    curves = np.column_stack([a, b, s * factors(ranges.scale), alpha * factors(ranges.power)])
    jump0, jump1 = law.jump0.copy(), law.jump1.copy()
    shares = rng.uniform(size=jump0.shape)  # one for every change, so that the order of the ranges does not matter
    for jump in ranges.jumps:
        jump0[jump.before, jump.now] = jump.low + shares[jump.before, jump.now] * (jump.high - jump.low)
        jump1[jump.before, jump.now] = jump.per_loss
    return replace(law, curves=curves, jump0=jump0, jump1=jump1)


def _with_change_cost(costs: CostTable, figure: float) -> CostTable:
    off = ~np.eye(len(costs.run_s), dtype=bool)
    return replace(
        costs,
        change_s=np.where(off & np.isfinite(costs.change_s), figure, costs.change_s),
        change_j=np.where(off & np.isfinite(costs.change_j), figure, costs.change_j),
    )


def _one_way(law: Law, costs: CostTable, ranges: RandomWorld, *, reversible: bool) -> tuple[Law, CostTable]:
    """Changes to a pair listed earlier: forbidden, or allowed at `back_jump`."""
    back = np.tri(len(costs.run_s), k=-1, dtype=bool)
    if not reversible:
        change_s, change_j = np.where(back, np.inf, costs.change_s), np.where(back, np.inf, costs.change_j)
        return law, replace(costs, change_s=change_s, change_j=change_j)
    named = np.zeros_like(back)
    for jump in ranges.jumps:
        named[jump.before, jump.now] = True
    back &= ~named
    if isinstance(law, LevelLaw):
        jump0, jump1 = np.where(back, ranges.back_jump, law.jump0), np.where(back, 0.0, law.jump1)
        return replace(law, jump0=jump0, jump1=jump1), costs
    return replace(law, change=np.where(back, ranges.back_jump, law.change)), costs


def _topped(law: Law, problem: Problem) -> Law:
    return law.topped(problem.initial_loss) if isinstance(law, LevelLaw) else law


def _anchors(problem: Problem, costs: CostTable, law: Law) -> tuple[Solution, float]:
    """The energy optimum without a deadline, and the seconds of the quickest way (T_quick)."""
    free = replace(problem, target=replace(problem.target, deadline_s=math.inf))
    tables = Tables(free, costs, law)
    start = tables.start(problem.first_state)
    instance = tables.at("expected")
    # Costs that are round figures make ties; T_opt is then the duration of the quickest of the optima.
    untied = replace(instance, joules=instance.joules + TIE_BREAK * instance.seconds, tables={})
    return solve(untied, start), solve(tables.timed("expected"), start).elapsed_s


def _room(problem: Problem, costs: CostTable, longest: int) -> int:
    """How many epochs of luck a world needs: room for the deadline, or well beyond the energy optimum without one."""
    quickest = costs.run_s[np.isfinite(costs.run_s) & (costs.run_s > 0)].min(initial=math.inf)
    epochs = 4 * longest + 50
    if math.isfinite(problem.target.deadline_s) and math.isfinite(quickest):
        epochs = math.ceil(SPARE_EPOCHS * problem.target.deadline_s / float(quickest)) + 2
    if problem.max_epochs is not None:
        epochs = min(epochs, problem.max_epochs)
    return max(1, min(epochs, MOST_EPOCHS))


def _luck(
    settings: WorldSettings, streams: list[np.random.Generator], shape: tuple[int, int], *, perfect: bool
) -> Luck:
    """Row by row, so that a longer table begins with the shorter one."""
    if perfect:
        return Luck.none(*shape)

    def factors(rng: np.random.Generator, spread: float, least: float) -> Array:
        return np.maximum(1.0 + spread * rng.standard_normal(shape), least) if spread > 0.0 else np.ones(shape)

    return Luck(
        factors(streams[0], settings.progress_noise_sd, 0.0),
        settings.loss_noise_sd * streams[1].standard_normal(shape),
        factors(streams[2], settings.compute_spread, LEAST_FACTOR),
        factors(streams[3], settings.transfer_spread, LEAST_FACTOR),
    )
