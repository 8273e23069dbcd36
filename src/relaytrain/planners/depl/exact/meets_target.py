"""Whether a schedule's loss meets the target with the probability asked, compiled; and whether any of many can.

A structure is a sequence of versions; a schedule tells the epochs of each. Log characteristic functions are prefix sums
P_m over epochs, so that of a schedule is a sum over its segments' ends e of P_m(e) - P_n(e), with m the version that
ends and n the one that follows (none after the last: 0). Where an end is only known to lie between two epochs, its part
lies within half the sum of |steps| between them around the middle of both: an interval for each frequency, and from
these an upper bound on the distribution function of all such schedules, whatever their versions' noises.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ....core.fourier import SLACK, Counts, Real
from ...search.kernels import inlined, jit

GONE = -20.0
"""log of a characteristic function that no longer counts."""
COARSE = -9.0
"""The same for a first look."""
ROUGH = -5.0
"""The same for a first look at a box."""
NARROW = 16.0
"""Standard deviations in the period of a first look."""
FEW = 40
"""Frequencies of a first look at most; it tells nothing where they do not suffice."""


class Losses(NamedTuple):
    """Loss terms: prefix sums over epochs for each version, and what each switch adds."""

    moments: Real
    """Mean, variance and fourth cumulant, (3, versions + 1, epochs + 1); no version, the last row, adds nothing."""
    jumps: Real
    """Mean, variance and fourth cumulant of switches, (3, versions, versions)."""
    initial: float
    before: int
    """The version that trained last, -1: none."""
    few: int
    """Frequencies of a first look."""
    few_step: float
    """These are (i + 1/2) few_step."""
    step: float
    """Those of the full sum are (j + 1/2) step."""
    enough: bool
    """For every schedule; else a full sum may find that there are too few of them, or none at all."""
    re: Real
    """Log characteristic functions at the few frequencies, then at all: (versions, epochs + 1, few + points)."""
    im: Real
    jump_re: Real
    """(versions, versions, few + points)."""
    jump_im: Real
    glance: Real
    """(versions (versions + 1) (epochs + 1), few + 1, 4): see `glances`."""
    apart: Real
    """How much more uncertain a box is for each later epoch of an end, summed: (versions, versions + 1, epochs + 1)."""


class SummedStructure(NamedTuple):
    """A structure with what all its schedules share, initial loss and switches; and which of them are looked at."""

    versions: Counts
    """One for each segment and, last, the number of versions for none."""
    mean: float
    re: Real
    """(few + points,)."""
    im: Real
    spread: Real
    """Variance and fourth cumulant, (2,)."""
    rows: Counts
    """Of `glance`, for the first and last epoch that each segment may end with: (2, segments)."""


class Goal(NamedTuple):
    """What a schedule must reach: P(loss <= target) >= asked, or an expected loss when `by_mean`."""

    target: float
    asked: float
    odds: float
    """(1 - omega) / omega, for Cantelli's inequality."""
    by_mean: bool
    sure: bool
    """Another epoch surely lowers the loss."""
    deviations: float
    """Between mean and target, from which on a normal loss would do."""
    margin: float
    """By which `asked` is lower than what surely does."""


@jit
def glances(re: Real, im: Real, moments: Real, few: int) -> tuple[Real, Real]:
    """`Losses.glance` and `Losses.apart`.

    The first: halves of D = P_m - P_n plus, and minus, W = the sum of its steps' sizes, by m, n and epoch; of the few
    frequencies' real parts and imaginary parts, and in the place after these of variance and fourth cumulant. D(e) for
    low <= e <= high is at most the first at high and the second at low, and at least the other two. The second: W of
    the variance, or of the mean where there are no frequencies.
    """
    versions, rows = re.shape[:2]
    kind = 1 if few > 0 else 0
    apart = np.zeros((versions, versions + 1, rows))
    halves = np.zeros((versions * (versions + 1) * rows, few + 1, 4))
    for m in range(versions):
        for n in range(versions + 1):
            if m == n:
                continue
            for e in range(1, rows):
                step = moments[kind, m, e] - moments[kind, m, e - 1]
                step -= moments[kind, n, e] - moments[kind, n, e - 1]
                apart[m, n, e] = apart[m, n, e - 1] + abs(step) + 1e-9
                row = (m * (versions + 1) + n) * rows + e
                for i in range(few + 1):
                    for part in range(2):
                        if i == few:
                            value = moments[1 + part, m, e] - moments[1 + part, n, e]
                        else:
                            of = re if part == 0 else im
                            value = of[m, e, i] - (of[n, e, i] if n < versions else 0.0)
                        before, sizes = halves[row - 1, i, 2 * part], halves[row - 1, i, 2 * part + 1]
                        sizes = before - sizes + abs(value - before - sizes)
                        halves[row, i, 2 * part], halves[row, i, 2 * part + 1] = (
                            0.5 * (value + sizes),
                            0.5 * (value - sizes),
                        )
    return halves, apart


@jit
def way_of(losses: Any, structure: Counts) -> Any:
    """The structure with its switches added up."""
    points, segments = losses.re.shape[2], structure.shape[0]
    versions = np.empty(segments + 1, np.int64)
    re, im, spread = np.zeros(points), np.zeros(points), np.zeros(2)
    mean, before = losses.initial, losses.before
    for s in range(segments):
        now = structure[s]
        versions[s] = now
        if before >= 0 and before != now:
            mean += losses.jumps[0, before, now]
            spread[0] += losses.jumps[1, before, now]
            spread[1] += losses.jumps[2, before, now]
            for j in range(points):
                re[j] += losses.jump_re[before, now, j]
                im[j] += losses.jump_im[before, now, j]
        before = now
    versions[segments] = losses.moments.shape[1] - 1
    return SummedStructure(versions, mean, re, im, spread, np.empty((2, segments), np.int64))


@inlined
def expected(losses: Any, way: Any, ends: Counts) -> float:
    """The mean loss of a schedule."""
    mean = way.mean
    for s in range(ends.shape[0]):
        mean += losses.moments[0, way.versions[s], ends[s]] - losses.moments[0, way.versions[s + 1], ends[s]]
    return mean


@inlined
def inverted(losses: Any, way: Any, ends: Counts, offset: float) -> float:
    """P(loss - mean <= offset) of a schedule, from all frequencies until its characteristic function is gone.

    -1 where it is not by the last one, and that might matter.
    """
    total, small, last = 0.0, 0, ends.shape[0] - 1
    for nth in range(way.re.shape[0] - losses.few):
        j = losses.few + nth
        re, im = way.re[j], way.im[j]
        for s in range(last + 1):
            m = way.versions[s]
            re += losses.re[m, ends[s], j]
            im += losses.im[m, ends[s], j]
            if s < last:
                n = way.versions[s + 1]
                re -= losses.re[n, ends[s], j]
                im -= losses.im[n, ends[s], j]
        small = small + 1 if re < GONE else 0
        if small > 1:
            return 0.5 - total / math.pi
        total += math.exp(re) / (nth + 0.5) * math.sin(im - (nth + 0.5) * losses.step * offset)
    return 0.5 - total / math.pi if losses.enough else -1.0


@inlined
def look_at(losses: Any, way: Any, low: Counts, high: Counts) -> None:
    """From now on at the schedules whose segments end between epochs low[s] and high[s]."""
    versions, epochs = losses.re.shape[0], losses.re.shape[1]
    for s in range(low.shape[0]):
        begin = (way.versions[s] * (versions + 1) + way.versions[s + 1]) * epochs
        way.rows[0, s], way.rows[1, s] = begin + low[s], begin + high[s]


@inlined
def between(losses: Any, way: Any, i: int, part: int, start: float) -> tuple[float, float]:
    """The least and the greatest of what is looked at, at frequency i."""
    least = greatest = start
    for s in range(way.rows.shape[1]):
        low, high = way.rows[0, s], way.rows[1, s]
        greatest += losses.glance[high, i, 2 * part] + losses.glance[low, i, 2 * part + 1]
        least += losses.glance[high, i, 2 * part + 1] + losses.glance[low, i, 2 * part]
    return least, greatest


@inlined
def glimpse(losses: Any, way: Any, offset: float, gone: float) -> tuple[float, float]:
    """An upper bound on P(loss - mean <= offset) of what is looked at, but for a short period's error.

    Returned with a bound on what the frequencies left out add. Of a single schedule it is the value itself.
    """
    total, small, rest = 0.0, 0, 1.0
    for i in range(losses.few):
        least_re, greatest_re, least_im, greatest_im = way.re[i], way.re[i], way.im[i], way.im[i]
        for s in range(way.rows.shape[1]):
            low, high = way.rows[0, s], way.rows[1, s]
            greatest_re += losses.glance[high, i, 0] + losses.glance[low, i, 1]
            least_re += losses.glance[high, i, 1] + losses.glance[low, i, 0]
            greatest_im += losses.glance[high, i, 2] + losses.glance[low, i, 3]
            least_im += losses.glance[high, i, 3] + losses.glance[low, i, 2]
        small = small + 1 if greatest_re < gone else 0
        if small > 1:
            rest = math.exp(greatest_re) / (i + 0.5)
            break
        least = math.sin(0.5 * (least_im + greatest_im) - (i + 0.5) * losses.few_step * offset)
        if greatest_im > least_im:
            turned = 0.5 * (greatest_im - least_im)
            least = max(least - turned * math.sqrt(1.0 - least * least) - 0.5 * turned * turned, -1.0)
        total += math.exp(least_re if least > 0.0 else greatest_re) / (i + 0.5) * least
    return 0.5 - total / math.pi, rest


@inlined
def far_enough(losses: Any, way: Any, goal: Any, variance: float) -> float:
    """From about this offset on a schedule of the least `variance` reaches the goal: a glimpse is not worth while.

    The normal quantile, corrected by the skewness that the first frequency tells.
    """
    deviation, z = math.sqrt(max(variance, 1e-300)), goal.deviations
    skewness = -6.0 * between(losses, way, 0, 1, way.im[0])[1] / max(0.5 * losses.few_step * deviation, 1e-100) ** 3
    return deviation * (z + min(max(skewness, -1.0), 1.0) * (z * z - 1.0) / 6.0)


@inlined
def beyond(distance: float, variance: float, fourth: float) -> float:
    """A bound on the mass further from the mean, to one side: Cantelli's and, by fourth moments, Markov's."""
    if distance <= 0.0:
        return 1.0
    square = distance * distance
    return min(variance / (variance + square), (3.0 * variance * variance + fourth) / (square * square))


@jit
def meets(losses: Any, way: Any, ends: Counts, goal: Any, asked: float) -> int:
    """Whether P(loss <= target) >= asked when segments end with epochs `ends`: moments, a glimpse, then the full sum.

    1, 0, or -1 where the full sum takes more frequencies than there are.
    """
    offset = goal.target - expected(losses, way, ends)
    if goal.by_mean:
        return 1 if offset >= 0.0 else 0
    look_at(losses, way, ends, ends)
    variance = between(losses, way, losses.few, 0, way.spread[0])[1]
    if variance <= 0.0:
        return 1 if offset >= -SLACK else 0
    if -offset > math.sqrt(variance * goal.odds) + SLACK:
        return 0
    fourth = between(losses, way, losses.few, 1, way.spread[1])[1]
    if 1.0 - beyond(offset, variance, fourth) >= asked:
        return 1
    share, rest = glimpse(losses, way, offset, COARSE)
    period = 2.0 * math.pi / losses.few_step
    if share + rest + beyond(period - offset, variance, fourth) < asked:
        return 0
    if share - rest - beyond(period + offset, variance, fourth) >= asked:
        return 1
    if way.re.shape[0] == losses.few and not losses.enough:
        return -1
    if abs(offset) >= math.pi / losses.step:
        return 1 if offset > 0.0 else 0
    share = inverted(losses, way, ends, offset)
    if share < -0.5:
        return -1
    return 1 if share >= asked else 0


@inlined
def hopeless(losses: Any, way: Any, low: Counts, high: Counts, goal: Any, least_mean: float) -> bool:
    """Whether surely no schedule of a box, all of expected loss `least_mean` or more, reaches the goal."""
    offset = goal.target - least_mean
    if goal.by_mean:
        return offset < -SLACK
    look_at(losses, way, low, high)
    least, variance = between(losses, way, losses.few, 0, way.spread[0])
    if variance <= 0.0:
        return offset < -SLACK
    if -offset > math.sqrt(variance * goal.odds) + SLACK:
        return True
    if offset > far_enough(losses, way, goal, least):
        return False
    return most_probable(losses, way, offset, variance) < goal.asked


@inlined
def most_probable(losses: Any, way: Any, offset: float, variance: float) -> float:
    """An upper bound on P(loss - mean <= offset) of what is looked at, of that variance at most."""
    fourth = between(losses, way, losses.few, 1, way.spread[1])[1]
    share, rest = glimpse(losses, way, offset, ROUGH)
    return share + rest + beyond(2.0 * math.pi / losses.few_step - offset, variance, fourth)


@jit
def probable(losses: Any, structure: Counts, ends: Counts, goal: Any, asked: float) -> int:
    """`meets` for a structure whose segments end with epochs `ends`."""
    return meets(losses, way_of(losses, structure), ends, goal, asked)
