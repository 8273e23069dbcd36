"""The optimizer's state through pruning: momentum and moments follow the same kept indexes as their weights."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from .channels import Kept


def carry_optimizer(state: Mapping[str, Tensor], kept: Kept) -> dict[str, Tensor]:
    """Optimizer state (`BUFFER/PARAMETER`) after pruning: buffers follow the kept positions, counters stay."""
    return {
        key: keep_values(tensor, kept[key.partition("/")[2]]) if tensor.ndim else tensor.clone()
        for key, tensor in state.items()
    }


def keep_values(before: Tensor, kept: Tensor) -> Tensor:
    """The values of `before` at the flat positions `kept`, in the shape of `kept`."""
    return before.reshape(-1)[kept.reshape(-1).to(before.device)].reshape(kept.shape).clone()
