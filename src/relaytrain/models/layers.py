"""Pieces that several families share."""

from __future__ import annotations

from torch import nn

Shape = tuple[int, ...]


def pooled(height: int, width: int) -> tuple[nn.Module, int, int]:
    """A 2x2 max-pool and the size after it; small images that cannot be halved any more pass as they are."""
    if min(height, width) < 2:
        return nn.Identity(), height, width
    return nn.MaxPool2d(2), height // 2, width // 2


def stride_for(wanted: int, height: int, width: int) -> tuple[int, int, int]:
    """`wanted` as a stride and the size after it (kernel 3, padding 1), or 1 once a side is a single pixel."""
    if wanted == 1 or min(height, width) < 2:
        return 1, height, width
    return wanted, (height + wanted - 1) // wanted, (width + wanted - 1) // wanted


def conv_bn(inputs: int, outputs: int, *, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution without bias and its batch norm; the padding keeps the size at stride 1."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))
