"""One action of one stage, and its text: `0F3` is stage 0, forward of minibatch 3.

The kinds:

    F   forward: activations of a minibatch, sent to the next stage
    B   backward: errors of a minibatch, sent to the previous stage; in asynchronous schedules also the update
    U   update of a synchronous schedule, after the last backward of step k
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ActionKind(StrEnum):
    """What is done."""

    forward = "F"
    backward = "B"
    update = "U"


@dataclass(frozen=True, order=True)
class Action:
    """`index` counts minibatches, for an update the steps."""

    stage: int
    kind: ActionKind
    index: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind.value}{self.index}"
