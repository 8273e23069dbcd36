"""What a handover does to the loss: the paper's inputs, and those that `auto` adds.

The paper's lambda_change knows the pruning ratio and the last five losses. Measured, most of a jump comes from the new
nodes' data, so `auto` also knows classes, samples and pruned share on both sides, and, for a handover that could be
made now, the *probe*: the forward loss of the actually pruned network on the new data. Two targets are learned under
their names and never mixed: `jump`, the forward loss after the switch minus the last loss, to which the first epoch's
change is added as in PACT (3); `first-epoch`, the loss after the first epoch minus the last one, to which nothing is
added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array
from ..bands import Bands, averaged
from .bundle import LegSwitch
from .change_net import ChangeNet, unit_inputs

Target = Literal["jump", "first-epoch"]
LAST = 5
KINDS = ("version", "nodes", "both", "distill", "restore")


def paper_inputs(switches: Sequence[LegSwitch]) -> Array:
    """(N, 6): pruning ratio, then the five losses before the switch (the first repeated where there are fewer)."""
    return np.array([[s.ratio, *_last(s.history)] for s in switches]).reshape(-1, 1 + LAST)


def node_inputs(switches: Sequence[LegSwitch]) -> Array:
    """(N, F): the paper's, then both sides' classes, samples (logarithm) and pruned share, the epoch and the kind."""
    rows = []
    for s in switches:
        (c0, n0, p0), (c1, n1, p1) = s.before, s.after
        rows.append(
            [
                s.ratio,
                *_last(s.history),
                c0,
                c1,
                c1 - c0,
                np.log(n0),
                np.log(n1),
                p0,
                p1,
                np.log1p(len(s.history)),
                *(float(s.kind == kind) for kind in KINDS),
            ]
        )
    return np.array(rows, dtype=np.float64).reshape(-1, 14 + len(KINDS))


def probe_inputs(switches: Sequence[LegSwitch]) -> Array:
    """`node_inputs`, then the forward losses on the new data before and after, and the jump they make."""
    extra = [[s.probe_before, s.probe_after, (s.probe_after or 0.0) - s.history[-1]] for s in switches]
    return np.concatenate([node_inputs(switches), np.array(extra, dtype=np.float64).reshape(-1, 3)], axis=1)


INPUTS = {"paper": paper_inputs, "nodes": node_inputs, "probe": probe_inputs}


def _last(history: Array) -> list[float]:
    kept = [float(v) for v in history[-LAST:]]
    return [kept[0]] * (LAST - len(kept)) + kept


def targets(switches: Sequence[LegSwitch], target: Target) -> Array:
    """The loss change (N,) to be learned."""
    return np.array(
        [(s.landed if target == "first-epoch" else (s.probe_after or 0.0)) - s.history[-1] for s in switches]
    )


@dataclass(frozen=True)
class Linear:
    """A robust linear model with the quantiles of its out-of-fold residuals."""

    weights: Array
    intercept: float
    input_mean: Array
    input_sd: Array
    low: float
    high: float

    def bands(self, rows: Array) -> Bands:
        """Expected value and quantiles (N,)."""
        middle = unit_inputs(rows, self.input_mean, self.input_sd) @ self.weights + self.intercept
        return Bands(middle, middle + self.low, middle + self.high)


@dataclass(frozen=True)
class ChangeModel:
    """An average of models of one set of inputs; `factor` is the conformal step, in widths."""

    inputs: Literal["paper", "nodes", "probe"]
    target: Target
    parts: tuple[ChangeNet | Linear, ...]
    weights: tuple[float, ...] = field(default=())
    factor: float = 0.0

    def rows(self, switches: Sequence[LegSwitch]) -> Array:
        """What the model reads of switches."""
        return INPUTS[self.inputs](switches)

    def bands(self, rows: Array) -> Bands:
        """Expected value and quantiles (N,) of the loss change."""
        from .calibration import grown

        shares = self.weights or (1.0 / len(self.parts),) * len(self.parts)
        return grown(averaged([(w, part.bands(rows)) for w, part in zip(shares, self.parts, strict=True)]), self.factor)


def fit_linear(rows: Array, target: Array, groups: NDArray[np.generic]) -> Linear:
    """Huber's regression; residual quantiles come from folds over `groups`, so that they are honest."""
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    unit = unit_inputs(rows, mean, scale)
    weights, intercept = _huber(unit, target)
    names = np.unique(groups)
    folds = min(5, len(names))
    left = np.zeros(len(target))
    for fold in range(folds):
        out = np.isin(groups, names[fold::folds])
        if folds < 2 or out.all():
            left = target - unit @ weights - intercept
            break
        w, b = _huber(unit[~out], target[~out])
        left[out] = target[out] - unit[out] @ w - b
    low, high = np.quantile(left, (0.05, 0.95))
    return Linear(weights, intercept, mean, scale, float(min(low, 0.0)), float(max(high, 0.0)))


def _huber(
    rows: Array, target: Array, *, epsilon: float = 1.35, ridge: float = 1e-2, rounds: int = 50
) -> tuple[Array, float]:
    """Huber's M-estimate by re-weighted ridge regression: large residuals count in proportion to their size only."""
    design = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    penalty = np.diag(np.append(np.full(rows.shape[1], ridge * len(rows)), 0.0))
    weight: Array = np.ones(len(rows))
    solved: Array = np.zeros(design.shape[1])
    for _ in range(rounds):
        weighted = design * weight[:, None]
        again = np.asarray(np.linalg.solve(design.T @ weighted + penalty, weighted.T @ target), dtype=np.float64)
        left = np.abs(target - design @ again)
        spread = max(float(np.median(left)) * 1.4826, 1e-6)
        weight = np.asarray(np.minimum(1.0, epsilon * spread / np.maximum(left, 1e-12)), dtype=np.float64)
        done = np.allclose(again, solved, atol=1e-8)
        solved = again
        if done:
            break
    return solved[:-1], float(solved[-1])
