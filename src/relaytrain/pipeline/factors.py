"""Layers whose weight gradient follows from two small tensors: the input x and the error g at the output.

For a linear layer dW = g^T x, for a convolution the correlation of x and g. Neither needs the weights, so the
gradient can be formed at any later time, and as often as wanted.

Paper: mcPipe section IV-C stores exactly these vectors. Deviation: there x and g are vectors of a dense layer and one
sample; here they are of a minibatch, and convolutions count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Factors:
    """Input and output error of one layer for one minibatch."""

    inputs: Tensor
    errors: Tensor

    @property
    def size_bytes(self) -> int:
        """Bytes of both."""
        return self.inputs.nbytes + self.errors.nbytes


def has_rule(layer: nn.Module) -> bool:
    """Whether `layer`'s gradients follow from its factors; other layers keep versions."""
    if type(layer) is nn.Linear:
        return True
    return type(layer) is nn.Conv2d and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)


def gradients(layer: nn.Module, factors: Factors, weights: Tensors) -> Tensors:
    """The gradients of `layer`'s parameters; of `weights` only shapes are used."""
    inputs, errors = factors.inputs, factors.errors
    found: Tensors = {}
    if isinstance(layer, nn.Linear):
        rows, error_rows = inputs.flatten(0, -2), errors.flatten(0, -2)
        found["weight"] = (rows.t() @ error_rows).t()  # autograd's own order of the product: equal to the last bit
        if "bias" in weights:
            found["bias"] = error_rows.sum(0)
        return found
    assert isinstance(layer, nn.Conv2d)
    bias = "bias" in weights
    sizes = [layer.out_channels] if bias else None
    geometry = (layer.stride, layer.padding, layer.dilation, False, [0, 0], layer.groups, [False, True, bias])
    results = torch.ops.aten.convolution_backward(errors, inputs, weights["weight"], sizes, *geometry)
    found["weight"] = results[1]
    if bias:
        found["bias"] = results[2]
    return found


def weighted(parts: Sequence[tuple[float, Factors]]) -> Factors:
    """Factors whose gradient is the weighted sum of the parts' gradients: one product instead of many."""
    inputs = torch.cat([factors.inputs for _, factors in parts])
    return Factors(inputs, torch.cat([factors.errors * scale for scale, factors in parts]))
