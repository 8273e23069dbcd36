"""Batches of any kind: tensors in tuples, lists, dicts, named tuples and objects with `to`, as deep as they come.

A batch is whatever a loader gives. What has to be known of one is how many samples it holds, where its tensors are,
and of which shapes; nothing here asks what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

Batch = Any
"""What a loader gives at a time."""
Example = Any
"""What a module is called with to learn its structure: a tensor, or a dict, tuple or list of them."""


def called(model: nn.Module, example: Example) -> Any:
    """What `model` gives for `example`: a dict goes by keyword, a tuple or list by position."""
    if isinstance(example, Mapping):
        return model(**example)
    if isinstance(example, tuple | list):
        return model(*example)
    return model(example)


def mapped(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    """`batch` with every tensor changed; what holds them stays of its kind, what is no tensor stays as it is."""
    if isinstance(batch, Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        changed = {key: mapped(value, change) for key, value in batch.items()}
        return changed if type(batch) is dict else _remade(batch, changed)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(mapped(value, change) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)([mapped(value, change) for value in batch])
    return batch


def _remade(batch: Mapping[Any, Any], changed: dict[Any, Any]) -> Batch:
    try:
        return type(batch)(changed)  # type: ignore[call-arg]  # such as the encodings of tokenizers
    except TypeError:
        return changed


def moved(batch: Batch, device: str) -> Batch:
    """`batch` on `device`; itself where everything is on the processor anyway."""
    if device == "cpu":
        return batch
    if not isinstance(batch, Tensor | Mapping | list | tuple) and hasattr(batch, "to"):
        return batch.to(device)
    return mapped(batch, lambda tensor: tensor.to(device))


def tensors(batch: Batch) -> Iterator[Tensor]:
    """Every tensor of `batch`, in order."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        yield from (tensor for value in batch.values() for tensor in tensors(value))
    elif isinstance(batch, list | tuple):
        yield from (tensor for value in batch for tensor in tensors(value))


def rows(batch: Batch) -> int:
    """How many samples a batch holds: the length of its first tensor; of one without any, 1."""
    if type(batch) in (list, tuple) and batch and isinstance(batch[0], Tensor) and batch[0].ndim:
        return len(batch[0])
    return next((len(tensor) for tensor in tensors(batch) if tensor.ndim), 1)


def resized(batch: Batch, count: int) -> Batch:
    """`count` samples of `batch`, repeated from the start where it has fewer; what is not per sample stays."""
    held = rows(batch)

    def chosen(tensor: Tensor) -> Tensor:
        if tensor.ndim == 0 or len(tensor) != held:
            return tensor
        return tensor[torch.arange(count, device=tensor.device) % held]

    return mapped(batch, chosen)


def shapes(batch: Batch) -> str:
    """Kind and shape of a batch in words, without the number of its samples: what may differ between batches."""
    if isinstance(batch, Tensor):
        return f"{str(batch.dtype).removeprefix('torch.')}{list(batch.shape[1:])}"
    if isinstance(batch, Mapping):
        return "{" + ", ".join(f"{key}: {shapes(value)}" for key, value in batch.items()) + "}"
    if isinstance(batch, list | tuple):
        return "(" + ", ".join(map(shapes, batch)) + ")"
    return type(batch).__name__


def without_number(batch: Batch) -> bool:
    """Whether a tensor of the batch holds NaN or infinity."""
    return any(not bool(tensor.isfinite().all()) for tensor in tensors(batch) if tensor.is_floating_point())
