"""Weights and modules in the formats that others read: plain state_dicts, torch.export, ONNX. Bytes in, bytes out."""

from __future__ import annotations

import importlib.util
import io
import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from ..core.errors import ScenarioError
from ..models.spec import Spec, spec_json
from ..models.travel import METADATA_KEY

Tensors = Mapping[str, Tensor]
Shape = tuple[int, ...]
EXAMPLE_BATCH = 2
"""Inputs in the example that tracers see; they fix a batch of one for good."""


def version_bytes(weights: Tensors, spec: Spec) -> bytes:
    """Weights with their spec: what `travel.save_version` writes of a module, without building the module."""
    return bytes(save_tensors(_plain(weights), metadata={METADATA_KEY: spec_json(spec)}))


def state_safetensors(weights: Tensors) -> bytes:
    """A plain state_dict as safetensors."""
    return bytes(save_tensors(_plain(weights)))


def read_safetensors(data: bytes) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    return dict(load_tensors(data))


def state_pt(weights: Tensors) -> bytes:
    """A plain state_dict as torch writes it: `torch.load(file, weights_only=True)` reads it back."""
    buffer = io.BytesIO()
    torch.save(_plain(weights), buffer)
    return buffer.getvalue()


def read_state_pt(data: bytes) -> dict[str, Tensor]:
    """The tensors of such a file; anything but tensors is refused."""
    return dict(torch.load(io.BytesIO(data), map_location="cpu", weights_only=True))


def same(one: Tensors, other: Tensors) -> bool:
    """Equal names, kinds, shapes and bits."""
    if set(one) != set(other):
        return False
    return all(
        tensor.dtype == other[name].dtype and tensor.shape == other[name].shape and _bits(tensor) == _bits(other[name])
        for name, tensor in one.items()
    )


def example_input(shape: Shape) -> Tensor:
    """Inputs to compare two modules on, always the same."""
    return torch.randn((EXAMPLE_BATCH, *shape), generator=torch.Generator().manual_seed(0))


def same_outputs(one: nn.Module, other: nn.Module, shape: Shape) -> bool:
    """Both modules give the same bits on the same inputs."""
    inputs = example_input(shape)
    with torch.no_grad():
        return bool(torch.equal(one(inputs), other(inputs)))


def exported_program(model: nn.Module, shape: Shape) -> bytes:
    """The module as a `torch.export` archive (.pt2), for batches of any size.

    Raises:
        ScenarioError: torch.export cannot trace it.
    """
    try:
        program = torch.export.export(model.eval(), (example_input(shape),), dynamic_shapes=_any_batch())
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
    except Exception as error:  # tracing a user's module may fail in any way
        raise ScenarioError(f"torch.export cannot trace this network ({_first_line(error)})") from None
    return buffer.getvalue()


def read_program(data: bytes) -> nn.Module:
    """The module of an archive that `exported_program` wrote just now (it runs code of its own: not for strangers')."""
    return torch.export.load(io.BytesIO(data)).module()


def onnx_missing() -> str | None:
    """The package that ONNX needs and that is not installed."""
    return next((name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None), None)


def onnx_model(model: nn.Module, shape: Shape) -> bytes:
    """The module as ONNX, for batches of any size.

    Raises:
        ScenarioError: torch cannot express it in ONNX.
    """
    try:
        with warnings.catch_warnings(), _no_log():
            warnings.simplefilter("ignore")  # torch deprecates parts of its own exporter
            program = torch.onnx.export(
                model.eval(), (example_input(shape),), dynamo=True, verbose=False, dynamic_shapes=_any_batch()
            )
        if program is None:
            raise ScenarioError("torch.onnx.export gave no program")
        return bytes(program.model_proto.SerializeToString())
    except ScenarioError:
        raise
    except Exception as error:
        raise ScenarioError(f"torch cannot write this network as ONNX ({_first_line(error)})") from None


@contextmanager
def _no_log() -> Iterator[None]:
    """Without torch's remarks on packages that no network of ours needs."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _any_batch() -> tuple[dict[int, torch.export.Dim]]:
    return ({0: torch.export.Dim("batch", min=1)},)


def _plain(weights: Tensors) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in weights.items()}


def _bits(tensor: Tensor) -> bytes:
    return bytes(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()) if tensor.numel() else b""


def _first_line(error: Exception) -> str:
    words = re.sub(r"\x1b\[[0-9;]*m", "", str(error.__cause__ or error)).strip()  # torch colours its messages
    return (words.splitlines() or [type(error).__name__])[0][:200]
