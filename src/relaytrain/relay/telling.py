"""What a run says while it goes on: a line for every epoch that is safe, what happens beside them, and its notes.

A listener hears only of what is in the journal already. What it raises ends the run, but books nothing as lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..core.explain import say_energy, say_feasible, say_handover, say_infeasible, say_time
from ..core.outcome import EpochResult, Handed
from ..core.plan import Decision, Plan, finite, or_infinite
from ..core.problem import Pair, Problem, Units
from ..core.state import State
from ..costs.clock import Spent
from .job import Ended, HandoverMade, Line, Notice, NoticeKind, Told
from .steering import Step


class Telling:
    """Speaks of one run to `told`, if anybody listens; keeps the `notes` that its verdict will have.

    Args:
        told: hears every epoch, and by its methods `happened`, `handed_over` and `concluded`, as far as it has them,
            the rest.
        run: its name.
        notes: what is to be noted whatever happens.
    """

    def __init__(self, told: Told | None, run: str, notes: Iterable[str] = ()) -> None:
        self.told, self.run = told, run
        self.notes: list[str] = list(notes)
        self._notices: list[Notice] = []

    def happened(self, epoch: int, kind: NoticeKind, words: str) -> None:
        """Say at once what happens beside the epochs; the epoch's line has it too, for whoever hears only lines."""
        if self.told is None:
            return
        self._notices.append(Notice(self.run, epoch, kind, words))
        self._to("happened", self._notices[-1])

    def note(self, epoch: int, kind: NoticeKind, words: str) -> None:
        """Say it, and keep it for the verdict."""
        self.notes.append(words)
        self.happened(epoch, kind, words)

    def turned(self, epoch: int, plan: Plan) -> None:
        """A plan that is infeasible after feasible ones, or the other way round."""
        if plan.feasible:
            self.happened(epoch, "feasible", say_feasible(plan.sure))
        else:
            self.happened(epoch, "infeasible", f"{way_out(plan)}; going on as well as possible")

    def handed_over(
        self,
        decision: Decision,
        before: Pair,
        handed: Handed,
        losses: tuple[float, float],
        spent: Spent,
        *,
        units: Units,
        metric: str,
    ) -> None:
        """A handover that is safe; `losses`, in the target's metric, before and after it."""
        if self.told is None:
            return
        cost = f"{say_energy(spent.energy_j, units.energy)}, {say_time(spent.elapsed_s, units.time)}"
        words = say_handover(before, decision.pair, handed.kind, losses, metric)
        self.happened(decision.epoch, "handover", f"{words}, {cost}{f'; {handed.note}' if handed.note else ''}")
        figures = (before, decision.pair, handed.kind, *losses, spent.elapsed_s, spent.energy_j, handed.reached_ratio)
        self._to("handed_over", HandoverMade(self.run, decision.epoch, *figures))

    def epoch_done(
        self,
        decision: Decision,
        planned: Mapping[str, Any],
        step: Step | None,
        result: EpochResult,
        *,
        state: State,
        problem: Problem,
        clock: str,
    ) -> None:
        """An epoch that is safe: `planned` is what was recorded before it, `state` what it led to."""
        if self.told is None:
            return
        plan, predicted, then = (planned.get(key, {}) for key in ("plan", "predicted", "state"))  # a stand-in has none
        ahead = [h for h in plan.get("handovers", ()) if h["epoch"] > decision.epoch]
        spent_j, to_go_j = float(then.get("energy_j", 0.0)), predicted.get("to_go_j") or (None,) * 3
        low_j, middle_j, high_j = (spent_j + or_infinite(j) for j in to_go_j)
        notices, self._notices = tuple(self._notices), []
        self.told(
            Line(
                self.run,
                decision.epoch,
                decision.pair,
                state.loss,
                or_infinite(predicted.get("guaranteed")),
                float(predicted.get("level", 0.0)),
                state.energy_j,
                spent_j + or_infinite(plan.get("energy_j")),
                state.elapsed_s,
                problem.target.deadline_s,
                (Pair(*ahead[0]["after"]), int(ahead[0]["epoch"])) if ahead else None,
                None if step is None else step.plan,
                (problem.units.time, problem.units.energy),
                (low_j, middle_j, high_j),
                clock,
                notices,
                plan.get("guess") is True,
                finite(result.evaluation.accuracy),
                finite(result.train_loss),
                problem.target.metric,
            )
        )

    def concluded(self, ended: Ended) -> None:
        """The verdict is recorded."""
        self._to("concluded", ended)

    def _to(self, method: str, value: Any) -> None:
        """To whoever has that method."""
        heard = getattr(self.told, method, None)
        if heard is not None:
            heard(value)


def way_out(plan: Plan) -> str:
    """That a plan is infeasible, and which targets are in reach instead."""
    nearest = [(n.loss, n.deadline_s) for n in plan.nearest]
    return say_infeasible(plan.target_loss, plan.deadline_s, nearest, plan.time_unit)
