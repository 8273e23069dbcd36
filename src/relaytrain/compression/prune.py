"""Structured pruning behind one adapter over torch-pruning: ask by parameters, get a smaller plain module.

Paper: PACT section II removes a fraction F of the *parameters*; torch-pruning counts *channels*. In a chain of layers
both sides of a weight shrink, so r = 1 - sqrt(1 - F) channels is the first guess, refined by a short search.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..core.errors import ScenarioError, UsageError

Base = Literal["full", "current"]
Importance = Literal["l1", "l2", "leading"]
"""What ranks the channels of a layer: a norm of their weights, or their place, the first being worth most."""
Kept = Mapping[str, Tensor]
"""By name of a tensor in the state: for every remaining value, its flat position in the tensor before pruning."""

CLOSE_ENOUGH = 0.005
"""The search stops once the reached ratio is this near; narrow layers often cannot come nearer than 0.02."""
MAX_TRIALS = 6

_LAYERS = (nn.modules.conv._ConvNd, nn.Linear)


@dataclass(frozen=True)
class Pruned:
    """A pruned copy and what was reached: `reached` is the share of parameters removed, of the same base as `asked`."""

    model: nn.Module = field(repr=False)
    asked: float
    of: Base
    reached: float
    channel_ratio: float
    parameters: int
    kept: Kept = field(repr=False)


def channel_ratio(ratio: float) -> float:
    """The share of channels whose removal takes a share `ratio` of the parameters: r = 1 - sqrt(1 - F)."""
    return 1.0 - math.sqrt(1.0 - ratio)


def prune(
    model: nn.Module,
    example: Tensor,
    ratio: float,
    *,
    of: Base = "current",
    full_parameters: int | None = None,
    importance: Importance = "l1",
    leave: Sequence[str] = (),
) -> Pruned:
    """A copy of `model` without the least important channels; the original is not touched. Deterministic.

    Args:
        model: any module torch-pruning can trace.
        example: a batch of inputs, only its shape and kind matter.
        ratio: share of the parameters to remove, in [0, 1).
        of: what the ratio is a share of: this model (`current`) or the full version (`full`).
        full_parameters: parameters of the full version, needed with `of="full"`.
        importance: norm that ranks channels within a layer; L1 left a smaller jump of the loss than L2.
        leave: names of layers whose output channels stay.

    Raises:
        UsageError: the ratio or its base does not fit.
        ScenarioError: the pruned model no longer runs; `doctor` says which layer is to blame.
    """
    start = sum(p.numel() for p in model.parameters())
    base = _base_parameters(ratio, of, full_parameters, start)
    target = base * (1.0 - ratio)
    if target >= start:
        if target > start * (1.0 + 1e-9):
            raise UsageError(f"ratio: keeping {target:.0f} of {base} parameters, but the model has only {start} left")
        return Pruned(_clean_copy(model), ratio, of, 1.0 - start / base, 0.0, start, _all_kept(model))
    best = _search(model, example, start, target, _Options(importance, frozenset(leave)))
    kept = kept_indexes(model, example, best.history)
    _check_runs(model, best.model, example)
    reached = 1.0 - best.parameters / base
    return Pruned(best.model, ratio, of, reached, best.channels, best.parameters, kept)


def prune_to(
    model: nn.Module, example: Tensor, shapes: Mapping[str, tuple[int, ...]], *, importance: Importance = "l1"
) -> Pruned | None:
    """A copy of `model` whose state has exactly these shapes, so that a version is one thing whatever path led to it.

    None where removing channels does not lead there: it has fewer of some already, or its layers are coupled otherwise.
    """
    start = sum(p.numel() for p in model.parameters())
    layers = {name: module for name, module in model.named_modules() if isinstance(module, _LAYERS)}
    widths: dict[str, int] = {}
    for name, layer in layers.items():
        shape = shapes.get(f"{name}.weight")
        if shape is None or len(shape) < 2:
            return None
        widths[name] = _width(layer, shape)
        if widths[name] > _width(layer, tuple(layer.weight.shape)):
            return None
    trial = _prune_channels(model, example, 0.0, output_layers(model, example), importance, widths)
    if {name: tuple(tensor.shape) for name, tensor in trial.model.state_dict().items()} != dict(shapes):
        return None
    kept = kept_indexes(model, example, trial.history)
    _check_runs(model, trial.model, example)
    reached = 1.0 - trial.parameters / start
    return Pruned(trial.model, reached, "current", reached, 0.0, trial.parameters, kept)


def reestimate_batchnorm(model: nn.Module, batches: Iterable[Tensor]) -> None:
    """Replace the running statistics of every batch norm by plain averages over `batches`, in place.

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
                model(batch)
                seen += 1
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for module, training in modes.items():
            module.training = training
    if seen == 0:
        raise UsageError("batches: got none, expected at least one to estimate batch norm from")


def output_layers(model: nn.Module, example: Tensor) -> set[str]:
    """Names of the layers whose outputs reach the model's output with no other layer between; they keep their size."""
    twin = _clean_copy(model).eval()
    made_by: dict[Any, str] = {}
    hooks = []
    names = {module: name for name, module in twin.named_modules()}

    def note(module: nn.Module, _inputs: Any, output: Tensor) -> None:
        made_by[output.grad_fn] = names[module]

    for module in names:
        if isinstance(module, _LAYERS):
            hooks.append(module.register_forward_hook(note))
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        for parameter in twin.parameters():
            parameter.requires_grad_(parameter.is_floating_point())
        outputs = twin(example)
    for hook in hooks:
        hook.remove()
    outermost: set[str] = set()
    walk = [t.grad_fn for t in _tensors(outputs)]
    seen: set[Any] = set()
    while walk:
        node = walk.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node in made_by:
            outermost.add(made_by[node])
        else:
            walk.extend(parent for parent, _ in node.next_functions)
    return outermost


def kept_indexes(model: nn.Module, example: Tensor, history: Sequence[Any]) -> Kept:
    """Where every remaining value of the state sat before pruning.

    A twin whose tensors hold their own flat positions goes through the same pruning; what is left in it are the
    positions kept. No knowledge of layer kinds is needed.
    """
    import torch_pruning as tp

    twin = _clean_copy(model).double()  # positions are exact in float64
    with torch.no_grad():
        for tensor in twin.state_dict().values():
            tensor.copy_(torch.arange(tensor.numel(), dtype=torch.float64).reshape(tensor.shape))
    inputs = example.double() if example.is_floating_point() else example
    with torch.random.fork_rng(devices=[]):
        graph = tp.DependencyGraph().build_dependency(twin.eval(), example_inputs=inputs, verbose=False)
    graph.load_pruning_history(list(history))
    return {name: tensor.detach().round().long() for name, tensor in twin.state_dict().items()}


def check_layer(model: nn.Module, example: Tensor, layer: str) -> None:
    """Halve the channels of one layer in a copy; raises ScenarioError when the model then no longer runs."""
    others = {name for name, module in model.named_modules() if isinstance(module, _LAYERS)} - {layer}
    _check_runs(model, _prune_channels(model, example, 0.5, others, "l1").model, example)


@dataclass(frozen=True)
class _Options:
    importance: Importance
    leave: frozenset[str]


@dataclass(frozen=True)
class _Trial:
    model: nn.Module
    channels: float
    parameters: int
    history: Sequence[Any]


def _base_parameters(ratio: float, of: Base, full_parameters: int | None, start: int) -> int:
    if not 0.0 <= ratio < 1.0:
        raise UsageError(f"ratio: got {ratio}, expected a share of the parameters in [0, 1)")
    if start == 0:
        raise UsageError("model: it has no parameters, so there is nothing to prune")
    if of == "current":
        return start
    if of != "full":
        raise UsageError(f"of: got {of!r}, expected 'full' or 'current'")
    if full_parameters is None or full_parameters < start:
        raise UsageError(f"full_parameters: got {full_parameters}, expected the full version's count, at least {start}")
    return full_parameters


def _search(model: nn.Module, example: Tensor, start: int, target: float, options: _Options) -> _Trial:
    """Correct the first guess by what it gave, (1 - r)^2 being proportional to the parameters; the nearest trial wins.

    A guess outside what earlier trials bracket is replaced by the middle; two trials alike mean that widths are whole
    numbers and no nearer ratio is to be had.
    """
    keep = options.leave | output_layers(model, example)
    low, high = 0.0, 1.0
    channels = channel_ratio(1.0 - target / start)
    best: _Trial | None = None
    seen: set[int] = set()
    for _ in range(MAX_TRIALS):
        trial = _prune_channels(model, example, channels, keep, options.importance)
        if trial.parameters in seen:
            break
        seen.add(trial.parameters)
        if best is None or abs(trial.parameters - target) < abs(best.parameters - target):
            best = trial
        if abs(trial.parameters - target) <= CLOSE_ENOUGH * start:
            break
        if trial.parameters > target:
            low = channels
        else:
            high = channels
        channels = 1.0 - (1.0 - channels) * math.sqrt(target / trial.parameters)
        if not low < channels < high:
            channels = (low + high) / 2.0
    if best is None:
        raise AssertionError("no trial was made")
    return best


def _prune_channels(
    model: nn.Module,
    example: Tensor,
    channels: float,
    keep: Iterable[str],
    importance: Importance,
    widths: Mapping[str, int] | None = None,
) -> _Trial:
    """Remove a share `channels` of every layer, or leave each layer as many as `widths` says."""
    import torch_pruning as tp

    copied = _clean_copy(model).eval()
    names = {module: name for name, module in copied.named_modules()}
    layers = [module for module in copied.modules() if isinstance(module, _LAYERS)]
    ignored = [module for module in layers if names[module] in set(keep)]
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about parameters outside layers, which it prunes and we rebuild
        try:
            pruner = tp.pruner.BasePruner(
                copied,
                example,
                importance=_leading if importance == "leading" else _norm(tp, importance),
                pruning_ratio=channels,
                # Own ratios, since torch-pruning rounds down and skips a layer that would lose its last channel.
                pruning_ratio_dict={
                    module: _own_ratio(module, channels, None if widths is None else widths[names[module]])
                    for module in layers
                    if module not in ignored
                },
                ignored_layers=ignored,
                # Its defaults are dictionaries shared between all pruners of a process.
                in_channel_groups={},
                out_channel_groups={},
                num_heads={},
            )
            pruner.step()
        except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError, AssertionError) as error:
            message = f"model: torch-pruning cannot prune it ({_line(error)}); run `relaytrain doctor`"
            raise ScenarioError(message) from error
    for module, training in zip(copied.modules(), [m.training for m in model.modules()], strict=True):
        module.training = training
    return _Trial(copied, channels, sum(p.numel() for p in copied.parameters()), list(pruner.pruning_history()))


def _norm(tp: Any, importance: Importance) -> Any:
    return tp.importance.MagnitudeImportance(p=1 if importance == "l1" else 2)


def _leading(group: Any, **_: Any) -> Tensor:
    """The first channels of a group are worth most, so that what remains is a slice."""
    count = len(group[0].idxs)
    return torch.arange(count, 0, -1, dtype=torch.float32)


def _own_ratio(layer: nn.Module, channels: float, remaining: int | None = None) -> float:
    """The ratio that leaves the rounded number of channels, at least one, after torch-pruning's rounding down."""
    width = _width(layer, tuple(layer.weight.shape))  # type: ignore[arg-type]
    remaining = max(1, round(width * (1.0 - channels))) if remaining is None else remaining
    return 0.0 if remaining >= width else 1.0 - (remaining + 0.25) / width


def _width(layer: nn.Module, shape: tuple[int, ...]) -> int:
    """The number of output channels that torch-pruning counts for a layer whose weight has this shape."""
    if isinstance(layer, nn.Linear):
        return shape[0]
    groups = int(layer.groups)  # type: ignore[arg-type]
    if groups == layer.out_channels:  # depthwise, or plain with a single output
        return shape[0]
    return shape[1] if layer.transposed else shape[0] // groups


def _clean_copy(model: nn.Module) -> nn.Module:
    copied = copy.deepcopy(model)
    for parameter in copied.parameters():
        parameter.grad = None
    return copied


def _all_kept(model: nn.Module) -> Kept:
    return {name: torch.arange(t.numel()).reshape(t.shape) for name, t in model.state_dict().items()}


def _check_runs(before: nn.Module, after: nn.Module, example: Tensor) -> None:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        wanted = [t.shape for t in _tensors(_clean_copy(before).eval()(example))]
        try:
            got = [t.shape for t in _tensors(copy.deepcopy(after).eval()(example))]
        except RuntimeError as error:
            raise ScenarioError(
                f"model: pruned, it no longer runs ({_line(error)}); a size is fixed in its forward: "
                "run `relaytrain doctor`, then name the layer in `leave`"
            ) from error
    if wanted != got:
        raise ScenarioError(f"model: pruned, its output has shapes {got}, expected {wanted}; run `relaytrain doctor`")


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [t for item in value.values() for t in _tensors(item)]
    if isinstance(value, list | tuple):
        return [t for item in value for t in _tensors(item)]
    return []


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
