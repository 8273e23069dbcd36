"""Frames on a pipe between this process and a worker of its own: eight bytes of length, then the frame.

| to the worker | body |
|---|---|
| open | safetensors: the data of its nodes |
| task | `Task.to_bytes()` |

| from the worker | body |
|---|---|
| ready, broken (with `error`) | - |
| beat (with `cpu_s`) | - |
| result | `NodeResult.to_bytes()` |
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

from ..training.task import pack, unpack

_SIZE = struct.Struct("<Q")


def write_frame(stream: BinaryIO, kind: str, body: bytes = b"", **header: Any) -> None:
    """One frame, sent at once."""
    frame = pack({"kind": kind, **header}, body)
    stream.write(_SIZE.pack(len(frame)))
    stream.write(frame)
    stream.flush()


def read_frame(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """The next frame, or None at the end of the stream, be it in the middle of a frame."""
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    (size,) = _SIZE.unpack(head)
    frame = stream.read(size)
    return unpack(frame) if len(frame) == size else None
