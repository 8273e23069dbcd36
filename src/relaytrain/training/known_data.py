"""What can be known of data without a pass over them: a first batch, classes, the form of images."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from ..core.errors import ScenarioError
from ..data.dataset import Dataset
from ..data.held import held_of
from ..data.nested import Batch
from ..data.own import OwnData, Together, labels_of
from ..data.seeding import seeded
from .datasets import Sets
from .own_data import Data
from .step import inputs_of


def first_batch(data: Data | Together, size: int) -> Batch:
    """The first batch of a look at data, always the same one."""
    held = held_of(data)
    with seeded(0, held):
        return next(iter(held.ordered(size)))


def classes_of(data: Data | Together) -> int | None:
    """How many classes are present in some data, where they are known."""
    if isinstance(data, Dataset):
        return int((data.histogram() > 0).sum())
    parts = data.parts if isinstance(data, Together) else (data,)
    labels = [labels_of(part) if part.kind == "samples" else None for part in parts]
    known = [each for each in labels if each is not None]
    return len(np.unique(np.concatenate(known))) if known and len(known) == len(labels) else None


def image_form(sets: Sets, who: str) -> tuple[tuple[int, int, int], int]:
    """Shape of an image and number of classes, which our own families have to know."""
    every = [*sets.nodes.values(), sets.validation, sets.test]
    images = [data for data in every if isinstance(data, Dataset)]
    if isinstance(sets.validation, Dataset):
        return sets.validation.input, max(data.classes for data in images)
    labels = [labels_of(data) for data in every if isinstance(data, OwnData) and data.kind == "samples"]
    inputs = inputs_of(first_batch(sets.validation, 2))
    if not isinstance(inputs, Tensor) or inputs.ndim != 4 or not any(each is not None for each in labels):
        raise ScenarioError(
            f"{who} needs images (n, channels, height, width) and the number of classes, which data of your own do not "
            "tell; give the network as factory, or Datasets of images with `targets`"
        )
    channels, height, width = inputs.shape[1:]
    return (channels, height, width), max(int(each.max()) + 1 for each in labels if each is not None)
