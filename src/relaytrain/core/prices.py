"""What an epoch of a decision costs on the run's emulated clock: seconds and joules, resources and data counted in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .outcome import EpochOutcome
from .plan import Decision


class Prices(Protocol):
    """Seconds and joules of running a decision; a handover's come on top, from the cost table."""

    def run(self, decision: Decision, history: Sequence[EpochOutcome]) -> tuple[float, float]:
        """Of one epoch, after the epochs of `history`."""
        ...
