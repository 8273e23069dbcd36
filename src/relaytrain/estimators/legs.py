"""A history cut into legs: the losses of one pair after another, each from the loss it started at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..core.outcome import EpochOutcome
from ..core.problem import Pair


@dataclass
class SeenLeg:
    """Epochs of one pair (an index) in a row: losses after each, from `start`, the loss probed after the switch.

    `jumped_from` is the pair and loss before the switch when the jump was probed. `doubt` is the relative uncertainty
    of `start`, none where it was probed. `experience`: of the network when the leg began, as a belief counts it.
    """

    pair: int
    first_epoch: int
    start: float
    jumped_from: tuple[int, float] | None = None
    losses: list[float] = field(default_factory=list)
    doubt: float = 0.0
    experience: float = 0.0


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
