"""How much memory and time a plan takes: counted while it is made, and refused where it becomes more than it may.

What a plan takes is not known beforehand: the labels of its searches show themselves one by one. So they are counted
(`search/allowance`), and `limited` turns a search that came to its limit into a refusal that says how far it came, what
the limit is and what to change. Work is counted in steps, each at what it takes on an ordinary machine: a plan that is
refused here is refused everywhere. What is certain is refused before anything is made: the cells of a grid are.

`plan_size` makes the plan to say what it takes: of 80 problems that `benchmarks/plan_size.py` drew, all were within a
factor of two of the bytes and the seconds measured (0.6 to 1.7).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.cost import CostTable
from ..core.errors import ScenarioError
from ..core.law import LossLaw
from ..core.problem import Problem
from ..core.protocols import Planner
from ..core.state import TOLERANCE, State
from .pact.planner import Optimum, Pact
from .pact.rules import SCORES
from .pact.time_layers import layer_bytes, touched_bytes
from .search.allowance import HELD, LABELS, PEAK, WORK, Counts, TooMuch, check, counting, no_counts
from .search.instance import TABLE_NS, grid_cells

MOST_BYTES, MOST_SECONDS = 768 << 20, 120.0
"""More than this is refused unless `BYTES_VARIABLE` and `SECONDS_VARIABLE` allow it."""
BYTES_VARIABLE, SECONDS_VARIABLE = "RELAYTRAIN_PLAN_BYTES", "RELAYTRAIN_PLAN_SECONDS"
BASE, BASE_NS = 3 << 19, 3_000_000
"""What the smallest plan takes."""
SQUARE_BYTES, PAIR_NS = 48, 60_000
"""Of a pair and a pair before it, in weights of all kinds; of a pair, in all that is said of a plan."""
COUNTED = ("pact", "optimum")
"""Planners, whatever their rule, whose searches count."""
FEWER = "leave out pairs that will not be used (--without NODES, or fewer [[pairs]])"
COARSER = "use a larger planner.grid.loss_step or time_step, or no grid (the default is exact without one)"


@dataclass(frozen=True)
class PlanSize:
    """What a plan takes beside what the process holds already, what of, and what makes it smaller.

    A plan that was not made to its end takes `more` than that.
    """

    bytes: int
    seconds: float
    of: str
    remedy: str
    more: bool = False

    @property
    def words(self) -> str:
        """For people: `about 1.2 GB and 3 s for 4 pairs x 12001 losses x 751 times`."""
        time = f"{self.seconds:.0f} s" if self.seconds >= 1.0 else "less than a second"
        return f"{'more than' if self.more else 'about'} {_say_bytes(self.bytes)} and {time} for {self.of}"


@contextmanager
def limited(planner: Planner, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> Iterator[Counts]:
    """The plan that is made within takes no more than it may; gives what is counted of it.

    Raises:
        ScenarioError: with what it came to, the limit and what to change.
    """
    (most, longest), pairs = _limits(), len(problem.pairs)
    least = _least(planner, problem, costs, law, state)
    _refuse(least, most, longest)
    counts = no_counts(most, longest * 1e9)
    counts[HELD] = counts[PEAK] = BASE + SQUARE_BYTES * pairs**2
    counts[WORK] = BASE_NS + PAIR_NS * pairs
    try:
        with counting(counts):
            yield counts
        check(counts)
    except TooMuch as stopped:
        size = _counted(counts, least)
        taken, seconds = max(size.bytes, stopped.bytes_taken), max(size.seconds, stopped.work_ns / 1e9)
        _refuse(replace(size, bytes=taken, seconds=seconds, more=True), most, longest)
        raise


def check_least_size(planner: Planner, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> None:
    """Before anything is made.

    Raises:
        ScenarioError: where what the plan takes at least is too much already.
    """
    _refuse(_least(planner, problem, costs, law, state), *_limits())


def plan_size(planner: Planner, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> PlanSize | None:
    """What the plan from `state` takes, counted while it is made; None for planners that do not count (DepL's).

    Raises:
        ScenarioError: where that is more than it may be.
    """
    if getattr(planner, "name", "").partition("/")[0] not in COUNTED:
        return None
    with limited(planner, problem, costs, law, state) as counts:
        planner.plan(problem, costs, law, state)
    return _counted(counts, _least(planner, problem, costs, law, state))


def _least(planner: Planner, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> PlanSize:
    if getattr(planner, "grid", None) is not None and state.loss > problem.target.loss + TOLERANCE:
        return _gridded(planner, problem, costs, law, state)
    pairs = len(problem.pairs)
    return PlanSize(BASE + SQUARE_BYTES * pairs**2, (BASE_NS + PAIR_NS * pairs) / 1e9, f"{pairs} pairs", FEWER)


def _counted(counts: Counts, least: PlanSize) -> PlanSize:
    labels = int(counts[LABELS])
    of = f"{least.of}, {labels if labels < 100_000 else f'{labels:.2g}'} labels" if labels else least.of
    return PlanSize(int(counts[PEAK]), int(counts[WORK]) / 1e9, of, least.remedy)


def _refuse(size: PlanSize, most: float, longest: float) -> None:
    variable = BYTES_VARIABLE if size.bytes > most else SECONDS_VARIABLE
    if variable == BYTES_VARIABLE or size.seconds > longest:
        allowed = _say_bytes(most) if variable == BYTES_VARIABLE else f"{longest:g} s"
        raise ScenarioError(
            f"planner: got a plan that takes {size.words}, expected at most {allowed}; {size.remedy}, or set {variable}"
        )


def _say_bytes(count: float) -> str:
    return f"{count / 1e9:.2g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"


def _limits() -> tuple[float, float]:
    return _limit(BYTES_VARIABLE, MOST_BYTES), _limit(SECONDS_VARIABLE, MOST_SECONDS)


def _limit(variable: str, usual: float) -> float:
    given = os.environ.get(variable, "")
    try:
        return float(given) if given else usual
    except ValueError:
        raise ScenarioError(f"${variable}: got {given[:40]!r}, expected a plain number") from None


def _gridded(planner: Any, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> PlanSize:
    """The least that a plan on a grid takes: its law's tables, by level, and the layers of Algorithm 3's graph."""
    grid, form, pairs = planner.grid, law.form("expected"), len(problem.pairs)
    scored = isinstance(planner, Pact) and planner.rule in SCORES
    losses = grid_cells(form, grid, problem)
    deadline = problem.target.deadline_s / grid.time_step_s
    steps = math.floor(deadline + TOLERANCE) if math.isfinite(deadline) else 0
    epochs = min(steps, steps if problem.max_epochs is None else problem.max_epochs)
    levels = 1.0 if isinstance(planner, Optimum) else 2.0
    cells = levels * max(min(form.epochs, epochs), 1) * pairs * pairs * losses
    graph_bytes = 0.0
    if scored and steps:
        possible = np.isfinite(costs.epoch_s) & np.isfinite(costs.epoch_j)
        taken = np.ceil(costs.epoch_s[possible] / grid.time_step_s - TOLERANCE)
        if taken.min(initial=np.inf) >= 1.0:
            asked_for, _ = layer_bytes(float(taken.max()), pairs, losses, max(epochs - state.epoch, 0))
            graph_bytes = touched_bytes(asked_for)
    of = f"{pairs} pairs x {losses} losses" + (f" x {steps + 1} times" if scored or form.epochs > 1 else "")
    return PlanSize(int(8.0 * cells + graph_bytes) + BASE, TABLE_NS * cells / 1e9, of, COARSER)
