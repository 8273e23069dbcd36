"""Forecasts of a fold kept beside the figures, so that a long evaluation that was interrupted goes on where it was.

A file is named after all that its numbers depend on: the traces of the fold, the estimator and its settings, and the
text of the modules that learn. Whatever changes, the fold is fitted anew.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from ...store.files import make_dir, write_atomic
from ..bands import Bands
from ..learned.bundle import Bundle, LegCurve, LegSwitch
from ..learned.splits import Fold

_PAPER = (
    "bands.py",
    *(f"learned/{name}.py" for name in ("bundle", "change_model", "change_net", "features", "lstm", "paper", "splits")),
)
_AUTO = (
    *_PAPER,
    *(f"learned/{name}.py" for name in ("auto", "calibration", "fit", "tail", "trees")),
    "learned/data/zero-trace.npz",
)


def kept(
    folder: Path | None, fold: Fold, settings: tuple[object, ...], make: Callable[[], tuple[Bands, float]]
) -> tuple[Bands, float]:
    """Bands of a fold's test part and the CPU-seconds of their fit: from `folder` if they are there, else new and kept.

    `settings` begins with the estimator's name.
    """
    if folder is None:
        return make()
    name = f"{fold.test.source or 'traces'}-{fold.name.replace(' ', '-')}-{_digest(fold, settings)}.npz"
    path = folder / "".join(c if c.isalnum() or c in "-._" else "_" for c in name)
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            return Bands(arrays["mean"], arrays["low"], arrays["high"]), float(arrays["cpu_s"])
    except (OSError, ValueError, KeyError):
        pass
    bands, cpu_s = make()
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer, allow_pickle=False, mean=bands.mean, low=bands.low, high=bands.high, cpu_s=np.array(cpu_s)
    )
    make_dir(folder)
    write_atomic(path, buffer.getvalue())
    return bands, cpu_s


def _digest(fold: Fold, settings: tuple[object, ...]) -> str:
    digest = hashlib.sha256(repr(settings).encode())
    digest.update(_learning(_PAPER if settings[0] == "paper" else _AUTO))
    for part in (fold.train, fold.calibration, fold.test):
        _add(digest, part)
    return digest.hexdigest()[:16]


def _add(digest: hashlib._Hash, part: Bundle) -> None:
    digest.update(part.metric.encode())
    entries: tuple[LegCurve | LegSwitch, ...] = (*part.curves, *part.switches)
    for entry in entries:
        for value in vars(entry).values():
            digest.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())


@lru_cache(maxsize=2)
def _learning(modules: tuple[str, ...]) -> bytes:
    here = Path(__file__).parents[1]
    return hashlib.sha256(b"".join((here / name).read_bytes() for name in modules)).digest()
