"""All schedules of given structures whose cost may still be below the best known one, compiled.

A structure is a sequence of versions. The lengths of all its segments but the last are counted up like an odometer; a
digit is carried as soon as the dual bound on the cost, the deadline or the number of epochs is passed, since more
epochs only make these worse. At each setting the last segment gets the fewest epochs that meet the target.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit

Real = NDArray[np.float64]
Counts = NDArray[np.int64]

GONE = -30.0
"""log of a characteristic function that no longer counts."""
COARSE = -5.0
"""The same for a first look."""
NARROW, WIDTH = 3.0, 7.0
"""Standard deviations between the target and half a period in a first and a second look."""
SLACK = 1e-9
"""By which a probability may fall short, as in all comparisons."""


class Losses(NamedTuple):
    """Loss terms: prefix sums over epochs for each version, and what the switches of each structure add."""

    mean: Real
    """(models, epochs + 1)."""
    variance: Real
    re: Real
    """Log characteristic functions, (models, epochs + 1, points)."""
    im: Real
    jump_re: Real
    """Of all the switches of a structure together, (structures, points)."""
    jump_im: Real
    start_mean: Real
    """Initial loss plus the switches' means, (structures,)."""
    start_variance: Real
    step: float
    """Frequencies are (j + 1/2) step."""


class Goal(NamedTuple):
    """What a schedule must reach: P(loss <= target) >= asked, or an expected loss when `by_mean`."""

    target: float
    asked: float
    odds: float
    """(1 - omega) / omega, for Cantelli's inequality."""
    by_mean: bool
    sure: bool
    """Another epoch surely lowers the loss."""


class Prices(NamedTuple):
    """The dual bound on cost, slopes (models, subsets, multipliers), offsets (subsets, multipliers), and times."""

    slopes: Real
    offsets: Real
    quickest_s: Real
    deadline_s: float
    epochs: int


@jit
def inverted(
    losses: Any, which: int, structure: Counts, ends: Counts, offset: float, stride: int, gone: float
) -> tuple[float, float]:
    """P(loss - mean <= offset) from every stride-th frequency (an odd number: a period so much shorter).

    Stops when the characteristic function stays under exp(gone); returned with a bound on what that leaves out.
    """
    total, small, rest = 0.0, 0, 0.0
    for i in range((losses.jump_re.shape[1] + stride // 2) // stride):
        j = stride * i + stride // 2
        re, im = losses.jump_re[which, j], losses.jump_im[which, j]
        for s in range(structure.shape[0]):
            m = structure[s]
            re += losses.re[m, ends[s + 1], j] - losses.re[m, ends[s], j]
            im += losses.im[m, ends[s + 1], j] - losses.im[m, ends[s], j]
        size = math.exp(re) / (i + 0.5)
        small = small + 1 if re < gone else 0
        if small > 1:
            rest = size
            break
        total += size * math.sin(im - (j + 0.5) * losses.step * offset)
    return 0.5 - total / math.pi, rest


@jit
def meets(losses: Any, which: int, structure: Counts, ends: Counts, goal: Any) -> bool:
    """Whether P(loss <= target) >= asked after segments that end at `ends` (ends[0] = 0) of structure number `which`.

    Cantelli's inequality decides first; then a coarse sum, whose error is the mass that a shorter period puts on the
    wrong side (Cantelli's again) and what the cut leaves out; the full sum only where these do not tell.
    """
    mean, variance = losses.start_mean[which], losses.start_variance[which]
    for i in range(structure.shape[0]):
        m = structure[i]
        mean += losses.mean[m, ends[i + 1]] - losses.mean[m, ends[i]]
        variance += losses.variance[m, ends[i + 1]] - losses.variance[m, ends[i]]
    offset = goal.target - mean
    if goal.by_mean:
        return offset >= 0.0
    if variance <= 0.0:
        return offset >= -SLACK
    deviation = math.sqrt(variance)
    if -offset > deviation * math.sqrt(goal.odds) + SLACK:
        return False
    half = math.pi / losses.step
    if offset >= half:
        return True
    if offset <= -half:
        return False
    for width in (NARROW, WIDTH):
        stride = int(half / (width * deviation + abs(offset)))
        stride -= 1 - stride % 2
        if stride > 1:
            away = half / stride
            found, rest = inverted(losses, which, structure, ends, offset, stride, COARSE)
            if found + variance / (variance + (away - offset) ** 2) + rest < goal.asked:
                return False
            if found - variance / (variance + (away + offset) ** 2) - rest >= goal.asked:
                return True
    found, rest = inverted(losses, which, structure, ends, offset, 1, GONE)
    return found >= goal.asked


@jit
def shortest(losses: Any, which: int, structure: Counts, ends: Counts, goal: Any, longest: int) -> int:
    """The fewest epochs of the last segment, up to `longest`, that meet the goal; 0 if none do. Changes ends[-1]."""
    last = structure.shape[0]
    if not goal.sure:  # more epochs might not help: try them all
        for n in range(1, longest + 1):
            ends[last] = ends[last - 1] + n
            if meets(losses, which, structure, ends, goal):
                return n
        return 0
    ends[last] = ends[last - 1] + longest
    if not meets(losses, which, structure, ends, goal):
        return 0
    low, high = 0, longest  # low does not meet it (0 stands for "not tried")
    while high - low > 1:
        middle = (low + high) // 2
        ends[last] = ends[last - 1] + middle
        if meets(losses, which, structure, ends, goal):
            high = middle
        else:
            low = middle
    return high


@jit
def cost_bound(level: Real, slopes: Real, extra: float, after: Real) -> float:
    """Writes level + extra * slopes to `after`: the least over sets of clusters of the greatest over multipliers."""
    least = np.inf
    for u in range(level.shape[0]):
        greatest = -np.inf
        for r in range(level.shape[1]):
            after[u, r] = level[u, r] + extra * slopes[u, r]
            greatest = max(greatest, after[u, r])
        least = min(least, greatest)
    return least


@jit
def room(level: Real, slopes: Real, below: float) -> float:
    """How many more epochs of this version keep the bound at or under `below`, in real numbers."""
    most = -1.0
    for u in range(level.shape[0]):
        fits = 1e9
        for r in range(level.shape[1]):
            spare = below - level[u, r]
            fits = min(fits, spare / slopes[u, r] if slopes[u, r] > 1e-200 else (1e9 if spare > 0 else -1.0))
        most = max(most, fits)
    return most


@jit
def candidates(
    structures: Counts, losses: Any, goal: Any, prices: Any, below: float, at: Counts, lengths: Counts, bounds: Real
) -> int:
    """Writes schedules that meet the goal and may cost less than `below`: lengths (n, segments) and bounds (n,).

    Begins with structure at[0] and at[1] extra epochs in its first segment, ends after the first structure that had
    any candidates or when the arrays are full, and writes to `at` where to go on (at[0]: all seen if that is the number
    of structures; at[2]: the structure of what was written). Returns how many were written.
    """
    for which in range(at[0], structures.shape[0]):
        written, first = of_structure(which, structures[which], losses, goal, prices, below, at[1], lengths, bounds)
        at[0], at[1] = (which + 1, 0) if first < 0 else (which, first)
        at[2] = which
        if written > 0 or first >= 0:
            return written
    return 0


@jit
def of_structure(
    which: int, structure: Counts, losses: Any, goal: Any, prices: Any, below: float, first: int, lengths: Counts, bounds: Real
) -> tuple[int, int]:
    """The candidates of one structure, and the extra epochs of its first segment at which to go on (-1: all seen)."""
    segments = structure.shape[0]
    levels = np.empty((segments + 1, *prices.offsets.shape))
    times, used = np.zeros(segments), np.zeros(segments, np.int64)
    levels[0] = prices.offsets
    for i in range(segments):
        levels[0] += prices.slopes[structure[i]]
        times[0] += prices.quickest_s[structure[i]]
    used[0] = segments
    extra, ends = np.zeros(segments, np.int64), np.zeros(segments + 1, np.int64)
    extra[0] = first if segments > 1 else 0
    written, i = 0, 0
    while i >= 0:
        if i < segments - 1:
            m = structure[i]
            used[i + 1] = used[i] + extra[i]
            times[i + 1] = times[i] + extra[i] * prices.quickest_s[m]
            over = used[i + 1] > prices.epochs or times[i + 1] > prices.deadline_s + SLACK
            if over or cost_bound(levels[i], prices.slopes[m], extra[i], levels[i + 1]) >= below:
                i -= 1
                if i >= 0:
                    extra[i] += 1
                continue
            ends[i + 1] = ends[i] + 1 + extra[i]
            i += 1
            extra[i] = 0
            continue
        last = structure[i]
        more = min(float(prices.epochs - used[i]), room(levels[i], prices.slopes[last], below))
        more = min(more, (prices.deadline_s + SLACK - times[i]) / prices.quickest_s[last])
        if more >= 0.0:
            n = shortest(losses, which, structure, ends, goal, int(more) + 1)
            if n > 0:
                if written == bounds.shape[0]:
                    return written, extra[0] if segments > 1 else 0
                for s in range(segments - 1):
                    lengths[written, s] = 1 + extra[s]
                lengths[written, segments - 1] = n
                bounds[written] = cost_bound(levels[i], prices.slopes[last], n - 1, levels[i + 1])
                written += 1
        i -= 1
        if i >= 0:
            extra[i] += 1
    return written, -1
