"""The paper's recurrent network with numpy alone: what `paper` trains with torch, `plan` predicts with this.

    fixed (classes, samples, pruned) -> FC -> ReLU ---+
                                                      +-> FC -> ReLU -> FC -> 15 outputs
    losses so far -> LSTM -> last hidden state -------+

Weights are named and shaped as torch's, so that both give the same numbers (within 1e-6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.law import Array
from .features import AHEAD, Seen
from .metrics import Bands, ordered

WEIGHTS = (
    "fixed.weight", "fixed.bias", "lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.bias_ih_l0", "lstm.bias_hh_l0",
    "head.weight", "head.bias", "out.weight", "out.bias",
)  # fmt: skip


FAR = 3.0
"""Fixed inputs further than this from what was seen in training count as this far."""


@dataclass(frozen=True)
class Scales:
    """How inputs and outputs are brought to unit size: means and deviations seen in training.

    `relative`: losses enter as logarithms against the newest one, and outputs are shares of the newest loss.
    """

    loss_mean: float
    loss_sd: float
    fixed_mean: tuple[float, ...]
    fixed_sd: tuple[float, ...]
    target_sd: tuple[float, ...]
    relative: bool = False


@dataclass(frozen=True)
class Recurrent:
    """Weights and scales of one trained network; `cumulative`: outputs are l_(i+h) - l_i, else single epochs' changes."""

    weights: Mapping[str, Array]
    scales: Scales
    cumulative: bool = True

    def bands(self, seen: Seen) -> Bands:
        """Expected value, 0.05 and 0.95 quantiles of the change, each (N, AHEAD)."""
        raw = forward(self.weights, sequences(seen, self.scales), seen.length, fixed_inputs(seen, self.scales))
        out = raw.reshape(len(seen), 3, AHEAD) * np.asarray(self.scales.target_sd)
        if self.scales.relative:
            out = out * seen.loss[:, None, None]
        return ordered(Bands(out[:, 0], out[:, 1], out[:, 2]))


def sequences(seen: Seen, scales: Scales) -> Array:
    """The network's sequences (N, LONGEST), right-aligned, zero before a history begins."""
    if scales.relative:
        values = np.log(np.maximum(seen.history, 1e-3))
        values = np.stack([values - values[:, -1:], np.broadcast_to(values[:, -1:], values.shape)], axis=2)
        values = (values - [0.0, scales.loss_mean]) / [scales.loss_sd, scales.loss_sd]
    else:
        values = ((seen.history - scales.loss_mean) / scales.loss_sd)[:, :, None]
    return np.where(np.isfinite(values), values, 0.0)


def fixed_inputs(seen: Seen, scales: Scales) -> Array:
    """The network's fixed inputs (N, 3)."""
    unit = (fixed_figures(seen) - np.asarray(scales.fixed_mean)) / np.asarray(scales.fixed_sd)
    return np.asarray(np.clip(unit, -FAR, FAR))


def fixed_figures(seen: Seen) -> Array:
    """Classes, logarithm of the samples, pruned share (N, 3)."""
    return np.column_stack([seen.fixed[:, 0], np.log(np.maximum(seen.fixed[:, 1], 1.0)), seen.fixed[:, 2]])


def forward(weights: Mapping[str, Array], values: Array, length: NDArray[np.int64], fixed: Array) -> Array:
    """The outputs (N, 15): torch's gate order input, forget, cell, output; short histories start late."""
    size = weights["lstm.weight_hh_l0"].shape[1]
    order = np.argsort(-length, kind="stable")  # longest first, so that those under way are the first rows
    ordered_length, ranked = length[order], values[order]
    hidden, cell = np.zeros((len(values), size)), np.zeros((len(values), size))
    known = ranked @ weights["lstm.weight_ih_l0"].T + (weights["lstm.bias_ih_l0"] + weights["lstm.bias_hh_l0"])
    back = weights["lstm.weight_hh_l0"].T
    halves = np.repeat([0.5, 0.5, 1.0, 0.5], size)  # sigmoid(x) is (1 + tanh(x / 2)) / 2: one call serves all gates
    steps = values.shape[1]
    for step in range(steps - int(length.max(initial=0)), steps):
        n = int((ordered_length >= steps - step).sum())
        gates = np.tanh((known[:n, step] + hidden[:n] @ back) * halves)
        into, forget, candidate, out = (gates[:, i * size : (i + 1) * size] for i in range(4))
        cell[:n] = 0.5 * ((1.0 + forget) * cell[:n] + (1.0 + into) * candidate)
        hidden[:n] = 0.5 * (1.0 + out) * np.tanh(cell[:n])
    hidden[order] = hidden.copy()
    branch = np.maximum(fixed @ weights["fixed.weight"].T + weights["fixed.bias"], 0.0)
    joined = np.concatenate([branch, hidden], axis=1)
    head = np.maximum(joined @ weights["head.weight"].T + weights["head.bias"], 0.0)
    return np.asarray(head @ weights["out.weight"].T + weights["out.bias"])
