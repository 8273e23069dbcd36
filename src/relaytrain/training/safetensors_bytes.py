"""Tensors as one safetensors blob: the bytes of the library's `save`, put together with one copy of each tensor.

The library makes bytes of every tensor and then a blob of those. Where its order is not known to be ours (other kinds,
names beyond ASCII, tensors with gaps), it is asked itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

_PLAIN = {torch.int64: "I64", torch.float64: "F64", torch.float32: "F32", torch.int32: "I32"}
"""In the library's order: larger ones first, so that all are aligned."""
_ORDER = {kind: place for place, kind in enumerate(_PLAIN)}
NAMES = {**_PLAIN, torch.float16: "F16", torch.bfloat16: "BF16", torch.bool: "BOOL", torch.uint8: "U8"}
"""What the format calls each kind of tensor."""


def as_safetensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """`safetensors.torch.save` of tensors that share no memory, to the byte."""
    texts = [*tensors, *metadata, *metadata.values()]
    plain = sys.byteorder == "little" and len(metadata) == 1
    plain = plain and all(text.isascii() and text.isprintable() for text in texts)
    if not plain or not all(t.dtype in _ORDER and t.is_contiguous() and t.is_cpu for t in tensors.values()):
        return bytes(save(dict(tensors), metadata=dict(metadata)))
    names = sorted(tensors, key=lambda name: (_ORDER[tensors[name].dtype], name))
    return b"".join(pieces({name: tensors[name] for name in names}, metadata))


def pieces(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """A blob tensor by tensor, in their order; only one with gaps is copied."""
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    at = 0
    for name, tensor in tensors.items():
        end = at + tensor.nbytes
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for tensor in tensors.values():
        yield flat(tensor.contiguous())


def flat(tensor: Tensor) -> memoryview:
    """The bytes of a tensor without gaps on the CPU, where they lie."""
    whole: Any = tensor.detach().reshape(-1).view(torch.uint8).numpy() if tensor.numel() else b""
    return memoryview(whole)
