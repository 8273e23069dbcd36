"""A plan and what it states: decisions, legs, handovers, bands, bounds, alternatives, the way out when infeasible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from operator import add
from typing import Any

from .display import drawn
from .problem import Mode, Pair, Problem
from .state import State

Json = dict[str, Any]
COLUMNS = ("seconds", "joules", "loss", "change_s", "change_j", "jump")
"""What a path has for every epoch; the last three are its handover's."""


@dataclass(frozen=True)
class Decision:
    """What epoch `epoch` does. By default all data, full resources, federated."""

    epoch: int
    version: str
    nodes: str
    datasets: tuple[str, ...] = ()
    resources: float = 1.0
    mode: Mode = "federated"

    @property
    def pair(self) -> Pair:
        """The pair that trains."""
        return Pair(self.version, self.nodes)


@dataclass(frozen=True)
class Leg:
    """A run of epochs with one pair. Seconds and joules include the handover into the leg."""

    version: str
    nodes: str
    first_epoch: int
    last_epoch: int
    elapsed_s: float
    energy_j: float
    loss: float

    @property
    def epochs(self) -> int:
        """How many epochs the leg has."""
        return self.last_epoch - self.first_epoch + 1


@dataclass(frozen=True)
class Handover:
    """The change between two legs, at the start of `epoch`: its own seconds, joules and expected jump of the loss."""

    epoch: int
    before: Pair
    after: Pair
    elapsed_s: float
    energy_j: float
    loss_change: float


@dataclass(frozen=True)
class Alternative:
    """A first action (or a whole strategy) that was not taken, with what it would have cost; None when impossible."""

    name: str
    energy_j: float | None
    elapsed_s: float | None
    reason: str = ""


@dataclass(frozen=True)
class Nearest:
    """A target that could be met instead: `loss` by `deadline_s`."""

    loss: float
    deadline_s: float


@dataclass(frozen=True)
class Plan:
    """A frozen answer. `losses` and `guaranteed` hold one value after each epoch, at `expected` and at `rung`.

    `asked` is the probability in the target, `rung` the level the plan rests on (0.0 when no level is feasible),
    `probability` the share of samples of the law, or of worlds, that reach the target in time following the decisions,
    the last pair training on where they end. `bound_j` is a proven lower bound on the energy of any plan under the
    expected law (or of what `bounded` names), `gap` the plan's distance to it. `probabilities` says how sure the end is
    under each assumption about the noise, where there are several. `ahead` is l_ideal - l now, `value` the value
    function (4) there. A plan over worlds has `energy_interval_j`, which holds the energy in 8 of 10 cases;
    `probability` is then the one figure it states, and `rung` is no more than what was asked. `guaranteed_s` is
    `elapsed_s` at `rung`: on the measured clock, where seconds scatter; else None.
    `attainable`: where `rung` is less than was asked, the highest probability, in thousandths, that any plan can have
    (0.0: none of one half or more); None where that was not asked for. `guess`: it rests on no measured loss, and
    states no probability.
    """

    problem: str
    planner: str
    feasible: bool
    decisions: tuple[Decision, ...]
    legs: tuple[Leg, ...]
    handovers: tuple[Handover, ...]
    losses: tuple[float, ...]
    guaranteed: tuple[float, ...]
    energies_j: tuple[float, ...]
    times_s: tuple[float, ...]
    energy_j: float
    elapsed_s: float
    asked: float
    rung: float
    probability: float
    bound_j: float
    gap: float
    target_loss: float
    deadline_s: float
    start_loss: float
    ahead: float = 0.0
    value: float = 0.5
    energy_unit: str = "J"
    time_unit: str = "s"
    exact: bool = True
    alternatives: tuple[Alternative, ...] = ()
    nearest: tuple[Nearest, ...] = ()
    warnings: tuple[str, ...] = ()
    probabilities: tuple[tuple[str, float], ...] = ()
    bounded: str = "plan under the expected law"
    guaranteed_s: float | None = None
    energy_interval_j: tuple[float, float] | None = None
    attainable: float | None = None
    guess: bool = False

    @property
    def sure(self) -> float:
        """The probability that the plan states."""
        return self.rung if self.energy_interval_j is None or not self.feasible else self.probability

    @property
    def met(self) -> bool:
        """The plan rests on at least the probability that was asked for."""
        return self.feasible and not self.guess and self.rung >= self.asked - 1e-12

    def guessed(self) -> Plan:
        """The same as what it is where no loss was ever measured: a guess, which neither promises nor rules out.

        Where the target is met already there is nothing to guess.
        """
        if self.feasible and not self.decisions:
            return self
        plain = tuple(other if other.energy_j is None else replace(other, reason="") for other in self.alternatives)
        feasible = self.feasible or bool(self.decisions)
        return replace(self, guess=True, feasible=feasible, alternatives=plain, nearest=(), attainable=None)

    def to_dict(self, *, by_epoch: bool = True) -> Json:
        """Plain JSON values; infinity becomes None (docs/formats.md, plan).

        `by_epoch`: with decisions, joules and seconds of every epoch, which legs tell too.
        """
        return {
            "schema": "relaytrain.plan/2",
            "problem": self.problem,
            "planner": self.planner,
            "feasible": self.feasible,
            "met": self.met,
            "asked": self.asked,
            **({"guess": True} if self.guess else {}),
            "rung": None if self.guess else self.rung,
            **({} if self.attainable is None else {"attainable": self.attainable}),
            "probability": None if self.guess else self.probability,
            "probabilities": {} if self.guess else dict(self.probabilities),
            "target": {"loss": finite(self.target_loss), "deadline_s": finite(self.deadline_s)},
            "start_loss": finite(self.start_loss),
            "energy_j": finite(self.energy_j),
            "elapsed_s": finite(self.elapsed_s),
            **({} if self.guaranteed_s is None else {"guaranteed_s": finite(self.guaranteed_s)}),
            **(
                {}
                if self.energy_interval_j is None
                else {"energy_interval_j": [finite(value) for value in self.energy_interval_j]}
            ),
            "bound_j": finite(self.bound_j),
            "gap": finite(self.gap),
            "bounded": self.bounded,
            "exact": self.exact,
            "ahead": finite(self.ahead),
            "value": finite(self.value),
            "units": {"energy": self.energy_unit, "time": self.time_unit},
            **({"decisions": [plain(d) for d in self.decisions]} if by_epoch else {}),
            "legs": [{**plain(leg), "epochs": leg.epochs} for leg in self.legs],
            "handovers": [{**plain(h), "before": list(h.before), "after": list(h.after)} for h in self.handovers],
            "expected_loss": [finite(v) for v in self.losses],
            "guaranteed_loss": [finite(v) for v in self.guaranteed],
            **({"energy_by_epoch_j": [finite(v) for v in self.energies_j]} if by_epoch else {}),
            **({"time_by_epoch_s": [finite(v) for v in self.times_s]} if by_epoch else {}),
            "alternatives": [plain(a) for a in self.alternatives],
            "nearest": [plain(n) for n in self.nearest],
            "warnings": list(self.warnings),
        }

    def diff(self, other: Plan) -> str:
        """One line on what changed from `other` to this plan."""
        if [d.pair for d in self.decisions] == [d.pair for d in other.decisions]:
            return "same decisions"
        return f"{other.summary()}  ->  {self.summary()}"

    def summary(self) -> str:
        """The legs in one line: `L on gold x6 -> M on silver x9`."""
        if not self.legs:
            return "nothing to do" if self.feasible else "no plan"
        return " -> ".join(f"{leg.version} on {leg.nodes} x{leg.epochs}" for leg in self.legs)

    def explain(self) -> str:
        """The plan in plain text: the answer, why, and what else was possible."""
        from .explain import explain

        return explain(self)

    def __str__(self) -> str:
        return self.explain()

    def __repr__(self) -> str:
        state = "met" if self.met else "not met"
        return f"<Plan {self.problem} by {self.planner}: {self.summary()}; target {state}>"

    def __rich__(self) -> Any:
        return drawn(self, "terminal")

    def _repr_html_(self) -> str:
        page: str = drawn(self, "notebook")
        return page


def finite(value: float) -> float | None:
    """JSON has no infinity: it is written as null."""
    return float(value) if math.isfinite(value) else None


def or_infinite(value: float | None) -> float:
    """The way back."""
    return math.inf if value is None else float(value)


def plain(item: Any) -> Json:
    """The fields of a value as JSON has them."""
    row: Json = {}
    for key, value in vars(item).items():
        if isinstance(value, float):
            row[key] = finite(value)
        elif isinstance(value, tuple):
            row[key] = list(value)
        else:
            row[key] = value
    return row


def level_of(probability: float) -> float:
    """The level of bounds that are stated with a probability: one half at least, and never certainty."""
    return min(max(probability, 0.5), 1.0 - 1e-6)


def path_fields(
    problem: Problem, state: State, actions: Sequence[int], table: Mapping[str, Any], start: int | None = None
) -> Json:
    """What a plan says of its path from `state`, by the names of `Plan`: decisions, legs, losses, what is spent when.

    Args:
        problem: whose pairs `actions` count.
        state: where the path begins.
        actions: a pair an epoch.
        table: one figure an action: `COLUMNS`; 0 where there is none.
        start: the pair before the first action; that of `state` unless given.
    """
    none = [0.0] * len(actions)
    columns = {key: _floats(table.get(key, none)) for key in COLUMNS}
    before = state.pair if start is None else start
    decisions, legs, handovers = _legs(problem, before, state.epoch + 1, actions, columns)
    spent_j = list(accumulate(columns["joules"]))
    until_s = [state.elapsed_s + seconds for seconds in accumulate(columns["seconds"])]
    return {
        "decisions": decisions,
        "legs": legs,
        "handovers": handovers,
        "losses": tuple(columns["loss"]),
        "energies_j": tuple(state.energy_j + joules for joules in spent_j),
        "times_s": tuple(until_s),
        "energy_j": spent_j[-1] if spent_j else 0.0,
        "elapsed_s": until_s[-1] if until_s else state.elapsed_s,
    }


def _floats(values: Any) -> list[float]:
    return list(map(float, values.tolist() if hasattr(values, "tolist") else values))


def gap_to(bound_j: float, energy_j: float) -> float:
    """How far a plan's energy lies above its bound, as a share of it; 0 where there is no bound."""
    return max(energy_j / bound_j - 1.0, 0.0) if 0.0 < bound_j < math.inf else 0.0


def _legs(
    problem: Problem, start_pair: int, first_epoch: int, actions: Sequence[int], columns: Mapping[str, list[float]]
) -> tuple[tuple[Decision, ...], tuple[Leg, ...], tuple[Handover, ...]]:
    """Decisions, legs and handovers of a path."""
    decisions: list[Decision] = []
    legs: list[Leg] = []
    handovers: list[Handover] = []
    seconds, joules, loss = (columns[key] for key in COLUMNS[:3])
    before, first = start_pair, 0
    while first < len(actions):
        now, last = actions[first], first
        while last + 1 < len(actions) and actions[last + 1] == now:
            last += 1
        epoch, (version, nodes) = first_epoch + first, problem.pairs[now]
        if now != before:
            change_s, change_j, jump = (columns[key][first] for key in COLUMNS[3:])
            handovers.append(Handover(epoch, problem.pairs[before], problem.pairs[now], change_s, change_j, jump))
        mode = problem.mode_of(nodes)
        decisions += [Decision(epoch + i, version, nodes, (), 1.0, mode) for i in range(last + 1 - first)]
        taken_s, taken_j = reduce(add, seconds[first : last + 1]), reduce(add, joules[first : last + 1])
        legs.append(Leg(version, nodes, epoch, first_epoch + last, taken_s, taken_j, loss[last]))
        before, first = now, last + 1
    return tuple(decisions), tuple(legs), tuple(handovers)
