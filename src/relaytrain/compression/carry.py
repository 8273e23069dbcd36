"""The optimizer's state through pruning: momentum and moments follow the same kept indexes as their weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from ..core.errors import UsageError
from .prune import Kept

Mode = Literal["carry", "reset"]
StateDict = dict[str, Any]


def keep_values(before: Tensor, kept: Tensor) -> Tensor:
    """The values of `before` at the flat positions `kept`, in the shape of `kept`."""
    return before.reshape(-1)[kept.reshape(-1).to(before.device)].reshape(kept.shape).clone()


def carry_state(state: StateDict, names: Sequence[str], kept: Kept, *, mode: Mode = "carry") -> StateDict:
    """An optimizer's `state_dict()` as the pruned model's optimizer can load it; the given one is not touched.

    Args:
        state: as `optimizer.state_dict()` gives it before the handover.
        names: names of the optimizer's parameters in its own order (those of `model.named_parameters()`).
        kept: `Pruned.kept`.
        mode: `carry` slices every buffer that has its parameter's shape; `reset` starts with empty buffers.
    """
    if mode == "reset":
        return {"state": {}, "param_groups": _groups(state)}
    if mode != "carry":
        raise UsageError(f"mode: got {mode!r}, expected 'carry' or 'reset'")
    carried: dict[int, dict[str, Any]] = {}
    for index, buffers in state["state"].items():
        if not 0 <= index < len(names) or names[index] not in kept:
            raise UsageError(f"names: parameter {index} of the optimizer is not one of the {len(names)} pruned ones")
        carried[index] = {key: _carried(key, value, kept[names[index]], names[index]) for key, value in buffers.items()}
    return {"state": carried, "param_groups": _groups(state)}


def _carried(key: str, value: Any, kept: Tensor, name: str) -> Any:
    if not isinstance(value, Tensor):
        return value
    if value.ndim == 0:  # a step counter
        return value.clone()
    if value.ndim != kept.ndim or (kept.numel() and int(kept.max()) >= value.numel()):
        raise UsageError(
            f"{name}.{key}: shape {list(value.shape)} is not that of its parameter; use reset for this optimizer"
        )
    return keep_values(value, kept)


def _groups(state: StateDict) -> list[dict[str, Any]]:
    return [{k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in g.items()} for g in state["param_groups"]]
