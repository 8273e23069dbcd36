"""Layers whose weight gradient follows from two small tensors: the input x and the error g at the output.

For a linear layer dW = g^T x, for a convolution the correlation of x and g. Neither needs the weights, so the
gradient can be formed at any later time, and as often as wanted.

Gradients are formed in blocks of rows (output channels) of about `BLOCK_BYTES`, whatever the policy, so that the
temporaries of an update stay small next to a large layer; a block's gradient needs no other row.

Paper: mcPipe section IV-C stores exactly these vectors. Deviation: there x and g are vectors of a dense layer and one
sample; here they are of a minibatch, and convolutions count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Tensors = dict[str, Tensor]
Rows = slice
"""A block of rows of a layer's parameters."""
BLOCK_BYTES = 2**21
"""About how large a block is. Convolutions prepare their input anew for every block, so half of this costs time."""
_LANES = 16
FEW_POSITIONS, LARGE_BYTES = 4, 2**16
"""Where an output channel has no more positions than this and the weights are large, gradients are one product of
columns: up to five times as fast as torch's own. Small layers stay with torch's, and so with autograd to the bit."""


@dataclass(frozen=True)
class Factors:
    """Input and output error of one layer for one minibatch."""

    inputs: Tensor
    errors: Tensor


def has_rule(layer: nn.Module) -> bool:
    """Whether `layer`'s gradients follow from its factors; other layers keep versions."""
    if type(layer) is nn.Linear:
        return True
    return type(layer) is nn.Conv2d and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)


def blocks(layer: nn.Module, weights: Tensors) -> tuple[Rows, ...]:
    """The rows of `layer` in blocks; one block where it has no factor rule or mixes its rows in groups."""
    rows = max((w.shape[0] for w in weights.values() if w.ndim), default=1)
    if not has_rule(layer) or getattr(layer, "groups", 1) != 1:
        return (slice(0, rows),)
    count = max(1, round(sum(w.nbytes for w in weights.values()) / BLOCK_BYTES))
    size = _LANES * -(-rows // (_LANES * count))
    return tuple(slice(begin, min(begin + size, rows)) for begin in range(0, rows, size))


def gradients(layer: nn.Module, factors: Factors, weights: Tensors, rows: Rows) -> Tensors:
    """The gradients of those `rows` of `layer`'s parameters; of `weights` only shapes are used."""
    inputs, errors = factors.inputs, factors.errors
    bias = "bias" in weights
    if isinstance(layer, nn.Linear):
        ins, outs = inputs.flatten(0, -2), errors.flatten(0, -2)[:, rows]
        return {"weight": outs.t() @ ins, **({"bias": outs.sum(0)} if bias else {})}
    assert isinstance(layer, nn.Conv2d)
    weight = weights["weight"][rows]
    if _few(layer, errors):
        channels = errors[:, rows].transpose(0, 1).flatten(1)
        product = (channels @ _columns(layer, inputs, errors)).view_as(weight)
        return {"weight": product, **({"bias": channels.sum(1)} if bias else {})}
    sizes = [weight.shape[0]] if bias else None
    geometry = (layer.stride, layer.padding, layer.dilation, False, [0, 0], layer.groups, [False, True, bias])
    _, *formed = torch.ops.aten.convolution_backward(errors[:, rows].contiguous(), inputs, weight, sizes, *geometry)
    return dict(zip(("weight", "bias") if bias else ("weight",), formed, strict=False))


def _few(layer: nn.Conv2d, errors: Tensor) -> bool:
    row = layer.in_channels * layer.kernel_size[0] * layer.kernel_size[1]
    large = layer.out_channels * row * errors.element_size() >= LARGE_BYTES
    return large and layer.groups == 1 and errors.shape[-2] * errors.shape[-1] <= FEW_POSITIONS


def _columns(layer: nn.Conv2d, inputs: Tensor, errors: Tensor) -> Tensor:
    """What each output position sees of the input, a row each, in the order of the weights."""
    (down, right), (spread_down, spread_right), (tall, wide) = layer.stride, layer.dilation, layer.kernel_size
    above, left = (int(edge) for edge in layer.padding)
    padded = F.pad(inputs, (left, left, above, above))
    sample, channel, row, column = padded.stride()
    shape = (len(inputs), errors.shape[-2], errors.shape[-1], inputs.shape[1], tall, wide)
    steps = (sample, row * down, column * right, channel, row * spread_down, column * spread_right)
    return padded.as_strided(shape, steps).reshape(shape[0] * shape[1] * shape[2], -1)


def column_bytes(layer: nn.Module, inputs: Tensor, errors: Tensor) -> int:
    """Bytes that a block's gradient needs beyond its own where it is formed from columns; only shapes count."""
    if not isinstance(layer, nn.Conv2d) or not _few(layer, errors):
        return 0
    above, left = (int(edge) for edge in layer.padding)
    padded = len(inputs) * inputs.shape[1] * (inputs.shape[2] + 2 * above) * (inputs.shape[3] + 2 * left)
    positions, reach = errors.shape[-2] * errors.shape[-1], layer.kernel_size[0] * layer.kernel_size[1]
    seen = len(inputs) * positions * inputs.shape[1] * reach
    return errors.nbytes + inputs.element_size() * (padded + seen)


def outputs(layer: nn.Module, inputs: Tensor, weights: Tensors) -> Tensor:
    """What a block of rows, given by its weights, adds to the layer's output: those columns or channels."""
    if isinstance(layer, nn.Linear):
        return F.linear(inputs, weights["weight"], weights.get("bias"))
    assert isinstance(layer, nn.Conv2d)
    return F.conv2d(
        inputs, weights["weight"], weights.get("bias"), layer.stride, layer.padding, layer.dilation, layer.groups
    )


def input_errors(layer: nn.Module, factors: Factors, weights: Tensors) -> Tensor:
    """The error at the layer's input, as autograd forms it."""
    errors = factors.errors
    if isinstance(layer, nn.Linear):
        return (errors.flatten(0, -2) @ weights["weight"]).view(factors.inputs.shape)
    assert isinstance(layer, nn.Conv2d)
    sizes = [layer.out_channels] if "bias" in weights else None
    geometry = (layer.stride, layer.padding, layer.dilation, False, [0, 0], layer.groups, [True, False, False])
    back: Tensor = torch.ops.aten.convolution_backward(errors, factors.inputs, weights["weight"], sizes, *geometry)[0]
    return back


def weighted(parts: Sequence[tuple[float, Factors]]) -> Factors:
    """Factors whose gradient is the weighted sum of the parts' gradients: one product instead of many."""
    inputs = torch.cat([factors.inputs for _, factors in parts])
    return Factors(inputs, torch.cat([factors.errors * scale for scale, factors in parts]))
