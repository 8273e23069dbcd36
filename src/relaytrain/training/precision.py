"""Mixed precision: the forward pass in bf16 or fp16 where torch allows it, weights and updates in float32.

Gradients of fp16 are scaled, so that small ones do not vanish; the scale is state, kept in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from .settings import Precision

_KINDS = {"bf16": torch.bfloat16, "fp16": torch.float16}


def lowered(precision: Precision, device: str) -> AbstractContextManager[object]:
    """Inside it a forward pass and its loss are of `precision`."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.partition(":")[0], dtype=_KINDS[precision])


def scaler_of(precision: Precision, device: str, state: Mapping[str, Tensor]) -> torch.amp.GradScaler | None:
    """What scales the loss of fp16, where `state` left it; None where nothing has to be scaled."""
    if precision != "fp16":
        return None
    scaler = torch.amp.GradScaler(device.partition(":")[0])
    if state:
        growth = int(state["growth_tracker"])
        scaler.load_state_dict(scaler.state_dict() | {"scale": float(state["scale"]), "_growth_tracker": growth})
    return scaler


def scaler_state(scaler: torch.amp.GradScaler | None) -> dict[str, Tensor]:
    """The inverse: the scale, and the steps since it last changed."""
    if scaler is None:
        return {}
    state = scaler.state_dict()
    growth = torch.tensor(state["_growth_tracker"], dtype=torch.int64)
    return {"scale": torch.tensor(state["scale"], dtype=torch.float32), "growth_tracker": growth}


def least_scale(states: list[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The scale that several nodes go on with: the smallest, which overflowed nowhere, with the fewest steps."""
    known = [state for state in states if state]
    if not known:
        return {}
    scale = min(known, key=lambda state: (float(state["scale"]), int(state["growth_tracker"])))
    return dict(scale)
