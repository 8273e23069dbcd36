"""Data that a user's function gives: called, recognised, divided among nodes, fetched by other processes.

| `partition` | the function is called | and returns |
|---|---|---|
| "sizes", "iid", "by-class", "dirichlet", "datasets" | with "train" and with "test" | one set, divided by position |
| "parts" | without arguments | sets by the name of the part |
| "by-node" | with each node's name, "validation" and "test" | that one's data |

A set is (images, labels), which are kept in memory, or anything that `data.own` knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ScenarioError
from ..core.user_code import UserCodeError, defined_at, user_code
from ..data.dataset import Dataset, from_arrays
from ..data.own import Origin, OwnData, Together, kind_of, labels_of, own_data

Data = Dataset | OwnData
"""What a node, or a set apart, holds: images in memory or data of the user's own."""


def function_of(source: str, folder: Path | None) -> Callable[..., Any]:
    """What a reference names, if it can be called; runs the user's code."""
    from ..scenario.resolve import resolve

    value = resolve(source, folder)
    if not callable(value):
        raise ScenarioError(f"data.source: {source} is a {type(value).__name__}, expected a function")
    function: Callable[..., Any] = value
    return function


def called(origin: Origin, folder: Path | None) -> Any:
    """What the function of `origin` returns."""
    function = function_of(origin.source, folder)
    with user_code(origin.source):
        return function() if origin.argument is None else function(origin.argument)


def fetched(origin: Origin, folder: Path | None) -> OwnData:
    """The data of `origin`, in whatever process this is; a function that gives iterators is called for each pass."""

    def again() -> Any:
        value = called(origin, folder)
        return value if origin.part is None else value[origin.part]

    return recognised(again(), _words(origin), origin, again)


def recognised(value: Any, name: str, origin: Origin | None, again: Callable[[], Any] | None = None) -> OwnData:
    """Data of the user's own out of what a function returned."""
    if kind_of(value) is None and not callable(value):
        place = None if origin is None else origin.source
        raise UserCodeError(
            f"data.source: {name} returned a {type(value).__name__}, expected (images, labels), a Dataset, a "
            f"DataLoader, or an iterable of batches; correct it in {place or name}"
        )
    return own_data(value, name, origin, again)


def data_of(value: Any, name: str, origin: Origin | None = None, again: Callable[[], Any] | None = None) -> Data:
    """Images in memory where `value` is (images, labels), else data of the user's own."""
    if isinstance(value, Dataset):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        words = name if origin is None else f"{origin.source} {origin.part or origin.argument}"
        return from_arrays(np.asarray(value[0]), np.asarray(value[1]), name=words)
    return recognised(value, name, origin, again)


def by_node(source: str, nodes: list[str], folder: Path | None) -> dict[str, Data]:
    """Data of every node, of "validation" and of "test", by calling `source` with each name."""
    parts: dict[str, Data] = {}
    for name in (*nodes, "validation", "test"):
        origin = Origin(source, name)
        value = called(origin, folder)
        if value is None:
            place = defined_at(function_of(source, folder)) or source
            raise UserCodeError(f"{place}: {source}({name!r}) returned nothing, expected the data of {name}")
        parts[name] = data_of(value, _words(origin), origin, partial(called, origin, folder))
    return parts


def divisible_labels(data: Data, why: str) -> NDArray[np.int64]:
    """Classes of every sample.

    Raises:
        ScenarioError: the data of a user's own do not have them.
    """
    if isinstance(data, Dataset):
        return data.labels
    labels = labels_of(data)
    if labels is None:
        raise ScenarioError(
            f"data.partition: {why} divides by class, and {data.name} has neither `targets` nor `labels` of whole "
            "numbers; give your Dataset one, or use iid or sizes"
        )
    return labels


def all_together(parts: list[OwnData]) -> OwnData | Together:
    """Data of several nodes as one: samples of one dataset stay one, others follow each other."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    if all(part.value is first.value and part.indexes is not None for part in parts):
        return OwnData(first.value, first.name, np.concatenate([p.indexes for p in parts if p.indexes is not None]))
    return Together(tuple(parts))


def from_python(data: Mapping[str, Any]) -> dict[str, Data]:
    """What a caller of `rt.train` gives, by name: (images, labels), or data of one's own."""
    arrays = {name: value for name, value in data.items() if isinstance(value, tuple) and len(value) == 2}
    every = [np.asarray(labels) for _, labels in arrays.values()]
    classes = max((int(each.max()) + 1 for each in every if each.size and each.dtype.kind in "iub"), default=None)
    parts: dict[str, Data] = {}
    for name, value in data.items():
        if name in arrays:
            images, labels = (np.asarray(part) for part in value)
            parts[name] = from_arrays(images, labels, name=name, classes=classes)
        else:
            parts[name] = value if isinstance(value, Dataset) else own_data(value, f"data of {name}")
    kinds = {type(value) for value in parts.values()}
    if len(kinds) > 1:
        arrayed = next(name for name, value in parts.items() if isinstance(value, Dataset))
        raise ScenarioError(
            f"data: {arrayed} is (images, labels) and others are not; give all of them as arrays, or all as Datasets "
            "(torch.utils.data.TensorDataset makes one of arrays)"
        )
    return parts


def _words(origin: Origin) -> str:
    """What the data of `origin` are called in messages: their reference comes last."""
    what = origin.part or origin.argument
    return origin.source if what is None else f"{what} of {origin.source}"
