"""The run's clock: what an epoch is charged, in seconds and joules.

* emulated: pure functions of version, nodes and profile: the scenario's own cost table; nothing measured enters.
* measured: monotonic seconds and metered joules.

Lost work (attempts whose result did not count) is booked as wasted joules on both. It counts against the deadline on
the measured clock; on the emulated one only with `charge_lost_work`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..core.cost import CostTable, Provenance
from ..core.errors import UsageError
from ..core.plan import Decision
from ..core.prices import Prices, TablePrices
from ..core.problem import Pair, Problem
from ..costs.meters import CpuMeter, Mark, Meter, Reading, find_meter, weakest
from ..training.setup import TrainingSetup


@dataclass(frozen=True)
class EpochWork:
    """What an epoch did.

    `samples`: of every node of the set. `cpu_s`: measured, of the nodes whose result counted; empty when the epoch as
    a whole is lost. `lost`: node and CPU seconds of every attempt that did not count. `retry_wall_s`: wall seconds
    of the rounds that were repeated.
    """

    decision: Decision
    before: Pair | None
    samples: Mapping[str, int]
    cpu_s: Mapping[str, float]
    wall_s: float
    lost: Sequence[tuple[str, float]] = ()
    retry_wall_s: float = 0.0
    handover: Reading | None = None


@dataclass(frozen=True)
class Bill:
    """Seconds and joules on the run's clock; `elapsed_s` and `energy_j` include what was wasted, unless not charged."""

    elapsed_s: float
    energy_j: float
    provenance: Provenance
    wasted_s: float = 0.0
    wasted_j: float = 0.0
    nodes: Mapping[str, tuple[float, float]] = field(default_factory=dict)


class RunClock(Protocol):
    """Charges epochs."""

    @property
    def meter(self) -> Meter | None:
        """What measures, or None on the emulated clock."""
        ...

    def begin(self) -> Mark | None:
        """Before the work."""
        ...

    def bill(self, mark: Mark | None, work: EpochWork) -> Bill:
        """After it."""
        ...


class EmulatedClock:
    """The scenario's cost table, handover included: change_s[before, now] + run_s[now], PACT (1)-(2).

    Args:
        problem: whose pairs the table is about.
        costs: the scenario's own table, not a belief that changes during the run.
        weights: by node, joules and seconds one sample takes relative to the others (1.0 each by default); they only
            divide an epoch's joules among its nodes.
        charge_lost_work: whether lost work takes time as well.
        prices: what a decision's resources and data make of an epoch's cost; the table's own figures by default.
    """

    meter: Meter | None = None

    def __init__(
        self,
        problem: Problem,
        costs: CostTable,
        *,
        weights: Mapping[str, tuple[float, float]] | None = None,
        charge_lost_work: bool = False,
        prices: Prices | None = None,
    ) -> None:
        self.problem, self.costs = problem, costs
        self.prices = prices if prices is not None else TablePrices(problem, costs)
        self.weights = dict(weights or {})
        self.charge_lost_work = charge_lost_work

    def begin(self) -> Mark | None:
        """Nothing to note."""
        return None

    def bill(self, mark: Mark | None, work: EpochWork) -> Bill:
        """The table's figures for this pair, coming from `work.before`."""
        now = self.problem.index(work.decision.pair)
        before = now if work.before is None else self.problem.index(work.before)
        run_s, run_j = self.prices.run(work.decision, ())
        change_s, change_j = float(self.costs.change_s[before, now]), float(self.costs.change_j[before, now])
        if not np.isfinite([run_s, run_j, change_s, change_j]).all():
            raise UsageError(f"{work.decision.pair}: {self.costs.why_not(before, now)}; it cannot be run")
        shares = self._shares(work, run_s, run_j)
        wasted_j = sum(shares[node][1] for node, _ in work.lost)
        wasted_s = run_s if work.lost and self.charge_lost_work else 0.0
        provenance: Provenance = "modelled" if self.costs.provenance == "measured" else self.costs.provenance
        if not work.cpu_s:
            return Bill(wasted_s, wasted_j, provenance, wasted_s, wasted_j)
        useful_j = run_j if not work.lost else sum(shares[node][1] for node in work.cpu_s)
        nodes = {node: shares[node] for node in work.cpu_s}
        elapsed_s, energy_j = change_s + run_s + wasted_s, change_j + useful_j + wasted_j
        return Bill(elapsed_s, energy_j, provenance, wasted_s, wasted_j, nodes)

    def _shares(self, work: EpochWork, run_s: float, run_j: float) -> dict[str, tuple[float, float]]:
        """The epoch's joules divided by samples and weight; a node's seconds relative to the slowest node's."""
        joules = {n: s * self.weights.get(n, (1.0, 1.0))[0] for n, s in work.samples.items()}
        seconds = {n: s * self.weights.get(n, (1.0, 1.0))[1] for n, s in work.samples.items()}
        total, slowest = sum(joules.values()) or 1.0, max(seconds.values(), default=1.0) or 1.0
        return {n: (run_s * seconds[n] / slowest, run_j * joules[n] / total) for n in work.samples}


class MeasuredClock:
    """Monotonic seconds and metered joules; the handover's reading is added."""

    def __init__(self, meter: Meter | None = None) -> None:
        self.meter: Meter | None = CpuMeter() if meter is None else meter

    def begin(self) -> Mark | None:
        """Open the meter's window."""
        return None if self.meter is None else self.meter.begin()

    def bill(self, mark: Mark | None, work: EpochWork) -> Bill:
        """What the meter says, divided among nodes by their CPU seconds."""
        assert self.meter is not None and mark is not None
        lost_cpu = sum(cpu for _, cpu in work.lost)
        cpu = sum(work.cpu_s.values()) + lost_cpu
        reading = self.meter.end(mark, cpu_s=cpu)
        if not work.cpu_s:
            return Bill(work.wall_s, reading.energy_j, reading.provenance, work.wall_s, reading.energy_j)
        share = reading.energy_j / cpu if cpu > 0.0 else 0.0
        elapsed, energy, provenance = work.wall_s, reading.energy_j, reading.provenance
        if work.handover is not None:
            elapsed, energy = elapsed + work.handover.wall_s, energy + work.handover.energy_j
            provenance = weakest([provenance, work.handover.provenance])
        nodes = {node: (work.wall_s, share * seconds) for node, seconds in work.cpu_s.items()}
        return Bill(elapsed, energy, provenance, work.retry_wall_s, share * lost_cpu, nodes)


def make_clock(
    setup: TrainingSetup,
    costs: CostTable,
    *,
    devices: Mapping[str, Mapping[str, Any]] | None = None,
    meter: Meter | None = None,
    prices: Prices | None = None,
) -> RunClock:
    """The clock that the settings name.

    Args:
        setup: whose settings and problem count.
        costs: the scenario's own cost table.
        devices: profiles by name as in `Scenario.resolved["devices"]`: they divide an epoch's joules among its nodes.
        meter: of the measured clock; by default the best one of this machine.
        prices: of the emulated clock, where decisions choose resources and data.
    """
    if setup.settings.clock == "measured":
        gpu = any(device.startswith("cuda") for device in setup.settings.devices.values())
        return MeasuredClock(meter if meter is not None else find_meter(gpu=gpu))
    weights = {}
    for node in setup.problem.nodes:
        profile = (devices or {}).get(node.device or "")
        if profile is not None:
            weights[node.name] = (profile["busy_w"] / profile["flops_per_s"], 1.0 / profile["flops_per_s"])
    if len(weights) != len(setup.problem.nodes):
        weights = {}  # weights of some nodes only would not compare
    return EmulatedClock(
        setup.problem, costs, weights=weights, charge_lost_work=setup.settings.charge_lost_work, prices=prices
    )
