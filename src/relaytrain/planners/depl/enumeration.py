"""Whether a schedule's loss meets the target with the probability asked, compiled.

A structure is a sequence of versions; a schedule tells the epochs of each. Log characteristic functions are prefix sums
over epochs, so that of any schedule is read off the first and last epochs of its segments.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit, within

Real = NDArray[np.float64]
Counts = NDArray[np.int64]

GONE = -30.0
"""log of a characteristic function that no longer counts."""
COARSE = -5.0
"""The same for a first look."""
NARROW, WIDTH = 9.0, 14.0
"""Standard deviations in the period of a first look, and in that of a second beyond the offset."""
FEW = 24
"""Frequencies of a first look at most; it tells nothing where they do not suffice."""
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
    glance: Real
    """Every stride-th frequency again, few and close together in memory: (models, epochs + 1, few, real and imaginary)."""
    jump_glance: Real
    """The same of the switches, (structures, few, 2)."""
    stride: int
    either_mean: Real
    """Of an epoch that surpasses one of either version, prefix sums over epochs: (models, models, epochs + 1)."""
    either_variance: Real
    either_glance: Real
    """(models, models, epochs + 1, few, 2)."""


class Goal(NamedTuple):
    """What a schedule must reach: P(loss <= target) >= asked, or an expected loss when `by_mean`."""

    target: float
    asked: float
    odds: float
    """(1 - omega) / omega, for Cantelli's inequality."""
    by_mean: bool
    sure: bool
    """Another epoch surely lowers the loss."""
    loose: float
    """A little less than is asked, for what all but surpasses others."""


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
        begin = 0
        for s in range(structure.shape[0]):
            m, end = structure[s], ends[s]
            re += losses.re[m, end, j] - losses.re[m, begin, j]
            im += losses.im[m, end, j] - losses.im[m, begin, j]
            begin = end
        size = math.exp(re) / (i + 0.5)
        small = small + 1 if re < gone else 0
        if small > 1:
            rest = size
            break
        total += size * math.sin(im - (j + 0.5) * losses.step * offset)
    return 0.5 - total / math.pi, rest


@within
def moments(losses: Any, which: int, structure: Counts, low: Counts, high: Counts) -> tuple[float, float]:
    """Mean and variance of the loss when segment i of structure number `which` ends between epochs low[i] and high[i].

    Epochs that may belong to either of two neighbours count as one that surpasses both; low = high is a schedule.
    """
    mean, variance = losses.start_mean[which], losses.start_variance[which]
    begin = 0
    for i in range(structure.shape[0]):
        m = structure[i]
        end = max(low[i], begin)
        mean += losses.mean[m, end] - losses.mean[m, begin]
        variance += losses.variance[m, end] - losses.variance[m, begin]
        begin = high[i]
        if begin > low[i]:
            n = structure[i + 1]
            mean += losses.either_mean[m, n, begin] - losses.either_mean[m, n, low[i]]
            variance += losses.either_variance[m, n, begin] - losses.either_variance[m, n, low[i]]
    return mean, variance


@within
def glimpse(
    losses: Any, which: int, structure: Counts, low: Counts, high: Counts, offset: float, variance: float
) -> tuple[float, float]:
    """Bounds on P(loss - mean <= offset) of what `moments` describes, from the few frequencies of `glance`."""
    total, small, rest = 0.0, 0, 1.0
    step = losses.step * losses.stride
    for i in range(losses.glance.shape[2]):
        re, im = losses.jump_glance[which, i, 0], losses.jump_glance[which, i, 1]
        begin = 0
        for s in range(structure.shape[0]):
            m = structure[s]
            end = max(low[s], begin)
            re += losses.glance[m, end, i, 0] - losses.glance[m, begin, i, 0]
            im += losses.glance[m, end, i, 1] - losses.glance[m, begin, i, 1]
            begin = high[s]
            if begin > low[s]:
                n = structure[s + 1]
                re += losses.either_glance[m, n, begin, i, 0] - losses.either_glance[m, n, low[s], i, 0]
                im += losses.either_glance[m, n, begin, i, 1] - losses.either_glance[m, n, low[s], i, 1]
        size = math.exp(re) / (i + 0.5)
        small = small + 1 if re < COARSE else 0
        if small > 1:
            rest = size
            break
        total += size * math.sin(im - (i + 0.5) * step * offset)
    return bounded(0.5 - total / math.pi, rest, variance, offset, 2.0 * math.pi / step)


@within
def bounded(found: float, rest: float, variance: float, offset: float, period: float) -> tuple[float, float]:
    """Bounds on what a short period found: it errs only for values further than that from the offset (Cantelli again)."""
    least = found - rest - variance / (variance + (period + offset) ** 2) if period + offset > 0.0 else 0.0
    most = found + rest + variance / (variance + (period - offset) ** 2) if period - offset > 0.0 else 1.0
    return least, most


@jit
def meets(losses: Any, which: int, structure: Counts, ends: Counts, goal: Any) -> bool:
    """Whether P(loss <= target) >= asked when segments end with epochs `ends`: Cantelli, two looks, then the full sum."""
    mean, variance = moments(losses, which, structure, ends, ends)
    offset = goal.target - mean
    if goal.by_mean:
        return offset >= 0.0
    if variance <= 0.0:
        return offset >= -SLACK
    if -offset > math.sqrt(variance * goal.odds) + SLACK:
        return False
    half = math.pi / losses.step
    if abs(offset) >= half:
        return offset > 0.0
    least, most = glimpse(losses, which, structure, ends, ends, offset, variance)
    if least < goal.asked <= most:
        stride = int(2.0 * half / (WIDTH * math.sqrt(variance) + abs(offset)))
        stride -= 1 - stride % 2
        if stride > 1:
            found, rest = inverted(losses, which, structure, ends, offset, stride, COARSE)
            least, most = bounded(found, rest, variance, offset, 2.0 * half / stride)
    if least < goal.asked <= most:
        least = inverted(losses, which, structure, ends, offset, 1, GONE)[0]
    return least >= goal.asked
