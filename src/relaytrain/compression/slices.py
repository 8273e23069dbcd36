"""Slices: a smaller version as the leading channels of the full one, cut out and written back without loss.

A slice keeps the first part of every axis of every tensor, so its shapes alone say what it is. Cutting it out is one
view a tensor; writing it back puts its values where they came from and leaves the rest of the full version as it was.

Paper: none of the three; ordered dropout (Horvath et al. 2021) and slimmable networks (Yu et al. 2019).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from ..core.errors import ScenarioError
from ..data.nested import Example
from .prune import Measure, Pruned, prune

Shapes = Mapping[str, tuple[int, ...]]


def leading(
    model: nn.Module, example: Example, ratio: float, *, keep: Sequence[str] = (), measure: Measure | None = None
) -> Pruned:
    """The slice of `model` that does without a share `ratio` of it (see `prune`); the same of channels everywhere.

    Raises:
        ScenarioError: some tensor would keep other values than the leading ones, as behind a concatenation or a group
            norm of several groups.
    """
    pruned = prune(model, example, ratio, importance="leading", keep=keep, measure=measure)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name, kept in pruned.kept.items():
        positions = torch.arange(math.prod(shapes[name])).reshape(shapes[name])
        if not torch.equal(cut(positions, tuple(kept.shape)), kept):
            _refuse_groups(model, pruned.model)
            raise ScenarioError(
                f"model: {name} of a narrower network would not be the leading part of the full one's, as where "
                'outputs of layers are joined or split; expected way = "pruned" for versions of it'
            )
    return pruned


def _refuse_groups(model: nn.Module, narrower: nn.Module) -> None:
    """Raise where a group norm keeps channels of each of its groups, so that these are not the leading ones of all."""
    for name, norm in model.named_modules():
        if not isinstance(norm, nn.GroupNorm) or norm.num_groups == 1:
            continue
        left = narrower.get_submodule(name)
        if isinstance(left, nn.GroupNorm) and left.num_channels < norm.num_channels:
            raise ScenarioError(
                f"model: {name} (GroupNorm of {norm.num_groups} groups) would keep the first channels of each group, "
                "so a narrower network would not be the leading part of the full one; expected one group or BatchNorm, "
                'the layers before it in [training] keep, or way = "pruned" for versions of it'
            )


def cut(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The leading part of `tensor`, as a view."""
    return tensor[tuple(slice(0, size) for size in shape)]


def cut_out(tensors: Mapping[str, Tensor], shapes: Shapes) -> dict[str, Tensor]:
    """The slice with these shapes out of a version's tensors, copied."""
    return {name: cut(tensors[name], shape).clone() for name, shape in shapes.items()}


def written_into(tensors: Mapping[str, Tensor], part: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A version's tensors with a slice of them written into their leading parts; all other values as they were."""
    whole = {name: tensor.clone() for name, tensor in tensors.items()}
    for name, tensor in part.items():
        cut(whole[name], tuple(tensor.shape)).copy_(tensor)
    return whole


def cut_state(state: Mapping[str, Tensor], shapes: Shapes) -> dict[str, Tensor]:
    """Optimizer state (`BUFFER/PARAMETER`) of a slice; counters of steps stay."""
    own = {key: shapes[key.partition("/")[2]] if tensor.ndim else () for key, tensor in state.items()}
    return cut_out(state, own)


def state_written_into(state: Mapping[str, Tensor], part: Mapping[str, Tensor], shapes: Shapes) -> dict[str, Tensor]:
    """Optimizer state of the full version with a slice's written in; what it never had begins at zero."""
    missing = {
        key: tensor.new_zeros(shapes[key.partition("/")[2]] if tensor.ndim else ())
        for key, tensor in part.items()
        if key not in state
    }
    return written_into({**state, **missing}, part)
