"""Frames on a pipe between this process and a worker of its own: eight bytes of length, then the frame.

| to the worker | body |
|---|---|
| open | safetensors: the data of its nodes |
| task | `NodeTask.to_bytes()` |

| from the worker | body |
|---|---|
| ready, broken (with `failure`, its kind, and `error`) | - |
| beat (with `cpu_s`) | - |
| result | `NodeResult.to_bytes()` |

What a worker sends is checked before it is used, its length before it is read.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

from ..training.task import BadMessage, Check, check_header, pack, unpack

Frame = tuple[dict[str, Any], bytes]
"""Header and body."""
_SIZE = struct.Struct("<Q")
FROM_WORKER: Mapping[str, Mapping[str, Check]] = {
    "ready": {},
    "broken": {"failure": "text", "error": "text"},
    "beat": {"cpu_s": "amount"},
    "result": {},
}
"""The kinds of frames that a worker may send, and the keys of each."""


def write_frame(stream: BinaryIO, kind: str, body: bytes = b"", **header: Any) -> None:
    """One frame, sent at once."""
    frame = pack({"kind": kind, **header}, body)
    stream.write(_SIZE.pack(len(frame)))
    stream.write(frame)
    stream.flush()


def read_frame(stream: BinaryIO, most: int | None = None) -> Frame | None:
    """The next frame, or None at the end of the stream, be it in the middle of a frame.

    Args:
        stream: with the frames.
        most: bytes that a frame may have; nothing of a longer one is read.

    Raises:
        BadMessage: what comes is no frame, or too long a one; the stream is of no use afterwards.
    """
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    (size,) = _SIZE.unpack(head)
    if most is not None and size > most:
        raise BadMessage(f"a frame of {size} bytes, expected at most {most}")
    frame = stream.read(size)
    return unpack(frame) if len(frame) == size else None


def check_frame(header: Mapping[str, Any], body: bytes) -> str:
    """The kind of a frame from a worker.

    Raises:
        BadMessage: a worker sends no such frame.
    """
    kind = header.get("kind")
    if not isinstance(kind, str) or kind not in FROM_WORKER:
        raise BadMessage(f"a frame of kind {repr(kind)[:40]}, expected one of {', '.join(FROM_WORKER)}")
    check_header(kind, {key: value for key, value in header.items() if key != "kind"}, FROM_WORKER[kind])
    if body and kind != "result":
        raise BadMessage(f"{kind}: a body of {len(body)} bytes, expected none")
    return kind
