"""Where a run stands and what it should do next: everything about a run that is pure thought.

    history -> estimator -> law          table of costs -> what is forbidden taken out
                   \\                          /
                    planner.plan(problem, costs, law, state) -> Step

No clock, no files, no torch: `loop` adds the journal and the training, `session` the user's own loop. Everything
follows from the history and from what was forbidden, so a resumed run makes the plans that an undisturbed one makes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..core.cost import CostTable
from ..core.law import ROBUST_LEVEL, EpochLaw, Level, LevelLaw, LossLaw, after
from ..core.outcome import EpochOutcome
from ..core.plan import Decision, Plan, level_of
from ..core.problem import Pair, Problem
from ..core.protocols import Estimator, Planner, Prices
from ..core.state import TOLERANCE, State
from ..core.worlds import Worlds
from ..costs.clock import ModelledCost, Spent
from ..costs.table import LearningCosts
from ..planners.over_worlds import drawn_by, plan_over
from ..planners.plan_size import limited
from .giving_up import PATIENCE, PATIENCE_OF_A_GUESS, out_of_reach, say_given_up
from .widening import StatedBound, Widening, widened, widened_worlds, widenings

LEFT_OUT = 2
"""Epochs for which a node set is left out after it did not answer; twice as many each time it does so again."""
MOST_LOSSES = 3
"""A set that is the only way left is tried again at once, until it was lost so often in a row."""


@dataclass(frozen=True)
class Lost:
    """A node set that did not answer, `times` in a row, the last time when `epoch` epochs were done."""

    reason: str
    epoch: int
    times: int = 1

    @property
    def until(self) -> int:
        """Epochs that have to be done before it is tried again."""
        return self.epoch + (LEFT_OUT << (self.times - 1))

    @classmethod
    def after(cls, known: Lost | None, reason: str, epoch: int) -> Lost:
        """Lost now, and so often in a row already as `known` says."""
        return cls(reason, epoch, 1 if known is None else known.times + 1)


@dataclass(frozen=True)
class Step:
    """A decision and all it rests on. `predicted` and `guaranteed` are the loss after it, expected and at `level`.

    `elapsed_s` and `energy_j` are what the epoch is expected to cost.
    """

    decision: Decision
    plan: Plan
    law: LossLaw
    costs: CostTable
    state: State
    predicted: float
    guaranteed: float
    level: float
    notes: tuple[str, ...] = ()
    elapsed_s: float = 0.0
    energy_j: float = 0.0


@dataclass(frozen=True)
class End:
    """How a run ends when its state alone decides: the target is met, or can no longer be."""

    verdict: Literal["met", "missed"]
    reason: str


@dataclass
class Steering:
    """The thinking part of one run.

    Args:
        problem: With the probed l(0) as `initial_loss`.
        costs: What epochs cost, before anything was measured.
        estimator: Told the history before every plan.
        planner: Asked after every epoch; with `replan` False once, and its plan is followed, the last pair training on.
        fallback: The law used when the estimator fails or answers with numbers that are none.
        prices: What a decision's resources and data make of an epoch's cost, on the emulated clock.
        learn_costs: Measured seconds and joules move the cost table (the measured clock).
    """

    problem: Problem
    costs: CostTable
    estimator: Estimator
    planner: Planner
    fallback: LossLaw
    learn_costs: bool = False
    replan: bool = True
    prices: Prices | None = None
    history: list[EpochOutcome] = field(default_factory=list)
    forbidden: dict[Pair, str] = field(default_factory=dict)
    lost: dict[str, Lost] = field(default_factory=dict)
    charged_s: float = 0.0
    wasted_j: float = 0.0
    path: tuple[Pair, ...] = ()
    stated: dict[int, StatedBound] = field(default_factory=dict)
    seed: int = 0
    _believed: LearningCosts | None = None
    _state: State | None = None
    _table: CostTable | None = None

    @property
    def state(self) -> State:
        """After the last epoch that stands. Lost work counts as far as it is charged."""
        if self._state is None:
            outcomes, pair, loss = self.history, self.problem.start, self.problem.initial_loss
            if outcomes:
                pair, loss = self.problem.index(outcomes[-1].decision.pair), outcomes[-1].loss
            elapsed_s = math.fsum(o.elapsed_s for o in outcomes) + self.charged_s
            energy_j = math.fsum(o.energy_j for o in outcomes) + self.wasted_j
            self._state = State(len(outcomes), loss, elapsed_s, pair, energy_j)
        return self._state

    @property
    def losses(self) -> list[float]:
        """After each epoch that stands."""
        return [outcome.loss for outcome in self.history]

    @property
    def pair(self) -> Pair:
        """The pair that holds the network."""
        return self.problem.pairs[self.state.pair]

    def tell(self, outcome: EpochOutcome) -> None:
        """Take in an epoch that was run; its seconds and joules are the useful ones."""
        self.history.append(outcome)
        self.lost.pop(outcome.decision.nodes, None)
        if self.learn_costs:
            self._costs().tell(outcome)
        self._moved()

    def recall(
        self,
        history: list[EpochOutcome],
        forbidden: dict[Pair, str],
        lost: dict[str, Lost],
        path: tuple[Pair, ...],
        stated: dict[int, StatedBound],
    ) -> None:
        """Stand where an earlier writer of the run left it."""
        self.history, self.forbidden, self.lost, self.path, self.stated = history, forbidden, lost, path, stated
        self._moved()

    def charge(self, seconds: float, joules: float) -> None:
        """Lost work so far: the seconds of it that count against the deadline, and its joules."""
        if (seconds, joules) != (self.charged_s, self.wasted_j):
            self.charged_s, self.wasted_j = seconds, joules
            self._moved()

    def forbid(self, pair: Pair, reason: str) -> None:
        """Never run `pair` again."""
        self.forbidden[pair] = reason
        self._moved()

    def lose(self, nodes: str, reason: str) -> None:
        """A node set did not answer: it is left out for some epochs, longer each time."""
        self.lost[nodes] = Lost.after(self.lost.get(nodes), reason, self.state.epoch)
        self._moved()

    def undo(self, epoch: int) -> None:
        """Forget the epochs after `epoch`."""
        del self.history[epoch:]
        self._believed = None
        self._moved()

    def _moved(self) -> None:
        """What was worked out about the present holds no longer."""
        self._state = self._table = None

    def table(self) -> CostTable:
        """The present belief about costs, with infinity where something is forbidden.

        Node sets that did not answer are left out for a while, but for those that are the only way left.
        """
        if self._table is None:
            at, known = self.state, self._unpaid(self._costs().table())
            waiting = {name: lost for name, lost in self.lost.items() if at.epoch < lost.until}
            self._table = self._without(known, waiting)
            if waiting and not _ways(self._table, at.pair).any():
                often = {name: lost for name, lost in waiting.items() if lost.times >= MOST_LOSSES}
                self._table = self._without(known, often)
        return self._table

    def _unpaid(self, table: CostTable) -> CostTable:
        """What is paid once only as far as it is not paid yet; what is measured holds no such thing."""
        if table.first is None:
            return table
        used = (self.problem.index(outcome.decision.pair) for outcome in self.history)
        return replace(table, first=None if self.learn_costs else table.first.after(used))

    def _without(self, table: CostTable, lost: Mapping[str, Lost]) -> CostTable:
        reasons_by_set = {name: entry.reason for name, entry in lost.items()}
        out = {
            index: why
            for index, pair in enumerate(self.problem.pairs)
            if (why := self.forbidden.get(pair) or reasons_by_set.get(pair.nodes))
        }
        if not out:
            return table
        run_s, run_j = table.run_s.copy(), table.run_j.copy()
        run_s[list(out)] = run_j[list(out)] = math.inf
        reasons = dict(table.reasons)
        reasons.update(((index,), why) for index, why in out.items())
        return replace(table, run_s=run_s, run_j=run_j, reasons=reasons)

    def end(self) -> End | None:
        """Whether the state itself ends the run."""
        target, state = self.problem.target, self.state
        in_time = state.elapsed_s <= target.deadline_s + TOLERANCE
        if state.loss <= target.loss + TOLERANCE:
            return End("met", "target reached") if in_time else End("missed", "target reached after the deadline")
        if not in_time:
            return End("missed", "the deadline has passed")
        if self.problem.max_epochs is not None and state.epoch >= self.problem.max_epochs:
            return End("missed", f"all {self.problem.max_epochs} epochs are done")
        table = self.table()
        seconds = np.where(np.isfinite(table.epoch_j[state.pair]), table.epoch_s[state.pair], math.inf)
        if np.isfinite(seconds).any() and not (state.elapsed_s + seconds <= target.deadline_s + TOLERANCE).any():
            return End("missed", "no epoch fits in the time that is left")
        return None

    def stuck(self) -> bool:
        """Nothing can be run any more: all that is left is forbidden or lost."""
        return not _ways(self.table(), self.state.pair).any()

    def next(self) -> Step | End:
        """The next decision with its plan; an end where no plan has one, or the run is given up."""
        state, table = self.state, self.table()
        law, notes = self._law()
        with limited(self.planner, self.problem, table, law, state):
            guess = getattr(self.estimator, "guessed", False)
            plan = plan_over(self.planner, self._drawn, self.problem, table, law, state, guess=guess)
        pair = self._next_pair(plan, table, state)
        if pair is None:
            return End("missed", "no plan has a next epoch: whatever can be run does not lead to the target")
        if self._gave_up(plan):
            return End("missed", say_given_up(self.losses, self.problem.target.loss))
        now = self.problem.index(pair)
        epoch = state.epoch + 1
        decision = Decision(epoch, pair.version, pair.nodes, mode=self.problem.mode_of(pair.nodes))
        if plan.decisions and plan.decisions[0].pair == pair:
            decision = replace(plan.decisions[0], epoch=epoch)  # data and resources are the planner's too
        level, predicted, guaranteed = self._foreseen(plan, law, now)
        self.stated[epoch] = StatedBound(level, guaranteed)
        spent = self.modelled(decision, table).whole
        return Step(decision, plan, law, table, state, predicted, guaranteed, level, notes, *spent)

    def _foreseen(self, plan: Plan, law: LossLaw, now: int) -> tuple[float, float, float]:
        """Level, expected loss and bound of the next epoch: of the worlds that were planned over, else of the law."""
        asked, state = self.problem.target.probability, self.state
        if plan.energy_interval_j is not None and plan.guaranteed and plan.decisions[0].pair == self.problem.pairs[now]:
            return level_of(asked), plan.losses[0], plan.guaranteed[0]
        level, epoch = level_of(plan.rung or asked), state.epoch + 1
        predicted = after(law, epoch, state.loss, state.pair, now)
        return level, predicted, max(after(law, epoch, state.loss, state.pair, now, level), predicted)

    def _drawn(self, count: int) -> Worlds | None:
        """Worlds of the estimator, if it draws any: seeded by the run, so a resumed one draws the same."""
        drawn = drawn_by(self.estimator, tuple(self.history), self.problem.pairs, count, self.seed)
        return widened_worlds(drawn, self.widening)

    @property
    def widening(self) -> list[Widening]:
        """How often bounds that did not hold have made bands wider."""
        return widenings(self.stated, self.history)

    def modelled(self, decision: Decision, table: CostTable | None = None) -> ModelledCost:
        """Of an epoch of `decision`, as `table` (the present belief) has it; resources and data count where they do."""
        table = self.table() if table is None else table
        before, now = self.state.pair, self.problem.index(decision.pair)
        change = Spent(float(table.change_s[before, now]), float(table.change_j[before, now]))
        if self.prices is None or self.learn_costs:
            run = Spent(float(table.run_s[now]), float(table.run_j[now]))
        else:
            run = Spent(*self.prices.run(decision, self.history))
        return ModelledCost(run, change, table.provenance)

    def _next_pair(self, plan: Plan, table: CostTable, state: State) -> Pair | None:
        first = plan.decisions[0].pair if plan.decisions else None
        if self.replan:
            return first
        if not self.path or table.why_not(state.pair, self.problem.index(self._on_path(state.epoch))) is not None:
            # the first plan, or one made anew because what comes next in the old one became impossible
            before = self.path[: state.epoch]
            self.path = (*before, *(d.pair for d in plan.decisions)) if plan.decisions else ()
        return self._on_path(state.epoch) if self.path else None

    def _on_path(self, epoch: int) -> Pair:
        return self.path[min(epoch, len(self.path) - 1)]

    def _gave_up(self, plan: Plan) -> bool:
        if (
            (plan.rung > 0.0 if plan.guess else plan.feasible)
            or math.isfinite(plan.deadline_s)
            or self.problem.max_epochs is not None
        ):
            return False
        patience = PATIENCE_OF_A_GUESS if plan.guess else PATIENCE
        return out_of_reach(self.losses, self.problem.target.loss, patience)

    def _costs(self) -> LearningCosts:
        if self._believed is None:
            sets = {group.name for group in self.problem.node_sets if group.sampled < len(group.nodes)}
            drawn = [pair for pair in self.problem.pairs if pair.nodes in sets]
            self._believed = LearningCosts(self.problem.pairs, self.costs, self.problem.start, drawn=drawn)
            for outcome in self.history if self.learn_costs else ():
                self._believed.tell(outcome)
        return self._believed

    def _law(self) -> tuple[LossLaw, tuple[str, ...]]:
        try:
            law = self.estimator.law(tuple(self.history), self.problem.pairs)
            wrong = nonsense(law, self.state, len(self.problem.pairs))
        except Exception as error:  # a third party's estimator may fail in any way; a run must not end by it
            wrong = f"{type(error).__name__}: {error}"
        if wrong is not None:
            return self.fallback, (f"the estimator failed ({wrong}); the scenario's own law is used",)
        fixed, notes = ordered(law)
        notes = (*getattr(law, "notes", ()), *notes)
        wider = self.widening
        if wider and wider[-1].epoch == len(self.history):
            notes = (*notes, wider[-1].words())
        return (widened(fixed, wider[-1].factor) if wider else fixed), notes


def _ways(table: CostTable, at: int) -> NDArray[np.bool_]:
    """Which pairs can be run next by the pair that holds the network."""
    ways: NDArray[np.bool_] = np.isfinite(table.epoch_s[at]) & np.isfinite(table.epoch_j[at])
    return ways


def nonsense(law: LossLaw, state: State, pairs: int) -> str | None:
    """What makes `law` unusable, if anything: numbers that are none, or a shape that does not fit."""
    levels: tuple[Level, ...] = ("expected", ROBUST_LEVEL)
    for level in levels:
        form = law.form(level)
        if form.pairs != pairs:
            return f"a law for {form.pairs} pairs, expected {pairs}"
        for name in ("run", "curves", "mult", "c0", "c1", "table"):
            if np.isnan(getattr(form, name)).any():
                return f"NaN in '{name}' at level {level}"
        stay = law.next_loss(state.epoch + 1, np.array(state.loss), state.pair, state.pair, level)
        if not np.isfinite(stay).all():
            return f"a loss of {float(stay)} after the next epoch at level {level}"
    return None


def ordered(law: LossLaw) -> tuple[LossLaw, tuple[str, ...]]:
    """`law` with robust figures nowhere better than the expected ones, and a note where they were."""
    fixed: LossLaw = law
    if isinstance(law, LevelLaw):
        fixed = replace(
            law,
            mult_robust=None if law.mult_robust is None else np.minimum(law.mult_robust, law.mult),
            jump0_robust=None if law.jump0_robust is None else np.maximum(law.jump0_robust, law.jump0),
            jump1_robust=None if law.jump1_robust is None else np.maximum(law.jump1_robust, law.jump1),
        )
    elif isinstance(law, EpochLaw):
        fixed = replace(
            law,
            run_robust=None if law.run_robust is None else np.maximum(law.run_robust, law.run),
            change_robust=None if law.change_robust is None else np.maximum(law.change_robust, law.change),
        )
    names = ("mult_robust", "jump0_robust", "jump1_robust", "run_robust", "change_robust")
    if all(np.array_equal(getattr(fixed, name, 0), getattr(law, name, 0)) for name in names):
        return law, ()
    return fixed, ("the estimator's robust figures promised more than the expected ones; swapped",)
