"""Every path of a small problem, walked in plain Python: the slow answer that planners are held against.

It shares no code with the searches: one step of a law is written out here again, number by number, from equations
(1)-(3) of PACT. Only meant for a handful of pairs and epochs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core.cost import CostTable
from ..core.law import EpochLaw, LevelLaw, LossLaw
from ..core.problem import Problem
from ..core.state import TOLERANCE, State


@dataclass(frozen=True)
class Best:
    """The least energy, and one list of pair indexes that has it; infinity and nothing when no path is in time."""

    energy_j: float
    actions: tuple[int, ...]

    @property
    def feasible(self) -> bool:
        """Some path meets the target."""
        return math.isfinite(self.energy_j)


def plain_step(law: LossLaw, epoch: int, loss: float, before: int, now: int) -> float:
    """The expected loss after epoch number `epoch`, in scalar arithmetic; infinity when the change is impossible."""
    if isinstance(law, EpochLaw):
        jump = 0.0 if before == now else float(law.change[min(epoch, len(law.change)) - 1, before, now])
        return max(0.0, loss + jump + float(law.run[min(epoch, len(law.run)) - 1, now]))
    if isinstance(law, LevelLaw):
        mid = loss
        if before != now:
            mid = loss + float(law.jump0[before, now]) + float(law.jump1[before, now]) * loss
        a, b, s, alpha = (float(v) for v in law.curves[now])
        if not math.isfinite(mid) or mid <= a:
            return max(0.0, mid)
        position = ((mid - a) / b) ** (-1.0 / alpha)
        share = float(law.mult[min(epoch, len(law.mult)) - 1, now])
        return float(max(0.0, mid + share * (a + b * (position + 1.0 / s) ** -alpha - mid)))
    return float(law.next_loss(epoch, np.array([loss]), before, now)[0])


def brute_force(problem: Problem, costs: CostTable, law: LossLaw, state: State, *, most_epochs: int) -> Best:
    """The cheapest of all paths of at most `most_epochs` epochs (counted from the run's beginning, as `max_epochs`)."""
    pairs = len(problem.pairs)
    seconds = [[float(costs.change_s[p, q] + costs.run_s[q]) for q in range(pairs)] for p in range(pairs)]
    joules = [[float(costs.change_j[p, q] + costs.run_j[q]) for q in range(pairs)] for p in range(pairs)]
    moves = [
        [q for q in range(pairs) if math.isfinite(seconds[p][q]) and math.isfinite(joules[p][q])] for p in range(pairs)
    ]
    last = most_epochs if problem.max_epochs is None else min(most_epochs, problem.max_epochs)
    goal, deadline = problem.target.loss + TOLERANCE, problem.target.deadline_s + TOLERANCE
    best = Best(math.inf, ())
    path: list[int] = []

    def walk(epoch: int, pair: int, loss: float, elapsed: float, energy: float) -> None:
        nonlocal best
        if loss <= goal:  # costs are not negative: going on cannot be cheaper
            best = Best(energy, tuple(path))
            return
        if epoch == last:
            return
        for now in moves[pair]:
            later, dearer = elapsed + seconds[pair][now], energy + joules[pair][now]
            if later > deadline or dearer >= best.energy_j:
                continue
            landed = plain_step(law, epoch + 1, loss, pair, now)
            if math.isfinite(landed):
                path.append(now)
                walk(epoch + 1, now, landed, later, dearer)
                path.pop()

    if state.elapsed_s <= deadline:
        walk(state.epoch, state.pair, state.loss, state.elapsed_s, 0.0)
    return best
