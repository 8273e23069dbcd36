"""What a finished piece leaves: `seed-S/piece-N.json`, and `.safetensors` while its weights are needed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..store.files import write_atomic


@dataclass(frozen=True)
class Result:
    """`rows`: training loss, test loss, accuracy of every epoch; `weights`: SHA-256 of the kept ones, if any.

    `campaign` is the digest of the campaign it belongs to. `cpu_s` is for estimates alone and decides nothing.
    """

    campaign: str
    rows: tuple[tuple[float, float, float], ...]
    switch: Mapping[str, Any] | None
    classes: int
    samples: int
    pruned_fraction: float
    weights: str | None
    cpu_s: float


def result_path(work: Path, seed: int, piece: int) -> Path:
    """Where the result of a piece is."""
    return work / f"seed-{seed}" / f"piece-{piece}.json"


def checkpoint_path(work: Path, seed: int, piece: int) -> Path:
    """Where its weights are."""
    return work / f"seed-{seed}" / f"piece-{piece}.safetensors"


def write_result(work: Path, seed: int, piece: int, result: Result) -> None:
    """Keep a result durably; floats are written so that they come back exactly."""
    write_atomic(result_path(work, seed, piece), json.dumps(asdict(result), allow_nan=False) + "\n")


def read_result(work: Path, seed: int, piece: int, campaign: str) -> Result | None:
    """The result of a piece of this campaign; None when there is none, or none that can be believed."""
    try:
        values = json.loads(result_path(work, seed, piece).read_text(encoding="utf-8"))
        rows = tuple((float(a), float(b), float(c)) for a, b, c in values.pop("rows"))
        result = Result(rows=rows, **values)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if result.campaign != campaign or not all(math.isfinite(value) for row in rows for value in row):
        return None
    return result
