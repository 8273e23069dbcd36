"""A file as `relaytrain fit` writes it, without half a minute of fitting: the shipped estimator under another name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import relaytrain as rt

WILD = 1e308
"""Weights so large that every forecast is infinite or no number."""


def write_fitted(file: Path, *, name: str = "auto", wild: bool = False) -> Path:
    """The estimator that ships with the package, as one called `name`; `wild`: its forecasts are no numbers."""
    with np.load(next(Path(str(rt.__file__)).parent.rglob("zero-trace.npz"))) as shipped:
        parts = dict(shipped)
    about = {**json.loads(bytes(parts["json"]).decode()), "name": name}
    parts["json"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    if wild:
        parts = {key: np.full_like(part, WILD) if key.endswith("out.weight") else part for key, part in parts.items()}
    np.savez(file, **parts)
    return file
