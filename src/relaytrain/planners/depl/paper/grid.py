"""The paper's own selection of versions: a shortest path over vertices (m, k, T, l_omega) on a grid of eta steps.

Three things of the paper leave room, and the first has two readings here:

* `literal`: a vertex's time and quantile are grid multiples. An edge's time and its change of the quantile are rounded
  up to whole steps, so errors add up from epoch to epoch;
* `merged`: time, distribution and quantile of a path are carried exactly, the grid only decides which paths share a
  vertex. Of these the cheapest is kept, as in the other reading.

An edge weighs what its epoch adds to the cost when nothing is clipped: sqrt(kappa c) for `rate` (the cost is the square
of the sum over the deadline), the epoch's joules for `usage`. "The most capable node set" is the one where the epoch is
quickest, or by name the one with the most resources, which fails where that one has a poor link.

Paper: DepL section IV-B and Fig. 5 (right).
Deviations: Laplace transforms do not exist after a switch, so paths carry characteristic functions. A layer keeps at
most MOST_LABELS paths, the cheapest. Neither reading has the competitive ratio of Property 3: a quantile is not a
state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ....core.depl import DeplProblem
from ....core.fourier import SLACK, Counts, Real
from ...search.kernels import jit
from ..schedule_losses import DataLosses
from ..waterfill import epoch_slots

GridReading = Literal["literal", "merged"]
Capable = Literal["quickest", "largest"]

MOST_LABELS = 8_000
"""Paths kept in a layer."""
GONE = -30.0
"""log of a characteristic function that no longer counts."""


@dataclass(frozen=True)
class Edges:
    """What an epoch of each version weighs and how long it takes on the most capable node set."""

    weight: Real
    seconds: Real


def edges_for(instance: DeplProblem, chosen: Sequence[int], capable: Capable = "quickest") -> Edges | None:
    """Edges for one choice of data; None where it can be brought to no node set."""
    usable = [n for n, charge in enumerate(instance.data_charge(chosen)) if math.isfinite(charge)]
    if not usable:
        return None
    slots = epoch_slots(instance, chosen, usable)
    at = slots.quickest_s.argmin(axis=1) if capable == "quickest" else slots.capability.argmax(axis=1)
    kind = np.arange(len(at))
    joules = slots.price * slots.capability + slots.fixed
    weight = slots.root if instance.objective == "rate" else joules
    return Edges(weight[kind, at], slots.quickest_s[kind, at])


@dataclass
class _Layer:
    """Paths that end in the same epoch; `place` is the grid position (time, quantile) of the literal reading."""

    version: Counts
    parent: Counts
    weight: Real
    elapsed_s: Real
    mean: Real
    quantile: Real
    re: Real
    im: Real
    place: Counts

    def take(self, at: NDArray[np.int64]) -> _Layer:
        return _Layer(*(getattr(self, name)[at] for name in self.__dataclass_fields__))


class GridSearch:
    """DepL(eta): paths layer by layer, those that reach the target in the order of their weight."""

    def __init__(
        self,
        instance: DeplProblem,
        chosen: Sequence[int],
        *,
        eta: int = 200,
        reading: GridReading = "merged",
        capable: Capable = "quickest",
    ) -> None:
        self.instance, self.chosen = instance, tuple(chosen)
        self.eta, self.reading = eta, reading
        self.edges = edges_for(instance, chosen, capable)

    def schedules(self) -> Iterator[tuple[int, ...]]:
        """Schedules whose vertices meet the target, the lightest first."""
        if self.edges is None:
            return
        layers, ends = self._layers()
        for _, k, i in sorted(ends):
            versions: list[int] = []
            for layer in reversed(layers[: k + 1]):
                versions.append(int(layer[0][i]))
                i = int(layer[1][i])
            yield tuple(reversed(versions))

    def _layers(self) -> tuple[list[tuple[Counts, Counts]], list[tuple[float, int, int]]]:
        target = self.instance.target
        self._data = DataLosses(self.instance, self.chosen, self.instance.max_epochs)
        table = self._data.table
        points = table.frequencies.points
        start = self.instance.initial_loss
        nothing = np.zeros((1, points))
        first, zero, losses = np.array([-1]), np.zeros(1), np.array([start])
        place = np.array([[0, self._up(start)]])
        layer = _Layer(first, first, zero, zero, losses, losses, nothing, nothing, place)
        kept: list[tuple[Counts, Counts]] = []
        ends: list[tuple[float, int, int]] = []
        best = math.inf
        for k in range(self.instance.max_epochs):
            layer = self._next(layer, k, best)
            if not len(layer.version):
                break
            kept.append((layer.version, layer.parent))
            reached = layer.place[:, 1] * self._loss_step if self.reading == "literal" else layer.quantile
            met = reached <= target.loss + SLACK
            ends += [(float(layer.weight[i]), k, int(i)) for i in np.flatnonzero(met)]
            best = min(best, float(layer.weight[met].min(initial=math.inf)))
            layer.parent = np.arange(len(layer.version))
            layer = layer.take(np.flatnonzero(~met & (layer.weight < best)))
        return kept, ends

    def _ahead(self, k: int) -> int:
        """Epochs to tabulate when epoch k + 1 is needed: a few at a time."""
        return min(self.instance.max_epochs, 16 * (k // 16 + 1))

    @property
    def _loss_step(self) -> float:
        return self.instance.initial_loss / self.eta

    def _up(self, loss: float) -> int:
        return math.ceil(loss / self._loss_step - SLACK)

    def _next(self, layer: _Layer, k: int, best: float) -> _Layer:
        """All edges out of a layer, then the cheapest path to each vertex. `layer.parent` holds positions to record."""
        assert self.edges is not None
        parts = [self._by(layer, m, k) for m in range(len(self.instance.versions))]
        whole = _Layer(*(np.concatenate([getattr(p, n) for p in parts]) for n in _Layer.__dataclass_fields__))
        limit_s = self.instance.target.deadline_s
        whole = whole.take(np.flatnonzero((whole.elapsed_s <= limit_s + SLACK) & (whole.weight < best)))
        if not len(whole.version):
            return whole
        before = whole.quantile  # the parents' still
        change = np.empty(len(before))
        quantiles(whole.re, whole.im, before - whole.mean, self.instance.target.probability, self._data.step, change)
        whole.quantile = whole.mean + change
        steps = np.ceil(
            np.column_stack([whole.elapsed_s * self.eta / limit_s, whole.quantile / self._loss_step]) - SLACK
        )
        if self.reading == "literal":
            added_s = self.edges.seconds[whole.version]
            whole.place[:, 0] += np.ceil(added_s * self.eta / limit_s - SLACK).astype(np.int64)
            whole.place[:, 1] += np.ceil((whole.quantile - before) / self._loss_step - SLACK).astype(np.int64)
            vertex = whole.place
        else:
            vertex = steps.astype(np.int64)
        inside = vertex.max(axis=1) <= self.eta
        order = np.lexsort((whole.weight, vertex[:, 1], vertex[:, 0], whole.version))
        order = order[inside[order]]
        keys = np.column_stack([whole.version, vertex])[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = np.diff(keys, axis=0).any(axis=1)
        order = order[first]
        if len(order) > MOST_LABELS:
            order = order[np.argpartition(whole.weight[order], MOST_LABELS)[:MOST_LABELS]]
        return whole.take(order)

    def _by(self, layer: _Layer, m: int, k: int) -> _Layer:
        """The paths lengthened by an epoch of version m."""
        assert self.edges is not None
        instance, data = self.instance, self._data
        re, im = data.table.log_cf(self._ahead(k))
        before = layer.version if k else np.full(len(layer.version), m if instance.before is None else instance.before)
        jumps = [instance.switches[b][m] if b != m else None for b in range(len(instance.versions))]
        possible = np.flatnonzero([b == m or jumps[b] is not None for b in before])
        layer, before = layer.take(possible), before[possible]
        mean = layer.mean + data.mean[m, k + 1] - data.mean[m, k]
        new_re = layer.re + (re[m, k + 1] - re[m, k])
        new_im = layer.im + (im[m, k + 1] - im[m, k])
        for b in set(before.tolist()) - {m}:
            rows = before == b
            jump_mean, _, log_cf = data.jump(b, m)
            mean[rows] += jump_mean
            new_re[rows] += log_cf.real
            new_im[rows] += log_cf.imag
        return _Layer(
            np.full(len(before), m),
            layer.parent,
            layer.weight + self.edges.weight[m],
            layer.elapsed_s + self.edges.seconds[m],
            mean,
            layer.quantile,
            new_re,
            new_im,
            layer.place.copy(),
        )


@jit
def quantiles(re: Real, im: Real, guess: Real, omega: float, step: float, changes: Real) -> None:
    """Writes the omega-quantile of each centred sum, by Newton's method from a guess, kept inside a bracket."""
    points = re.shape[1]
    c, s = np.empty(points), np.empty(points)
    half = math.pi / step
    for row in range(re.shape[0]):
        count = points
        for j in range(points):
            if re[row, j] < GONE:
                count = j
                break
            size = math.exp(re[row, j])
            c[j], s[j] = size * math.cos(im[row, j]), size * math.sin(im[row, j])
        low, high = -half, half
        x = min(max(guess[row], 0.9 * low), 0.9 * high)
        for _ in range(100):
            turn_c, turn_s = math.cos(step * x), -math.sin(step * x)
            at_c, at_s = math.cos(0.5 * step * x), -math.sin(0.5 * step * x)
            total, slope = 0.0, 0.0
            for j in range(count):
                total += (at_c * s[j] + at_s * c[j]) / (j + 0.5)
                slope += at_c * c[j] - at_s * s[j]
                at_c, at_s = at_c * turn_c - at_s * turn_s, at_c * turn_s + at_s * turn_c
            excess = 0.5 - total / math.pi - omega
            if excess > 0:
                high = x
            else:
                low = x
            ahead = x - excess * math.pi / (step * slope) if slope > 0 else np.inf
            if not (low <= ahead <= high):
                ahead = 0.5 * (low + high)
            done = abs(ahead - x) <= 1e-11 * half
            x = ahead
            if done:
                break
        changes[row] = x
