"""A network: what stands in the way of pruning and rebuilding it, found before any training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ..compression.channels import ASK_DOCTOR, Surgeon, output_layers
from ..compression.prune import Pruned, check_layer, prune
from ..core.errors import RelayTrainError
from ..data.nested import Example, called, tensors
from ..models.rebuild import of_module
from ..models.travel import load_version, save_version
from .diagnosis import Diagnosis

PROBE_RATIO = 0.5
"""Half of the parameters: every layer of four channels or more should shrink."""
DISTIL = "reach the smaller version by distillation: student instead of ratio"


def check_network(
    model: nn.Module,
    example: Example,
    *,
    factory: Callable[[], nn.Module] | None = None,
    prunes: bool = True,
    keep: Sequence[str] = (),
) -> list[Diagnosis]:
    """Everything that cannot be trained, pruned or rebuilt; an empty list is a clean bill. The model is not touched.

    An `error` means that it cannot be used as it is, a `warning` that part of it will stay as it is.

    Args:
        model: the full version.
        example: a batch of inputs, at least two.
        factory: what rebuilds the model elsewhere; by default a copy of the model stands in for it.
        keep: layers that are not to be pruned.
        prunes: whether anybody wants to prune it; else only running and rebuilding are looked at.
    """
    if not any(p.requires_grad for p in model.parameters()):
        return [Diagnosis("error", "model", "it has no trainable parameters", "give it layers to train")]
    diagnoses = [*(_shared(model) if prunes else ()), *_forward(model, example)]
    if any(diagnosis.level == "error" for diagnosis in diagnoses):
        return diagnoses
    if not prunes:
        return [*diagnoses, *_round_trip(model, model, example, factory)]
    try:
        pruned = prune(model, example, PROBE_RATIO, keep=keep)
    except RelayTrainError as error:
        return [*diagnoses, *_blame(model, example, str(error))]
    return [*diagnoses, *_unchanged(model, example, pruned, keep), *_round_trip(pruned.model, model, example, factory)]


def _forward(model: nn.Module, example: Example) -> list[Diagnosis]:
    """Does it run, is its output one tensor per input, the same each time, and does it carry a gradient?"""
    try:
        twin = copy.deepcopy(model).eval()
    except Exception as error:  # a user's module may refuse in any way
        return [
            Diagnosis("error", "model", f"it cannot be copied ({error})", "keep only leaf tensors in its attributes")
        ]
    try:
        with torch.random.fork_rng(devices=[]):
            first, second = (next(tensors(called(twin, example)), None) for _ in range(2))
    except Exception as error:
        return [Diagnosis("error", "forward", f"it fails on the example ({error})", "check the input's shape")]
    rows = len(next(tensors(example)))
    if first is None or second is None or first.ndim == 0 or len(first) != rows:
        shown = list(first.shape) if first is not None else "no tensor"
        return [Diagnosis("error", "forward", f"it returns {shown}", "return one tensor with a row for each input")]
    if not first.requires_grad:
        return [Diagnosis("error", "forward", "its output carries no gradient", "do not detach inside forward")]
    if not torch.equal(first, second):
        what = "two passes in eval mode differ, so no rebuilt copy can be checked and no run repeated"
        return [Diagnosis("error", "forward", what, "draw random numbers in training mode only")]
    return []


def _shared(model: nn.Module) -> list[Diagnosis]:
    first: dict[int, str] = {}
    diagnoses = []
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if id(parameter) in first:
            what = f"it is the same tensor as {first[id(parameter)]}, and pruning would part them"
            diagnoses.append(Diagnosis("error", name, what, f"use two tensors, or {DISTIL}"))
        first.setdefault(id(parameter), name)
    return diagnoses


def _layers(model: nn.Module) -> dict[str, nn.Module]:
    kinds = (nn.modules.conv._ConvNd, nn.Linear)
    return {name: module for name, module in model.named_modules() if isinstance(module, kinds)}


def _width(layer: nn.Module) -> int:
    weight = layer.weight
    if not isinstance(weight, Tensor):
        return 0
    return int(weight.shape[1] if getattr(layer, "transposed", False) else weight.shape[0])


def _unchanged(model: nn.Module, example: Example, pruned: Pruned, keep: Sequence[str]) -> list[Diagnosis]:
    """Layers that kept all channels although half of the parameters were to go, and parameters outside any layer."""
    after = _layers(pruned.model)
    heads = Surgeon.of(model, example, keep=keep).keep
    diagnoses = []
    for name, layer in _layers(model).items():
        if name not in heads and _width(layer) >= 4 and _width(after[name]) == _width(layer):
            what = f"it keeps all {_width(layer)} channels whatever ratio is asked"
            diagnoses.append(Diagnosis("warning", name, what, "other layers are pruned more instead"))
    if abs(pruned.reached - PROBE_RATIO) > 0.1:
        what = f"removing {PROBE_RATIO:.0%} of the parameters reached only {pruned.reached:.0%}"
        why = f"{pruned.whole} stay whole" if pruned.whole else "its layers are too narrow or refuse to shrink"
        diagnoses.append(Diagnosis("warning", "model", what, why))
    return diagnoses


def _round_trip(
    version: nn.Module, model: nn.Module, example: Example, factory: Callable[[], nn.Module] | None
) -> list[Diagnosis]:
    """Save a version of the model, rebuild it from spec and tensors, compare outputs bit for bit."""
    make = factory if factory is not None else lambda: copy.deepcopy(model)
    remedy = "sizes must come from layers, not from attributes computed when the model was made"
    try:
        spec, _ = of_module(version)
        _, rebuilt = load_version(save_version(version, spec), resolve=lambda _reference: make)
        with torch.no_grad():
            twins = (rebuilt.eval(), copy.deepcopy(version).eval())
            here, there = (list(tensors(called(twin, example))) for twin in twins)
            same = all(torch.equal(a, b) for a, b in zip(here, there, strict=True))
    except Exception as error:
        which = "it" if version is model else "the pruned version"
        return [Diagnosis("error", "rebuild", f"{which} cannot be rebuilt ({error})", remedy)]
    if not same:
        return [Diagnosis("error", "rebuild", "the rebuilt version gives other outputs", remedy)]
    return []


def _blame(model: nn.Module, example: Example, message: str) -> list[Diagnosis]:
    """Prune one layer at a time and name those that break the model."""
    diagnoses = []
    for name in sorted(set(_layers(model)) - output_layers(model, example)):
        try:
            check_layer(model, example, name)
        except RelayTrainError as error:
            what = f"pruning its channels breaks the model ({error.__cause__ or error})"
            remedy = f"use flatten(1) or x.shape where forward fixes a size, or {DISTIL}"
            diagnoses.append(Diagnosis("error", name, what, remedy))
    words = message.partition(ASK_DOCTOR)[0].removeprefix("model: ")
    remedy = f"name the layer at fault, or what it is coupled with, in [training] keep, or {DISTIL}"
    return diagnoses or [Diagnosis("error", "model", words, "" if "expected" in words else remedy)]
