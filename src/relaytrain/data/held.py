"""A node's data become batches here, whatever they are: `Held` is the road, images in memory its fast lane.

    for batch in held.shuffled(size, epoch):     # a pass of training, in the order that torch's random state gives
    for batch in held.ordered(size):             # a look at all of it

`own.OwnData` is the same road for what users bring: their `Dataset`, `DataLoader` or iterable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from ..costs.profiled import minibatches
from .batches import batches
from .dataset import Dataset
from .nested import Batch

Span = tuple[int, int]
"""Rows from the first to before the second."""


class Held(Protocol):
    """What a node holds, as batches."""

    @property
    def samples(self) -> int | None:
        """How many samples a pass goes over; None where only the pass itself can tell."""
        ...

    def batches(self, size: int) -> int | None:
        """How many batches a pass has; None where only the pass itself can tell."""
        ...

    def shuffled(self, size: int, epoch: int = 1) -> Iterable[Batch]:
        """One pass of training."""
        ...

    def ordered(self, size: int) -> Iterable[Batch]:
        """All of it, for a look."""
        ...

    def reseed(self, seed: int) -> None:
        """Before a pass: what draws from generators of its own draws from this seed."""
        ...

    def spans(self, chosen: Sequence[Span]) -> Held:
        """Only these rows."""
        ...

    @property
    def place(self) -> str:
        """File and line, or name, of what gives the data: the beginning of a message about them."""
        ...


@dataclass(frozen=True, eq=False)
class InMemory:
    """Images and labels as tensors, on the device that trains."""

    images: Tensor = field(repr=False)
    labels: Tensor = field(repr=False)

    @classmethod
    def of(cls, data: Dataset, device: str = "cpu") -> InMemory:
        """A set of images, on a device as a whole."""
        return cls(tensor_of(data.images).to(device), tensor_of(data.labels).to(device))

    @property
    def samples(self) -> int:
        """All of them."""
        return len(self.labels)

    def batches(self, size: int) -> int:
        """A lone last image joins the batch before it."""
        return minibatches(self.samples, size)

    def shuffled(self, size: int, epoch: int = 1) -> Iterator[Batch]:
        """Batches of a random order; a last one of a single image joins the one before, since batch norm needs two."""
        order = batches(len(self.labels), size)
        return zip(map(self.images.__getitem__, order), map(self.labels.__getitem__, order), strict=True)

    def ordered(self, size: int) -> Iterator[Batch]:
        """From the first to the last."""
        for start in range(0, len(self.labels), size):
            yield self.images[start : start + size], self.labels[start : start + size]

    def reseed(self, seed: int) -> None:
        """Nothing: it draws from torch's random state alone."""

    def spans(self, chosen: Sequence[Span]) -> InMemory:
        """Copies of these rows."""
        rows = [slice(*span) for span in chosen]
        return InMemory(torch.cat([self.images[at] for at in rows]), torch.cat([self.labels[at] for at in rows]))

    @property
    def place(self) -> str:
        """Arrays say nothing of where they come from."""
        return "data"


@dataclass(frozen=True, eq=False)
class FixedBatches:
    """Batches at hand, always the same ones: for timing and for trying things out."""

    every: tuple[Batch, ...]
    samples: int | None = None

    def batches(self, size: int) -> int:
        """As many as there are."""
        return len(self.every)

    def shuffled(self, size: int, epoch: int = 1) -> Iterator[Batch]:
        """As they are."""
        yield from self.every

    def ordered(self, size: int) -> Iterator[Batch]:
        """As they are."""
        yield from self.every

    def reseed(self, seed: int) -> None:
        """Nothing is drawn."""

    def spans(self, chosen: Sequence[Span]) -> FixedBatches:
        """Batches are not rows: all of them."""
        return self

    @property
    def place(self) -> str:
        """Whoever gave them knows."""
        return "data"


def held_of(data: Dataset | Held, device: str = "cpu") -> Held:
    """What holds `data`: images go to the device as a whole, other data batch by batch."""
    return InMemory.of(data, device) if isinstance(data, Dataset) else data


def tensor_of(array: NDArray[Any]) -> Tensor:
    """The array as a tensor, without a copy where torch may write to it."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())
