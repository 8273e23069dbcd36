"""A path's time at a level, on the measured clock, searched with sums alone.

Seconds of different epochs are taken as independent and normal, with the cost table's spread. Then variances add, and
after any number of epochs the q-quantile of a path's time is mean + z sqrt(variance), z = z_q: the level is path-wise,
and quantiles of single epochs are never summed. That is no sum over epochs, so labels cannot carry it; but

    z sqrt(v) = min over price > 0 of  price v + z^2 / (4 price),     the least at price = z / (2 sqrt(v)),

so at each price it is one. Paths are points (mean, variance), and mean + z sqrt(variance) is concave: its least value
over all paths lies at a corner of their convex hull, at one of the prices that are slopes of its lower left side.

    variance ^ quick
             |   \\           `least_quantile` starts from both ends, and tries the slope between two
             |     x__        known corners as the next price, while the triangle below them can hold
             |         sure   anything better
             +-------------> mean

Deviations: PACT's time is certain. Levels below 0.5 count as 0.5: time is never promised to be less than its mean.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array
from ...core.law import Level
from ..search.instance import SearchInstance, Start
from ..search.solve import solve

SURE = 1e6
"""The price that finds the least variance, in z per standard deviation of the quickest path: what this leaves out is
below a millionth of that path's margin."""
_SAME_SECONDS = ("time", "epochs", ("time", "layers"), ("time", "lines"))
"""To-go tables that do not depend on the weight to be minimised."""

Point = tuple[float, float]


def margin(level: Level) -> float:
    """z: how many standard deviations the level's time lies above the mean; 0 for `expected`."""
    return 0.0 if level == "expected" else max(NormalDist().inv_cdf(float(level)), 0.0)


def path_variance(variance: Array, start: Start, actions: NDArray[np.int64] | tuple[int, ...]) -> float:
    """Seconds^2 of a path."""
    path = np.array([start.pair, *actions], np.int64)
    return float(variance[path[:-1], path[1:]].sum())


def least_quantile(
    base: SearchInstance,
    variance: Array,
    z: float,
    start: Start,
    first: NDArray[np.bool_] | None = None,
    *,
    enough: float = -math.inf,
) -> float:
    """The least mean + z sqrt(variance) of the final time over all paths of `base` to its goal; infinity without any.

    Args:
        base: the law at a level; its own deadline bounds the mean.
        variance: (P, P) of an epoch's seconds, in the units of `base.seconds`.
        z: how many standard deviations count.
        start: where paths begin; the seconds spent so far are certain.
        first: restricts the first action.
        enough: any value at or below this one will do.
    """

    def corner(price: float) -> Point | None:
        solution = solve(_priced(base, variance, price), start, first)
        return (solution.elapsed_s, path_variance(variance, start, solution.actions)) if solution.feasible else None

    def at(point: Point) -> float:
        return point[0] + z * math.sqrt(point[1])

    quick = corner(0.0)
    if quick is None:
        return math.inf
    best = at(quick)
    if best <= enough or quick[1] == 0.0 or z == 0.0:
        return best
    sure = corner(SURE * z / math.sqrt(quick[1]))
    sides = [] if sure is None else [(quick, sure)]
    best = best if sure is None else min(best, at(sure))
    while sides and best > enough:
        left, right = sides.pop()
        if left[0] + z * math.sqrt(right[1]) >= best or right[1] >= left[1] or right[0] <= left[0]:
            continue
        price = (right[0] - left[0]) / (left[1] - right[1])
        point = corner(price)
        if point is None or point[0] + price * point[1] >= (left[0] + price * left[1]) * (1.0 - 1e-12):
            continue
        best = min(best, at(point))
        sides += [(left, point), (point, right)]
    return best


def cautious(base: SearchInstance, variance: Array, z: float, deviation: float) -> SearchInstance:
    """`base` with variance priced into its seconds: whatever it finds is in time at the level.

    A tangent of the square root: nothing is lost for paths whose standard deviation is `deviation`, little for others.
    On a grid seconds stay whole numbers of steps, rounded to the safe side.
    """
    if deviation <= 0.0 or z <= 0.0:
        return base
    seconds = base.seconds + z / (2.0 * deviation) * variance
    deadline = base.deadline - z * deviation / 2.0
    if base.form.integer:
        seconds, deadline = np.ceil(seconds), math.floor(deadline) if math.isfinite(deadline) else deadline
    return replace(base, seconds=np.ascontiguousarray(seconds), deadline=deadline, tables={})


def _priced(base: SearchInstance, variance: Array, price: float) -> SearchInstance:
    """`base` with seconds + `price` * variance to be minimised; made once for each price."""
    key = ("variance", price)
    if key not in base.tables:
        weight = np.where(base.allowed, base.seconds + price * variance, np.inf)
        shared = {name: base.tables[name] for name in _SAME_SECONDS if name in base.tables}
        base.tables[key] = replace(base, joules=weight, tables=shared)
    return base.tables[key]  # type: ignore[no-any-return]
