"""Worlds: many ways in which the losses of one run may go, drawn from what an estimator believes.

A world knows every pair's curve and what each handover does; what scatters an observed loss round its curve is luck,
and known only by its size. Along a leg of world w on pair p, beginning at the loss l0,

    u = ((l0 - floor) / drop)^(-1/power),   u += mult[epoch, p] / scale each epoch,   curve = floor + drop u^-power

    observed = curve * exp(luck[w, p] * scatter[p, epoch of the leg] * z),   z standard normal, anew each epoch

The worlds of one draw are equally likely and joint over pairs: a world that is slow on one pair may be so on all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .law import Array


@dataclass(frozen=True)
class Worlds:
    """N worlds over P pairs.

    `curves` (N, P, 4): floor, drop, scale, power. `mult` (K, P): progress by epoch of the run, the last row holding
    on. `jump0` (N, P, P), `jump1` (P, P): a handover's jump jump0 + jump1 * l of the curve. `stands` (N,): where the
    present pair's curve stands. `scatter` (P, J): of the logarithm of an observed loss by epoch of a leg, the last
    column holding on; `luck` (N, P) its factor. `leg_epochs`: how many the present leg has behind it.
    """

    curves: Array
    mult: Array
    jump0: Array
    jump1: Array
    stands: Array
    scatter: Array
    luck: Array
    leg_epochs: int = 0

    def only(self, chosen: NDArray[np.int64]) -> Worlds:
        """Some of them."""
        of_each = {name: getattr(self, name)[chosen] for name in ("curves", "jump0", "stands", "luck")}
        return replace(self, **of_each)

    def widened(self, factor: float) -> Worlds:
        """The same with floors, paces, jumps and luck so many times as far from their middle."""
        if factor == 1.0:
            return self
        curves, floors, scales = self.curves.copy(), self.curves[:, :, 0], np.log(self.curves[:, :, 2])
        curves[:, :, 0] = np.maximum(_stretched(floors, factor), 0.0)
        curves[:, :, 2] = np.exp(_stretched(scales, factor))
        with np.errstate(invalid="ignore"):
            jump0 = np.where(np.isfinite(self.jump0), _stretched(self.jump0, factor), self.jump0)
        return replace(self, curves=curves, jump0=jump0, luck=self.luck * factor)

    def __len__(self) -> int:
        return len(self.stands)


def _stretched(figures: Array, factor: float) -> Array:
    middle = figures.mean(axis=0)
    return np.asarray(middle + factor * (figures - middle))
