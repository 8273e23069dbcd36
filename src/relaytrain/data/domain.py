"""Images as another camera sees them (contrast inverted, shifted by a pixel, noisy), smaller, or standardised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..core.errors import ScenarioError
from .dataset import Dataset

MOST_SHRINK = 4096


@dataclass(frozen=True)
class Domain:
    """What a camera elsewhere does to images in [0, 1]; `inverted` is the share of them with inverted contrast."""

    inverted: float = 1.0
    shift: int = 1
    noise: float = 0.05

    def __post_init__(self) -> None:
        if not 0.0 <= self.inverted <= 1.0 or not self.noise >= 0.0 or self.shift < 0:
            raise ScenarioError(f"domain: {self}, expected inverted in [0, 1], shift and noise >= 0")


def shifted(data: Dataset, domain: Domain, *, seed: int) -> Dataset:
    """`data` as seen in `domain`, same labels in the same order; images move to the right, the left edge fills up."""
    rng = np.random.default_rng(seed)
    images = data.images.copy()
    chosen = rng.permutation(len(data))[: round(domain.inverted * len(data))]
    images[chosen] = 1.0 - images[chosen]
    if domain.shift:
        wide = np.pad(images, ((0, 0), (0, 0), (0, 0), (domain.shift, 0)), mode="edge")
        images = wide[..., : images.shape[3]]
    noisy = images + domain.noise * rng.standard_normal(images.shape).astype(np.float32)
    return replace(data, images=np.clip(noisy, 0.0, 1.0).astype(np.float32), name=f"{data.name} (shifted)")


def shrink(data: Dataset, factor: int) -> Dataset:
    """Images `factor` times smaller by averaging squares of pixels; 32x32 and factor 2 give 16x16."""
    channels, height, width = data.input
    if factor < 1 or height % factor or width % factor:
        raise ScenarioError(f"shrink: factor {factor} does not divide {height}x{width}")
    blocks = data.images.reshape(len(data), channels, height // factor, factor, width // factor, factor)
    return replace(data, images=blocks.mean(axis=(3, 5), dtype=np.float32))


def standardised(data: Dataset, like: Dataset) -> Dataset:
    """Every channel shifted and scaled by mean and deviation of `like`."""
    return Preprocessing.standardising(like).apply(data)


@dataclass(frozen=True)
class Preprocessing:
    """What is done to raw images, as a source gives them, before a network sees them.

    They become `shrink` times smaller by averaging squares of pixels, then every channel is (x - mean) / deviation, in
    float64, given to the network as float32. None for both: values stay as they are.
    """

    shrink: int = 1
    mean: tuple[float, ...] | None = None
    deviation: tuple[float, ...] | None = None

    @classmethod
    def standardising(cls, like: Dataset, *, shrink: int = 1) -> Self:
        """With mean and deviation of the channels of `like`; a channel that is constant keeps its scale within 1e-6."""
        mean = like.images.mean(axis=(0, 2, 3), dtype=np.float64)
        deviation = like.images.std(axis=(0, 2, 3), dtype=np.float64)
        return cls(shrink, tuple(mean.tolist()), tuple(np.maximum(deviation, 1e-6).tolist()))

    @property
    def nothing(self) -> bool:
        """Raw images go into the network as they are."""
        return self.shrink == 1 and self.mean is None

    def apply(self, data: Dataset) -> Dataset:
        """`data` as the network sees it."""
        smaller = shrink(data, self.shrink) if self.shrink > 1 else data
        if self.mean is None or self.deviation is None:
            return smaller
        mean, deviation = (np.array(values)[:, None, None] for values in (self.mean, self.deviation))
        return replace(smaller, images=((smaller.images - mean) / deviation).astype(np.float32))

    def raw_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a raw image for a network whose input has `shape`."""
        return shape if self.shrink == 1 else (shape[0], *(size * self.shrink for size in shape[1:]))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        mean, deviation = (None if values is None else list(values) for values in (self.mean, self.deviation))
        return {"shrink": self.shrink, "mean": mean, "deviation": deviation}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Self:
        """What `to_dict` wrote.

        Raises:
            ScenarioError: it is nothing of the kind.
        """
        factor, mean, deviation = (table.get(key) for key in ("shrink", "mean", "deviation"))
        channels = _finite(mean), _finite(deviation)
        known = [values for values in channels if values is not None]
        fits = isinstance(factor, int) and 1 <= factor <= MOST_SHRINK and (known or mean is deviation is None)
        if not fits or (known and (len({len(c or ()) for c in channels}) > 1 or min(channels[1] or (0.0,)) <= 0.0)):
            raise ScenarioError(
                "preprocessing: expected shrink >= 1, and mean and deviation > 0 for each channel or null for both"
            )
        return cls(int(factor or 1), *channels)


def _finite(values: Any) -> tuple[float, ...] | None:
    """A list of finite numbers as a tuple; None for anything else."""
    listed = values if isinstance(values, list) else []
    fits = listed and all(isinstance(value, int | float) and math.isfinite(value) for value in listed)
    return tuple(map(float, listed)) if fits else None
