"""A training put together from the segments of its path, column by column, for comparing it with plain rows."""

from __future__ import annotations

import numpy as np

from relaytrain.traces import TracePath


def column(path: TracePath, name: str) -> list:
    """One entry an epoch, from the first one on: an array of the segments, or a figure of theirs repeated."""
    values = [np.broadcast_to(getattr(s, name), len(s))[:n] for n, s in zip(path.lengths, path.segments, strict=True)]
    return np.concatenate(values).tolist()


def stage_epochs(path: TracePath) -> list[int]:
    """Epochs within their legs, from 1."""
    return [k for n in path.lengths for k in range(1, n + 1)]
