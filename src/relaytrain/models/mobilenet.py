"""MobileNet (first version) for small images: a stem, then depthwise and pointwise convolutions in turn.

Paper: DepL evaluates MobileNet.
Deviations: nine blocks instead of thirteen and no stride in the stem, since the images are 8 to 32 pixels wide; a
stride is left out once the image is one pixel wide.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from .layers import Shape, conv_bn, stride_for

STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 2)


class MobileNet(nn.Module):
    """Widths: the stem, then every pointwise convolution; a depthwise convolution is as wide as what it reads."""

    def __init__(self, widths: tuple[int, ...], input_shape: Shape, classes: int) -> None:
        super().__init__()
        channels, height, width = input_shape
        self.stem = nn.Sequential(conv_bn(channels, widths[0]), nn.ReLU())
        blocks: list[nn.Module] = []
        for inputs, outputs, wanted in zip(widths, widths[1:], STRIDES, strict=False):
            stride, height, width = stride_for(wanted, height, width)
            depthwise = conv_bn(inputs, inputs, stride=stride, groups=inputs)
            blocks.append(nn.Sequential(depthwise, nn.ReLU(), conv_bn(inputs, outputs, kernel=1), nn.ReLU()))
        self.blocks = nn.Sequential(*blocks)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (batch, classes) of images (batch, channels, height, width)."""
        logits: Tensor = self.head(self.average(self.blocks(self.stem(images))).flatten(1))
        return logits


def build(name: str, widths: tuple[int, ...], input_shape: Shape, classes: int) -> nn.Module:
    """The network of these widths."""
    return MobileNet(widths, input_shape, classes)


def widths_of(name: str, shapes: Mapping[str, Shape]) -> tuple[int, ...]:
    """The widths that a state of these shapes has."""
    pointwise = (shapes[f"blocks.{i}.2.0.weight"][0] for i in range(len(STRIDES)))
    return (shapes["stem.0.0.weight"][0], *pointwise)
