"""Attention heads: which layers hold them, how many remain, and the attributes in which modules count them.

A block of attention is found in the graph, not by the names of its layers: linear layers that shrink together and
belong to one module which counts heads in an attribute (`num_attention_heads`, `num_heads`, ...), or says how wide one
is (`head_dim`, ...). Heads go whole. What runs past all blocks, the residual stream with its norms and embeddings,
keeps its width: heads and the inner widths of MLPs are what is pruned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ..core.errors import ScenarioError
from ..core.head_names import HEAD_ATTRIBUTES, HEAD_COUNTS, HEAD_SIZES, HEAD_TOTALS
from ..data.nested import Example, called, tensors
from .recurrent import FixedWidth, FixedWidthRule, unseen

LAYERS = (nn.modules.conv._ConvNd, nn.Linear)

Attributes = dict[str, int]
"""By dotted name of module and attribute: a whole number."""


@dataclass(frozen=True)
class AttentionBlock:
    """One block of attention: the module that counts its heads and the layers that hold them."""

    module: str
    layers: tuple[str, ...]
    heads: int

    def heads_left(self, channels: float) -> int:
        """Heads that remain when a share `channels` of them goes; at least one."""
        return max(1, round(self.heads * (1.0 - channels)))

    @property
    def fused(self) -> int:
        """How many times the heads lie in a layer's output: 3 where one layer makes queries, keys and values."""
        return 3 if len(self.layers) == 1 else 1


@dataclass(frozen=True)
class Anatomy:
    """What of a network with attention may shrink: its blocks by the layers' names; `stream` are layers that stay."""

    blocks: tuple[AttentionBlock, ...] = ()
    stream: frozenset[str] = frozenset()
    of_layer: Mapping[str, AttentionBlock] = field(default_factory=dict)


def counts_heads(model: nn.Module) -> bool:
    """Whether any module of `model` says how many heads it has, or how wide one is."""
    return any(_count(module) or _size(module) for module in model.modules())


def anatomy(model: nn.Module, example: Example) -> Anatomy:
    """The blocks of attention of `model` and what runs past them; empty where nothing counts heads.

    `model` is traced in eval mode and may be written to: hand in a copy.

    Raises:
        ScenarioError: it turns queries and keys by position (rotary), where torch-pruning 1.6.1 searches without end.
    """
    if not counts_heads(model):
        return Anatomy()
    turned = next((n for n, m in model.named_modules() if "rotary" in type(m).__name__.lower()), None)
    if turned is not None:
        raise ScenarioError(
            f"model: {turned} turns queries and keys by position, and torch-pruning finds no end in such a network; "
            "expected versions that are ranks of an adapter (rank) or students (student) instead of ratio"
        )
    names = {module: name for name, module in model.named_modules()}
    graph = graph_of(model, example)
    blocks: list[AttentionBlock] = []
    stream: set[str] = set()
    for group in graph.get_all_groups(root_module_types=[*LAYERS]):
        shrinking = {
            dep.target.module: None
            for dep, _ in group
            if isinstance(dep.target.module, nn.Module) and graph.is_out_channel_pruning_fn(dep.handler)
        }
        layers = [module for module in shrinking if isinstance(module, LAYERS)]
        block = _block(layers, names, dict(model.named_modules()))
        if block is not None:
            blocks += [block] if block not in blocks else []
        elif _runs_past(group, shrinking) or _belongs_to_attention(layers, names, dict(model.named_modules())):
            stream |= {names[module] for module in layers}
    whole = [name for name, module in model.named_modules() if isinstance(module, nn.MultiheadAttention)]
    stream |= {names[m] for m in names if isinstance(m, LAYERS) and any(names[m].startswith(f"{w}.") for w in whole)}
    return Anatomy(tuple(blocks), frozenset(stream), {layer: block for block in blocks for layer in block.layers})


def settle_heads(model: nn.Module, blocks: Iterable[AttentionBlock], before: Mapping[str, int]) -> None:
    """Write the heads that `model` has after pruning into the modules that count them.

    `before` is the width of every block's first layer before pruning; a head keeps its size.
    """
    modules = dict(model.named_modules())
    for block in blocks:
        size = before[block.layers[0]] // (block.heads * block.fused)
        heads = int(modules[block.layers[0]].out_features) // (size * block.fused)
        holder = modules[block.module]
        for name in HEAD_COUNTS:
            if _whole(holder, name) == block.heads:
                setattr(holder, name, heads)
        for name in HEAD_TOTALS:
            if _whole(holder, name) == block.heads * size:
                setattr(holder, name, heads * size)


def head_attributes(model: nn.Module) -> Attributes:
    """What a rebuilt module must be told, since shapes do not say it: every count of heads, by dotted name."""
    attributes: Attributes = {}
    for path, module in model.named_modules():
        if type(module).__module__.startswith("torch."):
            continue
        for name in sorted(HEAD_ATTRIBUTES):
            value = _whole(module, name)
            if value and (_count(module) or _size(module)):
                attributes[f"{path}.{name}" if path else name] = value
    return attributes


def set_heads(model: nn.Module, attributes: Mapping[str, int], where: str) -> None:
    """Tell the modules of `model` their heads; a spec may only set what the module has and counts already."""
    for path, value in attributes.items():
        owner, _, name = path.rpartition(".")
        try:
            module = model.get_submodule(owner)
        except AttributeError:
            raise ScenarioError(f"{where}: its spec counts heads in {owner}, which the module does not have") from None
        if name not in HEAD_ATTRIBUTES or not _whole(module, name):
            raise ScenarioError(f"{where}: its spec sets {path}, which is no count of heads in the module")
        setattr(module, name, value)


def graph_of(model: nn.Module, example: Example) -> Any:
    """What torch-pruning knows of how the layers of `model` depend on each other; it is put into eval mode."""
    import torch_pruning as tp

    with unseen(model.eval()):
        return tp.DependencyGraph().build_dependency(
            model,
            example_inputs=example,
            forward_fn=called,
            output_transform=with_gradient,
            customized_pruners={FixedWidth: FixedWidthRule()},
            verbose=False,
        )


def with_gradient(outputs: Any) -> list[torch.Tensor]:
    """The tensors of a model's output through which a gradient comes back."""
    return [tensor for tensor in tensors(outputs) if tensor.grad_fn is not None]


def _block(
    layers: Sequence[nn.Module], names: Mapping[nn.Module, str], modules: Mapping[str, nn.Module]
) -> AttentionBlock | None:
    """The block that these layers make, if they are all of one module that counts heads and hold whole ones."""
    if not layers or not all(isinstance(layer, nn.Linear) for layer in layers):
        return None
    holders = {names[layer].rpartition(".")[0] for layer in layers}
    widths = {int(layer.out_features) for layer in layers}  # type: ignore[arg-type]
    if len(holders) != 1 or len(widths) != 1 or len(layers) not in (1, 3):
        return None
    fused = 3 if len(layers) == 1 else 1
    holder, width = holders.pop(), widths.pop()
    if width % fused:
        return None
    width //= fused
    count, size = _count(modules[holder]), _size(modules[holder])
    heads = count or (width // size if size else 0)
    if heads < 1 or width % heads or (size and size * heads != width):
        return None
    return AttentionBlock(holder, tuple(sorted(names[layer] for layer in layers)), heads)


def _runs_past(group: Any, shrinking: Iterable[nn.Module]) -> bool:
    """Whether a group of coupled layers is the residual stream: it has a norm, an embedding or a bare parameter."""
    kinds = (nn.LayerNorm, nn.Embedding, nn.RMSNorm, nn.MultiheadAttention)
    if any(isinstance(module, kinds) for module in shrinking):
        return True
    return any(isinstance(dep.target.module, nn.Parameter) for dep, _ in group)


def _belongs_to_attention(
    layers: Iterable[nn.Module], names: Mapping[nn.Module, str], modules: Mapping[str, nn.Module]
) -> bool:
    """Whether a layer sits in a module that counts heads, though no block was found: such a one stays whole."""
    holders = [modules[names[layer].rpartition(".")[0]] for layer in layers]
    return any(_count(holder) or _size(holder) for holder in holders)


def _count(module: nn.Module) -> int:
    return next((value for value in (_whole(module, name) for name in HEAD_COUNTS) if value), 0)


def _size(module: nn.Module) -> int:
    return next((value for value in (_whole(module, name) for name in HEAD_SIZES) if value), 0)


def _whole(module: nn.Module, name: str) -> int:
    value = vars(module).get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
