"""The regression network of a handover's loss change, with numpy alone; `paper` trains it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.curve import Array
from ..bands import Bands, ordered

FAR = 4.0
"""Inputs further than this from what was seen in training, in standard deviations, count as this far."""


def unit_inputs(rows: Array, mean: Array, scale: Array) -> Array:
    """Rows of inputs of unit size; what training has never seen (a kind of switch, a node set) stays within bounds."""
    return np.asarray(np.clip((np.asarray(rows, dtype=np.float64) - mean) / scale, -FAR, FAR))


@dataclass(frozen=True)
class ChangeNet:
    """Fully connected layers with ReLU between them: inputs of unit size -> expected value and two quantiles."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    input_mean: Array
    input_sd: Array
    target_mean: float
    target_sd: float

    def bands(self, rows: Array) -> Bands:
        """Expected value, 0.05 and 0.95 quantiles (N,) of the loss change for rows of inputs (N, F)."""
        values = unit_inputs(rows, self.input_mean, self.input_sd)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = values @ weight.T + bias
            if i < len(self.weights) - 1:
                values = np.maximum(values, 0.0)
        values = values * self.target_sd + self.target_mean
        return ordered(Bands(values[:, 0], values[:, 1], values[:, 2]))
