"""A DepL planning problem: what may be chosen, what it costs, and what the loss must be with which probability.

    cost  = sum_k price(n_k) x_k + sum over used clusters n and chosen datasets d of charge(d, n)             (2)
    time  = sum_k work(m_k) q / x_k + size(m_k) / bandwidth(n_k) <= deadline,  q the volume chosen       (1), (4)
    loss  = initial - sum_k h gain_m / sqrt(k + offset_m) X_k + sum over switches of their t          (8), Fig. 4
    P(loss <= target) >= probability,  h = base + slope ln(1 + q)                                             (3)

Paper: DepL equations (1)-(6), (8).
Deviations: (8) is the amount by which an epoch lowers the loss (the paper calls it a change and says it is negative);
k counts all epochs; a data charge is paid once for each used cluster, not every epoch; one cluster an epoch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.distribution import Distribution, StudentT, Term
from ...core.errors import UsageError


@dataclass(frozen=True)
class Cluster:
    """Nodes that train together: r(n), b(n), kappa(n)."""

    name: str
    capability: float
    bandwidth: float
    price: float


@dataclass(frozen=True)
class Model:
    """A version: s(m), c(m) for a unit of data, A_m, B_m and the distribution of x in (8)."""

    name: str
    size: float
    work: float
    gain: float
    offset: float
    noise: Distribution
    power: float = 0.5
    """1/2 in the paper; others fit curves that level off sooner."""

    def progress(self, k: int | NDArray[np.int64]) -> Any:
        """A / (k + B)^power: by how much epoch k lowers the loss when x is 1."""
        return self.gain / (k + self.offset) ** self.power


@dataclass(frozen=True)
class DataSource:
    """A dataset and its volume."""

    name: str
    volume: float


@dataclass(frozen=True)
class Target:
    """The loss to be reached with a probability (omega) by a deadline, in at most so many epochs."""

    loss: float
    probability: float
    deadline_s: float
    max_epochs: int


@dataclass(frozen=True)
class Instance:
    """All that a plan depends on. `switches[m][m']` is None where the switch is impossible (and on the diagonal)."""

    models: tuple[Model, ...]
    switches: tuple[tuple[StudentT | None, ...], ...]
    clusters: tuple[Cluster, ...]
    datasets: tuple[DataSource, ...]
    charges: NDArray[np.float64]
    """beta(d, n), shape (datasets, clusters)."""
    initial_loss: float
    target: Target
    gain_base: float = 1.0
    gain_slope: float = 0.0

    def __post_init__(self) -> None:
        if not (self.models and self.clusters and self.datasets):
            raise UsageError("a DepL instance needs at least one model, one cluster and one dataset")
        shape = (len(self.datasets), len(self.clusters))
        if self.charges.shape != shape:
            raise UsageError(f"charges: got shape {self.charges.shape}, expected (datasets, clusters) = {shape}")
        if not 0 < self.target.probability < 1:
            raise UsageError(f"probability: got {self.target.probability}, expected strictly between 0 and 1")

    def volume(self, chosen: Sequence[int]) -> float:
        """q(D)."""
        return sum(self.datasets[d].volume for d in chosen)

    def data_gain(self, chosen: Sequence[int]) -> float:
        """h(D): how much more an epoch achieves with the chosen data."""
        return self.gain_base + self.gain_slope * math.log1p(self.volume(chosen))

    def data_charge(self, chosen: Sequence[int]) -> NDArray[np.float64]:
        """What it costs to bring the chosen data to each cluster, shape (clusters,)."""
        return np.asarray(self.charges[list(chosen)].sum(axis=0), np.float64)

    def terms(self, chosen: Sequence[int], models: Sequence[int]) -> list[Term]:
        """The independent variables that the loss after `models`, one an epoch, is made of."""
        gain = self.data_gain(chosen)
        found: list[Term] = []
        for k, m in enumerate(models, start=1):
            model = self.models[m]
            found.append((-gain * float(model.progress(k)), model.noise))
            if k > 1 and models[k - 2] != m:
                jump = self.switches[models[k - 2]][m]
                if jump is None:
                    raise UsageError(f"switch from {self.models[models[k - 2]].name} to {model.name} is impossible")
                found.append((1.0, jump))
        return found
