"""How another process builds the same chain of units: a spec of this package's families, or plain layers in a row.

    {"spec": {"family": "vgg11", ...}}                                        built by `models`
    {"layers": [["Linear", {"in_features": 4, ...}], ["ReLU", {}], ...]}      an `nn.Sequential` of known layers

Nothing is pickled and, but for a user's own factory, nothing is imported by name. Workers build on torch's meta device,
so that a device never holds more than its own stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..core.errors import UsageError
from ..models.rebuild import build, from_scenario, skeleton
from ..models.spec import FactorySpec, Spec, validate_spec
from .networks import chain, parts_in_order
from .tensorfile import DTYPES, dtype_name

Blueprint = dict[str, Any]
_IMAGE = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
_POOL = ("kernel_size", "stride", "padding")
LAYERS: dict[str, tuple[str, ...]] = {
    "Linear": ("in_features", "out_features"),
    "Conv2d": _IMAGE,
    "BatchNorm1d": ("num_features", "eps", "momentum", "affine", "track_running_stats"),
    "BatchNorm2d": ("num_features", "eps", "momentum", "affine", "track_running_stats"),
    "LayerNorm": ("normalized_shape", "eps", "elementwise_affine"),
    "GroupNorm": ("num_groups", "num_channels", "eps", "affine"),
    "MaxPool2d": (*_POOL, "dilation", "ceil_mode"),
    "AvgPool2d": (*_POOL, "ceil_mode", "count_include_pad"),
    "AdaptiveAvgPool2d": ("output_size",),
    "Flatten": ("start_dim", "end_dim"),
    "ReLU": ("inplace",),
    "ReLU6": ("inplace",),
    "LeakyReLU": ("negative_slope", "inplace"),
    "GELU": ("approximate",),
    "SiLU": ("inplace",),
    "Tanh": (),
    "Sigmoid": (),
    "Identity": (),
}
"""Layers that a blueprint may name, and the arguments that make one."""
_BIASED = {"Linear", "Conv2d"}


def blueprint(model: nn.Module, spec: Spec | None = None) -> Blueprint:
    """The blueprint of `model`, from its `spec` if there is one.

    Raises:
        UsageError: no spec, and not an `nn.Sequential` of known layers.
    """
    if spec is not None:
        return {"spec": spec.to_dict()}
    if not isinstance(model, nn.Sequential):
        raise UsageError(f"model: got {type(model).__name__} without a spec, expected an nn.Sequential; pass spec=")
    return {"layers": [_described(layer) for layer in parts_in_order(model)]}


def units_from(plan: Mapping[str, Any], folder: Path | None = None) -> tuple[nn.Module, ...]:
    """The chain of units without memory behind it; `folder` is where a user's own factory is looked for."""
    if "spec" in plan:
        spec = validate_spec(plan["spec"])
        if isinstance(spec, FactorySpec):
            return chain(build(spec, resolve=from_scenario(spec.factory, folder)).to("meta"))
        return chain(skeleton(spec))
    with torch.device("meta"):
        return chain(nn.Sequential(*(_layer(name, arguments) for name, arguments in plan["layers"])))


def names_in(units: tuple[nn.Module, ...], model: nn.Module) -> dict[str, str]:
    """From the names of weights and buffers in the chain to those in the model that it was made of."""
    theirs = {id(tensor): name for name, tensor in _state(model).items()}
    return {name: theirs[id(tensor)] for name, tensor in _state(nn.Sequential(*units)).items()}


def _state(model: nn.Module) -> dict[str, Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _described(layer: nn.Module) -> list[Any]:
    name = type(layer).__name__
    if type(layer) is not getattr(nn, name, None) or name not in LAYERS:
        raise UsageError(
            f"model: got a layer {name}, expected one of {', '.join(LAYERS)}; name the model's spec instead"
        )
    arguments = {key: getattr(layer, key) for key in LAYERS[name]}
    if name in _BIASED:
        arguments["bias"] = layer.bias is not None
    weight = next(layer.parameters(), None)
    if weight is not None:
        arguments["dtype"] = dtype_name(weight)
    return [name, arguments]


def _layer(name: str, arguments: Mapping[str, Any]) -> nn.Module:
    if name not in LAYERS:
        raise UsageError(f"blueprint: got a layer {name!r}, expected one of {', '.join(LAYERS)}")
    known = {*LAYERS[name], "dtype", *(["bias"] if name in _BIASED else [])}
    if not known >= set(arguments):
        raise UsageError(f"blueprint: {name}: got {sorted(set(arguments) - known)}, expected only {sorted(known)}")
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()
    }
    if "dtype" in values:
        values["dtype"] = DTYPES[values["dtype"]]
    layer: nn.Module = getattr(nn, name)(**values)
    return layer
