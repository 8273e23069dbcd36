"""The families this package can build: their names and full widths. No torch, so that specs are checked early.

A *width* is the size of one coupled group of channels: layers whose outputs must agree (a residual sum) share one.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ScenarioError


@dataclass(frozen=True)
class Family:
    """`module` holds `build(name, widths, input, classes)` and `widths_of(name, shapes)`; `widths` is the full size."""

    module: str
    widths: tuple[int, ...]


def _resnet(blocks: int) -> tuple[int, ...]:
    stages = (16, 32, 64)
    return stages + tuple(width for width in stages for _ in range(blocks))


_ALEXNET = Family("alexnet", (64, 192, 384, 256, 256, 1024, 512))

FAMILIES: dict[str, Family] = {
    "vgg11": Family("vgg", (64, 128, 256, 256, 512, 512, 512, 512, 512)),
    "vgg16": Family("vgg", (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512, 512)),
    "alexnet": _ALEXNET,
    "alexnet-he": _ALEXNET,
    "mobilenet": Family("mobilenet", (32, 64, 128, 128, 256, 256, 512, 512, 512, 1024)),
    "resnet8": Family("resnet", _resnet(1)),
    "resnet14": Family("resnet", _resnet(2)),
    "resnet20": Family("resnet", _resnet(3)),
    "cnn": Family("cnn", (16, 32, 64)),
}


def family_named(name: str) -> Family:
    """The family called `name`, or an error that lists all of them."""
    if name not in FAMILIES:
        raise ScenarioError(f"family: got {name!r}, expected one of {', '.join(FAMILIES)}")
    return FAMILIES[name]


def scaled_widths(name: str, width: float = 1.0) -> tuple[int, ...]:
    """The family's widths times `width`, at least one channel each."""
    if not 0.0 < width <= 8.0:
        raise ScenarioError(f"width: got {width}, expected a multiplier in (0, 8]")
    return tuple(max(1, round(w * width)) for w in family_named(name).widths)
