"""All schedules of given structures that may cost less than the best known one, compiled: branch and bound over boxes.

A box holds the schedules of a structure whose segments end between given epochs. The dual bound on cost, the deadline
and the epochs allowed tell how long the last segment may be; where more epochs surely help, only the longest counts.
Bound and expected loss are sums over ends, so for a price on cost both together have their minimum over the box where
each end has its own: no affordable schedule has a lower expected loss. Where even that, with the most favourable noise
of the box, misses the target, the box is dropped, else it is cut in two. Of a single schedule the last segment gets the
fewest epochs that do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....core.fourier import SLACK, Counts, Real
from ...search.kernels import inlined, jit
from ..allocation_dual import bounds_near
from ..waterfill import filled
from .meets_target import hopeless, meets, way_of

FAR = 0.97
"""Multipliers are looked for again when the cost is less than this share of the one they were found for."""


class SchedulePrices(NamedTuple):
    """The dual bound on cost, slopes (sets, multipliers, versions), offsets (sets, multipliers), and times."""

    slopes: Real
    offsets: Real
    quickest_s: Real
    deadline_s: float
    epochs: int


class SearchProgress(NamedTuple):
    """Where the search stands, written by `search`: see there."""

    at: Counts
    boxes: Counts
    lengths: Counts
    bounds: Real
    best: Counts
    costs: Real


def room(segments: int, epochs: int, batch: int) -> SearchProgress:
    """For a search that begins; enough boxes for cutting every segment's ends down to one after the other."""
    boxes = np.empty((2 + segments * (epochs + 1), 2, segments), np.int64)
    lengths = np.zeros((batch, segments), np.int64)
    best = np.zeros(segments + 1, np.int64)
    return SearchProgress(np.zeros(3, np.int64), boxes, lengths, np.empty(batch), best, np.empty(2))


@inlined
def furthest(versions: Counts, near: Counts, far: Counts, prices: Any, below: float) -> int:
    """The last epoch for less than `below` and in time; ends are `near` where longer is dearer, else `far`."""
    last = versions.shape[0] - 2
    most = float(prices.epochs)
    if below < np.inf:
        most = -1.0
        for u in range(prices.offsets.shape[0]):
            fits = float(prices.epochs)
            for r in range(prices.offsets.shape[1]):
                spare = below - prices.offsets[u, r]
                for i in range(last):
                    change = prices.slopes[u, r, versions[i]] - prices.slopes[u, r, versions[i + 1]]
                    spare -= change * (near[i] if change > 0.0 else far[i])
                slope = prices.slopes[u, r, versions[last]]
                fits = min(fits, spare / slope if slope > 1e-200 else (1e9 if spare > 0.0 else -1.0))
            most = max(most, fits)
    left_s = prices.deadline_s + SLACK
    for i in range(last):
        change = prices.quickest_s[versions[i]] - prices.quickest_s[versions[i + 1]]
        left_s -= change * (near[i] if change > 0.0 else far[i])
    return int(max(min(most, left_s / prices.quickest_s[versions[last]]), -1.0))


@jit
def cost_bound(structure: Counts, lengths: Counts, prices: Any) -> float:
    """The least over groups of node sets of the greatest over multipliers."""
    least = np.inf
    for u in range(prices.offsets.shape[0]):
        greatest = -np.inf
        for r in range(prices.offsets.shape[1]):
            bound = prices.offsets[u, r]
            for i in range(structure.shape[0]):
                bound += lengths[i] * prices.slopes[u, r, structure[i]]
            greatest = max(greatest, bound)
        least = min(least, greatest)
    return least


@inlined
def tightened(versions: Counts, low: Counts, high: Counts, prices: Any, below: float, sure: bool) -> bool:
    """Sets the last end's limits and makes all ends increase strictly; whether anything is left of the box."""
    last = low.shape[0] - 1
    high[last] = furthest(versions, low, high, prices, below)
    for i in range(last - 1, -1, -1):
        high[i] = min(high[i], high[i + 1] - 1)
    for i in range(last):
        low[i] = max(low[i], (low[i - 1] if i > 0 else 0) + 1)
        if low[i] > high[i]:
            return False
    low[last] = low[last - 1] + 1 if last > 0 else 1
    if sure:
        low[last] = min(max(low[last], furthest(versions, high, low, prices, below)), high[last])
    return low[last] <= high[last]


@inlined
def least_mean(moments: Real, way: Any, low: Counts, high: Counts, prices: Any, below: float) -> float:
    """No schedule of the box that costs less than `below` has a lower expected loss.

    For each group of node sets the multiplier is the one that leaves the least; the price on cost is what the last
    segment's last epoch achieves for its own.
    """
    versions = way.versions
    last = low.shape[0] - 1
    final = versions[last]
    gained = moments[0, final, high[last] - 1] - moments[0, final, high[last]]
    lowest = np.inf
    for u in range(prices.offsets.shape[0]):
        spare, r = np.inf, 0
        for nth in range(prices.offsets.shape[1]):
            left = below - prices.offsets[u, nth] - prices.slopes[u, nth, final] * high[last]
            for i in range(last):
                left -= (prices.slopes[u, nth, versions[i]] - prices.slopes[u, nth, versions[i + 1]]) * low[i]
            if left < spare:
                spare, r = left, nth
        slope = prices.slopes[u, r, final]
        price = gained / slope if slope > 1e-200 and below < np.inf else 0.0
        plain, priced = way.mean, way.mean
        if price > 0.0:
            priced += price * (prices.offsets[u, r] - below)
        for i in range(last + 1):
            a, b, least, cheapest = versions[i], versions[i + 1], np.inf, np.inf
            change = price * (prices.slopes[u, r, a] - (prices.slopes[u, r, b] if i < last else 0.0))
            for end in range(low[i], high[i] + 1):
                mean = moments[0, a, end] - moments[0, b, end]
                least, cheapest = min(least, mean), min(cheapest, mean + change * end)
            plain += least
            priced += cheapest
        lowest = min(lowest, max(plain, priced))
    return lowest


@jit
def shortest(losses: Any, way: Any, ends: Counts, goal: Any) -> int:
    """The fewest epochs of the last segment, up to `ends`, that meet the goal; 0 if none do. Changes ends[-1].

    -1 where that takes frequencies that are not known.
    """
    last = ends.shape[0] - 1
    begin = ends[last - 1] if last > 0 else 0
    longest = ends[last] - begin
    if not goal.sure:  # more epochs might not help: try them all
        for n in range(1, longest + 1):
            ends[last] = begin + n
            met = meets(losses, way, ends, goal, goal.asked)
            if met != 0:
                return n if met > 0 else -1
        return 0
    met = meets(losses, way, ends, goal, goal.asked)
    if met <= 0:
        return met
    low, high = 0, longest  # low does not meet it (0 stands for "not tried")
    while high - low > 1:
        middle = (low + high) // 2
        ends[last] = begin + middle
        met = meets(losses, way, ends, goal, goal.asked)
        if met < 0:
            return -1
        if met > 0:
            high = middle
        else:
            low = middle
    ends[last] = begin + high
    return high


@jit
def search(
    structures: Counts, losses: Any, goal: Any, prices: Any, dual: Any, below: float, focused: float, progress: Any
) -> tuple[int, Any]:
    """Looks for schedules that meet the goal for less than `below`; rows of `structures` may end with -1: no version.

    With one node set to use, the cheapest is written to progress.best: 1 + the structure's number, lengths;
    progress.costs then has its cost and the cost that the bounds were last made for. Where costs are not known here, or
    a schedule all but misses the goal, candidates are written instead: progress.lengths (n, segments), progress.bounds
    (n,). Begins with structure at[0] and the at[1] boxes left of it (0: all of it), ends after the first structure that
    had any candidates or when there is no more room, and writes to `at` where to go on (at[0]: all seen if that is the
    number of structures; at[2]: the structure of the candidates). Returns how many there are, -1 if to go on takes the
    full frequencies, and the bounds on cost now in use.
    """
    at, boxes, counts = progress.at, progress.boxes, np.zeros(losses.jumps.shape[1])
    progress.best[0] = 0
    written, unknown = 0, False
    for which in range(at[0], structures.shape[0]):
        segments = structures.shape[1]
        while structures[which, segments - 1] < 0:
            segments -= 1
        structure, ends = structures[which, :segments], np.ones(segments, np.int64)
        low, high = np.empty(segments, np.int64), np.empty(segments, np.int64)
        left = at[1]
        if left == 0 and cost_bound(structure, ends, prices) < below:
            for i in range(segments):
                boxes[0, 0, i], boxes[0, 1, i] = i + 1, prices.epochs
            left = 1
        way = way_of(losses, structure)
        while left > 0 and written < progress.bounds.shape[0]:
            for i in range(segments):
                low[i], high[i] = boxes[left - 1, 0, i], boxes[left - 1, 1, i]
            if not tightened(way.versions, low, high, prices, below, goal.sure):
                left -= 1
                continue
            widest, most = 0, 0.0
            for i in range(segments - 1):
                a, b = way.versions[i], way.versions[i + 1]
                size = losses.apart[a, b, high[i]] - losses.apart[a, b, low[i]]
                if size > most:
                    widest, most = i, size
            single = most == 0.0
            if not (single and goal.sure):
                mean = least_mean(losses.moments, way, low, high, prices, below)
                if hopeless(losses, way, low, high, goal, mean):
                    left -= 1
                    continue
            if not single:
                a, b, middle = way.versions[widest], way.versions[widest + 1], low[widest]
                half = losses.apart[a, b, middle] + 0.5 * most
                while middle + 1 < high[widest] and losses.apart[a, b, middle + 1] <= half:
                    middle += 1
                for i in range(segments):
                    boxes[left - 1, 0, i] = boxes[left, 0, i] = low[i]
                    boxes[left - 1, 1, i] = boxes[left, 1, i] = high[i]
                boxes[left, 0, widest], boxes[left - 1, 1, widest] = middle + 1, middle
                left += 1
                continue
            ends[:] = high
            n = shortest(losses, way, ends, goal)
            if n < 0:
                unknown = True
                break
            left -= 1
            if n == 0:
                continue
            lengths = progress.lengths[written]
            lengths[:] = 0
            counts[:] = 0.0
            for i in range(segments):
                lengths[i] = ends[i] - (ends[i - 1] if i > 0 else 0)
                counts[structure[i]] += lengths[i]
            bound = cost_bound(structure, lengths, prices)
            if bound >= below:
                continue
            if dual.slots.root.shape[1] == 1:
                cost = filled(counts, dual.slots, dual.deadline_s)[0] + dual.paid[0]
                if cost >= below:
                    continue
                surely = meets(losses, way, ends, goal, goal.asked + 2.0 * goal.margin)
                if surely < 0:
                    unknown = True
                    left += 1
                    break
                if surely > 0:
                    progress.best[0] = which + 1
                    progress.best[1:] = lengths
                    below = cost
                    if cost < FAR * focused:
                        slopes, offsets = bounds_near(dual, counts)
                        prices = SchedulePrices(slopes, offsets, prices.quickest_s, prices.deadline_s, prices.epochs)
                        focused = cost
                    continue
            progress.bounds[written] = bound
            written += 1
        at[0], at[1], at[2] = which + (left == 0), left, which
        if written > 0 or unknown:
            break
    if unknown and written == 0:
        written = -1
    progress.costs[0], progress.costs[1] = below, focused
    return written, prices
