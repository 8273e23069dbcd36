"""CIFAR-10 and CIFAR-100 from a folder: parquet files, the official binary batches, or the official python ones."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ScenarioError, UsageError
from .batchfile import read_batch
from .dataset import Dataset, from_arrays

Pair = tuple[NDArray[Any], NDArray[np.int64]]

PIXELS = 3 * 32 * 32
CLASSES = {"cifar10": 10, "cifar100": 100}
_BATCHES = {
    ("cifar10", "train"): r"data_batch_\d+", ("cifar10", "test"): "test_batch",
    ("cifar100", "train"): "train", ("cifar100", "test"): "test",
}  # fmt: skip


def cifar(folder: Path, split: str = "train", *, kind: str = "cifar10") -> Dataset:
    """The images of `split` (`train` or `test`) in `folder` or one folder below it, pixels in [0, 1].

    Deviations: CIFAR-100 uses the fine labels.
    """
    if (kind, split) not in _BATCHES:
        raise ScenarioError(f"{folder}: {kind} split {split!r}, expected cifar10 or cifar100, train or test")
    if not folder.is_dir():
        raise ScenarioError(f"{folder}: no such folder; expected one with the files of {kind}")
    batch = _BATCHES[kind, split]
    forms: list[tuple[str, Callable[[Path, str], Pair]]] = [
        (rf"{split}.*\.parquet", _parquet),
        (rf"{batch}\.bin", _binary),
        (batch, _python),
    ]
    files = sorted(p for pattern in ("*", "*/*") for p in folder.glob(pattern) if p.is_file())
    for pattern, reader in forms:
        chosen = [path for path in files if re.fullmatch(pattern, path.name)]
        if chosen:
            try:
                parts = [reader(path, kind) for path in chosen]
            except OSError as error:
                raise ScenarioError(f"{folder}: cannot be read ({error})") from None
            pixels = np.concatenate([pixels for pixels, _ in parts]).astype(np.float32) / np.float32(255.0)
            labels = np.concatenate([labels for _, labels in parts])
            return from_arrays(pixels, labels, name=f"{kind} {split}", classes=CLASSES[kind])
    raise ScenarioError(
        f"{folder}: found no files of {kind}; expected {split}*.parquet, {batch}.bin or {batch}, as published"
    )


def _binary(path: Path, kind: str) -> Pair:
    """Rows of label bytes (CIFAR-100: coarse, then fine) and 3,072 pixels, channel by channel."""
    lead = 2 if kind == "cifar100" else 1
    raw = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    if len(raw) == 0 or len(raw) % (lead + PIXELS):
        raise ScenarioError(f"{path}: {len(raw)} bytes, expected a multiple of {lead + PIXELS}; get it again")
    rows = raw.reshape(-1, lead + PIXELS)
    return rows[:, lead:].reshape(-1, 3, 32, 32), rows[:, lead - 1].astype(np.int64)


def _python(path: Path, kind: str) -> Pair:
    batch = read_batch(path)
    key = "fine_labels" if kind == "cifar100" else "labels"
    pixels, labels = batch.get("data"), batch.get(key)
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (PIXELS,):
        raise ScenarioError(f"{path}: no data of {PIXELS} bytes a row; expected an official batch of {kind}")
    if not isinstance(labels, list) or len(labels) != len(pixels) or not all(isinstance(v, int) for v in labels):
        raise ScenarioError(f"{path}: no {key} for its {len(pixels)} images; expected an official batch of {kind}")
    return pixels.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)


def _parquet(path: Path, kind: str) -> Pair:
    """Columns `img` or `image` (a struct with encoded `bytes`) and `label` or `fine_label`."""
    try:
        import pyarrow
        from PIL import Image, UnidentifiedImageError
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(f"{path}: needs {error.name}; pip install 'relaytrain[data]'") from None
    try:
        table = parquet.read_table(path, use_threads=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise ScenarioError(f"{path}: not readable as parquet ({str(error).splitlines()[0]}); get it again") from None
    image_column = _column(path, table, ("img", "image"))
    label_column = _column(path, table, ("fine_label",) if kind == "cifar100" else ("label", "labels"))
    cells = table.column(image_column).combine_chunks()
    if pyarrow.types.is_struct(cells.type) and cells.type.get_field_index("bytes") >= 0:
        cells = cells.field("bytes")
    images = np.empty((len(cells), 32, 32, 3), dtype=np.uint8)
    for row, encoded in enumerate(cells.to_pylist()):
        try:
            with Image.open(io.BytesIO(encoded)) as image:
                if image.size != (32, 32):
                    raise ScenarioError(f"{path}: image {row} is {image.size[0]}x{image.size[1]}, expected 32x32")
                images[row] = np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
        except (UnidentifiedImageError, TypeError, ValueError, SyntaxError, OSError):
            raise ScenarioError(f"{path}: image {row} cannot be decoded; expected an encoded picture") from None
    labels = table.column(label_column).to_pylist()
    if not all(isinstance(label, int) for label in labels):
        raise ScenarioError(f"{path}: column {label_column} holds something else than whole numbers")
    return images.transpose(0, 3, 1, 2), np.array(labels, dtype=np.int64)


def _column(path: Path, table: Any, names: tuple[str, ...]) -> str:
    for name in names:
        if name in table.column_names:
            return name
    raise ScenarioError(f"{path}: has the columns {', '.join(table.column_names)}, expected {' or '.join(names)}")
