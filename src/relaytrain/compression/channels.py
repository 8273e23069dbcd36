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
from .heads import LAYERS, Anatomy, anatomy, graph_of, settle_heads, with_gradient
from .recurrent import RECURRENT, FixedWidth, FixedWidthRule, recurrent_layers, unseen

NAMEABLE = (*LAYERS, *RECURRENT, nn.Embedding)
"""Layers that `keep` may name."""
ASK_DOCTOR = "; run `relaytrain doctor`"
"""What ends a message about a network that was not looked at more closely; doctor itself does so without it."""

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
    fed: Mapping[str, frozenset[str]]
    """By name of a recurrent layer, which stays whole: the layers that feed it, and so stay, too."""

    @classmethod
    def of(
        cls, model: nn.Module, example: Example, *, keep: Iterable[str] = (), importance: Importance = "l1"
    ) -> Surgeon:
        """Look at `model`; layers that make its output keep their size, and those that `keep` names."""
        with torch.random.fork_rng(devices=[]), _pruning_errors():
            body = anatomy(clean_copy(model), example)
        ends = _ends(model, example)
        fed = {name: ends[name] for name in recurrent_layers(model) if name in ends}
        stays = named_layers(model, keep) | ends[""] | body.stream
        return cls(model, example, frozenset(stays.union(*fed.values())), body, importance, fed)

    @property
    def whole(self) -> str:
        """In words, which layers stay whole without having been named, but for those that make the output."""
        modules = dict(self.model.named_modules())
        told = []
        for name, feeding in self.fed.items():
            feeds = f", and what feeds it ({listed(feeding)})" if feeding else ""
            told.append(f"{name or 'it'}, which torch-pruning cannot narrow ({type(modules[name]).__name__}){feeds}")
        if self.body.stream:
            told.append(f"what runs past blocks of attention ({listed(self.body.stream)})")
        return "; ".join(told)

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
        with torch.random.fork_rng(devices=[]), _pruning_errors(), unseen(copied) as ends:
            pruner = tp.pruner.BasePruner(
                copied,
                self.example,
                importance=_leading if self.importance == "leading" else _norm(tp, self.importance),
                pruning_ratio=channels,
                # Own ratios, since torch-pruning rounds down and skips a layer that would lose its last channel.
                pruning_ratio_dict={layers[name]: ratio for name, ratio in ratios.items() if name not in ignored},
                ignored_layers=[*(layers[name] for name in sorted(ignored)), *self._embeddings(copied), *ends],
                customized_pruners={FixedWidth: FixedWidthRule()},
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

    def _embeddings(self, copied: nn.Module) -> list[nn.Module]:
        """Embeddings that stay: they feed a recurrent layer, or `keep` names them."""
        return [m for name, m in copied.named_modules() if isinstance(m, nn.Embedding) and name in self.keep]

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
    layers = [name for name, module in model.named_modules() if isinstance(module, NAMEABLE)]
    names: set[str] = set()
    for pattern in patterns:
        meant = {name for name in layers if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")}
        if not meant:
            some = ", ".join(layers[:4]) + (", ..." if len(layers) > 4 else "")
            raise UsageError(f"keep: {pattern!r} names no layer of the network, expected such as {some}")
        names |= meant
    return names


def listed(names: Iterable[str]) -> str:
    """Some names in words, in order."""
    ordered = sorted(names)
    return ", ".join(ordered[:6]) + (", ..." if len(ordered) > 6 else "")


def output_layers(model: nn.Module, example: Example) -> set[str]:
    """Names of the layers whose outputs reach the model's output with no other layer between; they keep their size."""
    return set(_ends(model, example)[""])


def _ends(model: nn.Module, example: Example) -> dict[str, frozenset[str]]:
    """Layers with no other layer between them and the model's output (""), and each recurrent layer by its name."""
    twin = clean_copy(model).eval()
    made_by: dict[Any, str] = {}
    into: dict[str, list[Tensor]] = {}
    hooks = []

    for name, module in twin.named_modules():
        if isinstance(module, NAMEABLE):

            def note(_module: nn.Module, _inputs: Any, output: Any, name: str = name) -> None:
                made_by.update((tensor.grad_fn, name) for tensor in tensors(output) if tensor.grad_fn is not None)

            hooks.append(module.register_forward_hook(note))
    for name, layer in recurrent_layers(twin).items():

        def reached(_layer: nn.Module, given: Any, named: Any, name: str = name) -> None:
            into.setdefault(name, []).extend(tensors((given, named)))

        hooks.append(layer.register_forward_pre_hook(reached, with_kwargs=True))
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        for parameter in twin.parameters():
            parameter.requires_grad_(parameter.is_floating_point())
        outputs = called(twin, example)
    for hook in hooks:
        hook.remove()
    return {name: _outermost(list(ends), made_by) for name, ends in {"": tensors(outputs), **into}.items()}


def _outermost(ends: Iterable[Tensor], made_by: Mapping[Any, str]) -> frozenset[str]:
    """The layers met first on the way back from `ends`."""
    outermost: set[str] = set()
    walk = [tensor.grad_fn for tensor in ends]
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
    return frozenset(outermost)


def kept_indexes(model: nn.Module, example: Example, history: Sequence[Any]) -> Kept:
    """Where every remaining value of the state sat before pruning.

    A twin whose tensors hold their own flat positions goes through the same pruning; what is left in it are the
    positions kept. No knowledge of layer kinds is needed.
    """
    twin = clean_copy(model).double()  # positions are exact in float64
    with torch.no_grad():
        for tensor in twin.state_dict().values():
            tensor.copy_(torch.arange(tensor.numel(), dtype=torch.float64).reshape(tensor.shape))
    inputs = mapped(example, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = graph_of(twin, inputs)
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
                f"model: pruned, it no longer runs ({_line(error)}); a size is fixed in its forward{ASK_DOCTOR}, "
                "then name the layer in `keep`"
            ) from error
    if shapes_before != shapes_after:
        words = f"its output has shapes {shapes_after}, expected {shapes_before}"
        raise ScenarioError(f"model: pruned, {words}{ASK_DOCTOR}")


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
            message = f"model: torch-pruning cannot prune it ({_line(error)}){ASK_DOCTOR}"
            raise ScenarioError(message) from error


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def _norm(tp: Any, importance: Importance) -> Any:
    return tp.importance.MagnitudeImportance(p=1 if importance == "l1" else 2)


def _leading(group: Any, **_: Any) -> Tensor:
    """The first channels of a group are worth most, so that what remains is a slice."""
    return torch.arange(len(group[0].idxs), 0, -1, dtype=torch.float32)
