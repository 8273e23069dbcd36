"""Preprocessing as a part of the network, so that what leaves the house takes raw inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..core.errors import UsageError
from ..data.domain import Preprocessing


class Preprocessed(nn.Module):
    """A network behind its preprocessing: raw images (n, channels, height, width) in, the network's outputs out.

    Standardising is done in float64 as for the training data, so that the network sees the same bits.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, network: nn.Module, steps: Preprocessing) -> None:
        super().__init__()
        self.network = network
        self.shrink, self.standardise = steps.shrink, steps.mean is not None
        for name, values in (("mean", steps.mean or (0.0,)), ("deviation", steps.deviation or (1.0,))):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64)[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        """The network's outputs for raw images."""
        if self.shrink > 1:
            images = functional.avg_pool2d(images, self.shrink)
        if self.standardise:
            images = ((images.double() - self.mean) / self.deviation).float()
        outputs: Tensor = self.network(images)
        return outputs


def with_preprocessing(network: nn.Module, steps: Preprocessing) -> nn.Module:
    """`network` for raw inputs: itself, where nothing is done to them."""
    return network if steps.nothing else Preprocessed(network, steps).eval()


def steps_of(started: Mapping[str, Any], run: str) -> Preprocessing:
    """The preprocessing that `run_started` of `run` keeps."""
    kept = started.get("preprocessing")
    if not isinstance(kept, Mapping):
        raise UsageError(f"run {run} was made by a release that did not keep its preprocessing; train it again")
    return Preprocessing.from_dict(kept)
