"""The value function (4) of PACT: how far a state is ahead of or behind an ideal loss-time curve."""

from __future__ import annotations

import math
from typing import Any

from ...core.problem import Problem
from ...core.state import TOLERANCE, State

IDEAL_POWER = 0.5
"""Exponent of the ideal power law; the paper fixes its two ends and its shape, not its exponent."""


def ideal_loss(problem: Problem, elapsed_s: float) -> float:
    """l_ideal(t): the power law from l(0) at 0 to l_max at the deadline."""
    start, goal, deadline = problem.initial_loss, problem.target.loss, problem.target.deadline_s
    if start <= goal or goal <= 0 or not math.isfinite(deadline) or deadline <= 0:
        return goal if elapsed_s >= deadline else start
    scale = deadline / ((start / goal) ** (1.0 / IDEAL_POWER) - 1.0)
    return start * (1.0 + max(elapsed_s, 0.0) / scale) ** -IDEAL_POWER


def ahead_of_schedule(problem: Problem, state: State) -> float:
    """l_ideal(T) - l: positive when the run is ahead."""
    return ideal_loss(problem, state.elapsed_s) - state.loss


def plan_head(problem: Problem, state: State) -> dict[str, Any]:
    """What every plan says of its problem and of the state it starts from, by the names of `Plan`."""
    return {
        "problem": problem.name,
        "asked": problem.target.probability,
        "target_loss": problem.target.loss,
        "deadline_s": problem.target.deadline_s,
        "start_loss": state.loss,
        "ahead": ahead_of_schedule(problem, state),
        "value": state_value(problem, state),
        "energy_unit": problem.units.energy,
        "time_unit": problem.units.time,
    }


def state_value(problem: Problem, state: State) -> float:
    """V(s): 1 at the target in time, 0 after the deadline above it, else logistic(l_ideal - l).

    Deviations: (4) asks for l < l_max, Step 1 for l <= l_max; we use <=.
    """
    in_time = state.elapsed_s <= problem.target.deadline_s + TOLERANCE
    if state.loss <= problem.target.loss + TOLERANCE:
        return 1.0 if in_time else 0.0
    if not in_time:
        return 0.0
    return 1.0 / (1.0 + math.exp(-max(min(ahead_of_schedule(problem, state), 700.0), -700.0)))
