"""Seconds and joules of running and of changing a pair: tau and epsilon as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .curve import Array
from .errors import ScenarioError

Provenance = Literal["measured", "modelled", "assumed"]


@dataclass(frozen=True)
class FirstUses:
    """What the first epoch on a pair costs beside itself: bringing data to its nodes, say. Paid once a `group`.

    `seconds`, `joules`, `group`: shape (P,) each; pairs of the same group have the same figures.
    """

    seconds: Array
    joules: Array
    group: NDArray[np.int64]

    def after(self, used: Iterable[int]) -> FirstUses:
        """What is left to pay when some pairs were used already."""
        paid = np.isin(self.group, self.group[sorted(set(used))])
        return replace(self, seconds=np.where(paid, 0.0, self.seconds), joules=np.where(paid, 0.0, self.joules))


@dataclass(frozen=True)
class CostTable:
    """tau and epsilon of PACT (1)-(2) for P pairs; infinity forbids.

    `run_s`, `run_j`: shape (P,), one epoch of a pair. `change_s`, `change_j`: shape (P, P), from row to column,
    zero on the diagonal. `spread` is the relative standard deviation of an epoch's seconds, shape (P,).
    `reasons` explains infinities: the key is (pair,) for running and (before, now) for changing. `first`: what is
    paid once, counted by the rule `sampled` alone; the searches over single epochs have no memory of it.
    """

    run_s: Array
    change_s: Array
    run_j: Array
    change_j: Array
    spread: Array | None = None
    reasons: dict[tuple[int, ...], str] = field(default_factory=dict)
    provenance: Provenance = "assumed"
    first: FirstUses | None = None

    def __post_init__(self) -> None:
        pairs = len(self.run_s)
        shapes = {"run_s": (pairs,), "run_j": (pairs,), "change_s": (pairs, pairs), "change_j": (pairs, pairs)}
        for name, shape in shapes.items():
            values = getattr(self, name)
            if values.shape != shape:
                raise ScenarioError(f"costs.{name}: shape {values.shape}, expected {shape}")
            if np.isnan(values).any() or (values < 0).any():
                raise ScenarioError(f"costs.{name}: holds NaN or a negative figure; costs are >= 0, inf forbids")

    @cached_property
    def epoch_s(self) -> Array:
        """Seconds of an epoch on the column's pair after the row's pair: the right-hand side of (1)."""
        return np.asarray(self.change_s + self.run_s[None, :])

    @cached_property
    def epoch_j(self) -> Array:
        """Joules of the same: the right-hand side of (2)."""
        return np.asarray(self.change_j + self.run_j[None, :])

    @property
    def epoch_s2(self) -> Array:
        """Variance of the same seconds: `spread` is relative to the whole epoch, its change included."""
        seconds = self.epoch_s
        spread = np.zeros(len(self.run_s)) if self.spread is None else self.spread
        return np.asarray((np.where(np.isfinite(seconds), seconds, 0.0) * spread[None, :]) ** 2)

    def why_not(self, before: int, now: int) -> str | None:
        """Why going from pair `before` to pair `now` is impossible, or None when it is possible."""
        if np.isfinite(self.epoch_s[before, now]) and np.isfinite(self.epoch_j[before, now]):
            return None
        for key in ((now,), (before, now)):
            if key in self.reasons:
                return self.reasons[key]
        running = not (np.isfinite(self.run_s[now]) and np.isfinite(self.run_j[now]))
        return "running it has infinite cost" if running else "this change has infinite cost"
