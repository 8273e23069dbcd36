"""Small residual networks of 8, 14 and 20 layers for small images.

One width per coupled group: every block of a stage adds to the same channels, so a stage has one *skip* width (the
stem belongs to the first stage) and each block has its own *middle* width::

    stem -> [skip1] -> block(mid) -> [skip1] -> ... -> block(mid) -> [skip2] -> ...
                 \\______ + ______/                          \\__ 1x1 conv __/
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from .layers import Shape, conv_bn, stride_for

STAGES = 3
BLOCKS = {"resnet8": 1, "resnet14": 2, "resnet20": 3}


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut; the shortcut is a 1x1 convolution where the shape changes stage."""

    def __init__(self, inputs: int, middle: int, outputs: int, stride: int, *, project: bool) -> None:
        super().__init__()
        self.first = conv_bn(inputs, middle, stride=stride)
        self.second = conv_bn(middle, outputs)
        self.shortcut: nn.Module = conv_bn(inputs, outputs, kernel=1, stride=stride) if project else nn.Identity()
        self.activation = nn.ReLU()

    def forward(self, features: Tensor) -> Tensor:
        """The block's sum, after the activation."""
        residual = self.second(self.activation(self.first(features)))
        total: Tensor = self.activation(residual + self.shortcut(features))
        return total


class ResNet(nn.Module):
    """Widths: three skip widths, then the middle width of every block in order."""

    def __init__(self, name: str, widths: tuple[int, ...], input_shape: Shape, classes: int) -> None:
        super().__init__()
        channels, height, width = input_shape
        skips, middles = widths[:STAGES], widths[STAGES:]
        self.stem = nn.Sequential(conv_bn(channels, skips[0]), nn.ReLU())
        per_stage = BLOCKS[name]
        blocks: list[nn.Module] = []
        inputs = skips[0]
        for index, middle in enumerate(middles):
            stage = index // per_stage
            opens_stage = stage > 0 and index % per_stage == 0
            stride, height, width = stride_for(2 if opens_stage else 1, height, width)
            blocks.append(Block(inputs, middle, skips[stage], stride, project=opens_stage))
            inputs = skips[stage]
        self.blocks = nn.Sequential(*blocks)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (batch, classes) of images (batch, channels, height, width)."""
        logits: Tensor = self.head(self.average(self.blocks(self.stem(images))).flatten(1))
        return logits


def build(name: str, widths: tuple[int, ...], input_shape: Shape, classes: int) -> nn.Module:
    """The network of these widths."""
    return ResNet(name, widths, input_shape, classes)


def widths_of(name: str, shapes: Mapping[str, Shape]) -> tuple[int, ...]:
    """The widths that a state of these shapes has."""
    per_stage = BLOCKS[name]
    skips = tuple(shapes[f"blocks.{stage * per_stage}.second.0.weight"][0] for stage in range(STAGES))
    return (*skips, *(shapes[f"blocks.{i}.first.0.weight"][0] for i in range(STAGES * per_stage)))
