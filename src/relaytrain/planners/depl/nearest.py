"""What can be had instead of a target that cannot: the least loss by the same deadline, the same loss at the earliest.

Both are what the planner itself admits; what a plan reaches beyond what was asked of it shortens the way there. So is
the highest probability, in thousandths, with which the target as it is can be met.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...core.depl import DeplProblem
from ...core.plan import Nearest
from ..edge import LEVELS, highest_level, least_feasible
from .exact.version_search import VersionSearch
from .solution import DeplPlan

_LATER = 4.0
_LONGEST = 1e6
_WITHIN = 1e-6
"""Of the way from the present loss to the target, or of the time: targets closer than this are the same one."""
Solve = Callable[[DeplProblem], DeplPlan]


@dataclass(frozen=True)
class Instead:
    """What to ask for instead: `solve` has the word on everything.

    `sampled`: a least loss and a highest probability that may well be the ones looked for, where `solve` goes by
    sampled paths; then losses and times are found to the fourth digit.
    """

    instance: DeplProblem
    solve: Solve
    sampled: tuple[float, float] | None = None

    def nearest(self) -> tuple[Nearest, ...]:
        """Nearest feasible targets at the probability asked."""
        target, ways = self.instance.target, []
        low, high = target.loss, self.instance.initial_loss
        room, guess = _WITHIN * abs(high - low), None
        if self.sampled is not None:
            guess = self.sampled[0]
            room = _digit(guess)
        loss = least_feasible(self._by_loss, low, high, guess=guess, within=room)
        if loss is not None and loss < self.instance.initial_loss - room:
            ways.append(Nearest(loss, target.deadline_s))
        deadline = self._later()
        return (*ways, Nearest(target.loss, deadline)) if deadline is not None else tuple(ways)

    def _later(self) -> float | None:
        low = max(self.instance.target.deadline_s, 1e-9)
        if not self.solve(self._asking(deadline_s=low * _LONGEST)).feasible:
            return None
        high = low * _LATER
        while (reached := self._by_deadline(high)) is None and high < low * _LONGEST:
            high *= _LATER
        low = max(low, high / _LATER)
        within = _WITHIN * low if self.sampled is None else _digit(low)
        return least_feasible(self._by_deadline, low, high if reached is None else reached, within=within)

    def attainable(self, rung: float) -> float:
        """The highest probability in thousandths, from `rung` (0: one half) to that asked, that a plan can have."""
        target = self.instance.target

        def met(level: float) -> bool:
            return self.solve(replace(self.instance, target=replace(target, probability=level))).feasible

        if rung <= 0.0:  # the ladder ends at one half, where nothing was found
            return 0.0
        guess = round(max(rung, 0.5) * LEVELS) if self.sampled is None else math.floor(self.sampled[1] * LEVELS)
        return highest_level(met, rung, target.probability, guesses=(guess, guess + 1))

    def _by_loss(self, loss: float) -> float | None:
        solution = self.solve(self._asking(loss=loss))
        if not solution.feasible:
            return None
        least = loss if self.sampled is not None else solution.quantile
        sure = least < loss and self.solve(self._asking(loss=least)).feasible
        return least if sure else loss

    def _by_deadline(self, deadline_s: float) -> float | None:
        solution = self.solve(self._asking(deadline_s=deadline_s))
        if not solution.feasible:
            return None
        if self.instance.tables is not None:
            return deadline_s
        quickest_s = VersionSearch(self.instance, solution.datasets).quickest_s
        least = float(quickest_s[list(solution.versions)].sum()) * (1.0 + 1e-9)
        sure = least < deadline_s and self.solve(self._asking(deadline_s=least)).feasible
        return least if sure else deadline_s

    def _asking(self, **changed: float) -> DeplProblem:
        target = self.instance.target
        loss, deadline_s = changed.get("loss", target.loss), changed.get("deadline_s", target.deadline_s)
        return replace(self.instance, target=replace(target, loss=loss, deadline_s=deadline_s))


def _digit(value: float) -> float:
    """Half a unit of the fourth digit of `value`."""
    return 0.5 * 10.0 ** (math.floor(math.log10(max(abs(value), 1e-9))) - 3)
