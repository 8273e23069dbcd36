"""Arrays out of an npz of any origin, believed in nothing: what an array claims to be is compared with the bytes that
are there before memory is taken. `Wrong` names the key, what was got and what is expected."""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 64 << 20
"""Of a file, packed and unpacked."""
MOST_ARRAYS = 1000

Arrays = dict[str, NDArray[Any]]
_HEADER = re.compile(
    rb"\{'descr': '([<|][fiub][1248])', 'fortran_order': (True|False), "
    rb"'shape': \(((?:[0-9]{1,9}(?:, |,)?){0,4})\), \} *\n"
)
_MAGIC = b"\x93NUMPY\x01\x00"


class Wrong(ValueError):
    """Something in a file that we do not write: the key, what was got, what is expected."""

    def __init__(self, key: str, got: str, expected: str) -> None:
        super().__init__(f"{key}: got {got}, expected {expected}")


def read(raw: bytes) -> tuple[dict[str, Any], Arrays]:
    """The JSON text inside, a table, and the arrays by name: what `write_arrays` wrote."""
    arrays = _read_arrays(raw)
    if "json" not in arrays:
        raise Wrong("json", "no such entry", "the text that goes with the arrays")
    try:
        body = json.loads(bytes(arrays.pop("json").astype(np.uint8)).decode())
    except (ValueError, RecursionError) as error:
        raise Wrong("json", f"no JSON ({type(error).__name__})", "the text that goes with the arrays") from None
    if not isinstance(body, dict):
        raise Wrong("json", type(body).__name__, "a table")
    return body, arrays


def _read_arrays(raw: bytes) -> Arrays:
    """The arrays of an npz by name; none is larger than the bytes that are there for it."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_ARRAYS or len({entry.filename for entry in entries}) < len(entries):
                raise Wrong("arrays", f"{len(entries)} entries", f"at most {MOST_ARRAYS}, each once")
            if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
                raise Wrong("arrays", "a way of packing that asks for memory", "stored or deflated entries")
            if sum(entry.file_size for entry in entries) > MOST_BYTES:
                raise Wrong("arrays", f"more than {MOST_BYTES >> 20} MiB unpacked", "at most that")
            return {
                entry.filename.removesuffix(".npy"): _array(entry.filename, archive.read(entry)) for entry in entries
            }
    except Wrong:
        raise
    except Exception as error:  # damaged archives raise most of what Python has
        raise Wrong("arrays", f"no whole npz ({type(error).__name__})", "one that can be unpacked") from None


def _array(name: str, data: bytes) -> NDArray[Any]:
    size = int.from_bytes(data[8:10], "little")
    head = _HEADER.fullmatch(data[10 : 10 + size]) if data.startswith(_MAGIC) else None
    if head is None or head[1][1:] in (b"f1", b"b2", b"b4", b"b8"):
        raise Wrong(name, "no array of plain numbers", "one that `numpy.save` wrote, without objects")
    shape = tuple(int(part) for part in head[3].replace(b" ", b"").split(b",") if part)
    dtype = np.dtype(head[1].decode())
    body = memoryview(data)[10 + size :]
    if math.prod(shape) * dtype.itemsize != len(body):
        raise Wrong(name, f"{len(body)} bytes", f"{'x'.join(map(str, shape)) or 1} of {dtype}, as its header says")
    kept = np.frombuffer(body, dtype=np.uint8 if dtype.kind == "b" else dtype)
    kept = kept != 0 if dtype.kind == "b" else kept.copy()
    return kept.reshape(shape, order="F" if head[2] == b"True" else "C")


def write_arrays(body: dict[str, Any], arrays: Arrays) -> bytes:
    """An npz with the JSON text of `body` inside; equal contents give equal bytes."""
    text = np.frombuffer(json.dumps(body, sort_keys=True, allow_nan=False).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays, json=text)
    return buffer.getvalue()
