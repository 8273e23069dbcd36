"""How much memory and time a plan will take, before it is made; too much is refused with the figure and a remedy.

What grows is known: the cells of a grid (losses x times x pairs, PACT's expanded graph; or losses x epochs x pairs),
and, without a grid, the labels of the to-go tables. Cells are counted. Labels are not known before the search, so each
kind of table is begun and stopped early: how far it has come, beside how far it has to go, says how many labels it will
have. How far it has to go is what training on the best single pair would take from there.
`benchmarks/plan_size.py` prints estimates beside what was measured: of 80 problems not seen before 74 were within a
factor of two in bytes (all grids; 0.33 to 2.4 where pairs are drawn at random). Seconds are an order of magnitude.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.cost import CostTable
from ..core.errors import ScenarioError
from ..core.law import LawForm, LossLaw
from ..core.problem import Problem
from ..core.protocols import Planner
from ..core.state import TOLERANCE, Grid, State
from .pact.planner import Optimum, Pact
from .pact.time_layers import layer_bytes
from .search.follow import train_alone
from .search.instance import (
    MOST_MIXED,
    REPLAN_MARGIN,
    SearchInstance,
    Start,
    epoch_room,
    instance_of,
    largest_jump,
)
from .search.thresholds import thresholds
from .search.togo import ToGo

MOST_BYTES, MOST_SECONDS = 768 << 20, 120.0
"""More than this is refused unless `BYTES_VARIABLE` and `SECONDS_VARIABLE` allow it."""
BYTES_VARIABLE, SECONDS_VARIABLE = "RELAYTRAIN_PLAN_BYTES", "RELAYTRAIN_PLAN_SECONDS"

BASE = 3 << 19
"""What the smallest plan takes."""
GRAPH_RULES = ("literal", "clamped", "opportunity")
"""Rules that explore the whole expanded graph."""
GRAPH_BYTES, GRAPH_SECONDS = 11.0, 4e-8
"""Of a cell of that graph: its energy, and its share of the labels that reach some of them."""
TOUCHED = 0.3
"""What is ever written to of the layers of that graph, where it is searched layer by layer of time."""
LEVELS = 1.5
"""How many levels of a law hold to-go tables at once, on average."""
LAYER_SECONDS = 4e-9
"""Of a step from one cell to one pair."""
FEW_PAIRS = 48
"""Fewer pairs than this never come near the usual limits."""
FEWER = "leave out pairs that will not be used (--without NODES, or fewer [[pairs]])"
BEGUN, MOST_BEGUN, SHARE = 3_000, 20_000, 0.03
"""Labels of a table that are made to see how many it will have; more where that is at most a `SHARE` of the plan's."""
MOST_LABELS = 500_000
"""Of a to-go table that are kept; `search/thresholds`."""
POWER, NEAR, FAR_POWER = 1.6, 3.0, 1.2
"""Labels grow with this power of the weight that a table has reached, to `NEAR` times as far; beyond with the other."""
MAKING_BYTES, HELD_BYTES, LABEL_SECONDS = 110.0, 32.0, 1.1e-6
"""Of a label: while its table is made, afterwards, and to make it."""
PRICED, PRICED_BYTES, PRICED_LABEL_BYTES = 20, 8 << 20, 1_000.0
"""Tables that a deadline which binds takes, with those of alternatives; eight to forty were seen. And what the label
searches behind them hold: so much, and no more than so much a label of such a table."""
SQUARE_BYTES = 48.0
"""Of a pair and a pair before it, in weights of all kinds."""
PAIR_SECONDS, LINE_SECONDS = 6e-5, 7e-8
"""Of a pair in all that is said of a plan; of a pair, a pair before it and an epoch, where laws have epoch tables."""
WALK, FAR = 3_000, 8.0
"""Epochs that are walked at most; how much further it goes where that does not say."""


@dataclass(frozen=True)
class PlanSize:
    """What a plan is going to take beside what the process holds already, what of, and what makes it smaller."""

    bytes: int
    seconds: float
    of: str
    remedy: str

    @property
    def words(self) -> str:
        """For people: `about 1.2 GB and 3 s for 4 pairs x 12001 losses x 751 times`."""
        time = f"{self.seconds:.0f} s" if self.seconds >= 1.0 else "less than a second"
        return f"about {_say_bytes(self.bytes)} and {time} for {self.of}"


def check_plan_size(planner: Planner, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> None:
    """Refuse a plan that would take more than it may.

    Raises:
        ScenarioError: with the estimate, the limit and what to change.
    """
    most, longest = _limit(BYTES_VARIABLE, MOST_BYTES), _limit(SECONDS_VARIABLE, MOST_SECONDS)
    few = len(problem.pairs) < FEW_PAIRS and getattr(planner, "grid", None) is None
    usual = most >= MOST_BYTES and longest >= MOST_SECONDS
    size = None if few and usual else plan_size(planner, problem, costs, law, state)
    if size is None:
        return
    variable = BYTES_VARIABLE if size.bytes > most else SECONDS_VARIABLE
    if variable == BYTES_VARIABLE or size.seconds > longest:
        allowed = _say_bytes(most) if variable == BYTES_VARIABLE else f"{longest:g} s"
        raise ScenarioError(
            f"planner: got a plan that takes {size.words}, expected at most {allowed}; {size.remedy}, or set {variable}"
        )


def _say_bytes(count: float) -> str:
    return f"{count / 1e9:.2g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"


def _limit(variable: str, usual: float) -> float:
    given = os.environ.get(variable, "")
    try:
        return float(given) if given else usual
    except ValueError:
        raise ScenarioError(f"${variable}: got {given[:40]!r}, expected a plain number") from None


def plan_size(planner: Planner, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> PlanSize | None:
    """What PACT or the optimum will take from `state`; None for planners whose size is bounded by themselves."""
    if not isinstance(planner, Pact | Optimum) or state.loss <= problem.target.loss + TOLERANCE:
        return None
    graph = isinstance(planner, Pact) and planner.rule in GRAPH_RULES
    if planner.grid is not None:
        return _gridded(planner.grid, problem, costs, law, graph=graph)
    instance = instance_of(problem, costs, law)
    if instance.by_epoch:
        return _by_epoch(instance, state)
    return _begun(instance, Start(state.epoch, state.pair, state.loss, state.elapsed_s))


def _gridded(grid: Grid, problem: Problem, costs: CostTable, law: LossLaw, *, graph: bool) -> PlanSize:
    """Counted without making any of it: tables of a law by level, layers of to-go tables, cells of the graph."""
    form, pairs, deadline = law.form("expected"), len(problem.pairs), problem.target.deadline_s
    top = grid.loss_top
    if top is None:
        first = max(problem.initial_loss, problem.target.loss)
        jump, share, _ = largest_jump(form)
        top = first + jump + share * first + 0.5
    losses = math.ceil(top / grid.loss_step) + 1
    times = math.ceil(deadline / grid.time_step_s) + 1 if math.isfinite(deadline) else 1
    epochs = min(times, epoch_room(costs.epoch_s, deadline) + 1, problem.max_epochs or times)
    rows = min(form.epochs, epochs)
    tables = 2.0 * rows * pairs * pairs * losses
    by_epoch = form.epochs > 1
    layers = LEVELS * 2.0 * (times if problem.max_epochs is None else epochs) * pairs * losses if by_epoch else 0.0
    cells = 2.0 * pairs * losses * times if graph else 0.0
    of = f"{pairs} pairs x {losses} losses" + (f" x {times} times" if graph or by_epoch else "")
    graph_bytes, cell_s = GRAPH_BYTES * cells, GRAPH_SECONDS
    steps = np.ceil(costs.epoch_s[np.isfinite(costs.epoch_s)] / grid.time_step_s - TOLERANCE)
    if graph and math.isfinite(deadline) and steps.min(initial=np.inf) >= 1.0:
        cell_s = GRAPH_SECONDS / 10.0  # many cells are never come to
        asked_for = layer_bytes(float(steps.max()), pairs, losses, epochs)[0]
        graph_bytes = asked_for * (TOUCHED if asked_for < MOST_BYTES / 2 else 1.0)  # a machine may have to give it all
    taken = 8.0 * (tables + layers) + graph_bytes + BASE
    seconds = LAYER_SECONDS * (layers * pairs + tables) + cell_s * cells
    remedy = "use a larger planner.grid.loss_step or time_step, or no grid (the default is exact without one)"
    return PlanSize(int(taken), seconds, of, remedy)


def _by_epoch(instance: SearchInstance, state: State) -> PlanSize:
    """Lines for every pair and epoch; the label searches behind them are bounded by themselves."""
    pairs, epochs = len(instance.seconds), instance.cap(Start(state.epoch, state.pair, state.loss, state.elapsed_s))
    seconds = PAIR_SECONDS * pairs + LINE_SECONDS * pairs**2 * epochs
    return PlanSize(BASE + 16 * pairs * epochs, seconds, f"{pairs} pairs x {epochs} epochs", FEWER)


def _begun(instance: SearchInstance, start: Start) -> PlanSize:
    """Labels of the to-go tables of time, energy and, where the deadline binds, energy with a price on seconds."""
    pairs, most = len(instance.seconds), BEGUN
    while True:
        by_epochs, by_time, by_energy, by_both = kinds = _labels(instance, start, most)
        rounds = PRICED if by_both else 0
        labels = 2 * (by_epochs + by_time) + by_energy + rounds * by_both
        if most > BEGUN or SHARE * labels <= 3 * most:
            break
        most = min(int(SHARE * labels / 3), MOST_BEGUN)
    held = labels - max(rounds - MOST_MIXED, 0) * by_both
    taken = BASE + SQUARE_BYTES * pairs**2 + HELD_BYTES * held + MAKING_BYTES * max(kinds)
    taken += min(PRICED_BYTES, PRICED_LABEL_BYTES * by_both)
    seconds = PAIR_SECONDS * pairs + LABEL_SECONDS * labels
    return PlanSize(int(taken), seconds, f"{pairs} pairs, {labels:.2g} labels", FEWER)


def _labels(instance: SearchInstance, start: Start, most: int) -> tuple[float, float, float, float]:
    """Of the tables of epochs, time, energy, and energy with a price on seconds; 0 of those that will not be made.

    The last is made when the deadline binds: here, when the cheapest training on one pair alone is late.
    """
    form, allowed, watch = instance.relaxed, instance.allowed, (start.pair, start.loss)
    tops = np.full(len(instance.seconds), instance.loss_top)
    seconds, joules = np.where(allowed, instance.seconds, np.inf), np.where(allowed, instance.joules, np.inf)

    def labels(weight: NDArray[np.float64], limit: float, *, watched: bool) -> tuple[float, ToGo]:
        options: dict[str, Any] = {"watch": watch, "margin": REPLAN_MARGIN} if watched else {}
        table = thresholds(form, weight, instance.goal, tops=tops, limit=limit, most=most, **options)
        begun, reached = len(table.theta), table.limit
        if begun < most or reached <= 0.0:
            return float(begun), table
        last = table.theta[table.offsets[1:] - 1]
        end = min(limit, reached + train_alone(form, weight, float(np.median(tops)), float(np.median(last)), WALK)[0])
        if watched:
            there = reached + train_alone(form, weight, start.loss, float(last[start.pair]), WALK)[0]
            end = min(end, (1.0 + REPLAN_MARGIN) * there)
        further = max(end / reached, 1.0) if math.isfinite(end) else FAR
        near = min(further, NEAR)
        return min(begun * near**POWER * (further / near) ** FAR_POWER, MOST_LABELS), table

    by_epochs = 0.0
    if instance.epoch_limit is not None:  # a label an epoch and pair
        epochs, _ = train_alone(form, np.where(allowed, 1.0, np.inf), instance.loss_top, instance.goal, WALK)
        by_epochs = min(len(tops) * min(epochs, float(instance.epoch_limit)), float(MOST_LABELS))
    by_time, table = labels(seconds, instance.deadline, watched=False)
    if table.limit > instance.deadline:  # as far up as the goal is in reach
        last = table.offsets[1:] - 1
        tops = np.minimum(tops, np.where(last >= table.offsets[:-1], table.theta[last], -np.inf))
    by_energy, _ = labels(joules, math.inf, watched=True)
    _, alone = train_alone(form, joules, start.loss, instance.goal, WALK)
    late = (
        alone >= 0 and _alone_s(form, seconds, start.loss, instance.goal, alone) > instance.deadline - start.elapsed_s
    )
    if not late:
        return by_epochs, by_time, by_energy, 0.0
    priced = allowed & (instance.seconds > 0.0)
    price = float(np.median(instance.joules[priced] / instance.seconds[priced]))
    return by_epochs, by_time, by_energy, labels(joules + price * seconds, math.inf, watched=True)[0]


def _alone_s(form: LawForm, seconds: NDArray[np.float64], loss: float, goal: float, pair: int) -> float:
    only = np.full_like(seconds, np.inf)
    only[pair, pair] = seconds[pair, pair]
    return float(train_alone(form, only, loss, goal, WALK)[0])
