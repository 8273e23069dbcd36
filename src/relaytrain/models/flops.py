"""FLOPs, parameters and bytes of a model, per sample of a training step.

A training step multiplies three times: forward, gradient of the weights, gradient of the inputs. The last is not
computed for the first layer, whose input needs no gradient, so the first convolution counts twice and all others
three times. One multiply-add is two FLOPs; batch norm, activations and pools are not counted.

torch's own counter is right but for grouped convolutions, whose backward pass it counts as if they were not grouped
(torch 2.13: 16 times too much for 32 depthwise channels), so that one formula is replaced here. It sees every
operator, including those a user's forward calls without a layer.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

from ..compression.channels import clean_copy, parameter_count
from ..core.errors import UsageError
from ..data.nested import Example, called, mapped, tensors

BATCHES = (2, 4)
"""Sizes of the two counting passes; what does not grow with the batch cancels between them."""


@dataclass(frozen=True)
class Counts:
    """Per sample: FLOPs of a training step, of a forward pass, bytes kept for backward. Of the whole: weights."""

    train_flops: int
    forward_flops: int
    parameters: int
    weight_bytes: int
    activation_bytes: int


def count(model: nn.Module, example: Example) -> Counts:
    """Count `model` on inputs shaped like `example` (a batch); the model itself is not touched.

    The pass runs without memory on torch's meta device where the model allows it, else on the CPU.
    """
    first = next(tensors(example), None)
    if first is None or first.ndim < 2 or len(first) == 0:
        shape = "no tensor" if first is None else f"shape {list(first.shape)}"
        raise UsageError(f"example: {shape}, expected a batch of at least one input")
    try:
        return _counts(model, "meta", called, lambda size: _batch_of(example, size, "meta"))
    except (NotImplementedError, RuntimeError):  # data-dependent code has no meta form
        return _counts(model, "cpu", called, lambda size: _batch_of(example, size, "cpu"))


def count_step(model: nn.Module, loss: Callable[[nn.Module, Any], Tensor], batch: Callable[[int], Any]) -> Counts:
    """Count `model` in a training step of the user's own; the model itself is not touched.

    Args:
        model: what is trained.
        loss: the loss of a batch.
        batch: a batch of so many samples.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about processors that are not here
        with torch.backends.mkldnn.flags(enabled=False):  # its LSTM would count nothing
            return _counts(model, "cpu", loss, batch)


def trainable(model: nn.Module) -> int:
    """How many parameters training changes."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def weight_bytes(model: nn.Module) -> int:
    """Bytes of the state that travels: parameters and buffers."""
    return sum(t.numel() * t.element_size() for t in model.state_dict().values())


def _counts(
    model: nn.Module, device: str, forward: Callable[[nn.Module, Any], Any], batch: Callable[[int], Any]
) -> Counts:
    """What a sample adds to `forward` of a batch and its backward."""
    small, large = (_counted(clean_copy(model).to(device).train(), forward, batch(size)) for size in BATCHES)
    step = BATCHES[1] - BATCHES[0]
    train, forwards, kept = (max(0, b - a) // step for a, b in zip(small, large, strict=True))
    return Counts(train, forwards, parameter_count(model), weight_bytes(model), kept)


def _counted(model: nn.Module, forward: Callable[[nn.Module, Any], Any], batch: Any) -> tuple[int, int, int]:
    """FLOPs of forward and backward, FLOPs of forward, bytes kept between them, for one batch."""
    mapping = {torch.ops.aten.convolution_backward: _conv_backward_flops}
    weights = {t.untyped_storage()._cdata for t in model.state_dict(keep_vars=True).values()}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            kept[storage._cdata] = storage
        return tensor

    with torch.random.fork_rng(devices=[]), FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            outputs = forward(model, batch)
        forward_flops = counter.get_total_flops()
        kept_bytes = sum(storage.nbytes() for storage in kept.values())
        heads = [t for t in tensors(outputs) if t.requires_grad]
        if not heads:
            raise UsageError("model: its output has no gradient, so it cannot be trained; does it have parameters?")
        torch.autograd.backward(heads, [torch.ones_like(head) for head in heads])
    return counter.get_total_flops(), forward_flops, kept_bytes


def _batch_of(example: Example, batch: int, device: str) -> Example:
    """Zeros (false, token 0) of the example's kinds and shapes for a batch of another size."""
    rows = len(next(tensors(example)))

    def zeros(tensor: Tensor) -> Tensor:
        shape = (batch, *tensor.shape[1:]) if tensor.ndim and len(tensor) == rows else tensor.shape
        return torch.zeros(shape, dtype=tensor.dtype, device=device)

    return mapped(example, zeros)


def _conv_backward_flops(
    grad_shape: list[int],
    input_shape: list[int],
    weight_shape: list[int],
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    _output_padding: Any,
    _groups: int,
    output_mask: list[bool],
    **_: Any,
) -> int:
    """Each of the two gradients takes as many multiply-adds as the forward pass, grouped or not."""
    forward = conv_flop_count(input_shape, weight_shape, grad_shape, transposed=transposed)
    return int(forward) * (bool(output_mask[0]) + bool(output_mask[1]))
