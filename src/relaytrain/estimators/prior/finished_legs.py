"""What a run's finished legs say, worked out once: they never change, and a run has ever more of them.

Both memories follow one history that grows by legs at its end; where another one is asked about, they begin anew. So
what is remembered is what would be worked out again, to the last bit: evidence is added leg by leg, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...core.curve import Array
from ..legs import SeenLeg, Shown


@dataclass
class FinishedEvidence:
    """Evidence (L, H) by pair, added up over finished legs on what there was `before` (L, 1).

    It holds as much as a posterior does of the pairs that were tried.
    """

    before: Array
    _legs: list[Shown] = field(default_factory=list)
    _sums: dict[int, Array] = field(default_factory=dict)

    def of(self, legs: Sequence[SeenLeg], evidence: Callable[[SeenLeg], Array]) -> dict[int, Array]:
        """The sums, not to be changed, of pairs that have finished legs; `evidence` is asked of legs that are new."""
        if [leg.shown for leg in legs[: len(self._legs)]] != self._legs:
            self._legs.clear()
            self._sums.clear()
        for leg in legs[len(self._legs) :]:
            self._sums[leg.pair] = self._sums.get(leg.pair, self.before) + evidence(leg)
            self._legs.append(leg.shown)
        return self._sums


@dataclass
class FinishedFigures:
    """A figure of the first leg, of the first two, and so on; always asked for in this order."""

    _known: list[tuple[Shown, float]] = field(default_factory=list)

    def of(self, legs: Sequence[SeenLeg], figure: Callable[[Sequence[SeenLeg]], float]) -> float:
        """The figure of these legs, all of them finished."""
        last, shown = len(legs) - 1, legs[-1].shown
        if last == len(self._known) or self._known[last][0] != shown:
            del self._known[last:]
            self._known.append((shown, figure(legs)))
        return self._known[last][1]
