"""VGG11 and VGG16 with batch norm, for 8x8 to 32x32 images.

Paper: PACT section II prunes VGG11; DepL evaluates VGG too.
Deviations: 3x3 convolutions as published, then a global average and one hidden layer of 512 instead of two of 4096
(the usual form for 32x32 images); a pool is left out once the image is one pixel wide.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from .layers import Shape, conv_bn, pooled

POOL_AFTER = {"vgg11": (0, 1, 3, 5, 7), "vgg16": (1, 3, 6, 9, 12)}


class Vgg(nn.Module):
    """Widths: every convolution in order, then the hidden layer."""

    def __init__(self, name: str, widths: tuple[int, ...], input_shape: Shape, classes: int) -> None:
        super().__init__()
        channels, height, width = input_shape
        blocks: list[nn.Module] = []
        for index, outputs in enumerate(widths[:-1]):
            pool: nn.Module = nn.Identity()
            if index in POOL_AFTER[name]:
                pool, height, width = pooled(height, width)
            blocks.append(nn.Sequential(conv_bn(channels, outputs), nn.ReLU(), pool))
            channels = outputs
        self.blocks = nn.Sequential(*blocks)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.hidden = nn.Linear(channels, widths[-1])
        self.activation = nn.ReLU()
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (batch, classes) of images (batch, channels, height, width)."""
        pooled_features = self.average(self.blocks(images)).flatten(1)
        logits: Tensor = self.head(self.activation(self.hidden(pooled_features)))
        return logits


def build(name: str, widths: tuple[int, ...], input_shape: Shape, classes: int) -> nn.Module:
    """The network of these widths."""
    return Vgg(name, widths, input_shape, classes)


def widths_of(name: str, shapes: Mapping[str, Shape]) -> tuple[int, ...]:
    """The widths that a state of these shapes has."""
    convolutions = POOL_AFTER[name][-1] + 1
    return (*(shapes[f"blocks.{i}.0.0.weight"][0] for i in range(convolutions)), shapes["hidden.weight"][0])
