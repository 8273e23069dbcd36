"""How a module is called with an example: a tensor as its input, a dict by keyword, a tuple or list by position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

Example = Any
"""What a module is called with to learn its structure: a tensor, or a dict, tuple or list of them."""


def called(model: nn.Module, example: Example) -> Any:
    """What `model` gives for `example`."""
    if isinstance(example, Mapping):
        return model(**example)
    if isinstance(example, tuple | list):
        return model(*example)
    return model(example)


def tensors_in(value: Any) -> list[Tensor]:
    """Every tensor in an example or an output, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [tensor for item in value.values() for tensor in tensors_in(item)]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


def changed(example: Example, change: Callable[[Tensor], Tensor]) -> Example:
    """`example` with every tensor changed."""
    if isinstance(example, Tensor):
        return change(example)
    if isinstance(example, Mapping):
        return {key: changed(value, change) for key, value in example.items()}
    if isinstance(example, list | tuple):
        return type(example)(changed(value, change) for value in example)
    return example
