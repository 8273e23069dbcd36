"""What a `planned` event says, and what changed from one plan to the next and why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.explain import say_failure
from ..core.problem import Pair
from ..core.state import TOLERANCE
from ..store.events import Event
from .event_fields import number, numbers, pair_of, table, text, whole

if TYPE_CHECKING:
    from .run_view import RunView

MOST_EPOCHS = 1_000_000
"""A plan that claims more epochs than this is not believed."""


class Predicted(NamedTuple):
    """What a plan said of the epoch it decided: the loss after it, expected and at `level`, and its cost."""

    loss: float | None = None
    guaranteed: float | None = None
    elapsed_s: float | None = None
    energy_j: float | None = None
    level: float | None = None


NOTHING_SAID = Predicted()


@dataclass(frozen=True)
class PlanView:
    """The plan that decided epoch `epoch`; `pairs` are the pairs from that epoch on, `planned_pairs` the plan's own.

    `losses` and `guaranteed` are its band after each epoch, `times_s` and `energies_j` count from the start of the run;
    they are empty when the event kept none. `nearest`: losses with deadlines that an infeasible plan says are in reach.
    `energy_interval_j`: from where to where its energy was stated to be, in 8 of 10 cases, or empty. `to_go_j`: what is
    forecast to be spent yet: 10 % quantile, middle, 90 % quantile.
    """

    epoch: int
    fence: int
    planner: str
    pair: Pair | None
    pairs: tuple[Pair, ...]
    feasible: bool
    asked: float | None
    rung: float | None
    probability: float | None
    sure: float | None
    start_loss: float | None
    energy_j: float | None
    end_s: float | None
    predicted: Predicted
    losses: tuple[float, ...] = ()
    guaranteed: tuple[float, ...] = ()
    times_s: tuple[float, ...] = ()
    energies_j: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    planned_pairs: tuple[Pair, ...] = ()
    nearest: tuple[tuple[float, float], ...] = ()
    guess: bool = False
    energy_interval_j: tuple[float, ...] = ()
    to_go_j: tuple[float, float, float] = (math.inf, math.inf, math.inf)

    @classmethod
    def of(cls, event: Event, path: Sequence[Pair] = ()) -> PlanView:
        """Read the body; the law and the cost table are left where they are.

        `path` are the pairs of all epochs of a run that follows one plan to the end: they count, not the new plan's.
        """
        body = event.body
        plan, predicted = table(body.get("plan")), table(body.get("predicted"))
        pair = pair_of(body.get("decision"))
        epoch = event.epoch or 0
        times_s, energies_j = _pace(plan, table(body.get("state")))
        return cls(
            epoch=epoch,
            fence=event.fence,
            planner=text(plan.get("planner")),
            pair=pair,
            pairs=tuple(path[epoch - 1 :]) or _pairs(plan) or ((pair,) if pair else ()),
            feasible=plan.get("feasible") is not False,
            asked=number(plan.get("asked")),
            rung=number(plan.get("rung")),
            probability=number(plan.get("probability")),
            sure=number(plan.get("probability" if plan.get("energy_interval_j") and plan.get("rung") else "rung")),
            start_loss=number(plan.get("start_loss")),
            energy_j=number(plan.get("energy_j")),
            end_s=number(plan.get("elapsed_s")),
            predicted=Predicted(*(number(predicted.get(key)) for key in Predicted._fields)),
            losses=numbers(plan.get("expected_loss")),
            guaranteed=numbers(plan.get("guaranteed_loss")),
            times_s=times_s,
            energies_j=energies_j,
            notes=tuple(map(text, body.get("notes") or ())),
            planned_pairs=_pairs(plan),
            nearest=_nearest(plan),
            guess=plan.get("guess") is True,
            energy_interval_j=numbers(plan.get("energy_interval_j")),
            to_go_j=_three(predicted.get("to_go_j")),
        )

    @property
    def level(self) -> float | None:
        """The level its guaranteed losses are at."""
        return self.predicted.level or self.rung or self.asked

    def summary(self) -> str:
        """The legs in one line: `L on gold x6 -> M on silver x9`."""
        return say_pairs(self.pairs)

    def handovers(self) -> list[tuple[int, Pair]]:
        """The epochs before which it changes pair, and to which."""
        return turns(self.pairs, self.epoch)[1:]


@dataclass(frozen=True)
class Replan:
    """A plan that changed: `moved` is True when a handover or a pair did, False when only the end moved.

    `old` is the plan whose place it took.
    """

    epoch: int
    before: str
    after: str
    moved: bool
    reasons: tuple[str, ...]
    energy_j: float | None
    old: PlanView


def replans(view: RunView) -> tuple[Replan, ...]:
    """The plans that differ from what was left of the plan before them, with what happened in between."""
    return tuple(reversed(list(latest_replans(view))))


def latest_replans(view: RunView) -> Iterator[Replan]:
    """The same, the latest first."""
    for old, new in pairwise(view.plans[::-1]):
        old, new = new, old
        left = old.pairs[new.epoch - old.epoch :] if new.epoch >= old.epoch else ()
        if left == new.pairs:
            continue
        moved = new.epoch < old.epoch or turns(left, new.epoch) != turns(new.pairs, new.epoch)
        before = say_pairs(left) if left else old.summary()
        yield Replan(new.epoch, before, new.summary(), moved, tuple(_why(view, old, new)), new.energy_j, old)


def _why(view: RunView, old: PlanView, new: PlanView) -> list[str]:
    """What is known to have happened between two plans."""
    words = []
    for back in view.rollbacks:
        if new.epoch == back.to_epoch + 1 and new.epoch <= old.epoch:
            words.append(f"rolled back to epoch {back.to_epoch}: {back.reason}")
    words += [say_failure(f.node, f.reason) for f in view.failures if f.epoch == old.epoch]
    words += new.notes
    if new.fence != old.fence:
        words.append("the run was resumed")
    done = view.epochs[old.epoch - 1] if 0 < old.epoch <= len(view.epochs) else None
    if done is not None and new.epoch > old.epoch:
        predicted = done.predicted
        if predicted.loss is not None and abs(done.loss - predicted.loss) > TOLERANCE:
            side = "below" if done.loss < predicted.loss else "above"
            beyond = " and above the band" if done.in_band is False else ""
            words.append(
                f"loss {done.loss:.4g} after epoch {done.epoch}, {side} the {predicted.loss:.4g} expected{beyond}"
            )
        for unit, got, expected in (
            ("seconds", done.elapsed_s, predicted.elapsed_s),
            ("joules", done.energy_j, predicted.energy_j),
        ):
            if expected and abs(got / expected - 1.0) >= 0.01:
                words.append(f"{unit} {got / expected - 1.0:+.0%} against the forecast")
    return words or ["a new estimate of the curves"]


def turns(pairs: Sequence[Pair], first: int) -> list[tuple[int, Pair]]:
    """The pair of epoch `first`, then every later change of pair with its epoch."""
    changes = enumerate(pairwise(pairs), first + 1)
    return [(first, pair) for pair in pairs[:1]] + [(k, after) for k, (before, after) in changes if before != after]


def say_pairs(pairs: Sequence[Pair]) -> str:
    """Legs in one line: `L on gold ×6 → M on silver ×9`."""
    return " → ".join(f"{pair} ×{len(list(rows))}" for pair, rows in groupby(pairs)) or "nothing"


def _pace(plan: Mapping[str, Any], state: Mapping[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seconds and joules from the start of the run to the end of each planned epoch.

    A leg's epochs are alike, but for the handover into it, which its first epoch pays.
    """
    hands = {h.get("epoch"): h for h in plan.get("handovers") or () if isinstance(h, Mapping)}
    now_s, now_j = number(state.get("elapsed_s")) or 0.0, number(state.get("energy_j")) or 0.0
    times_s, energies_j = [], []
    for leg in plan.get("legs") or ():
        first, last = whole(leg.get("first_epoch")), whole(leg.get("last_epoch"))
        leg_s, leg_j = number(leg.get("elapsed_s")), number(leg.get("energy_j"))
        if first is None or last is None or leg_s is None or leg_j is None or not 0 <= last - first <= MOST_EPOCHS:
            return (), ()
        hand = hands.get(first, {})
        hand_s, hand_j = number(hand.get("elapsed_s")) or 0.0, number(hand.get("energy_j")) or 0.0
        for epoch in range(first, last + 1):
            now_s += (leg_s - hand_s) / (last - first + 1) + (hand_s if epoch == first else 0.0)
            now_j += (leg_j - hand_j) / (last - first + 1) + (hand_j if epoch == first else 0.0)
            times_s.append(now_s)
            energies_j.append(now_j)
    return tuple(times_s), tuple(energies_j)


def _three(values: Any) -> tuple[float, float, float]:
    known = numbers(values)
    return (known[0], known[1], known[2]) if len(known) == 3 else (math.inf, math.inf, math.inf)


def _nearest(plan: Mapping[str, Any]) -> tuple[tuple[float, float], ...]:
    """Loss and deadline of targets that could be met instead; a deadline of none is infinite."""
    rows = [row for row in plan.get("nearest") or () if isinstance(row, Mapping)]
    return tuple(
        (loss, number(r.get("deadline_s")) or math.inf) for r in rows if (loss := number(r.get("loss"))) is not None
    )


def _pairs(plan: Mapping[str, Any]) -> tuple[Pair, ...]:
    """The pairs of a plan's JSON, from its legs or else its decisions."""
    pairs: list[Pair] = []
    for leg in plan.get("legs") or ():
        pair, first, last = pair_of(leg), whole(leg.get("first_epoch")), whole(leg.get("last_epoch"))
        if pair is None or first is None or last is None or not 0 <= last - first <= MOST_EPOCHS:
            return ()
        pairs += [pair] * (last - first + 1)
    return tuple(pairs) or tuple(p for p in map(pair_of, plan.get("decisions") or ()) if p)
