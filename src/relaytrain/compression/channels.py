"""torch-pruning behind one adapter: channels and heads go, a smaller plain module is left, and it is known which."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..core.errors import ScenarioError, UsageError
from ..data.nested import Example, called, mapped, tensors
from .heads import LAYERS, Anatomy, anatomy, settle_heads, with_gradient

Importance = Literal["l1", "l2", "leading"]
"""What ranks the channels of a layer: a norm of their weights, or their place, the first being worth most."""
Kept = Mapping[str, Tensor]
"""By name of a tensor in the state: for every remaining value, its flat position in the tensor before pruning."""


@dataclass(frozen=True)
class Trial:
    """A pruned copy, and torch-pruning's own record of what went."""

    model: nn.Module
    history: Sequence[Any]


@dataclass(frozen=True)
class Surgeon:
    """What is known of a network before it is cut: layers that stay, blocks of attention, how channels are ranked."""

    model: nn.Module
    example: Example
    keep: frozenset[str]
    body: Anatomy
    importance: Importance

    @classmethod
    def of(
        cls, model: nn.Module, example: Example, *, keep: Iterable[str] = (), importance: Importance = "l1"
    ) -> Surgeon:
        """Look at `model`; layers that make its output keep their size, and those that `keep` names."""
        with torch.random.fork_rng(devices=[]), _pruning_errors():
            body = anatomy(clean_copy(model), example)
        stays = named_layers(model, keep) | output_layers(model, example) | body.stream
        return cls(model, example, frozenset(stays), body, importance)

    def cut(self, channels: float = 0.0, widths: Mapping[str, int] | None = None) -> Trial:
        """A copy without a share `channels` of each layer and block, or as wide in each layer as `widths` says."""
        import torch_pruning as tp

        copied = clean_copy(self.model).eval()
        names = {module: name for name, module in copied.named_modules()}
        layers = {name: module for module, name in names.items() if isinstance(module, LAYERS)}
        ratios = {name: self._ratio(layer, name, channels, widths) for name, layer in layers.items()}
        blocks = [block for block in self.body.blocks if not self.keep & set(block.layers)]
        heads = {layers[name]: block.heads for block in blocks for name in block.layers}
        head_ratios = {layers[name]: ratios[name] for block in blocks for name in block.layers}
        ignored = {name for name in layers if name in self.keep}
        ignored |= {name for block in self.body.blocks if block not in blocks for name in block.layers}
        before = {name: width_of(layer, tuple(layer.weight.shape)) for name, layer in layers.items()}
        with torch.random.fork_rng(devices=[]), _pruning_errors():
            pruner = tp.pruner.BasePruner(
                copied,
                self.example,
                importance=_leading if self.importance == "leading" else _norm(tp, self.importance),
                pruning_ratio=channels,
                # Own ratios, since torch-pruning rounds down and skips a layer that would lose its last channel.
                pruning_ratio_dict={layers[name]: ratio for name, ratio in ratios.items() if name not in ignored},
                ignored_layers=[layers[name] for name in sorted(ignored)],
                # Its defaults are dictionaries shared between all pruners of a process.
                in_channel_groups={},
                out_channel_groups={},
                num_heads=heads,
                prune_num_heads=bool(heads),
                prune_head_dims=not heads,
                head_pruning_ratio_dict=head_ratios,
                forward_fn=called,
                output_transform=with_gradient,
            )
            pruner.step()
        settle_heads(copied, blocks, before)
        for module, training in zip(copied.modules(), [m.training for m in self.model.modules()], strict=True):
            module.training = training
        return Trial(copied, list(pruner.pruning_history()))

    def _ratio(self, layer: nn.Module, name: str, channels: float, widths: Mapping[str, int] | None) -> float:
        """The share that torch-pruning has to be told so that, after its rounding, the wanted number remains."""
        width = width_of(layer, tuple(layer.weight.shape))  # type: ignore[arg-type]
        block = self.body.of_layer.get(name)
        if block is not None:
            size = width // block.heads
            left = block.heads_left(channels) if widths is None else widths[name] // size
            return 0.0 if left >= block.heads else (block.heads - left - 0.25) / block.heads
        left = max(1, round(width * (1.0 - channels))) if widths is None else widths[name]
        return 0.0 if left >= width else 1.0 - (left + 0.25) / width


def width_of(layer: nn.Module, shape: tuple[int, ...]) -> int:
    """The number of output channels that torch-pruning counts for a layer whose weight has this shape."""
    if isinstance(layer, nn.Linear):
        return shape[0]
    groups = int(layer.groups)  # type: ignore[arg-type]
    if groups == layer.out_channels:  # depthwise, or plain with a single output
        return shape[0]
    return shape[1] if layer.transposed else shape[0] // groups


def named_layers(model: nn.Module, patterns: Iterable[str]) -> set[str]:
    """Names of the layers that `patterns` mean: a layer, a module with all layers in it, `*` for any characters."""
    layers = [name for name, module in model.named_modules() if isinstance(module, LAYERS)]
    names: set[str] = set()
    for pattern in patterns:
        meant = {name for name in layers if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")}
        if not meant:
            some = ", ".join(layers[:4]) + (", ..." if len(layers) > 4 else "")
            raise UsageError(f"keep: {pattern!r} names no layer of the network, expected such as {some}")
        names |= meant
    return names


def output_layers(model: nn.Module, example: Example) -> set[str]:
    """Names of the layers whose outputs reach the model's output with no other layer between; they keep their size."""
    twin = clean_copy(model).eval()
    made_by: dict[Any, str] = {}
    hooks = []
    names = {module: name for name, module in twin.named_modules()}

    def note(module: nn.Module, _inputs: Any, output: Tensor) -> None:
        made_by[output.grad_fn] = names[module]

    for module in names:
        if isinstance(module, LAYERS):
            hooks.append(module.register_forward_hook(note))
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        for parameter in twin.parameters():
            parameter.requires_grad_(parameter.is_floating_point())
        outputs = called(twin, example)
    for hook in hooks:
        hook.remove()
    outermost: set[str] = set()
    walk = [t.grad_fn for t in tensors(outputs)]
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


def kept_indexes(model: nn.Module, example: Example, history: Sequence[Any]) -> Kept:
    """Where every remaining value of the state sat before pruning.

    A twin whose tensors hold their own flat positions goes through the same pruning; what is left in it are the
    positions kept. No knowledge of layer kinds is needed.
    """
    import torch_pruning as tp

    twin = clean_copy(model).double()  # positions are exact in float64
    with torch.no_grad():
        for tensor in twin.state_dict().values():
            tensor.copy_(torch.arange(tensor.numel(), dtype=torch.float64).reshape(tensor.shape))
    inputs = mapped(example, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = tp.DependencyGraph().build_dependency(
            twin.eval(), example_inputs=inputs, forward_fn=called, output_transform=with_gradient, verbose=False
        )
    graph.load_pruning_history(list(history))
    return {name: tensor.detach().round().long() for name, tensor in twin.state_dict().items()}


def check_runs(before: nn.Module, after: nn.Module, example: Example) -> None:
    """Raise unless the pruned model runs and its outputs have the shapes of the one before."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        shapes_before = [t.shape for t in tensors(called(clean_copy(before).eval(), example))]
        try:
            shapes_after = [t.shape for t in tensors(called(copy.deepcopy(after).eval(), example))]
        except RuntimeError as error:
            raise ScenarioError(
                f"model: pruned, it no longer runs ({_line(error)}); a size is fixed in its forward: "
                "run `relaytrain doctor`, then name the layer in `keep`"
            ) from error
    if shapes_before != shapes_after:
        words = f"its output has shapes {shapes_after}, expected {shapes_before}"
        raise ScenarioError(f"model: pruned, {words}; run `relaytrain doctor`")


def clean_copy(model: nn.Module) -> nn.Module:
    """A copy without gradients."""
    copied = copy.deepcopy(model)
    for parameter in copied.parameters():
        parameter.grad = None
    return copied


def parameter_count(model: nn.Module) -> int:
    """How many trainable and fixed parameters, shared ones once."""
    return sum(p.numel() for p in model.parameters())


@contextmanager
def _pruning_errors() -> Iterator[None]:
    """What torch-pruning raises becomes one error; its warnings about bare parameters, which we rebuild, are silent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError, AssertionError) as error:
            message = f"model: torch-pruning cannot prune it ({_line(error)}); run `relaytrain doctor`"
            raise ScenarioError(message) from error


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def _norm(tp: Any, importance: Importance) -> Any:
    return tp.importance.MagnitudeImportance(p=1 if importance == "l1" else 2)


def _leading(group: Any, **_: Any) -> Tensor:
    """The first channels of a group are worth most, so that what remains is a slice."""
    return torch.arange(len(group[0].idxs), 0, -1, dtype=torch.float32)
