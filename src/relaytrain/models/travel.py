"""A version on the wire or on disk: one safetensors blob, its spec in the header. Never a pickle.

Nothing in a blob is believed before it is checked: size of the header, the spec, then names, shapes and kinds of the
tensors against the spec, and only then is memory taken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import nn

from ..core.errors import ScenarioError
from .rebuild import Resolve, build, check_state, check_tensors, load_state_of, shapes_of, skeleton, state_of
from .spec import FamilySpec, Spec, read_spec, spec_json, validate_spec

METADATA_KEY = "relaytrain.version/1"
"""The only metadata key, so that equal versions give equal bytes (safetensors does not fix the order of keys)."""
MAX_HEADER_BYTES = 64 * 2**20

Tensors = dict[str, torch.Tensor]


def save_version(model: nn.Module, spec: Spec) -> bytes:
    """The model's whole state and its spec as safetensors bytes; equal weights give equal bytes.

    Raises:
        ScenarioError: the model is not of this spec.
    """
    spec = validate_spec(spec)
    if isinstance(spec, FamilySpec):
        bare = skeleton(spec)
        check_state(model, shapes_of(bare), "save_version")
        _check_kinds(bare.state_dict(), model.state_dict(), "save_version")
    else:
        check_tensors(state_of(model, spec), dict(spec.shapes), "save_version")
    state = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state_of(model, spec).items()}
    return bytes(save_tensors(state, metadata={METADATA_KEY: spec_json(spec)}))


def load_version(data: bytes, *, resolve: Resolve | None = None, where: str = "checkpoint") -> tuple[Spec, nn.Module]:
    """Spec and model of a blob that `save_version` wrote, weights bit-equal, on the CPU.

    Args:
        data: the blob, of any origin.
        resolve: needed when the blob names a factory; without it no reference is followed.
        where: what to call the blob in messages.
    """
    spec = read_version_spec(data, where=where)
    tensors = tensors_of(data, where)
    check_fit(spec, tensors, where)
    return spec, rebuilt(spec, tensors, resolve, where)


def read_version_spec(data: bytes, *, where: str = "checkpoint") -> Spec:
    """The spec in a blob's header, without touching its tensors."""
    return read_spec(metadata_of(data, METADATA_KEY, where, "a version"), f"{where}: spec")


def metadata_of(data: bytes, key: str, where: str, kind: str) -> str:
    """The text under `key` in the header of a safetensors blob of any origin, without touching its tensors.

    `kind` is what such a blob is called in messages: "a version" or "a checkpoint", as relaytrain saves them.
    """
    if len(data) < 8:
        raise ScenarioError(f"{where}: {len(data)} bytes, expected {kind} that relaytrain saved")
    size = int.from_bytes(data[:8], "little")
    if size > min(MAX_HEADER_BYTES, len(data) - 8):
        raise ScenarioError(f"{where}: not a safetensors file (a header of {size} bytes); pickles are never read")
    try:
        header = json.loads(data[8 : 8 + size])
    except (ValueError, RecursionError):
        raise ScenarioError(f"{where}: its header is not JSON; expected a safetensors file") from None
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    text = metadata.get(key) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise ScenarioError(f"{where}: no {key} in its header; expected {kind} that relaytrain saved")
    return text


def tensors_of(data: bytes, where: str) -> Tensors:
    """The tensors of a safetensors blob of any origin."""
    try:
        return load_tensors(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ScenarioError(f"{where}: not a whole safetensors file ({error}); get it again from its source") from None


def check_fit(spec: Spec, tensors: Tensors, where: str) -> None:
    """Raise unless the tensors have the names and shapes that their spec says; of a family their kinds as well."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if isinstance(spec, FamilySpec):
        expected = _family_state(spec)
        if {name: tuple(tensor.shape) for name, tensor in expected.items()} != shapes:
            check_state(skeleton(spec), shapes, where)  # raises, naming the tensor
        _check_kinds(expected, tensors, where)
    elif shapes != dict(spec.shapes):
        raise ScenarioError(f"{where}: its tensors are not those its spec lists; get it again from its source")


def rebuilt(spec: Spec, tensors: Tensors, resolve: Resolve | None, where: str) -> nn.Module:
    """A fresh module with these tensors, which fit its spec; `resolve` is needed where that names a factory."""
    model = skeleton(spec).to_empty(device="cpu") if isinstance(spec, FamilySpec) else build(spec, resolve=resolve)
    _check_kinds(state_of(model, spec), tensors, where)
    load_state_of(model, tensors, spec)
    return model


@lru_cache(maxsize=64)
def _family_state(spec: FamilySpec) -> dict[str, torch.Tensor]:
    """The state of a family's version, without memory."""
    return dict(skeleton(spec).state_dict())


def _check_kinds(expected: Mapping[str, torch.Tensor], tensors: Mapping[str, torch.Tensor], where: str) -> None:
    for name, tensor in expected.items():
        if name in tensors and tensor.dtype != tensors[name].dtype:
            raise ScenarioError(f"{where}: {name} is {tensors[name].dtype}, expected {tensor.dtype}")
