"""Reading safetensors files piece by piece into fresh memory.

The usual reader maps the file, and what it has touched stays in the process's memory; tensors would begin wherever the
file has them, and products round differently where rows begin elsewhere. Here nothing is mapped, and every tensor is as
aligned as any other.
"""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import torch
from torch import Tensor

from ..core.errors import StoreDamaged
from ..training.safetensors_bytes import NAMES, flat

KINDS = {name: kind for kind, name in NAMES.items()}
DTYPES = {str(kind).removeprefix("torch."): kind for kind in KINDS.values()}
"""The same kinds of tensors by torch's own names."""
MAX_HEADER_BYTES = 32 * 2**20


def dtype_name(tensor: Tensor) -> str:
    """The name of a tensor's kind in `DTYPES`."""
    return str(tensor.dtype).removeprefix("torch.")


class TensorFile:
    """An open file: names, metadata, and tensors or rows of them when asked for.

    Raises:
        StoreDamaged: not a whole safetensors file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise _not_whole(path, error) from None
        try:
            size = os.fstat(self._file.fileno()).st_size
            (length,) = struct.unpack("<Q", self._file.read(8))
            if length > min(size, MAX_HEADER_BYTES):
                raise ValueError(f"a header of {length} bytes in a file of {size}")
            header = json.loads(self._file.read(length))
            self.metadata: dict[str, str] = dict(header.pop("__metadata__", {}))
            self._start = 8 + length
            self._places: dict[str, tuple[torch.dtype, tuple[int, ...], int]] = {}
            for name, entry in header.items():
                begin, end = entry["data_offsets"]
                dtype, shape = KINDS[entry["dtype"]], tuple(entry["shape"])
                fits = isinstance(begin, int) and begin >= 0 and self._start + end <= size
                if not fits or end - begin != torch.empty(shape, dtype=dtype, device="meta").nbytes:
                    raise ValueError(f"{name[:60]} does not fit")
                self._places[name] = dtype, shape, self._start + begin
        except (
            OSError,
            ArithmeticError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RuntimeError,
            struct.error,
        ) as error:
            self._file.close()
            raise _not_whole(path, error) from None

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Read no more."""
        self._file.close()

    def names(self) -> list[str]:
        """All tensors."""
        return list(self._places)

    def tensor(self, name: str) -> Tensor:
        """A whole tensor."""
        dtype, shape, at = self._places[name]
        return self._read(torch.empty(shape, dtype=dtype), at)

    def rows(self, name: str, begin: int, end: int) -> Tensor:
        """The rows from `begin` to before `end`."""
        dtype, shape, at = self._places[name]
        rows = torch.empty((end - begin, *shape[1:]), dtype=dtype)
        return self._read(rows, at + begin * (rows.nbytes // max(1, end - begin)))

    def _read(self, into: Tensor, at: int) -> Tensor:
        left = flat(into)
        self._file.seek(at)
        while left:
            count = self._file.readinto(left)
            if not count:
                raise StoreDamaged(f"{self.path}: ends too early; remove it and run again")
            left = left[count:]
        return into


def _not_whole(path: str | Path, error: BaseException) -> StoreDamaged:
    return StoreDamaged(f"{path}: not a whole safetensors file ({str(error)[:80]}); remove it and run again")
