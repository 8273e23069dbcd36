"""Networks as chains of units, the places between which a pipeline may be cut.

A unit begins at a layer with weights and takes along what follows it: batch norm, activation, pool. A residual block
is one unit, since its shortcut spans it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from ..core.errors import UsageError
from ..models.rebuild import build
from ..models.spec import Spec, family_spec
from ..models.vgg import POOL_AFTER

ORDER = ("stem", "features", "blocks", "average", "hidden", "activation", "classifier", "head")
"""The parts of this package's families, in the order their forwards use them."""
CONVOLUTIONS = {
    "vgg11": (64, 128, 256, 256, 512, 512, 512, 512),
    "vgg16": (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512),
}
PUBLISHED = {f"{name}-4096": name for name in CONVOLUTIONS}
"""`vgg16-4096` is VGG16 as published: two hidden layers of 4096, no batch norm."""
_FOLLOWERS = (nn.BatchNorm1d, nn.BatchNorm2d)


def chain(model: nn.Module) -> tuple[nn.Module, ...]:
    """`model` as units; applied one after the other they are the model.

    Raises:
        UsageError: neither an `nn.Sequential` nor one of this package's families.
    """
    units: list[list[nn.Module]] = []
    for part in parts_in_order(model):
        heavy = any(True for _ in part.parameters()) and not isinstance(part, _FOLLOWERS)
        if heavy and not (units and not any(True for p in units[-1] for _ in p.parameters())):
            units.append([])  # what stands before the first layer, such as a flatten, goes with it
        if not units:
            units.append([])
        units[-1].append(part)
    return tuple(nn.Sequential(*unit) for unit in units)


def network(
    name: str, *, width: float = 1.0, input: tuple[int, int, int] = (3, 32, 32), classes: int = 10
) -> nn.Module:
    """A family by name, or `vgg11-4096` and `vgg16-4096`, on torch's meta device: shapes without memory."""
    with torch.device("meta"):
        if name in PUBLISHED:
            return published_vgg(PUBLISHED[name], width=width, input=input, classes=classes)
    return build(family_spec(name, input=input, classes=classes, width=width)).to("meta")


def trainable(
    name: str, *, seed: int, width: float, input: tuple[int, int, int], classes: int
) -> tuple[nn.Module, Spec | None]:
    """The same with weights drawn from `seed`, and the spec of a family."""
    if name in PUBLISHED:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return published_vgg(PUBLISHED[name], width=width, input=input, classes=classes), None
    spec = family_spec(name, input=input, classes=classes, width=width)
    return build(spec, seed=seed), spec


def published_vgg(
    name: str, *, width: float = 1.0, hidden: int = 4096, input: tuple[int, int, int] = (3, 32, 32), classes: int = 10
) -> nn.Sequential:
    """VGG11 or VGG16 with both hidden layers and without batch norm, as in mcPipe section V."""
    channels, height, side = input
    layers: list[nn.Module] = []
    for index, full in enumerate(CONVOLUTIONS[name]):
        outputs = max(1, round(full * width))
        layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.ReLU()]
        if index in POOL_AFTER[name] and min(height, side) > 1:
            layers.append(nn.MaxPool2d(2))
            height, side = height // 2, side // 2
        channels = outputs
    middle = max(1, round(hidden * width))
    layers += [
        nn.Flatten(),
        nn.Linear(channels * height * side, middle),
        nn.ReLU(),
        nn.Linear(middle, middle),
        nn.ReLU(),
    ]
    return nn.Sequential(*layers, nn.Linear(middle, classes))


def parts_in_order(model: nn.Module) -> Iterator[nn.Module]:
    """The layers of a network in the order its forward uses them, blocks with a shortcut as one."""
    if isinstance(model, nn.Sequential):
        for part in model:
            yield from parts_in_order(part) if isinstance(part, nn.Sequential) else (part,)
        return
    children = dict(model.named_children())
    if not children or not set(children) <= set(ORDER) or not {"blocks", "features"} & set(children):
        raise UsageError(
            f"model: got {type(model).__name__}, expected an nn.Sequential or one of the built-in families"
        )
    for name in ORDER:
        if name in children:
            part = children[name]
            yield from parts_in_order(part) if isinstance(part, nn.Sequential) else (part,)
            if name == "average":
                yield nn.Flatten()
