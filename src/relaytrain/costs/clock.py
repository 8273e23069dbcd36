"""The run's clock: which seconds and joules count. Runners measure, the model predicts, the loop books what this says.

| | emulated | measured |
|---|---|---|
| an epoch, a handover | as modelled: nothing measured enters | as metered |
| an epoch lost as a whole | as modelled | as metered, where the error says it |
| attempts that failed within an epoch | their nodes' share of it | as metered |
| lost work against the deadline | with `charge_lost_work` | always |
| pauses between two writers of a run | never | unless `count_pauses` is false |
| the cost table | the scenario's own | learns from every epoch |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..core.cost import Provenance
from ..core.outcome import EpochOutcome, EpochResult, NodeReport
from ..core.problem import Clock, Problem
from .meters import CpuMeter, Meter


class Spent(NamedTuple):
    """Seconds and joules."""

    elapsed_s: float
    energy_j: float


@dataclass(frozen=True)
class ModelledCost:
    """Of an epoch, PACT (1)-(2): tau and epsilon of running its pair, and of changing to it from the one before."""

    run: Spent
    change: Spent
    provenance: Provenance = "modelled"

    @property
    def whole(self) -> Spent:
        """Both."""
        return Spent(self.run.elapsed_s + self.change.elapsed_s, self.run.energy_j + self.change.energy_j)


@dataclass(frozen=True)
class Booked:
    """An epoch on the run's clock: the useful seconds and joules in `outcome`, handover included, `wasted` beside."""

    outcome: EpochOutcome
    wasted: Spent
    nodes: tuple[NodeReport, ...]
    note: str | None = None


@dataclass(frozen=True)
class EmulatedClock:
    """Modelled time.

    Args:
        weights: by node, joules and seconds one sample takes relative to the others (1.0 each by default); they only
            divide an epoch's joules among its nodes.
        charge_lost_work: whether lost work takes time as well.
    """

    weights: Mapping[str, tuple[float, float]] | None = None
    charge_lost_work: bool = False
    name: Clock = "emulated"
    meter: Meter | None = None
    count_pauses: bool = False

    def counts(self, modelled: Spent, measured: Spent | None) -> Spent:
        """What a handover or lost work is charged: the modelled figures."""
        return _amounts(modelled)

    def book(self, result: EpochResult, modelled: ModelledCost, handover: Spent) -> Booked:
        """The modelled figures; a failed attempt wastes its node's share of them, beside what the runner says."""
        shares = self._shares(result, modelled.run)
        stated = _amounts(Spent(result.outcome.wasted_s, result.outcome.wasted_j))
        again_s = modelled.run.elapsed_s if result.failures and self.charge_lost_work else 0.0
        lost_j = sum(shares[failure.node].energy_j for failure in result.failures)
        nodes = tuple(replace(report, **shares[report.node]._asdict()) for report in result.nodes)
        wasted = Spent(stated.elapsed_s + again_s, stated.energy_j + lost_j)
        return Booked(_charged(result.outcome, modelled.whole, modelled.provenance), wasted, nodes)

    def _shares(self, result: EpochResult, run: Spent) -> dict[str, Spent]:
        """The epoch's joules divided by samples and weight; a node's seconds relative to the slowest node's."""
        reports = sorted((*result.failures, *result.nodes), key=lambda r: r.node) if result.failures else result.nodes
        samples = {report.node: report.samples for report in reports}
        weights = {node: (self.weights or {}).get(node, (1.0, 1.0)) for node in samples}
        joules = {node: count * weights[node][0] for node, count in samples.items()}
        seconds = {node: count * weights[node][1] for node, count in samples.items()}
        total, slowest = sum(joules.values()) or 1.0, max(seconds.values(), default=1.0) or 1.0
        return {n: Spent(run.elapsed_s * seconds[n] / slowest, run.energy_j * joules[n] / total) for n in samples}


class MeasuredClock:
    """Monotonic seconds and metered joules. `count_pauses`: whether time in which nobody ran the run passes too."""

    name: Clock = "measured"
    charge_lost_work = True

    def __init__(self, meter: Meter | None = None, *, count_pauses: bool = True) -> None:
        self.meter: Meter | None = CpuMeter() if meter is None else meter
        self.count_pauses = count_pauses

    def counts(self, modelled: Spent, measured: Spent | None) -> Spent:
        """What a handover or lost work is charged: the measured figures where there are any."""
        return _amounts(modelled if measured is None else measured)

    def book(self, result: EpochResult, modelled: ModelledCost, handover: Spent) -> Booked:
        """What the runner metered, `handover` added; the modelled figures where that is no amount."""
        outcome = result.outcome
        wasted = _amounts(Spent(outcome.wasted_s, outcome.wasted_j))
        spent = Spent(
            outcome.elapsed_s - outcome.wasted_s + handover.elapsed_s,
            outcome.energy_j - outcome.wasted_j + handover.energy_j,
        )
        if _amounts(spent) == spent:
            return Booked(_charged(outcome, spent, outcome.provenance), wasted, result.nodes)
        note = (
            f"epoch {outcome.decision.epoch}: the meter gave {spent.elapsed_s} s and {spent.energy_j} J; "
            "modelled figures are kept"
        )
        return Booked(_charged(outcome, modelled.whole, modelled.provenance), wasted, result.nodes, note)


RunClock = EmulatedClock | MeasuredClock


def node_weights(problem: Problem, devices: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """Joules and seconds of a sample at each node, by the profiles in `Scenario.resolved["devices"]`.

    None at all when a node has no profile: weights of some nodes only would not compare.
    """
    profiles = {node.name: devices.get(node.device or "") for node in problem.nodes}
    if any(profile is None for profile in profiles.values()):
        return {}
    return {
        name: (profile["busy_w"] / profile["flops_per_s"], 1.0 / profile["flops_per_s"])
        for name, profile in profiles.items()
        if profile is not None
    }


def _charged(outcome: EpochOutcome, spent: Spent, provenance: Provenance) -> EpochOutcome:
    return replace(outcome, **spent._asdict(), provenance=provenance, wasted_s=0.0, wasted_j=0.0)


def _amounts(spent: Spent) -> Spent:
    """Figures that can be booked: whatever is no finite number >= 0 is 0."""
    return Spent(*(float(value) if math.isfinite(value) and value >= 0.0 else 0.0 for value in spent))
