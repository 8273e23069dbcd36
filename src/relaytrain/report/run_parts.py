"""The parts of a run as its events tell them: epochs, legs, handovers, failures, roll-backs, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..core.problem import Pair
from ..core.state import TOLERANCE
from .plan_view import NOTHING_SAID, Predicted


class NodeView(NamedTuple):
    """What one node did in one epoch."""

    node: str
    samples: int | None
    train_loss: float | None
    cpu_s: float | None
    energy_j: float | None
    elapsed_s: float | None


@dataclass(frozen=True)
class EpochView:
    """One epoch that was done. `elapsed_s` and `energy_j` are its useful cost, handover included; `end_s` is when it
    ended on the deadline's clock; `predicted` is what the plan said just before it."""

    epoch: int
    pair: Pair
    loss: float
    elapsed_s: float
    energy_j: float
    end_s: float
    provenance: str = "assumed"
    accuracy: float | None = None
    train_loss: float | None = None
    cpu_s: float | None = None
    wall_s: float | None = None
    wasted_j: float = 0.0
    wasted_s: float = 0.0
    handover_loss: float | None = None
    nodes: tuple[NodeView, ...] = ()
    failed_nodes: tuple[str, ...] = ()
    blob: str | None = None
    predicted: Predicted = NOTHING_SAID

    @property
    def start_s(self) -> float:
        """When it began."""
        return self.end_s - self.elapsed_s

    @property
    def in_band(self) -> bool | None:
        """Whether the loss stayed at or below what the plan's level promised; None when nothing was promised."""
        limit = self.predicted.guaranteed
        return None if limit is None else self.loss <= limit + TOLERANCE


@dataclass(frozen=True)
class LegView:
    """A run of epochs with one pair, as it happened."""

    pair: Pair
    epochs: tuple[EpochView, ...]

    @property
    def first_epoch(self) -> int:
        """The number of its first epoch."""
        return self.epochs[0].epoch

    @property
    def last_epoch(self) -> int:
        """The number of its last epoch."""
        return self.epochs[-1].epoch

    @property
    def start_s(self) -> float:
        """When it began on the deadline's clock."""
        return self.epochs[0].start_s

    @property
    def end_s(self) -> float:
        """When it ended."""
        return self.epochs[-1].end_s

    @property
    def loss(self) -> float:
        """The loss it handed on."""
        return self.epochs[-1].loss

    @property
    def cost(self) -> Cost:
        """What it cost."""
        return Cost.of(self.epochs)


@dataclass(frozen=True)
class Cost:
    """The summed cost of some epochs, useful joules also by provenance, and what their plans had predicted.

    `against_s` and `against_j` are the costs of just those `predicted_epochs` that had a prediction.
    """

    epochs: int
    elapsed_s: float
    energy_j: float
    cpu_s: float | None
    by_provenance_j: Mapping[str, float]
    predicted_epochs: int
    predicted_s: float
    predicted_j: float
    against_s: float
    against_j: float

    @classmethod
    def of(cls, epochs: Iterable[EpochView]) -> Cost:
        """Add up `epochs`."""
        rows = list(epochs)
        by_tag: dict[str, float] = {}
        for row in rows:
            by_tag[row.provenance] = by_tag.get(row.provenance, 0.0) + row.energy_j
        known = [
            (r, r.predicted) for r in rows if r.predicted.elapsed_s is not None and r.predicted.energy_j is not None
        ]
        metered = [r.cpu_s for r in rows if r.cpu_s is not None]
        return cls(
            len(rows),
            math.fsum(r.elapsed_s for r in rows),
            math.fsum(r.energy_j for r in rows),
            math.fsum(metered) if metered else None,
            by_tag,
            len(known),
            math.fsum(p.elapsed_s or 0.0 for _, p in known),
            math.fsum(p.energy_j or 0.0 for _, p in known),
            math.fsum(r.elapsed_s for r, _ in known),
            math.fsum(r.energy_j for r, _ in known),
        )


@dataclass(frozen=True)
class HandoverView:
    """A change of pair at the start of `epoch`: what it cost and what a forward pass saw before and after it."""

    epoch: int
    before: Pair
    after: Pair
    kind: str
    at_s: float
    loss_before: float | None = None
    loss_after: float | None = None
    elapsed_s: float | None = None
    energy_j: float | None = None
    reached_ratio: float | None = None


class FailureView(NamedTuple):
    """A node that gave no result."""

    epoch: int | None
    node: str
    attempt: int | None
    reason: str


class RollbackView(NamedTuple):
    """Epochs after `to_epoch` were undone."""

    to_epoch: int
    reason: str
    forbidden: Pair | None
    undone: int


@dataclass(frozen=True)
class Asked:
    """What the run was asked for."""

    loss: float | None = None
    deadline_s: float = math.inf
    probability: float | None = None
    metric: str = "loss"
    on: str = "validation"
    time_unit: str = "s"
    energy_unit: str = "J"


def legs_of(epochs: Iterable[EpochView]) -> tuple[LegView, ...]:
    """Runs of epochs with one pair."""
    groups: list[list[EpochView]] = []
    for epoch in epochs:
        if groups and groups[-1][-1].pair == epoch.pair:
            groups[-1].append(epoch)
        else:
            groups.append([epoch])
    return tuple(LegView(rows[0].pair, tuple(rows)) for rows in groups)
