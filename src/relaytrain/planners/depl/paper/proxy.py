"""The paper's dataset stage: minimise the proxy K(D) T(D) as if it were submodular, by the minimum-norm point.

Fujishige and Wolfe: the point of least norm in the base polytope of a submodular f has its negative coordinates at a
minimiser of f. Kept for comparison. K T is submodular only where the epoch time hardly grows with the data
(for K = a - b ln(1+q) and T = t0 + t1 q, for all q only if t0 <= 2 t1), and there an end is best anyway: the smallest
dataset or all of them. Elsewhere the answer has no guarantee; `local_search` on the true cost is better.

Paper: DepL section IV-A, equation (7).
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from ....core.depl import DeplProblem
from ....core.fourier import SLACK, Real
from ..data_choice import Chooser, DataChoice, Floor, Value
from ..schedule_losses import exact_probability
from .grid import Capable, edges_for

_ROUNDS = 1000
OUT_OF_REACH = 1e6
"""Epochs put for a choice under which the most complex version never arrives (others might)."""


class NotSubmodular(UserWarning):
    """The function minimised by the minimum-norm point is not submodular, so the result may not be its minimum."""


def minimum_norm_choice(count: int, proxy: Callable[[tuple[int, ...]], float]) -> DataChoice:
    """The best choice that the minimum-norm point finds; `proxy` is defined on non-empty choices.

    The empty choice is ruled out by holding one dataset fixed, each in turn, and minimising over the others.
    """
    if _violated(count, proxy):
        words = "K*T is not submodular here: the minimum-norm point need not minimise it"
        warnings.warn(words, NotSubmodular, stacklevel=2)
    best = min((_with(fixed, count, proxy) for fixed in range(count)), key=proxy)
    return DataChoice(best, proxy(best), False)


def by_proxy(instance: DeplProblem) -> Chooser:
    """Data as the paper chooses it, by K T alone, for an exact search of the rest; warns where it is not submodular."""

    def chosen(count: int, value: Value, floor: Floor) -> DataChoice:
        picked = minimum_norm_choice(count, lambda data: epochs_times_duration(instance, data)).chosen
        return DataChoice(picked, value(picked, math.inf), False)

    return chosen


def epochs_times_duration(instance: DeplProblem, chosen: tuple[int, ...], capable: Capable = "quickest") -> float:
    """K(D) T(D): epochs until the most complex version reaches the quantile, times how long its epoch takes."""
    full = max(range(len(instance.versions)), key=lambda m: instance.versions[m].work)
    edges = edges_for(instance, chosen, capable)
    if edges is None:
        return math.inf
    low, high = 0, instance.max_epochs
    if not _reaches(instance, chosen, full, high):  # out of reach: dearer than all that is not, but still finite
        return OUT_OF_REACH * float(edges.seconds[full])
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _reaches(instance, chosen, full, middle) else (middle, high)
    return high * float(edges.seconds[full])


def _reaches(instance: DeplProblem, chosen: tuple[int, ...], version: int, epochs: int) -> bool:
    if (
        instance.before is not None
        and instance.before != version
        and instance.switches[instance.before][version] is None
    ):
        return False
    return exact_probability(instance, chosen, [version] * epochs) >= instance.target.probability - SLACK


def _with(fixed: int, count: int, proxy: Callable[[tuple[int, ...]], float]) -> tuple[int, ...]:
    """The best choice found that holds the dataset `fixed`: a prefix of the others in the point's order."""
    others = [d for d in range(count) if d != fixed]

    def whole(chosen: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted((fixed, *(others[i] for i in chosen))))

    def f(chosen: tuple[int, ...]) -> float:
        return proxy(whole(chosen)) - proxy((fixed,))

    order = [int(i) for i in np.argsort(_minimum_norm_point(len(others), f), kind="stable")] if others else []
    return min((whole(order[:size]) for size in range(count)), key=proxy)


def _violated(count: int, proxy: Callable[[tuple[int, ...]], float]) -> bool:
    """Whether diminishing returns fail for some pair added to one other dataset or to all the rest."""
    for a, b in itertools.combinations(range(count), 2):
        rest = tuple(d for d in range(count) if d not in (a, b))
        for base in {*((d,) for d in rest), rest} - {()}:
            joined = [proxy(tuple(sorted((*base, *more)))) for more in ((a,), (b,), (a, b), ())]
            if joined[0] + joined[1] < joined[2] + joined[3] - 1e-9:
                return True
    return False


def _greedy_vertex(weights: Real, f: Callable[[tuple[int, ...]], float]) -> Real:
    """The vertex of the base polytope that is least in the direction of `weights` (Edmonds)."""
    vertex, before = np.zeros(len(weights)), 0.0
    taken: tuple[int, ...] = ()
    for d in np.argsort(weights, kind="stable"):
        taken = (*taken, int(d))
        value = f(taken)
        vertex[d], before = value - before, value
    return vertex


def _minimum_norm_point(count: int, f: Callable[[tuple[int, ...]], float]) -> Real:
    """Wolfe's algorithm: a point as a convex combination of vertices, improved by a vertex at a time."""
    vertices = [_greedy_vertex(np.zeros(count), f)]
    shares = np.ones(1)
    point = vertices[0]
    for _ in range(_ROUNDS):
        vertex = _greedy_vertex(point, f)
        size = max(1.0, *(float(v @ v) for v in vertices))
        if point @ point <= point @ vertex + 1e-10 * size or any(np.allclose(vertex, v) for v in vertices):
            break
        vertices.append(vertex)
        shares = np.append(shares, 0.0)
        for _ in range(2 * count + 2):  # a vertex goes each time; more often only where rounding rules
            affine = _affine_shares(np.array(vertices))
            if (affine > 1e-12).all():
                shares = affine
                break
            falling = affine <= 1e-12
            ratio = shares[falling] / np.maximum(shares[falling] - affine[falling], 1e-300)
            step = min(1.0, float(ratio.min(initial=math.inf)))
            shares = (1.0 - step) * shares + step * affine
            kept = shares > 1e-12
            kept[shares.argmax()] = True  # a function that is not submodular may leave nothing
            vertices = [v for v, keep in zip(vertices, kept, strict=True) if keep]
            shares = np.ones(1) if len(vertices) == 1 else shares[kept] / shares[kept].sum()
        point = shares @ np.array(vertices)
    return np.asarray(point, np.float64)


def _affine_shares(vertices: Real) -> Real:
    """Weights, adding to one, of the least-norm point of the vertices' affine hull."""
    n = len(vertices)
    if n == 1:
        return np.ones(1)
    system = np.ones((n + 1, n + 1))
    system[0, 0] = 0.0
    scaled = vertices / max(float(np.abs(vertices).max()), 1e-300)  # the ones beside them must not drown
    system[1:, 1:] = scaled @ scaled.T
    right = np.zeros(n + 1)
    right[0] = 1.0
    return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0][1:], np.float64)
