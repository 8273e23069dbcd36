"""A world to train in: the true law, the noise of every epoch drawn beforehand, and a law believed in its place.

Noise is a table over (epoch, pair), so every rule meets the same luck in the same epoch (common random numbers) and an
optimum that knows the luck can be computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..core.cost import CostTable
from ..core.curve import Array
from ..core.law import EpochLaw, LawForm, LevelLaw, evaluate
from ..core.problem import Problem
from ..core.state import TOLERANCE, State


@dataclass(frozen=True)
class Luck:
    """What chance does to an epoch, by (epoch - 1, pair), shape (K, P) each; later epochs take the last row.

    `progress` multiplies the progress, `shift` is added to the loss, `compute` multiplies the run seconds of the pair
    and `transfer` the seconds of a change to it.
    """

    progress: Array
    shift: Array
    compute: Array
    transfer: Array

    @classmethod
    def none(cls, epochs: int, pairs: int) -> Luck:
        """No chance at all."""
        ones, zeros = np.ones((epochs, pairs)), np.zeros((epochs, pairs))
        return cls(ones, zeros, ones, ones)

    @property
    def delays(self) -> bool:
        """Whether seconds differ from the cost table's."""
        return bool((self.compute != 1.0).any() or (self.transfer != 1.0).any())


@dataclass(frozen=True)
class World:
    """One drawn instance: what is true, what the estimator believes, and the luck.

    `believed` has expected and robust figures, `law` is the truth without noise. `epochs` ends the closed loop where
    no deadline does.
    """

    index: int
    mode: str
    problem: Problem
    costs: CostTable
    law: LevelLaw | EpochLaw
    believed: LevelLaw | EpochLaw
    luck: Luck
    reversible: bool

    @property
    def epochs(self) -> int:
        """The last epoch that may be trained."""
        return len(self.luck.progress)

    @cached_property
    def lucky_law(self) -> LevelLaw | EpochLaw:
        """The true law with the luck of every epoch in it, apart from `shift`."""
        if isinstance(self.law, LevelLaw):
            return self.law.noisy(self.luck.progress)
        rows = np.minimum(np.arange(self.epochs), len(self.law.run) - 1)
        return replace(self.law, run=self.law.run[rows] * self.luck.progress, run_robust=None, change_robust=None)

    @cached_property
    def form(self) -> LawForm:
        """`lucky_law` as arrays."""
        return self.lucky_law.form()

    @cached_property
    def seconds(self) -> Array:
        """Seconds of an epoch by (epoch - 1, pair before, pair now): equation (1) with delays."""
        run = self.costs.run_s * self.luck.compute
        return np.asarray(run[:, None, :] + self.costs.change_s[None] * self.luck.transfer[:, None, :])

    def step(self, state: State, now: int) -> State:
        """The state after one more epoch on pair `now`: equations (1)-(3) with this world's luck."""
        epoch = state.epoch + 1
        row = min(epoch, self.epochs) - 1
        moved = float(evaluate(self.form, epoch, np.float64(state.loss), state.pair, now))  # type: ignore[arg-type]
        loss = max(moved + float(self.luck.shift[row, now]), 0.0)
        elapsed_s = state.elapsed_s + float(self.seconds[row, state.pair, now])
        energy_j = state.energy_j + float(self.costs.epoch_j[state.pair, now])
        return State(epoch, loss, elapsed_s, now, energy_j)

    def met(self, state: State) -> bool:
        """The target is reached, in time."""
        target = self.problem.target
        return state.loss <= target.loss + TOLERANCE and state.elapsed_s <= target.deadline_s + TOLERANCE

    def late(self, state: State) -> bool:
        """The deadline has passed, or the last epoch that may be trained is done."""
        return state.elapsed_s > self.problem.target.deadline_s + TOLERANCE or state.epoch >= self.epochs
