"""Windows: what was seen of a leg at some epoch, what came after, and the figures a tree can split on.

    curve l_1 ... l_i | l_(i+1) ... l_(i+5)        one window for every i with enough before and after it

Targets are l_(i+h) - l_i for h = 1 ... 5 (`cumulative`) or l_(i+h) - l_(i+h-1) (`per_epoch`, the quantity of PACT's
Table I). Histories are right-aligned in rows of `LONGEST` losses, NaN where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array
from .bundle import LegCurve

AHEAD = 5
"""Epochs ahead that the learned models predict (PACT section IV)."""

LONGEST = 30
"""Losses of a leg that count, the newest ones."""

LEAST_HISTORY = 3
"""Epochs of the leg that an evaluated window must have; laws are made from none on."""

FIXED = 4
"""Columns of `Seen.fixed`."""

NAMES = (
    "loss", "step_1", "step_2", "step_3", "mean_step_3", "mean_step_5", "since_first", "first", "over_least",
    "roughness", "position", "sqrt_ahead", "sqrt_rate", "classes", "samples", "pruned", "before", "ahead",
)  # fmt: skip
"""Columns of `tree_features`, the last being the number of epochs ahead."""


@dataclass(frozen=True)
class Seen:
    """N histories with what stands fixed.

    `history` (N, LONGEST); `position` (N,): epochs of the leg; `fixed` (N, 4): as `LegCurve.fixed`; `stage` (N,):
    handovers before the leg, which no model reads but widths are calibrated by.
    """

    history: Array
    position: Array
    fixed: Array
    stage: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.history)

    @property
    def loss(self) -> Array:
        """The newest loss (N,)."""
        return np.asarray(self.history[:, -1])

    @property
    def length(self) -> NDArray[np.int64]:
        """Losses in each history (N,)."""
        return np.asarray(np.isfinite(self.history).sum(axis=1), dtype=np.int64)

    def take(self, at: NDArray[np.generic]) -> Seen:
        """Some of the rows."""
        return Seen(self.history[at], self.position[at], self.fixed[at], self.stage[at])


@dataclass(frozen=True)
class Windows:
    """Histories with what came after: `target` (N, AHEAD) cumulative; where each is from."""

    seen: Seen
    target: Array
    seed: NDArray[np.int64]
    run: NDArray[np.int64]
    group: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.seen)

    @property
    def stage(self) -> NDArray[np.int64]:
        """Handovers before each window's leg."""
        return self.seen.stage

    def take(self, at: NDArray[np.generic]) -> Windows:
        """Some of the rows."""
        return Windows(self.seen.take(at), self.target[at], self.seed[at], self.run[at], self.group[at])


def together(parts: Sequence[Windows]) -> Windows:
    """Windows of several parts, one after another."""
    seen = [p.seen for p in parts]
    every = [np.concatenate([getattr(s, name) for s in seen]) for name in ("history", "position", "fixed", "stage")]
    rest = [np.concatenate([getattr(p, name) for p in parts]) for name in ("target", "seed", "run", "group")]
    return Windows(Seen(*every), *rest)


def rows_of(histories: Sequence[Array]) -> Array:
    """Histories as right-aligned rows (N, LONGEST)."""
    rows = np.full((len(histories), LONGEST), np.nan)
    for row, history in zip(rows, histories, strict=True):
        kept = np.asarray(history)[-LONGEST:]
        row[LONGEST - len(kept) :] = kept
    return rows


def seen_of(
    histories: Sequence[Array], position: Sequence[float], fixed: Sequence[Sequence[float]], stage: Sequence[int]
) -> Seen:
    """Histories of any lengths, with epochs of the leg, fixed figures and stage of each."""
    figures = np.array(fixed, dtype=np.float64).reshape(-1, FIXED)
    return Seen(rows_of(histories), np.array(position, dtype=np.float64), figures, np.array(stage, dtype=np.int64))


def windows(curves: Sequence[LegCurve], *, least: int = LEAST_HISTORY, with_start: bool = False) -> Windows:
    """Every window of the curves with `least` epochs before it and AHEAD after it.

    Args:
        curves: legs of one metric.
        least: epochs of the leg that must have been seen.
        with_start: the forward loss before the first epoch stands before the history, so that there may be a window
            before any epoch (`least` 0); curves without one begin as usual.
    """
    histories, targets, positions, origin = [], [], [], []
    for curve in curves:
        losses, lead = curve.history(with_start=with_start)
        for done in range(max(least, 1 - lead), len(curve.losses) - AHEAD + 1):
            end = done + lead
            histories.append(losses[:end])
            targets.append(losses[end : end + AHEAD] - losses[end - 1])
            positions.append(done)
            origin.append(curve)
    seen = seen_of(histories, positions, [c.fixed for c in origin], [c.stage for c in origin])
    return Windows(
        seen,
        np.array(targets).reshape(-1, AHEAD),
        np.array([c.seed for c in origin], dtype=np.int64),
        np.array([c.run for c in origin], dtype=np.int64),
        np.array([c.group for c in origin], dtype=np.str_),
    )


def per_epoch(cumulative: Array) -> Array:
    """l_(i+h) - l_(i+h-1) from l_(i+h) - l_i."""
    return np.diff(cumulative, axis=-1, prepend=0.0)


def sqrt_rate(history: Array, *, last: int = 6) -> Array:
    """The rate g (N,) of the anchored inverse-square-root law: 1/l^2 grows by g an epoch, through the newest loss.

    l(k) = A / sqrt(k + B) (DepL (8), PACT's power law) has 1/l^2 = (k + B)/A^2, a line in k; g is its least-squares
    slope through the newest point over the `last` ones, never negative, zero where there is a single loss.
    """
    part = history[:, -last:]
    inverse = np.maximum(part, 1e-3) ** -2.0
    back = np.arange(part.shape[1] - 1, -1, -1, dtype=np.float64)
    away = np.where(np.isfinite(inverse), inverse[:, -1:] - inverse, 0.0)
    weight = np.where(np.isfinite(inverse), back**2, 0.0).sum(axis=1)
    slope = (away * back).sum(axis=1) / np.where(weight > 0, weight, 1.0)
    return np.asarray(np.maximum(slope, 0.0))


def sqrt_ahead(loss: Array, rate: Array, ahead: Array | float) -> Array:
    """The loss `ahead` epochs later under the anchored inverse-square-root law."""
    return np.asarray(loss / np.sqrt(1.0 + rate * ahead * np.maximum(loss, 1e-3) ** 2))


def passes_before(seen: Seen) -> Array:
    """Images trained on before the leg, in passes over its own data, as log(1 + passes) (N,).

    Measured: from the same loss, a leg on few images gets further and faster the longer the legs before it were. Trees
    read it; networks, which go on beyond what they have seen, got worse by it on switching epochs left out.
    """
    return np.asarray(np.log1p(seen.fixed[:, 3] / np.maximum(seen.fixed[:, 1], 1.0)))


def tree_features(seen: Seen) -> Array:
    """Figures for the trees, (N, AHEAD, len(NAMES)); NaN where a history is too short."""
    history, loss = seen.history, seen.loss
    length = seen.length
    rows = np.arange(len(seen))
    first = history[rows, LONGEST - np.maximum(length, 1)]
    steps = np.diff(history[:, -6:], axis=1)
    with np.errstate(invalid="ignore"):
        filled = np.where(np.isfinite(history), history, np.inf)
        rate = sqrt_rate(history)
        parts = [
            loss, steps[:, -1], steps[:, -2], steps[:, -3],
            (loss - history[:, -4]) / 3.0, (loss - history[:, -6]) / 5.0,
            loss - first, first, loss - filled.min(axis=1), np.abs(np.diff(steps[:, -4:], axis=1)).mean(axis=1),
            seen.position, np.zeros(len(seen)), rate, *seen.fixed[:, :3].T, passes_before(seen), np.zeros(len(seen)),
        ]  # fmt: skip
    table = np.repeat(np.stack(parts, axis=1)[:, None, :], AHEAD, axis=1)
    for h in range(AHEAD):
        table[:, h, NAMES.index("sqrt_ahead")] = sqrt_ahead(loss, rate, h + 1.0) - loss
        table[:, h, NAMES.index("ahead")] = h + 1.0
    return table
