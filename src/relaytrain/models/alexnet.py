"""AlexNet for small images: five 3x3 convolutions, three pools, two hidden layers.

Paper: DepL evaluates AlexNet.
Deviations: 3x3 kernels and no stride, since the images are 8 to 32 pixels wide; no dropout, so that a pass over the
data is a function of weights and data order alone; hidden layers of 1024 and 512. `alexnet` begins with PyTorch's own
draws, which shrink the signal by more than a thousand over eight layers without batch norm, so that SGD stays at ln 10
for long; `alexnet-he` begins with He's, which keep its size.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from .layers import Shape, pooled

POOL_AFTER = (0, 1, 4)
HE = "alexnet-he"
CONVOLUTIONS = 5


class AlexNet(nn.Module):
    """Widths: five convolutions, then two hidden layers."""

    def __init__(self, widths: tuple[int, ...], input_shape: Shape, classes: int) -> None:
        super().__init__()
        channels, height, width = input_shape
        blocks: list[nn.Module] = []
        for index, outputs in enumerate(widths[:CONVOLUTIONS]):
            pool: nn.Module = nn.Identity()
            if index in POOL_AFTER:
                pool, height, width = pooled(height, width)
            blocks.append(nn.Sequential(nn.Conv2d(channels, outputs, 3, padding=1), nn.ReLU(), pool))
            channels = outputs
        first, second = widths[CONVOLUTIONS:]
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(channels * height * width, first),
            nn.ReLU(),
            nn.Linear(first, second),
            nn.ReLU(),
            nn.Linear(second, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Logits (batch, classes) of images (batch, channels, height, width)."""
        logits: Tensor = self.classifier(self.blocks(images))
        return logits


def build(name: str, widths: tuple[int, ...], input_shape: Shape, classes: int) -> nn.Module:
    """The network of these widths."""
    network = AlexNet(widths, input_shape, classes)
    if name == HE:
        for layer in network.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
    return network


def widths_of(name: str, shapes: Mapping[str, Shape]) -> tuple[int, ...]:
    """The widths that a state of these shapes has."""
    convolutions = tuple(shapes[f"blocks.{i}.0.weight"][0] for i in range(CONVOLUTIONS))
    return (*convolutions, shapes["classifier.1.weight"][0], shapes["classifier.3.weight"][0])
