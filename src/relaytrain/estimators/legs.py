"""A history cut into legs: the losses of one pair after another, each from the loss it started at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..core.outcome import EpochOutcome
from ..core.problem import Pair

Shown = tuple[object, ...]
"""Of a leg, to be compared."""


@dataclass
class SeenLeg:
    """Epochs of one pair (an index) in a row: losses after each, from `start`, the loss probed after the switch.

    `jumped_from` is the pair and loss before the switch when the jump was probed. `doubt` is the relative uncertainty
    of `start`, none where it was probed. `experience`: of the network when the leg began, as a belief counts it.
    `past`: first epochs that say nothing of those to come, because losses have risen since.
    """

    pair: int
    first_epoch: int
    start: float
    jumped_from: tuple[int, float] | None = None
    losses: list[float] = field(default_factory=list)
    doubt: float = 0.0
    experience: float = 0.0
    past: int = 0

    @property
    def shown(self) -> Shown:
        """All that it shows of its pair; its experience follows from the legs before."""
        return self.pair, self.first_epoch, self.start, self.doubt, self.past, tuple(self.losses)


def legs_of(history: Sequence[EpochOutcome], pairs: Sequence[Pair], start: int, initial_loss: float) -> list[SeenLeg]:
    """The legs of `history`. A switch whose jump was not probed starts where the leg before it ended."""
    legs: list[SeenLeg] = []
    before, loss = start, initial_loss
    for outcome in history:
        now = pairs.index(outcome.decision.pair)
        probed = outcome.handover_loss
        if not legs or now != before or probed is not None:
            jumped = (before, loss) if probed is not None and now != before else None
            legs.append(SeenLeg(now, outcome.decision.epoch, loss if probed is None else probed, jumped))
        legs[-1].losses.append(outcome.loss)
        before, loss = now, outcome.loss
    return legs


LATELY = 8
"""Epochs whose losses are held against the best ones of the leg."""
RISEN = 1.5
"""From so many deviations of a single loss on, by which the mean of late losses lies above the best mean, they rise."""


def past_of(losses: Sequence[float]) -> int:
    """How many first epochs of a leg are past because losses have risen since: all but the last few, or none.

    A network that has learned its few images by heart loses on others, and no curve that falls to a floor does: held
    against one, what has risen looks like scatter, and the target like a matter of luck.
    """
    if len(losses) < 2 * LATELY:
        return 0
    logs = np.log(np.asarray(losses))
    means = np.convolve(logs, np.full(LATELY, 1.0 / LATELY), "valid")
    scatter = float(np.median(np.abs(np.diff(logs)))) / MEDIAN_STEP
    return len(losses) - LATELY if means[-1] - means[:-LATELY].min() > RISEN * scatter else 0


MEDIAN_STEP = 0.954
"""The median of what one loss differs by from the next, in deviations of a single one, where they scatter normally."""
