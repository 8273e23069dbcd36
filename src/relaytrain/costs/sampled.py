"""What an epoch of some nodes, drawn from a set, is expected to cost: exact over all draws of k from n, none drawn.

With the nodes ordered by their seconds t_1 <= ... <= t_n, the slowest of a draw is node j with probability

    p_j = C(j-1, k-1) / C(n, k),        so  seconds = sum_j p_j t_j

and the k - 1 others of such a draw are any of the nodes before it, alike. A node that is drawn pays its own joules, and
idles until the slowest is done; one that is not drawn pays nothing:

    joules = k/n sum_i own_i + sum_j p_j t_j (idle_j + (k-1)/(j-1) sum_{i<j} idle_i)

where own_i counts the idle power that its busy seconds take the place of as saved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class SampledCost(NamedTuple):
    """Expected seconds and joules of a draw, and the standard deviation of its seconds."""

    seconds: float
    joules: float
    seconds_sd: float


def slowest_probabilities(nodes: int, count: int) -> list[float]:
    """p_1 .. p_n: that the j-th fastest of `nodes` is the slowest of `count` drawn ones."""
    chances = [0.0] * nodes
    chance = count / nodes
    for j in range(nodes, count - 1, -1):
        chances[j - 1] = chance
        chance *= (j - count) / (j - 1) if j > 1 else 0.0
    return chances


def sampled_cost(seconds: Sequence[float], own_j: Sequence[float], idle_w: Sequence[float], count: int) -> SampledCost:
    """The cost of `count` nodes drawn from those with these seconds, joules of their own and idle watts."""
    nodes = len(seconds)
    order = sorted(range(nodes), key=lambda i: seconds[i])
    chances = slowest_probabilities(nodes, count)
    expected = square = waiting_j = idle_before = 0.0
    for place, i in enumerate(order):
        share = (count - 1) / place if place else 0.0
        expected += chances[place] * seconds[i]
        square += chances[place] * seconds[i] ** 2
        waiting_j += chances[place] * seconds[i] * (idle_w[i] + share * idle_before)
        idle_before += idle_w[i]
    joules = count / nodes * math.fsum(own_j) + waiting_j
    return SampledCost(expected, joules, math.sqrt(max(0.0, square - expected**2)))
