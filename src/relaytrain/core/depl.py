"""A DepL planning problem: what may be chosen, what it costs, and what the loss must be with which probability.

    rate  = sum_k price(n_k) x_k + sum over used node sets n and their datasets d of charge(d, n)             (2)
            (or, charged every epoch, sum over epochs k and datasets d of charge(d, n_k))
    usage = sum_k price(n_k) x_k T'(k) + link_power(n_k) size / bandwidth + the same charges,     in joules
    time  = sum_k work(m_k) q / x_k + size(m_k) / bandwidth(n_k) <= deadline,  q the volume chosen       (1), (4)
    loss  = initial - sum_k h gain_m / sqrt(k + offset_m) X_k + sum over switches of their t          (8), Fig. 4
    P(loss <= target) >= probability,  h = base + slope ln(1 + q)                                             (3)

Paper: DepL equations (1)-(6), (8).
Deviations: (8) is the amount by which an epoch lowers the loss (the paper calls it a change and says it is negative);
k counts all epochs; a data charge is paid once for each used node set ("one-time", as the paper's text has it), or by
`charged` in every epoch that the node set trains, as (2) prints: (6) leaves no data at inactive ones; one node set an
epoch. `usage` is not in the paper: what (2) calls cost is a rate, so a slow epoch is cheap there however long it lasts.
In T'(k) the time of sending the version counts by the node set's `waiting` share.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .distribution import Distribution, StudentT, Term
from .errors import UsageError
from .problem import Target

Objective = Literal["rate", "usage"]
Charged = Literal["once", "every-epoch"]
OBJECTIVES: tuple[Objective, ...] = ("rate", "usage")


@dataclass(frozen=True)
class DeplNodeSet:
    """What DepL knows of a `NodeSet` (the paper's cluster): r(n), b(n), kappa(n).

    For `usage`: price is joules for a unit of resources held for a second, `link_power` watts while a version is sent,
    `waiting` the share of the held resources' draw that goes on meanwhile (1: reserved for the whole epoch, so that x
    has an optimum; 0: computing alone, price * work whatever x, so that full resources are best).
    """

    name: str
    capability: float
    bandwidth: float
    price: float
    link_power: float = 0.0
    waiting: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.capability < math.inf and self.bandwidth > 0 and 0 <= self.price < math.inf):
            raise UsageError(
                f"node set {self.name}: got capability {self.capability}, bandwidth {self.bandwidth}, price "
                f"{self.price}; "
                f"expected capability > 0, bandwidth > 0 and price >= 0"
            )


@dataclass(frozen=True)
class DeplVersion:
    """What DepL knows of a `Version` (the paper's model): s(m), c(m) for a unit of data, A_m, B_m and x of (8)."""

    name: str
    size: float
    work: float
    gain: float
    offset: float
    noise: Distribution
    power: float = 0.5
    """1/2 in the paper; others fit curves that level off sooner."""

    steps: tuple[float, ...] = ()
    """Progress by epoch where it is written out; the last figure holds on."""

    def progress(self, k: int | NDArray[np.int64]) -> Any:
        """A / (k + B)^power, or the step of epoch k: by how much the epoch lowers the loss when x is 1."""
        if self.steps:
            return np.asarray(self.steps)[np.minimum(k, len(self.steps)) - 1]
        return self.gain / (k + self.offset) ** self.power

    def __post_init__(self) -> None:
        if not (0 < self.work < math.inf and 0 <= self.size < math.inf and self.offset > -1):
            raise UsageError(
                f"version {self.name}: got work {self.work}, size {self.size}, offset {self.offset}; "
                f"expected work > 0, size >= 0 and offset > -1"
            )


@dataclass(frozen=True)
class DeplData:
    """What DepL knows of a `DataSource`: q(d), in the scenario's own unit of data."""

    name: str
    volume: float


Series = tuple[StudentT | None, ...]
"""The loss change of a switch by epoch, None where it is impossible; the last entry holds on."""


@dataclass(frozen=True)
class DeplTables:
    """What hangs on the epoch and on the data: c(k, m, .) and l_sw(k, d, m, m')."""

    work: tuple[tuple[float, ...], ...]
    """By version and epoch, the last figure holds on; empty: the version's own."""
    jumps: tuple[tuple[tuple[int, ...] | None, tuple[tuple[Series, ...], ...]], ...]
    """For a choice of datasets (None: any other) the series of every switch, [before][now]."""

    def series(self, chosen: Sequence[int]) -> tuple[tuple[Series, ...], ...]:
        """The switches' series with the chosen data."""
        known = dict(self.jumps)
        return known.get(tuple(sorted(chosen)), known[None])

    def only(self, d: int) -> DeplTables:
        """The tables where dataset `d` is the only one."""
        return replace(self, jumps=((None, self.series((d,))),))


@dataclass(frozen=True)
class DeplProblem:
    """All that a plan depends on. `switches[m][m']` is None where the switch is impossible (and on the diagonal).

    A training under way is planned on with `epochs_done` (k goes on counting), `before` (the version that trained
    last: another one is a switch), the loss seen as `initial_loss`, what is left of deadline and epochs in `target`
    and `max_epochs`, and charges of 0 for data that is already where it is needed.
    """

    versions: tuple[DeplVersion, ...]
    switches: tuple[tuple[StudentT | None, ...], ...]
    node_sets: tuple[DeplNodeSet, ...]
    datasets: tuple[DeplData, ...]
    charges: NDArray[np.float64]
    """beta(d, n), shape (datasets, node sets), in the objective's unit; infinite where the data cannot be brought."""
    initial_loss: float
    target: Target
    max_epochs: int
    gain_base: float = 1.0
    gain_slope: float = 0.0
    objective: Objective = "rate"
    before: int | None = None
    epochs_done: int = 0
    runs_on: NDArray[np.bool_] | None = None
    """Which versions may train on which node sets, shape (versions, node sets); all of them by default."""
    charged: Charged = "once"
    """When `charges` are paid: once for each node set that the data is brought to, or in every epoch there."""
    tables: DeplTables | None = None
    """What hangs on the epoch and on the data; else work and switches are the same in all of them."""

    def __post_init__(self) -> None:
        if not (self.versions and self.node_sets and self.datasets):
            raise UsageError("a DepL instance needs at least one version, one node set and one dataset")
        shape = (len(self.datasets), len(self.node_sets))
        if self.charges.shape != shape:
            raise UsageError(f"charges: got shape {self.charges.shape}, expected (datasets, node sets) = {shape}")
        if not 0 < self.target.probability < 1:
            raise UsageError(f"probability: got {self.target.probability}, expected strictly between 0 and 1")
        if math.isinf(self.target.deadline_s):
            raise UsageError(
                "deadline: got inf, expected seconds: with unlimited time resources would be cut to nothing"
            )
        if self.objective not in OBJECTIVES:
            raise UsageError(f"objective: got '{self.objective}', expected one of {', '.join(OBJECTIVES)}")
        if np.isnan(self.charges).any() or (self.charges < 0).any():
            raise UsageError("charges: got a negative or undefined one, expected 0 or more (infinite: impossible)")

    @cached_property
    def admissible(self) -> NDArray[np.bool_]:
        """`runs_on` written out."""
        shape = len(self.versions), len(self.node_sets)
        return np.ones(shape, np.bool_) if self.runs_on is None else self.runs_on

    @property
    def all_data(self) -> tuple[int, ...]:
        """The choice of every dataset."""
        return tuple(range(len(self.datasets)))

    def volume(self, chosen: Sequence[int]) -> float:
        """q(D)."""
        return sum(self.datasets[d].volume for d in chosen)

    def data_gain(self, chosen: Sequence[int]) -> float:
        """h(D): how much more an epoch achieves with the chosen data."""
        return self.gain_base + self.gain_slope * math.log1p(self.volume(chosen))

    @cached_property
    def paid_once(self) -> NDArray[np.float64]:
        """Charges of the first epoch on a node set, (datasets, node sets); infinite where data cannot be brought."""
        if self.charged == "once":
            return self.charges
        return np.where(np.isinf(self.charges), np.inf, 0.0)

    @cached_property
    def paid_each(self) -> NDArray[np.float64]:
        """Charges of every epoch on a node set, (datasets, node sets), finite."""
        if self.charged == "once":
            return np.zeros_like(self.charges)
        return np.where(np.isinf(self.charges), 0.0, self.charges)

    def data_charge(self, chosen: Sequence[int]) -> NDArray[np.float64]:
        """What it costs, once, to bring the chosen data to each node set, shape (node sets,)."""
        return np.asarray(self.paid_once[list(chosen)].sum(axis=0), np.float64)

    def epoch_charge(self, chosen: Sequence[int]) -> NDArray[np.float64]:
        """What the chosen data costs in every epoch on each node set, shape (node sets,)."""
        if self.charged == "once":
            return np.zeros(len(self.node_sets))
        return np.asarray(self.paid_each[list(chosen)].sum(axis=0), np.float64)

    def epoch_kinds(self, chosen: Sequence[int]) -> list[tuple[float, float]]:
        """Work and size of an epoch of each version on the chosen data."""
        volume = self.volume(chosen)
        return [(version.work * volume, version.size) for version in self.versions]

    def kind_at(self, k: int, chosen: Sequence[int], m: int) -> tuple[float, float]:
        """Work c(k, m, D) and size of epoch k of version m on the chosen data."""
        version = self.versions[m]
        by_epoch = self.tables.work[m] if self.tables is not None else ()
        work = by_epoch[min(k, len(by_epoch)) - 1] if by_epoch else version.work
        return work * self.volume(chosen), version.size

    def kinds_of(self, chosen: Sequence[int], versions: Sequence[int]) -> list[tuple[float, float]]:
        """Work and size of every epoch of a schedule."""
        if self.tables is None:
            kinds = self.epoch_kinds(chosen)
            return [kinds[m] for m in versions]
        return [self.kind_at(k, chosen, m) for k, m in enumerate(versions, start=self.epochs_done + 1)]

    def jump_at(self, k: int, chosen: Sequence[int], before: int, now: int) -> StudentT | None:
        """l_sw(k, D, before, now): the loss change of a switch into epoch k; None where it is impossible."""
        if self.tables is None or before == now:
            return self.switches[before][now]
        series = self.tables.series(chosen)[before][now]
        return series[min(k, len(series)) - 1]

    def terms(self, chosen: Sequence[int], versions: Sequence[int]) -> list[Term]:
        """The independent variables that the loss after `versions`, one an epoch, is made of."""
        gain = self.data_gain(chosen)
        terms: list[Term] = []
        before = self.before
        for k, m in enumerate(versions, start=self.epochs_done + 1):
            version = self.versions[m]
            terms.append((-gain * float(version.progress(k)), version.noise))
            if before is not None and before != m:
                jump = self.jump_at(k, chosen, before, m)
                terms.append((1.0, self.jump(before, m) if jump is None else jump))
            before = m
        return terms

    @property
    def jumps(self) -> list[StudentT]:
        """The loss changes of all possible switches."""
        if self.tables is not None:
            every = (series for _, rows in self.tables.jumps for row in rows for series in row)
            return [jump for series in every for jump in series if jump is not None]
        return [jump for row in self.switches for jump in row if jump is not None]

    def with_gain(self, gain: float) -> DeplProblem:
        """The same with a fixed data gain made part of the versions' own."""
        versions = tuple(replace(m, gain=m.gain * gain) for m in self.versions)
        return replace(self, versions=versions, gain_base=1.0, gain_slope=0.0)

    def jump(self, before: int, now: int) -> StudentT:
        """The loss change of a possible switch."""
        jump = self.switches[before][now]
        if jump is None:
            raise UsageError(f"switch from {self.versions[before].name} to {self.versions[now].name} is impossible")
        return jump

    def mean_jump(self, before: int | None, now: int, k: int = 1, chosen: Sequence[int] = ()) -> float:
        """The expected loss change of going on with version `now`: 0 where nothing switches, infinite if impossible.

        Epoch and data matter where there are tables of them.
        """
        if before is None or before == now:
            return 0.0
        jump = self.jump_at(k, chosen, before, now)
        return math.inf if jump is None else jump.mean

    def possible(self, versions: Sequence[int], chosen: Sequence[int] = ()) -> bool:
        """Whether a schedule makes no impossible switch."""
        taken = (self.before, *versions)
        pairs = enumerate(itertools.pairwise(taken), start=self.epochs_done + 1)
        return all(math.isfinite(self.mean_jump(a, b, k, chosen)) for k, (a, b) in pairs if b is not None)
