"""How a module is called with an example: a tensor as its input, a dict by keyword, a tuple or list by position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from .nested import mapped, tensors

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
    return list(tensors(value))


def changed(example: Example, change: Callable[[Tensor], Tensor]) -> Example:
    """`example` with every tensor changed."""
    return mapped(example, change)
