"""The bound on stored bytes that holds where mcPipe's Theorem 1 does not, and the equal shares that both speak of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from relaytrain.planners.pipeline.chain import Unit, layers_of
from relaytrain.planners.pipeline.version_lifetimes import Alive


def corrected_bound(units: Sequence[Unit], alive: Alive) -> int:
    """Bytes of weights and versions under mcPipe for any layers: W + pending * sum f_l, versions without an f_l."""
    layers = layers_of(units)
    kept = sum(
        (alive.versions - 1) * x.weight_bytes if x.factor_bytes is None else alive.pending * x.factor_bytes
        for x in layers
    )
    return sum(x.weight_bytes for x in layers) + sum(unit.buffer_bytes for unit in units) + kept


def equal_size(weights: Sequence[int], stages: int) -> tuple[int, ...]:
    """Cuts that make the heaviest stage as light as can be, then the next, and so on: the paper's equal shares."""
    count = len(weights)
    sums = list(accumulate(weights, initial=0))
    best: dict[int, tuple[list[int], tuple[int, ...]]] = {j: ([sums[j]], ()) for j in range(1, count + 1)}
    for stage in range(2, stages + 1):
        best = {
            end: min(
                (sorted([*best[first][0], sums[end] - sums[first]], reverse=True), (*best[first][1], first))
                for first in range(stage - 1, end)
            )
            for end in range(stage, count + 1)
        }
    return best[count][1]
