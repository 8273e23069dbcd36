"""A small CNN for 8x8 digits and 28x28 images: two convolutions, one hidden layer, no batch norm."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from .layers import Shape, pooled


class Cnn(nn.Module):
    """Widths: first convolution, second convolution, hidden layer. 13,706 parameters at full size on 8x8 digits."""

    def __init__(self, widths: tuple[int, ...], input_shape: Shape, classes: int) -> None:
        super().__init__()
        first, second, hidden = widths
        channels, height, width = input_shape
        pool1, height, width = pooled(height, width)
        pool2, height, width = pooled(height, width)
        self.features = nn.Sequential(
            nn.Conv2d(channels, first, 3, padding=1),
            nn.ReLU(),
            pool1,
            nn.Conv2d(first, second, 3, padding=1),
            nn.ReLU(),
            pool2,
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(second * height * width, hidden), nn.ReLU(), nn.Linear(hidden, classes)
        )

    def forward(self, images: Tensor) -> Tensor:
        """Logits (batch, classes) of images (batch, channels, height, width)."""
        logits: Tensor = self.classifier(self.features(images))
        return logits


def build(name: str, widths: tuple[int, ...], input_shape: Shape, classes: int) -> nn.Module:
    """The network of these widths."""
    return Cnn(widths, input_shape, classes)


def widths_of(name: str, shapes: Mapping[str, Shape]) -> tuple[int, ...]:
    """The widths that a state of these shapes has."""
    return tuple(shapes[key][0] for key in ("features.0.weight", "features.3.weight", "classifier.1.weight"))
