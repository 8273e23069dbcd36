"""Which handovers are slices: between versions of which one is nested in the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .problem import Pair, Version


def slice_changes(pairs: Sequence[Pair], versions: Sequence[Version]) -> NDArray[np.bool_]:
    """(P, P): whether the change from the pair of the row to that of the column is a slice, up or down."""
    if not any(version.slices for version in versions):
        return np.zeros((len(pairs), len(pairs)), dtype=bool)
    place = {version.name: index for index, version in enumerate(versions)}
    around = np.array([[one.is_around(other) for other in versions] for one in versions])
    at = np.array([place[pair.version] for pair in pairs])
    return np.asarray(around[at][:, at])
