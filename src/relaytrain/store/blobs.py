"""Checkpoints by content: the name of a blob is the SHA-256 and the size of its bytes.

A blob is durable before any event names it, and is checked whenever it is read. Each run has its own folder, so
removing or thinning one run can never touch another.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from ..core.errors import StoreDamaged
from . import files

FOLDER = "blobs"
_NAME = re.compile(r"[0-9a-f]{64}-[0-9]{1,15}")


def digest_of(data: bytes) -> str:
    """The name of `data`: 64 hexadecimal digits, a hyphen, the number of bytes."""
    return f"{hashlib.sha256(data).hexdigest()}-{len(data)}"


def folder_of(store: Path, run: str) -> Path:
    """Where the blobs of `run` are."""
    return store / FOLDER / run


def put(store: Path, run: str, data: bytes) -> str:
    """Keep `data` durably; its digest.

    Always writes, even when the name is there already: an earlier write may not have reached the disk, or may have
    been damaged since.
    """
    digest = digest_of(data)
    folder = files.make_dir(folder_of(store, run), private=True)
    files.write_atomic(folder / digest, data, private=True)
    return digest


def get(store: Path, run: str, digest: str) -> bytes:
    """The bytes named `digest`.

    Raises:
        StoreDamaged: missing, of another size, or with another hash; take the checkpoint before it.
    """
    if not _NAME.fullmatch(digest):
        raise StoreDamaged(f"run {run}: '{digest[:100]}' is not the name of a checkpoint")
    path = folder_of(store, run) / digest
    size = int(digest.rpartition("-")[2])
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(fd, "rb") as file:
            size_now = os.fstat(file.fileno()).st_size
            if size_now != size:
                raise StoreDamaged(f"{path}: {size_now} bytes, expected {size}; this checkpoint cannot be used")
            data = file.read(size)
    except FileNotFoundError:
        raise StoreDamaged(f"{path}: this checkpoint is missing") from None
    except OSError as error:
        raise StoreDamaged(f"{path}: {error.strerror}; this checkpoint cannot be read") from error
    if digest_of(data) != digest:
        raise StoreDamaged(f"{path}: its bytes are not the ones that were written (SHA-256 differs); it cannot be used")
    return data


def names(store: Path, run: str) -> set[str]:
    """Everything in the folder of `run`, unfinished files included."""
    try:
        return set(os.listdir(folder_of(store, run)))
    except FileNotFoundError:
        return set()
