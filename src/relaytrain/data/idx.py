"""MNIST-like folders of idx files (`train-images-idx3-ubyte`, plain or .gz)."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ScenarioError
from .dataset import Dataset, from_arrays

MAX_BYTES = 2**32
STEMS = {"train": "train", "test": "t10k"}


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of unsigned bytes in one idx file.

    Format: two zero bytes, type (8 = unsigned byte), number of dimensions, sizes as big-endian 32-bit, then the data.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            head = file.read(4)
            if len(head) < 4 or head[:3] != b"\x00\x00\x08" or not 1 <= head[3] <= 4:
                raise ScenarioError(f"{path}: not an idx file of bytes (starts with {head.hex()}); expected 000008..")
            raw = file.read(4 * head[3])
            sizes = [int.from_bytes(raw[i : i + 4], "big") for i in range(0, len(raw), 4)]
            expected = math.prod(sizes)
            if len(raw) < 4 * head[3] or expected > MAX_BYTES:
                raise ScenarioError(f"{path}: its header is cut short or claims sizes {sizes}; get it again")
            data = file.read(expected + 1)
    except FileNotFoundError:
        raise ScenarioError(f"{path}: no such file; expected an idx file") from None
    except (EOFError, OSError, zlib.error, ValueError) as error:
        raise ScenarioError(f"{path}: cannot be read ({error}); it may be cut short, get it again") from None
    if len(data) != expected:
        shown = "more" if len(data) > expected else f"{len(data)}"
        raise ScenarioError(f"{path}: {shown} bytes of data, its header promises {expected}; get it again")
    return np.frombuffer(data, dtype=np.uint8).reshape(sizes)


def idx_folder(folder: Path, split: str = "train", *, name: str | None = None) -> Dataset:
    """Images and labels of `split` (`train` or `test`) in a folder with the four usual files; pixels in [0, 1]."""
    if split not in STEMS:
        raise ScenarioError(f"{folder}: split {split!r}, expected train or test")
    images = read_idx(_find(folder, f"{STEMS[split]}-images", "idx3-ubyte"))
    labels = read_idx(_find(folder, f"{STEMS[split]}-labels", "idx1-ubyte"))
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise ScenarioError(f"{folder}: images of shape {images.shape} and labels {labels.shape} do not fit together")
    pixels = images[:, None].astype(np.float32) / np.float32(255.0)
    return from_arrays(pixels, labels, name=name or f"{folder.name} {split}")


def _find(folder: Path, stem: str, kind: str) -> Path:
    for candidate in (f"{stem}-{kind}", f"{stem}-{kind}.gz", f"{stem}.{kind}", f"{stem}.{kind}.gz"):
        if (folder / candidate).is_file():
            return folder / candidate
    raise ScenarioError(f"{folder}: has no {stem}-{kind} nor {stem}-{kind}.gz; expected the files of MNIST")
