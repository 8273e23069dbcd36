"""From a spec to a module and back: `build(spec)`, `spec_of(model, base)`, and resizing a user's own module."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..compression.channels import parameter_count
from ..compression.heads import head_attributes, set_heads
from ..core.errors import ScenarioError
from ..core.families import family_named
from ..core.user_code import user_code
from .adapter import BASE_SEED, add_adapter, check_base, digest_of, travelling
from .spec import (
    MAX_ELEMENTS,
    AdapterSpec,
    FactorySpec,
    FamilySpec,
    Spec,
    adapter_of,
    check_reference,
    validate_spec,
)

Resolve = Callable[[str], Callable[[], nn.Module]]
"""Turns `dotted.module:name` into a factory. Only the local command line or Python code hands one in."""

Shapes = Mapping[str, tuple[int, ...]]
IN_MEMORY = "in_memory:model"
"""The reference of a module that exists only in this process."""


def build(spec: Spec, *, seed: int = 0, resolve: Resolve | None = None) -> nn.Module:
    """A module of this spec with initial weights drawn from `seed`; torch's own random state is left as it was.

    Args:
        spec: what to build; checked again here.
        seed: seeds the initial weights.
        resolve: needed for a `FactorySpec`; without it a reference is never followed.
    """
    spec = validate_spec(spec)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if isinstance(spec, FamilySpec):
            skeleton(spec)  # refuses what is too large before memory is taken
            return _family_module(spec)
        if spec.adapter is not None:
            return _adapted(spec, spec.adapter, seed, resolve)
        return _factory_module(spec, resolve)


def state_of(model: nn.Module, spec: Spec) -> dict[str, torch.Tensor]:
    """The state of `model` that is trained, sent and stored: all of it, or with an adapter only what it trains."""
    return travelling(model) if adapter_of(spec) is not None else dict(model.state_dict())


def load_state_of(model: nn.Module, tensors: Mapping[str, torch.Tensor], spec: Spec) -> None:
    """Put tensors of `state_of` into a model built from the same spec."""
    missing = set(state_of(model, spec)) ^ set(tensors)
    if missing:
        raise ScenarioError(f"checkpoint: {sorted(missing)[0]} is not on both sides; is it of another version?")
    model.load_state_dict(dict(tensors), strict=adapter_of(spec) is None)


def adapted_spec(reference: str, resolve: Resolve, adapter: AdapterSpec) -> FactorySpec:
    """The spec of an adapter on what `reference` makes, whose digest it takes; `adapter.base` does not matter."""
    with torch.random.fork_rng(devices=[]):
        base = _base(reference, resolve)
        adapter = replace(adapter, base=digest_of(base))
        shapes = {name: list(t.shape) for name, t in travelling(add_adapter(base, adapter)).items()}
    spec = validate_spec({"factory": reference, "shapes": shapes, "adapter": adapter.to_dict()})
    assert isinstance(spec, FactorySpec)
    return spec


def skeleton(spec: FamilySpec) -> nn.Module:
    """The module without memory behind it (torch's meta device): for counting and for checking shapes."""
    with torch.device("meta"):
        model = _family_module(spec)
    weights = parameter_count(model)
    if weights > MAX_ELEMENTS:
        raise ScenarioError(f"spec: {weights} weights, expected at most {MAX_ELEMENTS}")
    return model


def shapes_of(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor in the model's state, by name."""
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def spec_of(model: nn.Module, base: Spec) -> Spec:
    """The spec of a model that grew out of `base`, read from its tensor shapes alone.

    Raises:
        ScenarioError: the shapes are not those of any version of the base's family.
    """
    shapes = shapes_of(model)
    if isinstance(base, FactorySpec):
        return _of_factory(model, base.factory)
    try:
        widths = _family_code(base).widths_of(base.family, shapes)
    except (KeyError, IndexError) as error:
        raise ScenarioError(f"model: has no {error}, which every {base.family} has; is it of another family?") from None
    spec = FamilySpec(base.family, tuple(widths), base.input, base.classes)
    difference = _difference(shapes, shapes_of(skeleton(spec)))
    if difference:
        raise ScenarioError(f"model: not a {base.family} of widths {list(widths)}: {difference}")
    return spec


def of_module(model: nn.Module, reference: str = IN_MEMORY) -> tuple[FactorySpec, Resolve]:
    """The spec of a module at hand and a `resolve` that knows only it: a version that lives in this process."""
    original = copy.deepcopy(model)
    spec = _of_factory(model, check_reference(reference))
    return spec, only(reference, lambda: copy.deepcopy(original))


def _of_factory(model: nn.Module, reference: str) -> FactorySpec:
    shapes = {name: list(shape) for name, shape in shapes_of(model).items()}
    heads = head_attributes(model)
    spec = validate_spec({"factory": reference, "shapes": shapes, **({"heads": heads} if heads else {})})
    assert isinstance(spec, FactorySpec)
    return spec


def only(reference: str, factory: Callable[[], nn.Module]) -> Resolve:
    """A `resolve` that knows one reference and refuses all others, such as those in a stranger's checkpoint."""

    def resolve(asked: str) -> Callable[[], nn.Module]:
        if asked != reference:
            raise ScenarioError(f"factory: the version asks for {asked!r}, but only {reference!r} is allowed here")
        return factory

    return resolve


def from_scenario(reference: str, folder: Path | None = None) -> Resolve:
    """A `resolve` for the one factory a local scenario names, its folder first on the path. Runs the user's code."""
    from ..scenario.resolve import function_at

    factory = function_at(check_reference(reference), folder, "factory", "a function that makes a module")

    def own_module() -> nn.Module:
        with user_code(reference):
            module: nn.Module = factory()
        return module

    return only(reference, own_module)


def code_of(spec: Spec) -> AbstractContextManager[None]:
    """Where a version runs: exceptions of a user's own network are the user's, those of our families are ours."""
    return user_code(f"forward of {spec.factory}") if isinstance(spec, FactorySpec) else nullcontext()


def resize(model: nn.Module, shapes: Shapes) -> None:
    """Give every convolution, linear, norm and embedding layer, and a user's own tensors, the stored shapes.

    Values become undefined. A depthwise convolution (groups = inputs = outputs) stays depthwise; other grouped ones
    keep their groups. Other layers of torch are left as they are.
    """
    for name, module in model.named_modules():
        prefix = f"{name}." if name else ""
        own = {key: shapes[prefix + key] for key in _own_tensors(module) if prefix + key in shapes}
        if own:
            _resize_layer(module, own)


def check_state(model: nn.Module, shapes: Shapes, where: str) -> None:
    """Raise unless the model's state has exactly these tensors and shapes."""
    check_tensors(model.state_dict(), shapes, where)


def check_tensors(state: Mapping[str, torch.Tensor], shapes: Shapes, where: str) -> None:
    """Raise unless the state has exactly these tensors and shapes."""
    difference = _difference(shapes, {name: tuple(tensor.shape) for name, tensor in state.items()})
    if difference:
        raise ScenarioError(f"{where}: {difference}; run `relaytrain doctor` on the model")


def _family_code(spec: FamilySpec) -> Any:
    return importlib.import_module(f".{family_named(spec.family).module}", __package__)


def _family_module(spec: FamilySpec) -> nn.Module:
    module: nn.Module = _family_code(spec).build(spec.family, spec.widths, spec.input, spec.classes)
    return module


def _factory_module(spec: FactorySpec, resolve: Resolve | None) -> nn.Module:
    model = _made(spec.factory, resolve)
    shapes = dict(spec.shapes)
    resize(model, shapes)
    set_heads(model, dict(spec.heads), f"factory {spec.factory}")
    check_state(model, shapes, f"factory {spec.factory}")
    return model


def _base(reference: str, resolve: Resolve | None) -> nn.Module:
    """What a factory makes as the base of an adapter."""
    torch.manual_seed(BASE_SEED)
    return _made(reference, resolve)


def _adapted(spec: FactorySpec, adapter: AdapterSpec, seed: int, resolve: Resolve | None) -> nn.Module:
    base = _base(spec.factory, resolve)
    check_base(base, adapter, f"factory {spec.factory}")
    torch.manual_seed(seed)
    model = add_adapter(base, adapter)
    shapes = {name: tuple(tensor.shape) for name, tensor in travelling(model).items()}
    difference = _difference(dict(spec.shapes), shapes)
    if difference:
        raise ScenarioError(f"factory {spec.factory}: {difference}; is the adapter of another network?")
    return model


def _made(reference: str, resolve: Resolve | None) -> nn.Module:
    if resolve is None:
        raise ScenarioError(
            f"factory: this version is built by {reference}; it is only called when you pass resolve= "
            "(or name it in your scenario)"
        )
    model = resolve(reference)()
    if not isinstance(model, nn.Module):
        raise ScenarioError(f"factory: {reference}() returned {type(model).__name__}, expected a torch.nn.Module")
    return model


def _own_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    parameters = {name: tensor for name, tensor in module._parameters.items() if tensor is not None}
    buffers = {name: tensor for name, tensor in module._buffers.items() if tensor is not None}
    return parameters | buffers


def _resize_layer(module: nn.Module, own: Shapes) -> None:
    weight = own.get("weight")
    if isinstance(module, nn.modules.conv._ConvNd) and weight is not None:
        depthwise = module.groups == module.in_channels == module.out_channels > 1
        outer, inner = weight[0], weight[1]
        if depthwise:
            module.groups = module.in_channels = module.out_channels = outer
        elif module.transposed:
            module.in_channels, module.out_channels = outer, inner * module.groups
        else:
            module.out_channels, module.in_channels = outer, inner * module.groups
    elif isinstance(module, nn.Linear) and weight is not None:
        module.out_features, module.in_features = weight
    elif isinstance(module, nn.modules.batchnorm._BatchNorm):
        known = weight or own.get("running_mean")
        module.num_features = known[0] if known else module.num_features
    elif isinstance(module, nn.LayerNorm) and weight is not None:
        module.normalized_shape = weight
    elif isinstance(module, nn.GroupNorm) and weight is not None:
        module.num_channels = weight[0]
    elif isinstance(module, nn.Embedding) and weight is not None:
        module.num_embeddings, module.embedding_dim = weight
    elif not isinstance(module, nn.PReLU) and type(module).__module__.startswith("torch."):
        return  # its other attributes would not follow; the check of all shapes after this names it
    for name, tensor in _own_tensors(module).items():
        if name not in own or tuple(tensor.shape) == own[name]:
            continue
        empty = torch.empty(own[name], dtype=tensor.dtype, device=tensor.device)
        if isinstance(tensor, nn.Parameter):
            module._parameters[name] = nn.Parameter(empty, requires_grad=tensor.requires_grad)
        else:
            module._buffers[name] = empty


def _difference(expected: Shapes, seen: Shapes) -> str:
    """The first way in which two states differ, in words; empty when they agree."""
    for name in sorted(set(expected) | set(seen)):
        if name not in seen:
            return f"the spec has {name}, the module does not"
        if name not in expected:
            return f"the module has {name}, the spec does not"
        if tuple(expected[name]) != tuple(seen[name]):
            return f"{name} should be {list(expected[name])}, the module makes it {list(seen[name])}"
    return ""
