"""The 8x8 digits that ship with scikit-learn: 1,797 images, always at hand."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ..core.errors import UsageError
from .dataset import Dataset, from_arrays


def digits() -> Dataset:
    """All digits, pixels in [0, 1], in the order of the file.

    Reads the file inside scikit-learn's folder without importing scikit-learn, which takes seconds.
    """
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise UsageError("digits: scikit-learn is not installed; pip install 'relaytrain[data]'")
    path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if path.is_file():
        with gzip.open(path, "rt", encoding="ascii") as lines:
            table = np.loadtxt(lines, delimiter=",", dtype=np.float32)
        pixels, labels = table[:, :-1], table[:, -1].astype(np.int64)
    else:  # another release may keep it elsewhere
        from sklearn.datasets import load_digits

        bunch = load_digits()
        pixels, labels = bunch.data, bunch.target
    images = (np.asarray(pixels, dtype=np.float32) / np.float32(16.0)).reshape(-1, 1, 8, 8)
    return from_arrays(images, labels, name="digits", classes=10)
