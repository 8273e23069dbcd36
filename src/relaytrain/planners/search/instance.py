"""One law at one level with costs, goal and deadline, as arrays the compiled searches read; keeps its to-go tables.

`gridded` is Algorithm 1's rounding: it makes the paper's grid a law of its own, solved by the same code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.cost import CostTable
from ...core.curve import Array
from ...core.errors import ScenarioError
from ...core.law import ADDITIVE, CURVE, TABLE, LawForm, Level, LossLaw, TableLaw, evaluate
from ...core.problem import Problem
from ...core.state import TOLERANCE, Grid
from .allowance import HELD, Counts, charge, current
from .epoch_layers import layers
from .line_bounds import multipliers
from .thresholds import fewest_epochs, thresholds
from .togo import ToGo, nothing, place

Within = tuple[tuple[ToGo, float], ...]
MOST_EPOCHS = 20_000
"""Epochs looked ahead when neither the deadline nor the scenario limits them."""
MOST_LABELS = 4_000_000
MOST_CELLS = 60_000_000
"""Cells of (epoch, pair, loss index) above which a gridded law with epoch tables is refused."""
MOST_STONES = 16
"""Changes in a row that may raise the loss before any epoch lowers it."""
TABLE_NS = 20
"""Of a cell of a gridded law."""
MOST_MIXED = 8
"""Tables for a price on seconds that are held at once: every price makes its own, and the last ones are asked again."""
REPLAN_MARGIN = 0.5
"""Energy tables reach this far beyond the plan, so that a run that goes worse than planned still re-plans by lookup."""


@dataclass(frozen=True)
class Start:
    """Where a search begins: epochs done, pair, loss, seconds."""

    epoch: int
    pair: int
    loss: float
    elapsed_s: float


@dataclass
class SearchInstance:
    """One law at one level with costs, goal and deadline as arrays; keeps the to-go tables it has made.

    `epochs` is how many more epochs a path can have at most, `last_epoch` the run's last one if there is a cap.
    """

    form: LawForm
    seconds: Array
    joules: Array
    goal: float
    deadline: float
    epochs: int
    loss_top: float
    monotone: bool = True
    most_labels: int = MOST_LABELS
    last_epoch: int | None = None
    tables: dict[Any, Any] = field(default_factory=dict)
    counts: Counts = field(default_factory=current, repr=False)
    held_bytes: int = field(default=0, init=False, repr=False)

    def __del__(self) -> None:
        if self.held_bytes:
            self.counts[HELD] -= self.held_bytes

    def hold(self, count: int) -> None:
        """So many bytes more, or fewer, that live as long as the instance does."""
        self.held_bytes += count
        self.counts[HELD] += count

    def _keep(self, name: Any, togo: ToGo) -> ToGo:
        """`togo` as the table called `name`, in the place of the one before it."""
        known = self.tables.get(name)
        self.hold(togo.bytes - (0 if known is None else known.bytes))
        self.tables[name] = togo
        return togo

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """Which changes (P, P) cost neither infinite time nor infinite energy."""
        return np.isfinite(self.seconds + self.joules)

    @cached_property
    def all_allowed(self) -> bool:
        """No change is barred."""
        return bool(self.allowed.all())

    def barred(self, weight: Array) -> Array:
        """`weight` (P, P), infinite where a change is barred."""
        return weight if self.all_allowed else np.where(self.allowed, weight, np.inf)

    @cached_property
    def by_epoch(self) -> bool:
        """The state needs the epoch index."""
        return self.form.epochs > 1

    @property
    def relaxed(self) -> LawForm:
        """The most favourable law without an epoch index: its to-go tables bound those of the real one."""
        form = self.form
        if form.kind == TABLE:
            table = form.table.min(axis=0, keepdims=True) if self.by_epoch else form.table
            if not self.monotone:  # the greatest monotone law below it
                table = np.minimum.accumulate(table[..., ::-1], axis=-1)[..., ::-1]
            return form._replace(table=np.ascontiguousarray(table))
        if not self.by_epoch:
            return form
        return form._replace(
            run=form.run.min(axis=0, keepdims=True),
            mult=form.mult.max(axis=0, keepdims=True) if form.kind == CURVE else form.mult,
            c0=form.c0.min(axis=0, keepdims=True),
        )

    def cap(self, start: Start) -> int:
        """The last epoch, counted from the run's beginning, that a path from `start` may use."""
        room = start.epoch + self.epochs
        return room if self.last_epoch is None else min(room, self.last_epoch)

    @cached_property
    def capped(self) -> bool:
        """The cap on epochs can bind before the deadline does."""
        return self.last_epoch is not None and self.last_epoch < min(
            epoch_room(self.seconds, self.deadline) - 1, self.epochs
        )

    @cached_property
    def epoch_limit(self) -> int | None:
        """The most epochs of any path where that says more than the deadline: a cap that can bind, or no deadline."""
        if self.capped:
            return self.last_epoch
        return None if math.isfinite(self.deadline) else self.epochs

    def epochs_to_go(self) -> ToGo:
        """Epochs still needed, whatever they cost; knows nothing when the deadline says more."""
        if self.epoch_limit is None:
            return nothing(self.goal)
        if "epochs" not in self.tables:
            tops = np.full(len(self.seconds), self.loss_top)
            limit = self.epoch_limit + 0.5
            self._keep("epochs", fewest_epochs(self.relaxed, self.allowed, self.goal, tops=tops, limit=limit))
        return self.tables["epochs"]  # type: ignore[no-any-return]

    def time_to_go(self) -> ToGo:
        """Seconds still needed, whatever the energy."""
        if "time" not in self.tables:
            within = () if self.epoch_limit is None else ((self.epochs_to_go(), float(self.epoch_limit)),)
            self._keep("time", self._steps(self.seconds, within, limit=self.deadline + 1e-6))
        return self.tables["time"]  # type: ignore[no-any-return]

    def energy_to_go(self, start: Start) -> ToGo:
        """Joules still needed, whatever the time; made once, and again only when a state lies beyond the table."""
        known = self.tables.get("energy")
        if known is None or (math.isfinite(known.limit) and place(known, start.pair, start.loss) < 0):
            known = self._steps(self.joules, self._in_time(), watch=(start.pair, start.loss), margin=REPLAN_MARGIN)
            self._keep("energy", known)
        return known

    def mixed_to_go(self, price: float, start: Start) -> ToGo:
        """Joules + `price` * seconds still needed."""
        key = ("mixed", price)
        if key not in self.tables:
            weight = self.joules + price * self.seconds
            watch = (start.pair, start.loss)
            held = [name for name in self.tables if name[0] == "mixed"]
            if len(held) >= MOST_MIXED:
                self.hold(-self.tables.pop(held[0]).bytes)
            self._keep(key, self._steps(weight, self._in_time(), watch=watch, margin=REPLAN_MARGIN))
        return self.tables[key]  # type: ignore[no-any-return]

    def mixed_held(self) -> list[tuple[float, ToGo]]:
        """The prices on seconds that tables are held for, each with its table."""
        return [(name[1], table) for name, table in self.tables.items() if name[0] == "mixed"]

    def weight_to_go(self, name: str, start: Start) -> ToGo:
        """Laws with epoch tables: `energy` or `time` still needed, by layers, lines, or the relaxed thresholds."""
        weight = self.seconds if name == "time" else self.joules
        if self.form.integer:
            first, known = self.tables.get((name, "layers"), (math.inf, None))
            if start.epoch < first:
                last = self.cap(start)
                known = layers(self.form, self.barred(weight), int(self.goal), first=start.epoch, epochs=last)
                self.tables[name, "layers"] = (start.epoch, known)
                self.hold(known.bytes)
            return known  # type: ignore[no-any-return]
        if self.form.kind == ADDITIVE:
            state = (start.epoch, start.pair, start.loss)
            last, lines = self.tables.get((name, "lines"), (None, None))
            if last != state:
                lines = multipliers(
                    self.form, weight, self.goal, start=state, epochs=self.cap(start), allowed=self.allowed
                )
                self.tables[name, "lines"] = (state, lines)
            return lines  # type: ignore[no-any-return]
        return self.time_to_go() if name == "time" else self.energy_to_go(start)

    def _in_time(self) -> Within:
        return ((self.time_to_go(), self.deadline),)

    def _steps(self, weight: Array, within: Within = (), **options: Any) -> ToGo:
        """Thresholds for `weight`, up to the losses from which the tables in `within` still reach the goal."""
        tops = np.full(len(weight), self.loss_top)
        for table, most in within:
            if table.limit > most:  # else it was cut short and does not know how far up the goal is in reach
                last = table.offsets[1:] - 1
                tops = np.minimum(tops, np.where(last >= table.offsets[:-1], table.theta[last], -np.inf))
        return thresholds(self.relaxed, self.barred(weight), self.goal, tops=tops, **options)


def instance_of(
    problem: Problem, costs: CostTable, law: LossLaw, level: Level = "expected", *, grid: Grid | None = None
) -> SearchInstance:
    """The searchable form of a problem at `level`; with `grid` the paper's rounding is applied to it."""
    return instances_of(problem, costs, law, (level,), grid=grid)[0]


def instances_of(
    problem: Problem, costs: CostTable, law: LossLaw, levels: Sequence[Level], *, grid: Grid | None = None
) -> list[SearchInstance]:
    """The same at several levels."""
    seconds, joules = np.ascontiguousarray(costs.epoch_s), np.ascontiguousarray(costs.epoch_j)
    goal, deadline = problem.target.loss + TOLERANCE, problem.target.deadline_s + TOLERANCE
    room, last, monotone = epoch_room(seconds, deadline), problem.max_epochs, law.monotone
    wholes = [
        SearchInstance(form, seconds, joules, goal, deadline, room, loss_top(problem, form), monotone, last_epoch=last)
        for form in map(contiguous, map(law.form, levels))
    ]
    return wholes if grid is None else [gridded(whole, grid, problem) for whole in wholes]


def contiguous(form: LawForm) -> LawForm:
    """The form with arrays laid out as the compiled kernels expect."""
    kind, *arrays, step, integer = form
    run, curves, mult, c0, c1, table = (np.ascontiguousarray(array, np.float64) for array in arrays)
    return LawForm(int(kind), run, curves, mult, c0, c1, table, float(step), bool(integer))


def loss_top(problem: Problem, form: LawForm) -> float:
    """A loss no sensible path exceeds: it climbs, if at all, by one change to each pair in turn."""
    top = max(problem.initial_loss, problem.target.loss)
    if form.kind == TABLE:
        return float(form.step * (form.table.shape[3] - 1))
    jump, share, rise = largest_jump(form)
    for _ in range(min(len(form.c1), MOST_STONES)):
        top += jump + share * top + rise
    return 2.0 * top + 1.0


def largest_jump(form: LawForm) -> tuple[float, float, float]:
    """The largest finite c0, c1 and epoch's rise of the loss; never negative."""
    parts = (form.c0[np.isfinite(form.c0)], form.c1[np.isfinite(form.c1)], form.run[np.isfinite(form.run)])
    jump, share, rise = (float(part.max(initial=0.0)) for part in parts)
    return jump, share, rise


def epoch_room(seconds: Array, deadline: float) -> int:
    """How many epochs the deadline leaves room for."""
    quickest = float(seconds[np.isfinite(seconds)].min(initial=math.inf))
    if math.isfinite(deadline) and 0 < quickest < math.inf:
        return min(MOST_EPOCHS, max(math.floor(deadline / quickest) + 1, 0))
    return MOST_EPOCHS


def grid_cells(form: LawForm, grid: Grid, problem: Problem) -> int:
    """How many losses a grid has: up to its own top, to the last of the law's table, or as far as a run may climb."""
    top = grid.loss_top
    if top is None and form.kind == TABLE:
        top = loss_top(problem, form)
    elif top is None:  # the start plus the largest jump from it, and room for a run that begins badly
        first = max(problem.initial_loss, problem.target.loss)
        jump, share, _ = largest_jump(form)
        top = first + jump + share * first + 0.5
    return math.ceil(top / grid.loss_step - TOLERANCE) + 1


def gridded(whole: SearchInstance, grid: Grid, problem: Problem) -> SearchInstance:
    """Alg. 1's rounding as an instance: losses and times become whole numbers of steps (lines 17-18)."""
    form = whole.form
    cells = grid_cells(form, grid, problem)
    deadline = problem.target.deadline_s
    epochs = math.ceil(deadline / grid.time_step_s - TOLERANCE) if math.isfinite(deadline) else whole.epochs
    if problem.max_epochs is not None:
        epochs = min(epochs, problem.max_epochs)
    rows = max(min(form.epochs, epochs), 1)
    pairs = len(whole.seconds)
    if rows * pairs * pairs * cells > MOST_CELLS or (rows > 1 and epochs * pairs * cells > MOST_CELLS):
        raise ScenarioError(
            f"planner.grid: {rows} epochs x {pairs}x{pairs} pairs x {cells} losses exceeds {MOST_CELLS:,} cells; "
            "use a larger loss_step or no grid (the default is exact without one)"
        )
    table_cells = rows * pairs * pairs * cells
    charge(whole.counts, TABLE_NS * table_cells, 8 * table_cells)
    losses: Array = np.arange(cells, dtype=np.float64) * grid.loss_step
    table = np.empty((rows, pairs, pairs, cells))
    for row in range(rows):
        for before in range(pairs):
            for now in range(pairs):
                table[row, before, now] = evaluate(form, row + 1, losses, before, now)
    with np.errstate(invalid="ignore"):
        for landed in table.reshape(-1, pairs, cells):
            index = np.maximum(np.ceil(landed / grid.loss_step - TOLERANCE), 0.0)
            landed[:] = np.where(index < cells, index, np.inf)
        steps = np.ceil(whole.seconds / grid.time_step_s - TOLERANCE)
    law = TableLaw(table, 1.0, integer=True)
    # With every epoch at least a step long the deadline implies the cap on epochs.
    autonomous = rows == 1 and problem.max_epochs is None and float(steps.min(initial=1.0)) >= 1.0
    instance = SearchInstance(
        law.form(),
        steps,
        whole.joules,
        float(grid.goal_index(problem.target.loss)),
        float(grid.deadline_index(deadline)) if math.isfinite(deadline) else math.inf,
        epochs,
        float(cells - 1),
        whole.monotone or law.monotone,
        last_epoch=None if autonomous else epochs,
    )
    instance.hold(table.nbytes)
    return instance
