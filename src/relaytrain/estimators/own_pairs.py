"""Estimators whose figures stand in the order of the pairs they were made for refuse to be asked about others."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import UsageError
from ..core.problem import Pair


def check_pairs(asked: Sequence[Pair], own: Sequence[Pair]) -> None:
    """Refuse other pairs than `own`, or these in another order.

    Raises:
        UsageError: they differ; it says where.
    """
    if tuple(asked) == tuple(own):
        return
    at = next((i for i, (one, other) in enumerate(zip(asked, own, strict=False)) if one != other), None)
    first = "" if at is None else f", number {at + 1} of them {asked[at]} where {own[at]} was expected"
    raise UsageError(
        f"pairs: got {len(asked)}, expected the {len(own)} that the estimator was made for, in their order{first}; "
        "make an estimator of the problem with these pairs"
    )
