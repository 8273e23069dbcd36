"""How much memory and time a plan will take, before it is made; too much is refused with the figure and a remedy.

What grows without bound is known: the cells of a grid (losses x times x pairs, PACT's expanded graph; or losses x
epochs x pairs), and, without a grid, the labels of the to-go tables. Cells are counted. Labels are not known before the
search, so some of the pairs are searched alone, twice as many again, and what they took is continued to all of them.
`benchmarks/plan_size.py` prints estimates beside what was measured.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.cost import CostTable
from ..core.errors import ScenarioError
from ..core.law import LossLaw
from ..core.problem import Problem
from ..core.protocols import Planner
from ..core.state import TOLERANCE, Grid, State
from .pact.planner import Optimum, Pact
from .search.instance import SearchInstance, Start, epoch_room, instance_of, largest_jump

MOST_BYTES, MOST_SECONDS = 768 << 20, 120.0
"""More than this is refused unless `BYTES_VARIABLE` and `SECONDS_VARIABLE` allow it."""
BYTES_VARIABLE, SECONDS_VARIABLE = "RELAYTRAIN_PLAN_BYTES", "RELAYTRAIN_PLAN_SECONDS"

BASE = 4 << 20
"""What the smallest plan takes."""
GRAPH_RULES = ("literal", "clamped", "opportunity")
"""Rules that explore the whole expanded graph."""
GRAPH_BYTES, GRAPH_SECONDS = 11.0, 4e-8
"""Of a cell of that graph: its energy, and its share of the labels that reach some of them."""
LEVELS = 1.5
"""How many levels of a law hold to-go tables at once, on average."""
LAYER_SECONDS = 4e-9
"""Of a step from one cell to one pair."""
FEW_PAIRS = 48
"""Fewer pairs than this never make many labels."""
FEWER = "leave out pairs that will not be used (--without NODES, or fewer [[pairs]])"
SAMPLED = (16, 32)
MOST_LABELS = 500_000
"""Of a to-go table that are kept; `search/thresholds`."""
FOLLOWED = 0.85
"""Share of the pairs that a label which is kept makes a new one for."""
LABEL_BYTES, LABEL_SECONDS = 56.0, 4e-7
DOUBT = 4.0
"""Of what some pairs say about all of them: drawn at random, pairs have little in common."""
TABLES = 5
"""To-go tables that a plan with its alternatives makes, one after another; three to twenty were seen."""


@dataclass(frozen=True)
class PlanSize:
    """What a plan is going to take beside what the process holds already, what of, and what makes it smaller."""

    bytes: int
    seconds: float
    of: str
    remedy: str
    doubt: float = 1.0
    """How far the figures may be above what is used: only beyond that many times a limit a plan is refused."""

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
    size = plan_size(planner, problem, costs, law, state)
    if size is None:
        return
    most, longest = _limit(BYTES_VARIABLE, MOST_BYTES), _limit(SECONDS_VARIABLE, MOST_SECONDS)
    variable = BYTES_VARIABLE if size.bytes > size.doubt * most else SECONDS_VARIABLE
    if variable == BYTES_VARIABLE or size.seconds > size.doubt * longest:
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
    pairs = len(problem.pairs)
    if pairs < FEW_PAIRS:
        return PlanSize(BASE, 0.2, f"{pairs} pairs", FEWER)
    return _sampled(instance_of(problem, costs, law), Start(state.epoch, state.pair, state.loss, state.elapsed_s))


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
    taken = 8.0 * (tables + layers) + GRAPH_BYTES * cells + BASE
    seconds = LAYER_SECONDS * (layers * pairs + tables) + GRAPH_SECONDS * cells
    remedy = "use a larger planner.grid.loss_step or time_step, or no grid (the default is exact without one)"
    return PlanSize(int(taken), seconds, of, remedy)


def _sampled(instance: SearchInstance, start: Start) -> PlanSize:
    """Labels of the larger to-go table, continued from what some of the pairs take by themselves."""
    pairs = len(instance.seconds)
    few, more = (_kept(instance, start, count) for count in SAMPLED)
    power = min(max(math.log(max(more, 1) / max(few, 1), 2.0), 0.0), 1.0)
    kept = min(more * (pairs / SAMPLED[1]) ** power, MOST_LABELS)
    labels = FOLLOWED * pairs * kept
    of = f"{pairs} pairs, {labels:.2g} labels"
    return PlanSize(int(LABEL_BYTES * labels) + BASE, TABLES * LABEL_SECONDS * labels, of, FEWER, DOUBT)


def _kept(instance: SearchInstance, start: Start, count: int) -> int:
    """Labels that are kept when only `count` of the pairs are there, the start among them."""
    others = [pair for pair in range(len(instance.seconds)) if pair != start.pair]
    at = np.array([start.pair, *(others[i * len(others) // (count - 1)] for i in range(count - 1))])
    form = instance.form
    part = replace(
        instance,
        form=form._replace(
            run=_columns(form.run, at),
            curves=np.ascontiguousarray(form.curves[at]) if len(form.curves) else form.curves,
            mult=_columns(form.mult, at), c0=np.ascontiguousarray(form.c0[:, at][:, :, at]), c1=_square(form.c1, at),
        ),
        seconds=_square(instance.seconds, at), joules=_square(instance.joules, at), tables={},
    )  # fmt: skip
    here, priced = replace(start, pair=0), part.allowed & (part.seconds > 0.0)
    tables = [part.time_to_go(), part.energy_to_go(here)]
    if math.isfinite(part.deadline) and priced.any():  # a deadline that binds puts a price on seconds
        tables.append(part.mixed_to_go(float(np.median(part.joules[priced] / part.seconds[priced])), here))
    return max(len(table.theta) for table in tables)


def _columns(array: NDArray[np.float64], at: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.ascontiguousarray(array[:, at]) if array.shape[-1] else array


def _square(array: NDArray[np.float64], at: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.ascontiguousarray(array[np.ix_(at, at)])
