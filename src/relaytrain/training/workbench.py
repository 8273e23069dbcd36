"""Modules kept from task to task: building one takes longer than loading its weights."""

from __future__ import annotations

import threading
from collections import OrderedDict

from torch import nn

from ..models.rebuild import Resolve, skeleton
from ..models.spec import FamilySpec
from .checkpoint import Checkpoint

KEPT = 2
"""Versions kept per thread: the present one, and one more around a handover."""

_bench = threading.local()


def loaded(checkpoint: Checkpoint, *, resolve: Resolve | None = None, device: str = "cpu") -> nn.Module:
    """A module with the checkpoint's weights in eval mode, for use until the next call in this thread.

    Modules of our families are used again: their whole state is in the checkpoint. A user's own may keep more about
    itself, so it is built anew every time.
    """
    if not isinstance(checkpoint.spec, FamilySpec):
        return checkpoint.model(resolve=resolve).to(device)
    kept: OrderedDict[tuple[FamilySpec, str], nn.Module] | None = getattr(_bench, "kept", None)
    if kept is None:
        kept = _bench.kept = OrderedDict()
    key = checkpoint.spec, device
    model = kept.pop(key, None) or skeleton(checkpoint.spec).to_empty(device=device)
    kept[key] = model
    while len(kept) > KEPT:
        kept.popitem(last=False)
    model.load_state_dict(checkpoint.weights, strict=True)
    for parameter in model.parameters():
        parameter.grad = None
    return model.eval()
