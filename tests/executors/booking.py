"""Epochs as the loop books them: what the executor measured, on the scenario's clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from relaytrain.core.outcome import EpochResult
from relaytrain.core.problem import Pair
from relaytrain.costs.clock import ModelledCost, RunClock, Spent
from relaytrain.scenario import Scenario

NOTHING = Spent(0.0, 0.0)


def booked(
    done: EpochResult, clock: RunClock, scenario: Scenario, *, before: Pair | None = None, handover: Spent = NOTHING
) -> EpochResult:
    """`done` with seconds and joules on the clock, lost work included; `before` held the network until then."""
    problem, costs = scenario.problem, scenario.costs
    now = problem.index(done.outcome.decision.pair)
    i = now if before is None else problem.index(before)
    run, change = Spent(costs.run_s[now], costs.run_j[now]), Spent(costs.change_s[i, now], costs.change_j[i, now])
    charged = clock.book(done, ModelledCost(run, change), handover)
    spent: dict[str, Any] = {
        "elapsed_s": charged.outcome.elapsed_s + charged.wasted.elapsed_s,
        "energy_j": charged.outcome.energy_j + charged.wasted.energy_j,
        "wasted_s": charged.wasted.elapsed_s,
        "wasted_j": charged.wasted.energy_j,
    }
    return replace(done, outcome=replace(charged.outcome, **spent), nodes=charged.nodes)
