"""What a handover, an epoch and a run came to, with the provenance of every joule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from .cost import Provenance
from .errors import ScenarioError
from .plan import Decision
from .problem import Pair

VerdictKind = Literal["met", "missed", "stopped", "failed"]

LARGEST_EXPONENT = 700.0
"""Above it a perplexity is no number of a computer's."""
MOST_LOSS = 100.0
"""No epoch of training brings the loss above so many times what it was, 1 at least. Where one does, an update was
wrong or the training diverges; either way nothing is gained by going on from there."""


def most_plausible(*before: float) -> float:
    """The highest loss that training may arrive at from losses like these."""
    return MOST_LOSS * max(1.0, *before)


@dataclass(frozen=True)
class EpochOutcome:
    """One epoch done: loss after it, seconds and joules on the run's clock, measured CPU-seconds beside.

    `handover_s`, `handover_j`: the handover's part of them, where that is known.
    """

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
    handover_s: float | None = None
    handover_j: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """A forward pass over a set: mean loss, and the share of right answers, NaN where there is none.

    `prediction_sets`: coverage and size of conformal sets, of a classifier on the test set. `figures`: whatever else
    was summed over the set, by name.
    """

    loss: float
    accuracy: float = math.nan
    prediction_sets: Mapping[str, Any] | None = None
    figures: Mapping[str, float] = field(default_factory=dict)

    def metric(self, name: str) -> float:
        """What a target of this metric reads: the loss, the error 1 - accuracy, the perplexity, or a figure by name.

        Raises:
            ScenarioError: nobody summed it, or it is below 0.
        """
        value = self._metric(name)
        if value < 0.0 and name != "loss":
            raise ScenarioError(f"target.metric: {name} is {value:.4g}, expected a figure that falls towards 0 at most")
        return value

    def _metric(self, name: str) -> float:
        if name == "loss":
            return self.loss
        if name in self.figures:
            return self.figures[name]
        if name == "perplexity":
            return math.exp(self.loss) if self.loss < LARGEST_EXPONENT else math.inf
        if name == "error" and not math.isnan(self.accuracy):
            return 1.0 - self.accuracy
        known = ["loss", *(["error"] if not math.isnan(self.accuracy) else []), "perplexity", *self.figures]
        raise ScenarioError(
            f"target.metric: got {name}, expected one of {', '.join(dict.fromkeys(known))}; others are sums over a "
            f'batch that [training] evaluate returns, such as {{"count": 32, "{name}": 4.5}}'
        )


@dataclass(frozen=True)
class NodeReport:
    """What one attempt of one node came to; CPU and wall seconds measured, the rest as booked on the run's clock."""

    node: str
    attempt: int = 0
    samples: int = 0
    train_loss: float | None = None
    cpu_s: float = 0.0
    wall_s: float = 0.0
    elapsed_s: float = 0.0
    energy_j: float = 0.0
    error: str | None = None
    kind: str | None = None
    provenance: Provenance | None = None
    flops: float = 0.0

    @property
    def reason(self) -> str:
        """Why an attempt did not count."""
        return self.error or self.kind or "no answer"


@dataclass(frozen=True)
class EpochResult:
    """A trained epoch as its runner measured it; the run's clock books it.

    `outcome` has wall seconds and metered joules, lost work included; joules and lost work are 0 where nothing meters.
    `nodes` are the answers that were averaged, `failures` the attempts that did not count.
    """

    outcome: EpochOutcome
    checkpoint: Any = field(repr=False)
    evaluation: Evaluation
    nodes: tuple[NodeReport, ...] = ()
    failures: tuple[NodeReport, ...] = ()
    train_loss: float = math.nan


@dataclass(frozen=True)
class LostEpoch:
    """What an epoch that did not count has cost, as measured."""

    failures: tuple[NodeReport, ...]
    cpu_s: float
    elapsed_s: float
    energy_j: float


@dataclass(frozen=True)
class Handed:
    """A checkpoint handed over to another pair, not trained there yet; seconds and joules as measured.

    `kind`: same, prune, slice, distill, rank or restore. `reached_ratio`: share removed of the full version.
    `probe`: forward losses on the new node set's data, of the network before and of the one made. `note`: what did not
    come along.
    """

    checkpoint: Any = field(repr=False)
    kind: str = "same"
    reached_ratio: float | None = None
    elapsed_s: float = 0.0
    energy_j: float = 0.0
    cpu_s: float = 0.0
    probe: Mapping[str, float] = field(default_factory=dict)
    note: str | None = None


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

    @property
    def legs(self) -> list[tuple[Pair, int]]:
        """The legs that were run: pair and number of epochs."""
        return [(pair, len(list(leg))) for pair, leg in groupby(outcome.decision.pair for outcome in self.outcomes)]
