"""A runner that plays what an atlas holds: the one loop, real losses, no training.

A checkpoint is the way that led to it. What the atlas does not hold is asked of `missing`, which may train it; without
one the replay ends with words that say which relay it was.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import NamedTuple

from ..core.errors import UsageError
from ..core.outcome import EpochOutcome, EpochResult, Evaluation, Handed
from ..core.plan import Decision
from ..core.problem import Pair
from ..core.protocols import Earlier
from ..traces.atlas import Atlas, AtlasLeg, LegKey

Missing = Callable[[int, LegKey, int], AtlasLeg]
"""Trains so many epochs of a leg of a seed, and gives the leg."""


class Place(NamedTuple):
    """A checkpoint: so many epochs on a leg."""

    leg: LegKey
    epochs: int


class AtlasRunner:
    """`Runner` of one seed of an atlas; for the emulated clock, where nothing measured counts."""

    def __init__(self, atlas: Atlas, seed: int, missing: Missing | None = None) -> None:
        self.atlas, self.seed, self.missing = atlas, seed, missing

    def first(self) -> Place:
        """Before epoch 1."""
        return Place(LegKey((), self.atlas.start), 0)

    def to_bytes(self, checkpoint: Place) -> bytes:
        """JSON."""
        return json.dumps([checkpoint.leg.before, checkpoint.leg.pair, checkpoint.epochs]).encode()

    def from_bytes(self, data: bytes) -> Place:
        """The way back."""
        before, pair, epochs = json.loads(data)
        return Place(LegKey(tuple((int(p), int(n)) for p, n in before), int(pair)), int(epochs))

    def probe(self, checkpoint: Place) -> Evaluation:
        """The figure there, as it was recorded."""
        leg = self._leg(checkpoint.leg, checkpoint.epochs)
        return self._read(leg.losses[checkpoint.epochs - 1] if checkpoint.epochs else leg.start)

    def test(self, checkpoint: Place) -> None:
        """An atlas knows nothing of the test set."""

    def hand_over(self, checkpoint: Place, before: Pair, decision: Decision, earlier: Earlier) -> Handed:
        """To the leg that begins there."""
        del before, earlier
        if decision.datasets or decision.resources != 1.0:
            raise UsageError("an atlas holds relays over whole node sets; data and resources cannot be replayed")
        way, at = checkpoint.leg.before, (checkpoint.leg.pair, checkpoint.epochs)
        key = LegKey((*way, at) if checkpoint.epochs else way, self.atlas.pairs.index(decision.pair))
        handed = dict(self._leg(key, 0).handed)
        kind, ratio = str(handed.pop("kind", "same")), handed.pop("reached_ratio", None)
        return Handed(Place(key, 0), kind, ratio, probe=handed)

    def run_epoch(self, decision: Decision, checkpoint: Place, *, run: str, attempt: int = 0) -> EpochResult:
        """The next epoch of the leg."""
        del run, attempt
        place = Place(checkpoint.leg, checkpoint.epochs + 1)
        figure = self._leg(place.leg, place.epochs).losses[place.epochs - 1]
        return EpochResult(EpochOutcome(decision, figure, 0.0, 0.0), place, self._read(figure))

    def _leg(self, key: LegKey, epochs: int) -> AtlasLeg:
        leg = self.atlas.leg(self.seed, key)
        if leg is not None and len(leg.losses) >= epochs:
            return leg
        if self.missing is not None:
            return self.missing(self.seed, key, epochs)
        way = " -> ".join(f"{self.atlas.pairs[p]} x{n}" for p, n in (*key.before, (key.pair, epochs)))
        raise UsageError(
            f"the atlas of {self.atlas.scenario} holds no seed {self.seed} of {way}; "
            "let `relaytrain atlas` record longer or finer legs"
        )

    def _read(self, figure: float) -> Evaluation:
        if self.atlas.figure == "error":
            return Evaluation(math.nan, 1.0 - figure)
        return Evaluation(figure)
