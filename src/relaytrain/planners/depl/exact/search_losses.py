"""The losses under one choice of data as the arrays that compiled searches read, and the goal they are held against.

Few frequencies do for a first look, more for the full sum of schedules that may well meet the target, all of them for
any schedule; each lot is made when a search asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from ....core.depl import DeplProblem
from ....core.fourier import Real
from ..schedule_losses import DataLosses, LossTable, helps_surely
from .meets_target import COARSE, FEW, GONE, NARROW, Goal, Losses, glances

MOST = 400
"""Frequencies of a search at most, as long as no close call asks for all."""
MARGIN = 2e-7
"""By which a search may underrate what it looks for; every answer is checked exactly."""


class SearchLosses(DataLosses):
    """The losses under one choice of data, ready for compiled searches."""

    def __init__(
        self, instance: DeplProblem, chosen: Sequence[int], switches: int, table: LossTable | None = None
    ) -> None:
        super().__init__(instance, chosen, switches, table)
        self.sure = helps_surely(instance, chosen)
        self._arrays: dict[tuple[int, bool, int], Losses] = {}

    def losses(self, epochs: int, *, by_mean: bool = False, level: int = 0) -> Losses:
        """The arrays for schedules of up to so many epochs.

        Level 0 has frequencies for a first look alone, which mostly suffices; 1 those of the full sum for schedules
        that may well meet the target; 2 those for any.
        """
        key = (epochs, by_mean, level)
        if key not in self._arrays:
            self._arrays[key] = self._losses(epochs, by_mean, level)
        return self._arrays[key]

    @property
    def epochs(self) -> int:
        """As far as arrays were made for searches by probability."""
        return max((epochs for epochs, by_mean, _ in self._arrays if not by_mean), default=0)

    def _losses(self, epochs: int, by_mean: bool, level: int) -> Losses:
        before = -1 if self.instance.before is None else self.instance.before
        few = points = np.zeros(0)
        if not by_mean:
            narrow = self._narrow(epochs)
            few = self._few(epochs, narrow)
            points = points if level == 0 else self._points(epochs, narrow) if level == 1 else self.table.frequencies.at
        t = np.concatenate([few, points])
        if by_mean:
            re = im = np.zeros((len(self.instance.versions), epochs + 1, 0))
        else:
            re, im = self.table.log_cf_at(t, epochs)
        jumps = self._jumps_at(t)
        few_step, step = (2.0 * float(part[0]) / self.gain if len(part) else 1.0 for part in (few, points))
        return Losses(
            self.moments,
            self.table.jumps,
            float(self.instance.initial_loss),
            before,
            len(few),
            few_step,
            step,
            level == 2,
            re,
            im,
            np.ascontiguousarray(jumps.real),
            np.ascontiguousarray(jumps.imag),
            *glances(re, im, self.moments, len(few)),
        )

    def _narrow(self, epochs: int) -> float:
        """The least variance, in units of the gain, of a version alone when it reaches the target on average.

        Schedules that may well meet the target are hardly narrower.
        """
        alone = (self.mean[:, : epochs + 1] > self.instance.target.loss - self.instance.initial_loss).sum(axis=1)
        return float(self.table.moments[1, np.arange(len(alone)), np.minimum(alone, epochs)].min())

    def _few(self, epochs: int, narrow: float) -> Real:
        """Frequencies for a first look, whose period suits schedules of middling width."""
        middling = (
            float(self.table.moments[1, :-1, epochs // 2 + 1].mean()) + float(self.table.jumps[1].max()) / self.gain**2
        )
        return _up_to(COARSE, narrow, NARROW * math.sqrt(middling), FEW)

    def _points(self, epochs: int, narrow: float) -> Real:
        """Frequencies for the full sum of schedules that may well meet the target."""
        table = self.table
        widest = float(table.steps[1, :, :epochs].max(axis=0).sum())
        widest += table.switches * float(table.jumps[1].max()) / self.gain**2
        return _up_to(GONE, narrow, table.reach + 9.0 * math.sqrt(widest), MOST)

    def goal(self, *, expected: float | None = None) -> Goal:
        """The instance's target, or an expected loss of at most `expected` in its place."""
        target = self.instance.target
        odds = (1.0 - target.probability) / target.probability
        if expected is not None:
            return Goal(float(expected), 0.5, odds, True, self.sure, 0.0, 0.0)
        deviations = max(NormalDist().inv_cdf(target.probability), 0.0)
        return Goal(float(target.loss), target.probability - MARGIN, odds, False, self.sure, deviations, MARGIN)


def _up_to(size: float, variance: float, period: float, most: int) -> Real:
    """Frequencies (j + 1/2) 2 pi / period until the logarithm of a characteristic function falls to about `size`."""
    period = period or 1.0
    top = math.sqrt(-2.2 * size / variance) if variance > 0 else math.inf
    points = min(top * period / (2.0 * math.pi) + 3.0, most)
    return np.asarray((np.arange(int(points)) + 0.5) * (2.0 * math.pi / period), np.float64)
