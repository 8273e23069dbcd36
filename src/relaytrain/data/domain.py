"""Images as another camera sees them (contrast inverted, shifted by a pixel, noisy), smaller, or standardised."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..core.errors import ScenarioError
from .dataset import Dataset


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


def standardised(data: Dataset, like: Dataset | None = None) -> Dataset:
    """Every channel shifted and scaled by mean and deviation of `like` (by default the data itself)."""
    source = data if like is None else like
    mean = source.images.mean(axis=(0, 2, 3), keepdims=True, dtype=np.float64)
    deviation = source.images.std(axis=(0, 2, 3), keepdims=True, dtype=np.float64)
    scaled = (data.images - mean) / np.maximum(deviation, 1e-6)
    return replace(data, images=scaled.astype(np.float32))
