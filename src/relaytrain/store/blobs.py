"""Checkpoints by content: the name of a blob is the SHA-256 and the size of its bytes.

A blob is durable before any event names it, and is checked whenever it is read. Each run has its own folder, so
removing or thinning one run can never touch another. A store may come from a stranger: links, pipes and devices in the
place of a folder or a blob are never followed, opened or waited for.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from ..core.errors import StoreDamaged
from . import files

FOLDER = "blobs"
TRAIL_NAME = "trail"
BEAT_NAME = "beat"
_NAME = re.compile(r"[0-9a-f]{64}-[0-9]{1,15}")


def digest_of(data: bytes) -> str:
    """The name of `data`: 64 hexadecimal digits, a hyphen, the number of bytes."""
    return f"{hashlib.sha256(data).hexdigest()}-{len(data)}"


def folder_of(store: Path, run: str) -> Path:
    """Where the blobs of `run` are."""
    return store / FOLDER / run


def real_folder(store: Path, run: str) -> Path:
    """The folder of `run`.

    Raises:
        StoreDamaged: it, or the folder of all blobs, is a link or no folder; what it leads to is not ours.
    """
    folder = folder_of(store, run)
    for place in (folder.parent, folder):
        if os.path.lexists(place) and not files.is_folder(place):
            raise StoreDamaged(f"{place}: not a folder; a link is not followed: remove it")
    return folder


def runs(store: Path) -> set[str]:
    """The names of all folders of runs, links left out."""
    root = store / FOLDER
    if not files.is_folder(root):
        return set()
    return {name for name in os.listdir(root) if files.is_folder(root / name)}


def is_name(text: str) -> bool:
    """Whether `text` may be the name of a blob."""
    return bool(_NAME.fullmatch(text))


def put(store: Path, run: str, data: bytes) -> str:
    """Keep `data` durably; its digest.

    Always writes, even when the name is there already: an earlier write may not have reached the disk, or may have
    been damaged since.
    """
    digest = digest_of(data)
    folder = files.make_dir(real_folder(store, run), private=True)
    files.write_atomic(folder / digest, data, private=True)
    return digest


def get(store: Path, run: str, digest: str) -> bytes:
    """The bytes named `digest`.

    Raises:
        StoreDamaged: missing, of another size, or with another hash; take the checkpoint before it.
    """
    if not is_name(digest):
        raise StoreDamaged(f"run {run}: '{digest[:100]}' is not the name of a checkpoint")
    path = real_folder(store, run) / digest
    size = int(digest.rpartition("-")[2])
    try:
        with os.fdopen(files.open_regular(path), "rb") as file:
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
    """Everything in the folder of `run`, unfinished files included, but its trail and its writer's sign of life."""
    try:
        return set(os.listdir(real_folder(store, run))) - {TRAIL_NAME, BEAT_NAME}
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise StoreDamaged(f"{folder_of(store, run)}: {error.strerror}; its checkpoints cannot be listed") from error
