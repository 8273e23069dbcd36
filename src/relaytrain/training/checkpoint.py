"""A checkpoint: the version's spec, its weights and the optimizer's state as one safetensors blob. Never a pickle.

    weights/NAME            every tensor of the model's state
    optimizer/BUFFER/NAME   momentum_buffer, exp_avg ... of parameter NAME
    server/BUFFER/NAME      what the server's own optimizer keeps of it
    scaler/NAME             of fp16's scale of losses
    whole/...               of a slice that trains: all of the full version that it was cut out of

Nothing in a blob is believed before it is checked: header, spec, then names, shapes and kinds against the spec.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..core.errors import ScenarioError
from ..models.rebuild import Resolve, state_of
from ..models.spec import Spec, read_spec, spec_json
from ..models.travel import Tensors, check_fit, metadata_of, rebuilt, tensors_of
from .safetensors_bytes import as_safetensors
from .task import Blob, as_bytes

METADATA_KEY = "relaytrain.checkpoint/1"
"""The only metadata key, so that equal checkpoints give equal bytes."""
WEIGHTS, OPTIMIZER, SERVER, SCALER, WHOLE = "weights/", "optimizer/", "server/", "scaler/", "whole/"
SHAPED = frozenset({"momentum_buffer", "exp_avg", "exp_avg_sq"})
"""Buffers that always have the shape of their weight."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Weights and optimizer state of one version; tensors are on the CPU and are not to be written to.

    `optimizer` keys read `BUFFER/PARAMETER`, such as `momentum_buffer/features.0.weight`; empty before the first step.
    So do those of `server`, the state of the server's optimizer. `scaler` holds the scale of fp16's losses.
    `whole`: of a nested version, the full one as it was when this slice was cut out; what a slice does not have stays
    there until the way back up.
    """

    spec: Spec
    weights: Tensors = field(repr=False)
    optimizer: Tensors = field(repr=False, default_factory=dict)
    version: str = ""
    server: Tensors = field(repr=False, default_factory=dict)
    scaler: Tensors = field(repr=False, default_factory=dict)
    whole: Checkpoint | None = None

    @classmethod
    def of_model(
        cls, model: nn.Module, spec: Spec, version: str, optimizer: Mapping[str, Tensor] | None = None
    ) -> Checkpoint:
        """The state of `model`, copied."""
        weights = {name: _plain(tensor) for name, tensor in state_of(model, spec).items()}
        state = {name: _plain(tensor) for name, tensor in (optimizer or {}).items()}
        return cls(spec, weights, state, version)

    @cached_property
    def for_nodes(self) -> Checkpoint:
        """Without what the server keeps for itself, and what a slice was cut out of: what is sent to nodes."""
        return replace(self, server={}, whole=None) if self.server or self.whole is not None else self

    @cached_property
    def data(self) -> bytes:
        """The safetensors bytes; equal weights, optimizer state, spec and version give equal bytes."""
        tensors, header = self._tensors(), self._header()
        if self.whole is not None:
            tensors |= {WHOLE + name: tensor for name, tensor in self.whole._tensors().items()}
            header["whole"] = self.whole._header()
        return as_safetensors(tensors, {METADATA_KEY: json.dumps(header, sort_keys=True)})

    def _tensors(self) -> Tensors:
        kinds = {WEIGHTS: self.weights, OPTIMIZER: self.optimizer, SERVER: self.server, SCALER: self.scaler}
        return {kind + name: tensor for kind, held in kinds.items() for name, tensor in held.items()}

    def _header(self) -> dict[str, Any]:
        return {"spec": json.loads(spec_json(self.spec)), "version": self.version}

    def to_bytes(self) -> bytes:
        """The same as `data`."""
        return self.data

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str = "checkpoint") -> Checkpoint:
        """The checkpoint in a blob of any origin; no reference in it is followed.

        Raises:
            ScenarioError: it is not a whole checkpoint, or its tensors are not those of its spec.
        """
        headers = _headers(data, where)
        tensors = tensors_of(data, where)
        kept = {name.removeprefix(WHOLE): tensors.pop(name) for name in list(tensors) if name.startswith(WHOLE)}
        if len(headers) == 1 and kept:
            raise ScenarioError(f"{where}: holds a full version that its header does not know")
        own = cls._checked(headers[0], tensors, where)
        return own if len(headers) == 1 else replace(own, whole=cls._checked(headers[1], kept, f"{where}: whole"))

    @classmethod
    def _checked(cls, header: tuple[Spec, str], tensors: Tensors, where: str) -> Checkpoint:
        spec, version = header
        weights, state, server, scaler = (
            {name.removeprefix(kind): tensor for name, tensor in tensors.items() if name.startswith(kind)}
            for kind in (WEIGHTS, OPTIMIZER, SERVER, SCALER)
        )
        if len(weights) + len(state) + len(server) + len(scaler) != len(tensors):
            raise ScenarioError(f"{where}: holds tensors that are neither weights nor optimizer state")
        check_fit(spec, weights, where)
        _check_state(weights, state, where)
        _check_state(weights, server, where)
        _check_scaler(scaler, where)
        return cls(spec, weights, state, version, server, scaler)

    @classmethod
    def opened(cls, blob: Blob, *, where: str = "checkpoint") -> Checkpoint:
        """The checkpoint in bytes, or the object itself where it never left this process."""
        return blob if isinstance(blob, Checkpoint) else cls.from_bytes(as_bytes(blob), where=where)

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes, which is also the name of the blob in a store."""
        return hashlib.sha256(self.data).hexdigest()

    def model(self, *, resolve: Resolve | None = None) -> nn.Module:
        """A fresh module with these weights, in eval mode; `resolve` is needed when the spec names a factory."""
        return rebuilt(self.spec, self.weights, resolve, "checkpoint").eval()


def _headers(data: bytes, where: str) -> list[tuple[Spec, str]]:
    """Spec and version name of a checkpoint and, where it is a slice, of the full version that it holds beside it."""
    text = metadata_of(data, METADATA_KEY, where, "a checkpoint")
    try:
        inner = json.loads(text)
        tables = [inner, *([inner["whole"]] if "whole" in inner else [])]
        read = [(json.dumps(each["spec"]), each["version"]) for each in tables]
    except (ValueError, RecursionError, KeyError, TypeError):
        words = "is no JSON table of spec and version; expected a checkpoint that relaytrain saved"
        raise ScenarioError(f"{where}: {METADATA_KEY} in its header {words}") from None
    if not all(isinstance(version, str) and len(version) <= 200 for _, version in read):
        raise ScenarioError(f"{where}: its version is not a name")
    return [(read_spec(spec, f"{where}: spec"), version) for spec, version in read]


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True).contiguous()


def _check_state(weights: Tensors, state: Tensors, where: str) -> None:
    """Each buffer belongs to a weight and is no larger; a factored one of the user's own has another shape."""
    for key, tensor in state.items():
        buffer, _, name = key.partition("/")
        if name not in weights or not buffer:
            raise ScenarioError(f"{where}: optimizer state {key!r} belongs to no weight")
        fits = tensor.shape == weights[name].shape
        if tensor.ndim and not fits and (buffer in SHAPED or tensor.numel() > weights[name].numel()):
            raise ScenarioError(
                f"{where}: optimizer state {key!r} has shape {list(tensor.shape)}, expected its weight's"
            )


def _check_scaler(scaler: Tensors, where: str) -> None:
    if not scaler:
        return
    whole = set(scaler) == {"scale", "growth_tracker"} and all(tensor.numel() == 1 for tensor in scaler.values())
    whole = whole and scaler["scale"].is_floating_point() and scaler["growth_tracker"].dtype == torch.int64
    if not whole or not 0.0 < float(scaler["scale"]) < math.inf or not 0 <= int(scaler["growth_tracker"]) < 2**31:
        raise ScenarioError(f"{where}: a scale of losses that none of training leaves behind; get it again")
