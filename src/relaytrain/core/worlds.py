"""Worlds: many ways in which the losses of one run may go, drawn from what an estimator believes.

A world knows every pair's curve and what each handover does; what scatters an observed loss round its curve is luck,
and known only by its size. Along a leg of world w on pair p, beginning at the loss l0,

    u = ((l0 - floor) / drop)^(-1/power),   u += mult[epoch, p] / scale each epoch,   curve = floor + drop u^-power

    observed = curve * exp(luck[w] * scatter[p, epoch of the leg] * z),   z standard normal, anew each epoch

The worlds of one draw are equally likely and joint over pairs: a world that is slow on one pair may be so on all.

Where losses are known by their gains from epoch to epoch and not as curves (DepL's (8)), a world is a `GainTable`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .law import Array


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

    `curves` (N, P, 4): floor, drop, scale, power. `mult` (K, P): progress by epoch of the run, the last row holding
    on. `jump0` (N, P, P), `jump1` (P, P): a handover's jump jump0 + jump1 * l of the curve. `stands` (N,): where the
    present pair's curve stands. `scatter` (P, J): of the logarithm of an observed loss by epoch of a leg, the last
    column holding on; `luck` (N,) its factor. `leg_epochs`: how many the present leg has behind it. `table`: gains in
    place of `curves` and `mult`. `entered` (K, P, 2): what is added to a pair's floor, and its pace
    multiplied by, for a leg that is yet to begin after so many epochs of the run, the last row holding on: a network
    that has learned little is slower and ends higher.
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

    def __len__(self) -> int:
        return len(self.stands)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All of it as the compiled walk takes it; of a table that there is none of, empty ones."""
        empty = np.empty((0, self.curves.shape[1]))
        table = GainTable(empty, empty, empty[None]) if self.table is None else self.table
        plain = self.curves, self.mult, self.jump0, self.jump1, self.stands, self.scatter, self.luck
        alike = np.tile([0.0, 1.0], (1, self.curves.shape[1], 1))
        return *plain, alike if self.entered is None else self.entered, table.gains, table.levels, table.factors
