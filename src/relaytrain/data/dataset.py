"""`Dataset`: images, labels and the number of classes, checked once when made."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ScenarioError

Images = NDArray[np.float32]
Labels = NDArray[np.int64]
Indexes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images (n, channels, height, width) float32, mostly in [0, 1]; labels (n,) int64 in [0, classes).

    `name` says where it comes from, for messages. A part of a dataset keeps the number of classes of the whole.
    """

    images: Images
    labels: Labels
    classes: int
    name: str = "data"

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        if images.ndim != 4 or images.dtype != np.float32:
            seen = f"{images.dtype} of shape {images.shape}"
            raise ScenarioError(f"{self.name}: images are {seen}, expected float32 (n, channels, height, width)")
        if labels.shape != (len(images),) or labels.dtype != np.int64:
            raise ScenarioError(
                f"{self.name}: labels are {labels.dtype} of shape {labels.shape}, expected int64 ({len(images)},)"
            )
        if len(images) == 0:
            raise ScenarioError(f"{self.name}: no images at all; give it some, or more to what it is split off from")
        if labels.min() < 0 or labels.max() >= self.classes:
            raise ScenarioError(
                f"{self.name}: labels run from {labels.min()} to {labels.max()}, expected 0 to {self.classes - 1}"
            )
        bad = ~np.isfinite(images).all(axis=(1, 2, 3))
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            raise ScenarioError(f"{self.name}: {bad.sum()} images hold NaN or infinity, the first is number {first}")

    def __len__(self) -> int:
        return len(self.images)

    @property
    def input(self) -> tuple[int, int, int]:
        """Channels, height, width of one image."""
        _, channels, height, width = self.images.shape
        return channels, height, width

    def part(self, indexes: Indexes, name: str | None = None) -> Dataset:
        """The images at `indexes`, in that order."""
        return Dataset(self.images[indexes], self.labels[indexes], self.classes, self.name if name is None else name)

    def histogram(self) -> NDArray[np.int64]:
        """How many images of each class."""
        return np.bincount(self.labels, minlength=self.classes).astype(np.int64)

    def digest(self) -> str:
        """SHA-256 over shape, classes, labels and pixels: equal data, equal digest."""
        total = hashlib.sha256(f"{self.images.shape}/{self.classes}".encode())
        total.update(np.ascontiguousarray(self.labels).tobytes())
        total.update(np.ascontiguousarray(self.images).tobytes())
        return total.hexdigest()


def from_arrays(
    images: NDArray[np.generic], labels: NDArray[np.generic], *, name: str, classes: int | None = None
) -> Dataset:
    """A dataset from arrays of any number type; the classes are counted unless given, and one class is refused."""
    if np.asarray(labels).dtype.kind not in "iub":
        raise ScenarioError(f"{name}: labels are {labels.dtype}, expected whole numbers")
    whole = np.ascontiguousarray(labels, dtype=np.int64)
    if len(whole) == 0:
        raise ScenarioError(f"{name}: no images at all; give it some, or more to what it is split off from")
    if len(np.unique(whole)) < 2:
        raise ScenarioError(f"{name}: all {len(whole)} images are of class {whole[0]}; expected at least two classes")
    count = classes if classes is not None else int(whole.max()) + 1
    return Dataset(np.ascontiguousarray(images, dtype=np.float32), whole, count, name)


def select(data: Dataset, classes: Sequence[int]) -> Dataset:
    """Only the images of these classes, renumbered 0, 1, ... in the order given."""
    if len(set(classes)) != len(classes) or not classes:
        raise ScenarioError(f"{data.name}: classes {list(classes)}, expected each once and at least one")
    missing = [c for c in classes if not (data.labels == c).any()]
    if missing:
        raise ScenarioError(f"{data.name}: no image of class {missing[0]}; it has {data.classes} classes")
    number = np.full(data.classes, -1, dtype=np.int64)
    number[list(classes)] = np.arange(len(classes))
    chosen = np.flatnonzero(number[data.labels] >= 0)
    return Dataset(data.images[chosen], number[data.labels[chosen]], len(classes), data.name)


def union(parts: Sequence[Dataset]) -> Dataset:
    """Several sets of one image shape as one: the classes of the second come after those of the first, and so on.

    Paper: PACT section VI-A adds classes of CIFAR-100 to those of CIFAR-10.
    """
    if not parts:
        raise ScenarioError("union: got no dataset, expected at least one")
    shapes = {part.input for part in parts}
    if len(shapes) > 1:
        raise ScenarioError(f"union: images of shapes {sorted(shapes)}, expected one shape")
    starts = np.concatenate([[0], np.cumsum([part.classes for part in parts])]).astype(np.int64)
    labels = np.concatenate([part.labels + start for part, start in zip(parts, starts, strict=False)])
    images = np.concatenate([part.images for part in parts])
    return Dataset(images, labels, int(starts[-1]), " + ".join(part.name for part in parts))
