"""Which search a problem needs: bounds first, the cheapest path if it is in time, else labels under a priced deadline.

    1. time-to-go: is the target reachable in time at all? how far up must thresholds be known?
    2. energy-to-go: if the cheapest path is in time, it is the answer.
    3. a price on seconds (LARAC): each round gives a lower bound and, often, a better plan in time.
    4. labels between that lower bound and the best plan known: exact.

Paper: Steps 1-2 of PACT, without a graph. Deviations: un-quantised by default (`gridded` makes the paper's rounding a
law of its own, solved by the same code); (1)-(3) charge the *new* pair, at the epoch being executed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.cost import CostTable
from ..core.law import ADDITIVE, CURVE, TABLE, LawForm, Level, LossLaw, TableLaw, evaluate
from ..core.problem import Problem
from ..core.state import TOLERANCE, Grid
from .kernels import roll
from .labels import FOUND, TOO_MANY, search
from .layers import layers
from .multipliers import multipliers
from .thresholds import thresholds
from .togo import STEPS, ToGo, nothing, place
from .walk import first_weights, follow_layers, follow_steps

Array = NDArray[np.float64]
Within = tuple[tuple[ToGo, float], ...]
MOST_EPOCHS = 20_000
"""Epochs looked ahead when neither the deadline nor the scenario limits them."""
MOST_LABELS = 4_000_000
MOST_UNPRUNED = 200_000
"""Labels allowed to prove an answer under a law that is not monotone, where no label may be dropped for another."""
MOST_CELLS = 60_000_000
"""Cells of (epoch, pair, loss index) above which a gridded law with epoch tables is refused."""
REPLAN_MARGIN = 0.5
"""Energy tables reach this far beyond the plan, so that a run that goes worse than planned still re-plans by lookup."""


@dataclass(frozen=True)
class Start:
    """Where a search begins: epochs done, pair, loss, seconds."""

    epoch: int
    pair: int
    loss: float
    elapsed_s: float


@dataclass(frozen=True)
class Solution:
    """A least-energy path: pairs by index, losses after each, sums, and the proven lower bound.

    `exact` is False when the search was cut short (laws that are not monotone may need that); then energy - bound is
    the gap.
    """

    feasible: bool
    actions: tuple[int, ...]
    losses: tuple[float, ...]
    energy_j: float
    elapsed_s: float
    bound_j: float
    exact: bool
    labels: int = 0


@dataclass
class Instance:
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

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """Which changes (P, P) cost neither infinite time nor infinite energy."""
        return np.isfinite(self.seconds) & np.isfinite(self.joules)

    @property
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

    def epochs_to_go(self) -> ToGo:
        """Epochs still needed, whatever they cost; knows nothing when no cap on epochs is set."""
        if self.last_epoch is None:
            return nothing(self.goal)
        if "epochs" not in self.tables:
            self.tables["epochs"] = self._steps(np.ones_like(self.seconds), limit=self.last_epoch + 0.5)
        return self.tables["epochs"]  # type: ignore[no-any-return]

    def time_to_go(self) -> ToGo:
        """Seconds still needed, whatever the energy."""
        if "time" not in self.tables:
            within = () if self.last_epoch is None else ((self.epochs_to_go(), float(self.last_epoch)),)
            self.tables["time"] = self._steps(self.seconds, within, limit=self.deadline + 1e-6)
        return self.tables["time"]  # type: ignore[no-any-return]

    def energy_to_go(self, start: Start) -> ToGo:
        """Joules still needed, whatever the time; made once, and again only when a state lies beyond the table."""
        known = self.tables.get("energy")
        if known is None or (math.isfinite(known.limit) and place(known, start.pair, start.loss) < 0):
            known = self._steps(self.joules, self._in_time(), watch=(start.pair, start.loss), margin=REPLAN_MARGIN)
            self.tables["energy"] = known
        return known

    def mixed_to_go(self, price: float, start: Start) -> ToGo:
        """Joules + `price` * seconds still needed."""
        key = ("mixed", price)
        if key not in self.tables:
            weight = self.joules + price * self.seconds
            watch = (start.pair, start.loss)
            self.tables[key] = self._steps(weight, self._in_time(), watch=watch, margin=REPLAN_MARGIN)
        return self.tables[key]  # type: ignore[no-any-return]

    def _in_time(self) -> Within:
        return ((self.time_to_go(), self.deadline),)

    def _steps(self, weight: Array, within: Within = (), **options: Any) -> ToGo:
        """Thresholds for `weight`, up to the losses from which the tables in `within` still reach the goal."""
        tops = np.full(len(weight), self.loss_top)
        for table, most in within:
            if table.limit > most:  # else it was cut short and does not know how far up the goal is in reach
                last = table.offsets[1:] - 1
                tops = np.minimum(tops, np.where(last >= table.offsets[:-1], table.theta[last], -np.inf))
        return thresholds(self.relaxed, np.where(self.allowed, weight, np.inf), self.goal, tops=tops, **options)


def instance_of(
    problem: Problem, costs: CostTable, law: LossLaw, level: Level = "expected", *, grid: Grid | None = None
) -> Instance:
    """The searchable form of a problem at `level`; with `grid` the paper's rounding is applied to it."""
    form = contiguous(law.form(level))
    seconds, joules = np.ascontiguousarray(costs.epoch_s), np.ascontiguousarray(costs.epoch_j)
    deadline = problem.target.deadline_s
    top = loss_top(problem, form)
    whole = Instance(form, seconds, joules, problem.target.loss + TOLERANCE, deadline + TOLERANCE, 0, top, law.monotone)
    whole.epochs = epoch_room(seconds, whole.deadline)
    whole.last_epoch = problem.max_epochs
    return whole if grid is None else gridded(whole, grid, problem)


def contiguous(form: LawForm) -> LawForm:
    """The form with arrays laid out as the compiled kernels expect."""
    arrays = {
        name: np.ascontiguousarray(getattr(form, name), dtype=np.float64)
        for name in ("run", "curves", "mult", "c0", "c1", "table")
    }
    return form._replace(**arrays, step=float(form.step), integer=bool(form.integer), kind=int(form.kind))


def loss_top(problem: Problem, form: LawForm) -> float:
    """A loss no sensible path exceeds: the start plus the largest jump from it, twice over for room."""
    start = max(problem.initial_loss, problem.target.loss)
    if form.kind == TABLE:
        return float(form.step * (form.table.shape[3] - 1))
    finite = form.c0[np.isfinite(form.c0)]
    jump = float(max(finite.max(initial=0.0), 0.0)) + float(max(form.c1.max(initial=0.0), 0.0)) * start
    return 2.0 * (start + jump) + 1.0


def epoch_room(seconds: Array, deadline: float) -> int:
    """How many epochs the deadline leaves room for."""
    quickest = float(seconds[np.isfinite(seconds)].min(initial=math.inf))
    if math.isfinite(deadline) and 0 < quickest < math.inf:
        return min(MOST_EPOCHS, max(math.floor(deadline / quickest) + 1, 0))
    return MOST_EPOCHS


def gridded(whole: Instance, grid: Grid, problem: Problem) -> Instance:
    """Alg. 1's rounding as an instance: losses and times become whole numbers of steps (lines 17-18)."""
    top = grid.loss_top if grid.loss_top is not None else whole.loss_top / 2.0
    cells = math.ceil(top / grid.loss_step - TOLERANCE) + 1
    form = whole.form
    deadline = problem.target.deadline_s
    epochs = math.ceil(deadline / grid.time_step_s - TOLERANCE) if math.isfinite(deadline) else whole.epochs
    if problem.max_epochs is not None:
        epochs = min(epochs, problem.max_epochs)
    rows = min(form.epochs, epochs) if form.epochs > 1 else 1
    pairs = len(whole.seconds)
    if rows * pairs * pairs * cells > MOST_CELLS or (rows > 1 and epochs * pairs * cells > MOST_CELLS):
        from ..core.errors import ScenarioError

        raise ScenarioError(
            f"planner.grid: {rows} epochs x {pairs}x{pairs} pairs x {cells} losses exceeds {MOST_CELLS:,} cells; "
            "use a larger loss_step or no grid (the default is exact without one)"
        )
    losses = np.arange(cells) * grid.loss_step
    table = np.empty((max(rows, 1), pairs, pairs, cells))
    for row in range(max(rows, 1)):
        for before in range(pairs):
            for now in range(pairs):
                landed = evaluate(form, row + 1, losses, before, now)
                with np.errstate(invalid="ignore"):
                    index = np.maximum(np.ceil(landed / grid.loss_step - TOLERANCE), 0.0)
                table[row, before, now] = np.where(index < cells, index, np.inf)
    with np.errstate(invalid="ignore"):
        steps = np.ceil(whole.seconds / grid.time_step_s - TOLERANCE)
    blank = np.zeros((pairs, pairs))
    monotone = whole.monotone or TableLaw(table, 1.0).monotone
    # With every epoch at least a step long the deadline implies the cap on epochs.
    autonomous = rows <= 1 and problem.max_epochs is None and float(steps.min(initial=1.0)) >= 1.0
    rounded = LawForm(TABLE, np.zeros((1, pairs)), np.zeros((0, 4)), np.zeros((1, 0)), blank[None], blank, table, 1.0, True)
    return Instance(
        rounded,
        steps,
        whole.joules,
        float(grid.goal_index(problem.target.loss)),
        float(grid.deadline_index(deadline)) if math.isfinite(deadline) else math.inf,
        epochs,
        float(cells - 1),
        monotone,
        last_epoch=None if autonomous else epochs,
    )


def solve(instance: Instance, start: Start, first: NDArray[np.bool_] | None = None) -> Solution:
    """The least-energy path from `start`; `first` restricts the first action to the pairs marked True."""
    if start.loss <= instance.goal:
        in_time = start.elapsed_s <= instance.deadline
        return Solution(in_time, (), (), 0.0 if in_time else math.inf, start.elapsed_s, 0.0, True)
    mask = np.ones(len(instance.seconds), np.bool_) if first is None else first
    if instance.by_epoch:
        return _solve_by_epoch(instance, start, mask)
    return _solve_autonomous(instance, start, mask)


def path_of(instance: Instance, start: Start, actions: NDArray[np.int64]) -> tuple[Array, float, float]:
    """Losses after each action, joules and final time of a path."""
    losses = np.empty(len(actions))
    roll(instance.form, start.loss, start.pair, start.epoch + 1, actions, losses)
    before = np.concatenate(([start.pair], actions[:-1])).astype(np.int64)
    energy = float(instance.joules[before, actions].sum())
    return losses, energy, start.elapsed_s + float(instance.seconds[before, actions].sum())


def first_steps(instance: Instance, start: Start, togo: ToGo, weight: Array, mask: NDArray[np.bool_]) -> Array:
    """Weight of the best path by first action (P,): infinity where masked, impossible or out of reach."""
    barred = np.where(instance.allowed, weight, np.inf)
    return first_weights(instance.form, togo, barred, (start.epoch, start.pair, start.loss), mask)  # type: ignore[no-any-return]


def _solution(instance: Instance, start: Start, actions: NDArray[np.int64], bound: float, *, exact: bool, labels: int = 0) -> Solution:
    losses, energy, elapsed = path_of(instance, start, actions)
    stop = int(np.argmax(losses <= instance.goal)) + 1 if (losses <= instance.goal).any() else len(actions)
    if stop < len(actions):
        return _solution(instance, start, actions[:stop], bound, exact=exact, labels=labels)
    return Solution(
        bool(losses[-1] <= instance.goal and elapsed <= instance.deadline),
        tuple(int(a) for a in actions),
        tuple(float(v) for v in losses),
        energy,
        elapsed,
        min(bound, energy),
        exact,
        labels,
    )


def _infeasible(bound: float = math.inf) -> Solution:
    return Solution(False, (), (), math.inf, math.inf, bound, True)


def _solve_autonomous(instance: Instance, start: Start, mask: NDArray[np.bool_]) -> Solution:
    time = instance.time_to_go()
    quickest = first_steps(instance, start, time, instance.seconds, mask)
    least = float(quickest.min(initial=math.inf))
    if not math.isfinite(least) or start.elapsed_s + least > instance.deadline:
        return _infeasible()
    room = instance.cap(start) - start.epoch
    if first_steps(instance, start, instance.epochs_to_go(), np.ones_like(instance.seconds), mask).min() > room:
        return _infeasible()
    energy = instance.energy_to_go(start)
    best = _by_table(instance, start, energy, instance.joules, mask)
    if best is not None and best.feasible and len(best.actions) <= room:
        return best
    bounds, price, bound, sure = (energy, time, nothing(instance.goal)), 0.0, 0.0, None
    if best is not None and not best.feasible:
        sure, bound, price, mixed = _priced(instance, start, mask, best, time)
        bounds = (energy, time, mixed)
        if sure is not None and sure.energy_j <= bound + TOLERANCE and len(sure.actions) <= room:
            return replace(sure, bound_j=min(bound, sure.energy_j))
    answer = best
    if best is None or not best.feasible:
        answer = _solve_labels(instance, start, mask, best=sure, bounds=bounds, price=price, bound=bound)
    by_epoch = answer is not None and len(answer.actions) > room
    if by_epoch:  # the run's last epoch binds: paths of different length are no longer comparable
        sure = sure if sure is not None and len(sure.actions) <= room else None
        answer = _solve_labels(instance, start, mask, best=sure, bounds=bounds, price=price, bound=bound, by_epoch=True)
    assert answer is not None
    return _proven(instance, start, mask, answer, bounds=bounds, price=price, bound=bound, by_epoch=by_epoch)


def _priced(
    instance: Instance, start: Start, mask: NDArray[np.bool_], best: Solution, time: ToGo
) -> tuple[Solution | None, float, float, ToGo]:
    """The cheapest path `best` is late: price the seconds until cheap and quick paths weigh the same (LARAC).

    Gives the best path in time met on the way, a lower bound on the energy, the price and its to-go table.
    """
    cheap, late = best.energy_j, best.elapsed_s
    bound = cheap
    sure = _by_table(instance, start, time, instance.seconds, mask)
    price, mixed = 0.0, nothing(instance.goal)
    if sure is not None and sure.feasible:
        for _ in range(12):
            trial = (sure.energy_j - cheap) / max(late - sure.elapsed_s, 1e-300)
            if not (math.isfinite(trial) and trial > 0):
                break
            table = instance.mixed_to_go(trial, start)
            found = _by_table(instance, start, table, instance.joules + trial * instance.seconds, mask)
            if found is None:
                break
            dual = found.energy_j + trial * (found.elapsed_s - instance.deadline)
            if dual > bound or price == 0.0:
                bound, price, mixed = max(bound, dual), trial, table
            improves = found.energy_j < sure.energy_j - TOLERANCE if found.feasible else found.energy_j > cheap + TOLERANCE
            if not improves:
                break
            if found.feasible:
                sure = found
            else:
                cheap, late = found.energy_j, found.elapsed_s
        return sure, bound, price, mixed
    return None, bound, price, mixed


def _by_table(instance: Instance, start: Start, togo: ToGo, weight: Array, mask: NDArray[np.bool_]) -> Solution | None:
    """The best path by thresholds alone, checked forwards; None when the check fails or nothing is reachable."""
    values = first_steps(instance, start, togo, weight, mask)
    now = int(np.argmin(values))
    if not math.isfinite(values[now]):
        return None
    path = follow_steps(instance.form, togo, (start.epoch, start.pair, start.loss), instance.goal, now)
    found = _solution(instance, start, path, float(values[now]), exact=True)
    return found if found.losses[-1] <= instance.goal else None


def _solve_labels(
    instance: Instance,
    start: Start,
    mask: NDArray[np.bool_],
    *,
    best: Solution | None,
    bounds: tuple[ToGo, ToGo, ToGo],
    price: float,
    bound: float = 0.0,
    by_epoch: bool = False,
    with_time: bool = True,
    dominate: bool = True,
) -> Solution:
    ceiling = math.inf if best is None else best.energy_j - TOLERANCE
    found = search(
        instance.form,
        (instance.seconds, instance.joules),
        (start.epoch, start.pair, start.loss, start.elapsed_s),
        first=mask,
        goal=instance.goal,
        deadline=instance.deadline,
        epochs=instance.cap(start) if by_epoch else start.epoch + instance.epochs,
        by_epoch=by_epoch,
        with_time=with_time,
        ceiling=ceiling,
        bounds=(*bounds, instance.epochs_to_go() if by_epoch and not instance.by_epoch else nothing(instance.goal)),
        price=price,
        most=instance.most_labels if dominate else min(instance.most_labels, MOST_UNPRUNED),
        dominate=dominate,
    )
    if found.status == FOUND:
        answer = _solution(instance, start, found.actions, math.inf, exact=True, labels=found.labels)
        return replace(answer, bound_j=answer.energy_j)
    if found.status == TOO_MANY:
        if best is None:
            return replace(_infeasible(bound), exact=False, labels=found.labels)
        return replace(best, bound_j=min(bound, best.energy_j), exact=False, labels=found.labels)
    if best is None:
        return replace(_infeasible(), labels=found.labels)
    return replace(best, bound_j=best.energy_j, exact=True, labels=found.labels)


def _proven(instance: Instance, start: Start, mask: NDArray[np.bool_], answer: Solution, **how: Any) -> Solution:
    """`answer` itself under a monotone law; else the best of all paths below it, as far as they can be gone through."""
    if instance.monotone:
        return answer
    best = answer if answer.feasible else None
    every = _solve_labels(instance, start, mask, best=best, dominate=False, **how)
    if every.exact:
        return every
    return replace(answer, bound_j=min(how["bound"], answer.energy_j), exact=False)


def _solve_by_epoch(instance: Instance, start: Start, mask: NDArray[np.bool_]) -> Solution:
    """Laws with epoch tables: layers on a grid, lines for additive laws, else the relaxed law's thresholds."""
    form, goal = instance.form, instance.goal
    cap = instance.cap(start)
    if start.epoch >= cap:
        return _infeasible()
    state = (start.epoch, start.pair, start.loss)

    def to_go(name: str, weight: Array) -> ToGo:
        if form.integer:
            first, known = instance.tables.get((name, "by epoch"), (math.inf, None))
            if start.epoch < first:
                barred = np.where(instance.allowed, weight, np.inf)
                known = layers(form, barred, int(goal), first=start.epoch, epochs=cap)
                instance.tables[name, "by epoch"] = (start.epoch, known)
            return known  # type: ignore[no-any-return]
        if form.kind == ADDITIVE:
            return multipliers(form, weight, goal, start=state, epochs=cap, allowed=instance.allowed)
        return instance.time_to_go() if name == "time" else instance.energy_to_go(start)

    energy = to_go("energy", instance.joules)
    floor = float(first_steps(instance, start, energy, instance.joules, mask).min(initial=math.inf))
    if not math.isfinite(floor):
        return _infeasible()
    if form.integer:
        best = _by_layers(instance, start, energy, instance.joules, mask)
        if best is not None and best.feasible:
            return best
    time = to_go("time", instance.seconds)
    least = float(first_steps(instance, start, time, instance.seconds, mask).min(initial=math.inf))
    if not math.isfinite(least) or start.elapsed_s + least > instance.deadline:
        return _infeasible()
    # Guess how far above the bound the optimum lies; a search that finds something below its ceiling is exact.
    bounds = (energy, time, nothing(goal))
    found = _infeasible(floor)
    for with_time in (False, True):
        for share in (0.02, 0.1, 0.5, math.inf):
            ceiling = math.inf if share == math.inf else floor * (1.0 + share) + 2 * TOLERANCE
            guess = Solution(False, (), (), ceiling, math.inf, floor, True)
            found = _solve_labels(
                instance, start, mask, best=guess, bounds=bounds, price=0.0, bound=floor, by_epoch=True, with_time=with_time
            )
            if found.actions or not found.exact:
                break
        if not found.actions:
            found = replace(_infeasible(floor), exact=False) if not found.exact else _infeasible()
            break
        if found.feasible:
            break
    return _proven(instance, start, mask, found, bounds=bounds, price=0.0, bound=floor, by_epoch=True)


def _by_layers(instance: Instance, start: Start, togo: ToGo, weight: Array, mask: NDArray[np.bool_]) -> Solution | None:
    """The best path on the layered grid; None when the goal is out of reach."""
    barred = np.where(instance.allowed, weight, np.inf)
    where = (start.epoch, start.pair, start.loss)
    path = follow_layers(instance.form, togo, barred, instance.seconds, where, instance.goal, mask)
    return _solution(instance, start, path, math.inf, exact=True) if len(path) else None


__all__ = ["STEPS", "Instance", "Solution", "Start", "gridded", "instance_of", "solve"]
