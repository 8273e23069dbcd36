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

from ...core.curve import Array
from ..bands import Bands, ordered
from .features import AHEAD, Seen

WEIGHTS = (
    "fixed.weight", "fixed.bias", "lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.bias_ih_l0", "lstm.bias_hh_l0",
    "head.weight", "head.bias", "out.weight", "out.bias",
)  # fmt: skip


STEP_SD = 0.1
"""Steps of the logarithm of a loss are measured in these."""

FAR = 3.0
"""Fixed inputs further than this from what was seen in training count as this far."""


@dataclass(frozen=True)
class Scales:
    """How inputs and outputs are brought to unit size: means and deviations seen in training.

    `relative`: losses enter as logarithms with their steps from epoch to epoch, and outputs are shares of the newest
    loss.
    """

    loss_mean: float
    loss_sd: float
    fixed_mean: tuple[float, ...]
    fixed_sd: tuple[float, ...]
    target_sd: tuple[float, ...]
    relative: bool = False


@dataclass(frozen=True)
class Recurrent:
    """Weights and scales of one trained network; `cumulative`: outputs are l_(i+h) - l_i, else of single epochs."""

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
    """The network's sequences (N, LONGEST, inputs), right-aligned, zero before a history begins.

    What stands at an epoch does not depend on later ones, so that one pass over a curve serves all of its windows.
    """
    if scales.relative:
        levels = np.log(np.maximum(seen.history, 1e-3))
        steps = np.diff(levels, axis=1, prepend=np.nan)
        values = np.stack([steps / STEP_SD, (levels - scales.loss_mean) / scales.loss_sd], axis=2)
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
    order = np.argsort(-length, kind="stable")
    hidden = np.zeros((len(values), weights["lstm.weight_hh_l0"].shape[1]))
    with np.errstate(over="ignore"):  # a gate that is shut is 1 / infinity
        hidden[order] = _last_state(weights, values[order], length[order])
    branch = np.maximum(fixed @ weights["fixed.weight"].T + weights["fixed.bias"], 0.0)
    joined = np.concatenate([branch, hidden], axis=1)
    head = np.maximum(joined @ weights["head.weight"].T + weights["head.bias"], 0.0)
    return np.asarray(head @ weights["out.weight"].T + weights["out.bias"])


def _last_state(weights: Mapping[str, Array], values: Array, length: NDArray[np.int64]) -> NDArray[np.float32]:
    """The hidden state after the last step; rows come longest first, so that those under way are the first ones.

    Single precision, as the networks were trained in: three times as quick as double.
    """
    size, inputs, steps = weights["lstm.weight_hh_l0"].shape[1], values.shape[2], values.shape[1]
    # one exponential serves all gates: tanh(x) = 2 sigmoid(2 x) - 1, so the candidate's rows are doubled; one product
    # serves hidden state, inputs and bias, with the sign that the exponential of a sigmoid needs
    twice = -np.repeat([1.0, 1.0, 2.0, 1.0], size)
    bias = weights["lstm.bias_ih_l0"] + weights["lstm.bias_hh_l0"]
    parts = (weights["lstm.weight_hh_l0"].T, weights["lstm.weight_ih_l0"].T, bias[None])
    joined = (np.concatenate(parts) * twice).astype(np.float32)
    state = np.zeros((len(values), size + inputs + 1), dtype=np.float32)
    state[:, -1] = 1.0
    hidden, now = state[:, :size], state[:, size : size + inputs]
    cell = np.zeros((len(values), size), dtype=np.float32)
    room = np.empty((len(values), 4 * size), dtype=np.float32)
    for step in range(steps - int(length.max(initial=0)), steps):
        n = int((length >= steps - step).sum())
        now[:n] = values[:n, step]
        gates = np.matmul(state[:n], joined, out=room[:n])
        np.exp(gates, out=gates)
        gates += 1.0
        np.reciprocal(gates, out=gates)
        into, forget, candidate, out = (gates[:, at : at + size] for at in range(0, 4 * size, size))
        candidate *= 2.0
        candidate -= 1.0
        candidate *= into
        cell[:n] *= forget
        cell[:n] += candidate
        np.multiply(out, np.tanh(cell[:n]), out=hidden[:n])
    return hidden
