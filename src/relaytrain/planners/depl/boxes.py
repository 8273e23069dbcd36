"""All schedules of given structures that may cost less than the best known one, compiled: branch and bound over boxes.

A box holds the schedules of a structure whose segments end between given epochs. The dual bound on cost, the deadline
and the epochs allowed tell how long the last segment of any of them may be. If every epoch that may belong to either of
two versions were one that surpasses both (`surpassing`), all these schedules would be surpassed. Where even that misses
the target the box is dropped, else it is cut in two. Of a single schedule the last segment gets the fewest epochs that do.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit, within
from .enumeration import SLACK, Counts, glimpse, meets, moments

Real = NDArray[np.float64]

TRY = 2.0
"""Deviations between mean and target up to which a box may turn out hopeless at a glimpse; others are cut in two at once."""


class Prices(NamedTuple):
    """The dual bound on cost, slopes (models, subsets, multipliers), offsets (subsets, multipliers), and times."""

    slopes: Real
    offsets: Real
    quickest_s: Real
    deadline_s: float
    epochs: int


def room(segments: int, epochs: int) -> Counts:
    """Boxes yet to be looked at, (n, 2, segments): enough for halving every segment's ends one after the other."""
    return np.empty((2 + segments * (2 + epochs.bit_length()), 2, segments), np.int64)


@within
def furthest(structure: Counts, low: Counts, high: Counts, prices: Any, below: float) -> int:
    """The last epoch that a schedule of the box may have without costing `below` or more or being late."""
    last = structure.shape[0] - 1
    most = -1.0
    for u in range(prices.offsets.shape[0]):
        fits = float(prices.epochs)
        for r in range(prices.offsets.shape[1]):
            spare = below - prices.offsets[u, r]
            for i in range(last):
                change = prices.slopes[structure[i], u, r] - prices.slopes[structure[i + 1], u, r]
                spare -= change * (low[i] if change > 0.0 else high[i])
            slope = prices.slopes[structure[last], u, r]
            fits = min(fits, spare / slope if slope > 1e-200 else (1e9 if spare > 0.0 else -1.0))
        most = max(most, fits)
    left_s = prices.deadline_s + SLACK
    for i in range(last):
        change = prices.quickest_s[structure[i]] - prices.quickest_s[structure[i + 1]]
        left_s -= change * (low[i] if change > 0.0 else high[i])
    return int(max(min(most, left_s / prices.quickest_s[structure[last]]), -1.0))


@jit
def cost_bound(structure: Counts, lengths: Counts, prices: Any) -> float:
    """The least over sets of clusters of the greatest over multipliers."""
    least = np.inf
    for u in range(prices.offsets.shape[0]):
        greatest = -np.inf
        for r in range(prices.offsets.shape[1]):
            bound = prices.offsets[u, r]
            for i in range(structure.shape[0]):
                bound += lengths[i] * prices.slopes[structure[i], u, r]
            greatest = max(greatest, bound)
        least = min(least, greatest)
    return least


@within
def tightened(low: Counts, high: Counts, last_end: int) -> bool:
    """Makes the ends of the box increase strictly, up to `last_end`; whether anything is left of it."""
    segments = low.shape[0]
    low[segments - 1] = high[segments - 1] = last_end
    for i in range(segments - 2, -1, -1):
        high[i] = min(high[i], high[i + 1] - 1)
    for i in range(segments - 1):
        low[i] = max(low[i], (low[i - 1] if i > 0 else 0) + 1)
        if low[i] > high[i]:
            return False
    return last_end > (low[segments - 2] if segments > 1 else 0)


@within
def hopeless(losses: Any, which: int, structure: Counts, low: Counts, high: Counts, goal: Any) -> bool:
    """Whether no schedule of the box reaches the goal, surely and at a glimpse.

    Not looked at where the target lies TRY deviations above the mean or more: cutting the box in two is quicker then.
    """
    mean, variance = moments(losses, which, structure, low, high)
    offset = goal.target - mean
    if variance <= 0.0:
        return offset < -SLACK
    deviation = math.sqrt(variance)
    if offset > TRY * deviation:
        return False
    odds = (1.0 - goal.loose) / goal.loose
    if -offset > deviation * math.sqrt(odds) + SLACK:
        return True
    if abs(offset) >= math.pi / losses.step:
        return False
    return glimpse(losses, which, structure, low, high, offset, variance)[1] < goal.loose


@jit
def too_dear(
    losses: Any, which: int, structure: Counts, low: Counts, high: Counts, target: float, prices: Any, below: float
) -> bool:
    """Whether no schedule of the box has an expected loss of at most `target` and costs less than `below`.

    Bound and expected loss are sums over segments, so for a price on the loss both together have their minimum over the
    box where each end has its own. The price is that of the last segment's last epoch.
    """
    last = structure.shape[0] - 1
    final, mean = structure[last], losses.mean
    gained = mean[final, high[last] - 1] - mean[final, high[last]]
    for u in range(prices.offsets.shape[0]):
        dear, count = False, prices.offsets.shape[1]
        for nth in range(count):
            r = (count // 2 + nth) % count  # the middle multiplier suits best
            slopes = prices.slopes[:, u, r]
            price = slopes[final] / gained if gained > 1e-12 else 0.0
            total = prices.offsets[u, r] + price * (losses.start_mean[which] - target)
            for i in range(last):
                a, b = structure[i], structure[i + 1]
                least = np.inf
                for end in range(low[i], high[i] + 1):
                    least = min(least, (slopes[a] - slopes[b]) * end + price * (mean[a, end] - mean[b, end]))
                total += least
            least = np.inf
            for end in range(low[last - 1] + 1 if last > 0 else 1, high[last] + 1):
                least = min(least, slopes[final] * end + price * mean[final, end])
            if total + least > below:
                dear = True
                break
        if not dear:
            return False
    return True


@jit
def shortest(losses: Any, which: int, structure: Counts, ends: Counts, goal: Any) -> int:
    """The fewest epochs of the last segment, up to `ends`, that meet the goal; 0 if none do. Changes ends[-1]."""
    last = structure.shape[0] - 1
    begin = ends[last - 1] if last > 0 else 0
    longest = ends[last] - begin
    if not goal.sure:  # more epochs might not help: try them all
        for n in range(1, longest + 1):
            ends[last] = begin + n
            if meets(losses, which, structure, ends, goal):
                return n
        return 0
    if not meets(losses, which, structure, ends, goal):
        return 0
    low, high = 0, longest  # low does not meet it (0 stands for "not tried")
    while high - low > 1:
        middle = (low + high) // 2
        ends[last] = begin + middle
        if meets(losses, which, structure, ends, goal):
            high = middle
        else:
            low = middle
    return high


@jit
def candidates(
    structures: Counts,
    losses: Any,
    goal: Any,
    prices: Any,
    below: float,
    at: Counts,
    boxes: Counts,
    lengths: Counts,
    bounds: Real,
) -> int:
    """Writes schedules that meet the goal and may cost less than `below`: lengths (n, segments) and bounds (n,).

    Begins with structure at[0] and the at[1] boxes left of it (0: all of it), ends after the first structure that had any
    candidates or when the arrays are full, and writes to `at` where to go on (at[0]: all seen if that is the number of
    structures; at[2]: the structure of what was written). Returns how many were written.
    """
    segments = structures.shape[1]
    ones = np.ones(segments, np.int64)
    for which in range(at[0], structures.shape[0]):
        if at[1] == 0:
            for i in range(segments):
                boxes[0, 0, i], boxes[0, 1, i] = i + 1, prices.epochs
            at[1] = 1 if cost_bound(structures[which], ones, prices) < below else 0
        written, left = of_structure(which, structures[which], losses, goal, prices, below, boxes, at[1], lengths, bounds)
        at[0], at[1], at[2] = which + (left == 0), left, which
        if written > 0 or left > 0:
            return written
    return 0


@jit
def of_structure(
    which: int,
    structure: Counts,
    losses: Any,
    goal: Any,
    prices: Any,
    below: float,
    boxes: Counts,
    left: int,
    lengths: Counts,
    bounds: Real,
) -> tuple[int, int]:
    """The candidates of one structure, and how many boxes are left when there is no more room to write."""
    segments = structure.shape[0]
    ends = np.zeros(segments, np.int64)
    written = 0
    while left > 0:
        low, high = boxes[left - 1, 0], boxes[left - 1, 1]
        if not tightened(low, high, furthest(structure, low, high, prices, below)):
            left -= 1
            continue
        widest = 0
        for i in range(segments - 1):
            if high[i] - low[i] > high[widest] - low[widest]:
                widest = i
        if low[widest] < high[widest]:
            if goal.by_mean:
                out = too_dear(losses, which, structure, low, high, goal.target, prices, below)
            else:
                out = goal.sure and hopeless(losses, which, structure, low, high, goal)
            if out:
                left -= 1
                continue
            middle = (low[widest] + high[widest]) // 2
            boxes[left] = boxes[left - 1]
            boxes[left, 0, widest], boxes[left - 1, 1, widest] = middle + 1, middle
            left += 1
            continue
        if written == bounds.shape[0]:
            return written, left
        left -= 1
        ends[:] = high
        n = shortest(losses, which, structure, ends, goal)
        if n > 0:
            begin = 0
            for i in range(segments - 1):
                lengths[written, i] = high[i] - begin
                begin = high[i]
            lengths[written, segments - 1] = n
            bounds[written] = cost_bound(structure, lengths[written], prices)
            written += 1
    return written, 0
