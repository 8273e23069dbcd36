"""Worlds: many ways in which the losses of one run may go, drawn from what an estimator believes.

A world knows every pair's curve and what each handover does; what scatters an observed loss round its curve is luck,
and known only by its size. Along a leg of world w on pair p, beginning at the loss l0,

    u = ((l0 - floor) / drop)^(-1/power),   u += mult[epoch, p] / scale each epoch,   curve = floor + drop u^-power

    observed = curve * exp(early[p, epoch of the leg] + luck[w, p] * scatter[p, epoch of the leg] * z)

with z standard normal, anew each epoch.

The worlds of one draw are equally likely and joint over pairs: a world that is slow on one pair may be so on all.

Where losses are known by their gains from epoch to epoch and not as curves (DepL's (8)), a world is a `GainTable`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .curve import Array


@dataclass(frozen=True)
class GainTable:
    """Epochs that lower the loss by gains[position, p] * factors[w, epochs from now, p]; last entries hold on.

    `gains` (G, P). `levels` (G, P): the loss at which each position is reached, falling; between two of them gains are
    interpolated. Without levels (0, P) the position is the epoch of the run. `factors` (N, K, P): the luck of epochs.
    """

    gains: Array
    levels: Array
    factors: Array


@dataclass(frozen=True)
class Worlds:
    """N worlds over P pairs.

    `curves` (N, P, 4): floor, drop, scale, power. `mult` (K, P): progress by epoch of the run, the last row holding on.
    `jump0` (N, P, P), `jump1` (P, P): a handover's jump jump0 + jump1 * l of the curve. `stands` (N,): where the
    present pair's curve stands. `scatter` (P, J): of the logarithm of an observed loss by epoch of a leg, the last
    column holding on; `luck` (N, P) its factor. `early` (P, J'): what all legs deviate by in their first epochs.
    `leg_epochs`: how many the present leg has behind it. `table`: gains in place of `curves` and `mult`. `entered` (K,
    P, 2): what is added to a pair's floor, and its pace multiplied by, for a leg that is yet to begin with so much
    experience, between two rows in proportion, the last one holding on: a network that has learned little is slower and
    ends higher. `worth` (P,): the experience of an epoch; `experience`: what there is of it (without both, epochs of
    the run). `present`: the same two figures of the present leg. `seeds`: how many seeds of training the belief was
    fitted to, where it was.
    """

    curves: Array
    mult: Array
    jump0: Array
    jump1: Array
    stands: Array
    scatter: Array
    luck: Array
    leg_epochs: int = 0
    table: GainTable | None = None
    entered: Array | None = None
    worth: Array | None = None
    experience: float | None = None
    present: tuple[float, float] = (0.0, 1.0)
    early: Array | None = None
    seeds: int | None = None

    @property
    def coverage(self) -> float:
        """The share of runs that the worlds speak for, n / (n + 1) of n seeds.

        Seeds come in no order, so the next one is as likely as any of them to be the worst of all n + 1; how bad such a
        one is, n seeds cannot show, and nothing is promised for it. 1 where a belief was not fitted to seeds.
        """
        return 1.0 if self.seeds is None else self.seeds / (self.seeds + 1.0)

    def only(self, chosen: NDArray[np.int64]) -> Worlds:
        """Some of them."""
        of_each = {name: getattr(self, name)[chosen] for name in ("curves", "jump0", "stands", "luck")}
        table = None if self.table is None else replace(self.table, factors=self.table.factors[chosen])
        return replace(self, **of_each, table=table)

    def widened(self, factor: float) -> Worlds:
        """The same with floors, paces or gains, jumps and luck so many times as far from their middle."""
        if factor == 1.0:
            return self
        curves, floors, scales = self.curves.copy(), self.curves[:, :, 0], np.log(self.curves[:, :, 2])
        curves[:, :, 0] = np.maximum(_stretched(floors, factor), 0.0)
        curves[:, :, 2] = np.exp(_stretched(scales, factor))
        with np.errstate(invalid="ignore"):
            jump0 = np.where(np.isfinite(self.jump0), _stretched(self.jump0, factor), self.jump0)
        table = self.table
        if table is not None:
            table = replace(table, factors=_stretched(table.factors, factor))
        return replace(self, curves=curves, jump0=jump0, luck=self.luck * factor, table=table)

    def __len__(self) -> int:
        return len(self.stands)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All of it as the compiled walk takes it; of a table that there is none of, empty ones."""
        empty = np.empty((0, self.curves.shape[1]))
        table = GainTable(empty, empty, empty[None]) if self.table is None else self.table
        plain = self.curves, self.mult, self.jump0, self.jump1, self.stands, self.scatter, self.luck
        alike = np.tile([0.0, 1.0], (1, self.curves.shape[1], 1))
        early = np.empty((self.curves.shape[1], 0)) if self.early is None else self.early
        entered = alike if self.entered is None else self.entered
        return *plain, early, entered, table.gains, table.levels, table.factors


def _stretched(figures: Array, factor: float) -> Array:
    middle = figures.mean(axis=0)
    return np.asarray(middle + factor * (figures - middle))
