"""What an epoch and a run came to, with the provenance of every joule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .cost import Provenance
from .plan import Decision

VerdictKind = Literal["met", "missed", "stopped", "failed"]


@dataclass(frozen=True)
class EpochOutcome:
    """One epoch done: loss after it, seconds and joules on the run's clock, measured CPU-seconds beside."""

    decision: Decision
    loss: float
    elapsed_s: float
    energy_j: float
    provenance: Provenance = "modelled"
    cpu_s: float | None = None
    wall_s: float | None = None
    handover_loss: float | None = None
    wasted_j: float = 0.0
    wasted_s: float = 0.0
    failed_nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunResult:
    """How a run ended."""

    run: str
    verdict: VerdictKind
    outcomes: tuple[EpochOutcome, ...]
    energy_j: float
    elapsed_s: float
    loss: float
    test_loss: float | None = None
    test_accuracy: float | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)
