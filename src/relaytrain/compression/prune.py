"""Structured pruning behind one adapter over torch-pruning: ask by parameters, get a smaller plain module.

Paper: PACT section II removes a fraction F of the *parameters*; torch-pruning counts *channels*. In a chain of layers
both sides of a weight shrink, so r = 1 - sqrt(1 - F) channels is the first guess, refined by a short search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn

from ..core.errors import ScenarioError, UsageError
from ..data.nested import Example, called
from .channels import Importance, Kept, Surgeon, Trial, check_runs, clean_copy, kept_indexes, parameter_count, width_of
from .heads import LAYERS

Base = Literal["full", "current"]
CLOSE_ENOUGH = 0.005
"""The search stops once the reached ratio is this near; narrow layers often cannot come nearer than 0.02."""
MAX_TRIALS = 6
MOST = 0.9
"""The share of channels that shows whether a network can become narrower at all."""

Measure = Callable[[nn.Module], float]
"""What a ratio is a share of: parameters, FLOPs or bytes of a model."""


@dataclass(frozen=True)
class Pruned:
    """A pruned copy; `reached` is the share removed, of the same base and kind as was asked for.

    `whole` says in words which layers had to stay whole, where there are any.
    """

    model: nn.Module = field(repr=False)
    reached: float
    kept: Kept = field(repr=False)
    whole: str = ""


def channel_ratio(ratio: float) -> float:
    """The share of channels whose removal takes a share `ratio` of the parameters: r = 1 - sqrt(1 - F)."""
    return 1.0 - math.sqrt(1.0 - ratio)


def prune(
    model: nn.Module,
    example: Example,
    ratio: float,
    *,
    of: Base = "current",
    full_parameters: float | None = None,
    importance: Importance = "l1",
    keep: Sequence[str] = (),
    measure: Measure | None = None,
) -> Pruned:
    """A copy of `model` without the least important channels and heads; the original is not touched. Deterministic.

    Args:
        model: any module torch-pruning can trace.
        example: a batch of inputs, only its shape and kind matter; a dict is given by keyword.
        ratio: share of the parameters to remove, in [0, 1).
        of: what the ratio is a share of: this model (`current`) or the full version (`full`).
        full_parameters: of the full version, needed with `of="full"`; counted by `measure` where one is given.
        importance: norm that ranks channels within a layer; L1 left a smaller jump of the loss than L2.
        keep: names of layers, or of modules with all layers in them, that keep their outputs; `*` may stand in them.
        measure: what the ratio is a share of, such as FLOPs or bytes; by default parameters.

    Raises:
        UsageError: the ratio or its base does not fit, or `keep` names no layer.
        ScenarioError: the pruned model no longer runs (`doctor` says which layer is to blame), or recurrent layers,
            which stay whole, leave none that may become narrower.
    """
    size: Measure = parameter_count if measure is None else measure
    start = size(model)
    base = _base_size(ratio, of, full_parameters, start)
    target = base * (1.0 - ratio)
    if target >= start:
        if target > start * (1.0 + 1e-9):
            raise UsageError(f"ratio: keeping {target:.0f} of {base:.0f}, but the model has only {start:.0f} left")
        return Pruned(clean_copy(model), 1.0 - start / base, _all_kept(model))
    surgeon = Surgeon.of(model, example, keep=keep, importance=importance)
    best = _search(surgeon, start, target, size)
    if surgeon.fed and size(best.model) >= start and size(surgeon.cut(MOST).model) >= start:
        raise ScenarioError(
            f"model: none of its layers may become narrower: {surgeon.whole} stay whole, as do layers that are "
            "added to these or make the output, and those in `keep`; expected other layers beside these, or, on images "
            "in memory, versions that are students (student)"
        )
    kept = kept_indexes(model, example, best.history)
    check_runs(model, best.model, example)
    return Pruned(best.model, 1.0 - size(best.model) / base, kept, surgeon.whole)


def prune_to(
    model: nn.Module, example: Example, shapes: Mapping[str, tuple[int, ...]], *, importance: Importance = "l1"
) -> Pruned | None:
    """A copy of `model` whose state has exactly these shapes, so that a version is one thing whatever path led to it.

    None where removing channels does not lead there: it has fewer of some already, or its layers are coupled otherwise.
    """
    layers = {name: module for name, module in model.named_modules() if isinstance(module, LAYERS)}
    widths: dict[str, int] = {}
    for name, layer in layers.items():
        shape = shapes.get(f"{name}.weight")
        if shape is None or len(shape) < 2:
            return None
        widths[name] = width_of(layer, shape)
        if widths[name] > width_of(layer, tuple(layer.weight.shape)):
            return None
    trial = Surgeon.of(model, example, importance=importance).cut(widths=widths)
    if {name: tuple(tensor.shape) for name, tensor in trial.model.state_dict().items()} != dict(shapes):
        return None
    kept = kept_indexes(model, example, trial.history)
    check_runs(model, trial.model, example)
    return Pruned(trial.model, 1.0 - parameter_count(trial.model) / parameter_count(model), kept)


def reestimate_batchnorm(
    model: nn.Module, batches: Iterable[Any], *, forward: Callable[[nn.Module, Any], object] | None = None
) -> None:
    """Replace the running statistics of every batch norm by plain averages over `batches`, in place.

    `forward` runs the model on a batch that is not simply its input.

    Pruning leaves statistics of channels that are no more; the loss probed with them is far from what the next
    epoch sees. Weights and all other state stay.
    """
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    if not norms:
        return
    modes = {module: module.training for module in model.modules()}
    momenta = [norm.momentum for norm in norms]
    model.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # torch's word for a cumulative average
        norm.train()
    seen = 0
    try:
        with torch.no_grad():
            for batch in batches:
                called(model, batch) if forward is None else forward(model, batch)
                seen += 1
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for module, training in modes.items():
            module.training = training
    if seen == 0:
        raise UsageError("batches: got none, expected at least one to estimate batch norm from")


def check_layer(model: nn.Module, example: Example, layer: str) -> None:
    """Halve the channels of one layer in a copy; raises ScenarioError when the model then no longer runs."""
    others = {name for name, module in model.named_modules() if isinstance(module, LAYERS)} - {layer}
    check_runs(model, Surgeon.of(model, example, keep=others).cut(0.5).model, example)


def _base_size(ratio: float, of: Base, full: float | None, start: float) -> float:
    if not 0.0 <= ratio < 1.0:
        raise UsageError(f"ratio: got {ratio}, expected a share of the parameters in [0, 1)")
    if start == 0:
        raise UsageError("model: it has no parameters, so there is nothing to prune")
    if of == "current":
        return start
    if of != "full":
        raise UsageError(f"of: got {of!r}, expected 'full' or 'current'")
    if full is None or full < start:
        raise UsageError(f"full_parameters: got {full}, expected the full version's count, at least {start:.0f}")
    return full


def _search(surgeon: Surgeon, start: float, target: float, size: Measure) -> Trial:
    """Correct the first guess by what it gave; the nearest trial wins.

    Where all widths shrink, (1 - r)^2 is proportional to the parameters; where a residual stream or a recurrent layer
    keeps its own, size falls about in line with r. A guess outside what earlier trials bracket is replaced by the
    middle; two trials alike mean that widths are whole numbers and no nearer ratio is to be had.
    """
    line = bool(surgeon.body.stream or surgeon.fed)
    low, high = (0.0, start), (1.0, math.nan)
    channels = 1.0 - target / start if line else channel_ratio(1.0 - target / start)
    best: tuple[float, Trial] | None = None
    seen: set[float] = set()
    for _ in range(MAX_TRIALS):
        trial = surgeon.cut(channels)
        reached = size(trial.model)
        if reached in seen:
            break
        seen.add(reached)
        if best is None or abs(reached - target) < abs(best[0] - target):
            best = reached, trial
        if abs(reached - target) <= CLOSE_ENOUGH * start:
            break
        if reached > target:
            low = channels, reached
        else:
            high = channels, reached
        if line:
            other = high if math.isfinite(high[1]) else (channels, reached)
            fall = low[1] - other[1] if other[0] > low[0] else start - reached
            since = low if other[0] > low[0] else (0.0, start)
            channels = since[0] + (since[1] - target) * (other[0] - since[0]) / fall if fall > 0 else 1.0
        else:
            channels = 1.0 - (1.0 - channels) * math.sqrt(target / reached)
        if not low[0] < channels < high[0]:
            channels = (low[0] + high[0]) / 2.0
    if best is None:
        raise AssertionError("no trial was made")
    return best[1]


def _all_kept(model: nn.Module) -> Kept:
    return {name: torch.arange(t.numel()).reshape(t.shape) for name, t in model.state_dict().items()}
