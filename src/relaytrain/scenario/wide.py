"""What may be thought of a network whose losses nobody has seen: the law of a scenario without `[law]`.

Nothing here is a measurement. Every pair may come to rest well below the target or well above it, and may need a third
or three times as many epochs as another; only the sizes come from the problem: floors scatter by as much as the target
is large, at most by an eighth of the start loss, so losses of any size are treated alike. A pair that has fewer samples
an epoch is taken to be slower, by the root of their ratio. The estimator learns the rest from the run
(`estimators.prior`), and a plan that rests on this alone says that it is a guess.
"""

from __future__ import annotations

import numpy as np

from ..core.curve import Array
from ..core.law import Z_ROBUST, LevelLaw
from ..core.nesting import slice_changes
from ..core.problem import Problem

FLOOR = 0.7
"""The floor in the middle, over the target: somebody who names a target has reason to think that it can be met."""
FLOOR_SPREAD, MOST_SPREAD = 1.0, 0.13
"""Of a floor: over the target, and over the start loss at most (0.3 where ten classes begin)."""
PACE_SPREAD = 1.0
"""Of the logarithm of a pair's pace."""
JUMP = 0.5
"""Spread of where a curve goes on after a handover, over that of floors."""
SLICE = 0.3
"""The same of a slice, up or down, over that of other handovers."""
SCALE, POWER = 10.0, 4.0
"""Epochs and power of the curve in the middle; the spread of the pace is wide enough for others."""
SLOWER = 0.5
"""Power of the ratio of samples an epoch by which a pair is slower than the one that has most."""


def wide_law(problem: Problem) -> LevelLaw:
    """Curves in the middle of what may be, and robust ones that are a robust level's spread away from them."""
    count, first, target = len(problem.pairs), problem.initial_loss, max(problem.target.loss, 0.0)
    spread = floor_spread(problem)
    floor = min(FLOOR * target, 0.9 * first)
    curves = np.tile([floor, max(first - floor, 1e-6 * first), SCALE, POWER], (count, 1))
    robust = curves.copy()
    robust[:, 0] += Z_ROBUST * spread
    nothing, jump = np.zeros((count, count)), Z_ROBUST * JUMP * spread * _less_sure(problem)
    pace = _pace(problem)[None, :]
    return LevelLaw(
        curves=curves,
        jump0=nothing,
        jump1=nothing,
        mult=pace,
        mult_robust=pace * float(np.exp(-Z_ROBUST * PACE_SPREAD)),
        jump0_robust=jump,
        jump1_robust=nothing,
        curves_robust=robust,
        loss_top=first + float(jump.max(initial=0.0)),
    )


def _less_sure(problem: Problem) -> Array:
    """(P, P): 1 for a handover, less for a slice on the same nodes, nothing where nothing changes."""
    nodes = np.array([pair.nodes for pair in problem.pairs])
    slices = slice_changes(problem.pairs, problem.versions) & (nodes[:, None] == nodes[None, :])
    return np.asarray(np.where(slices, SLICE, 1.0 - np.eye(len(problem.pairs))))


def floor_spread(problem: Problem) -> float:
    """The standard deviation of a pair's floor, in loss."""
    first = problem.initial_loss
    return max(min(FLOOR_SPREAD * problem.target.loss, MOST_SPREAD * first), 1e-3 * first)


def epoch_samples(problem: Problem) -> Array | None:
    """Samples (P,) that an epoch of every pair sees; None where they are not known."""
    samples = {node.name: node.samples for node in problem.nodes}
    of_set = {s.name: [samples.get(node) for node in s.owners] for s in problem.node_sets}
    known = [of_set.get(pair.nodes, []) for pair in problem.pairs]
    if not all(each and all(each) for each in known):
        return None
    return np.array([float(sum(n for n in each if n)) for each in known])


def epoch_worth(problem: Problem) -> Array:
    """Experience (P,) of an epoch: its samples over those of one on the start pair; 1 where they are not known."""
    samples = epoch_samples(problem)
    return np.ones(len(problem.pairs)) if samples is None else np.asarray(samples / samples[problem.start])


def _pace(problem: Problem) -> Array:
    """Progress (P,) of an epoch beside that of the pair with most samples; 1 where samples are not known."""
    samples = epoch_samples(problem)
    return np.ones(len(problem.pairs)) if samples is None else np.asarray((samples / samples.max()) ** SLOWER)
