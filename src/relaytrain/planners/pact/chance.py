"""The chance that a path reaches the target in time when observed losses or an epoch's seconds scatter.

A run ends at the first loss that is observed at or below the target, so luck counts as well as the curve. Samples have
two parts: what a run is like (one level for all its epochs) and what scatters an epoch alone. Epoch h is at the level
of z_h = sqrt(1 - w_h) z + sqrt(w_h) e_h, where w_h is the scatter's share of the variance h epochs ahead: whatever the
mix, the loss h epochs ahead has the law's own quantiles.

On the measured clock seconds scatter too: independent and normal, so one number a sample stands for all its epochs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array
from ...core.law import ROBUST_LEVEL, Z_ROBUST, LevelLaw, at_levels
from ...core.state import TOLERANCE, State
from ..search.allowance import charge, current
from ..search.instance import MOST_EPOCHS, contiguous
from ..search.kernels import roll
from .level_tables import Tables

SCORES = np.linspace(-3.2, 3.2, 33)
"""Standard normal scores of the levels whose paths are followed; in between, paths are interpolated."""

BLOCK = 64
"""Epochs sampled at a time: most samples arrive soon."""

EPOCH_NS, SAMPLE_NS = 40, 50
"""Of an epoch that is rolled; of one that is sampled."""
TINY = 1e-12
NEAR = 1e-6
"""Of a logarithm of a loss: more than rounding in between two levels."""
SEED = 0
"""Of all samples."""
FARTHEST = 6.0
"""Standard deviations of time beyond which no sample is looked for."""


class Reach(NamedTuple):
    """A path as long as any luck allows, with the mean of its time after each epoch and the standard deviation."""

    path: NDArray[np.int64]
    spent: Array
    deviation: Array


def scattered(tables: Tables) -> bool:
    """The law says that observed losses scatter."""
    return isinstance(tables.law, LevelLaw) and tables.law.raised(ROBUST_LEVEL) is not None


def chance_in_time(tables: Tables, state: State, actions: NDArray[np.int64], *, samples: int) -> float:
    """The share of `samples` seeded runs that reach the target in time by `actions`, the last pair training on."""
    law = tables.law
    assert isinstance(law, LevelLaw) and law.scatter is not None
    path, spent, deviation = reach(tables, state, actions)
    if len(path) == 0:
        return 0.0
    deadline = tables.problem.target.deadline_s + TOLERANCE
    logs = np.log(np.maximum(_paths(law, state, path), TINY))  # (scores, epochs)
    whole = np.maximum(_at(logs, Z_ROBUST) - _at(logs, 0.0), TINY) / Z_ROBUST  # standard deviation, epoch by epoch
    own = np.minimum(law.scatter[path] / whole, 1.0) ** 2
    goal = float(np.log(max(tables.problem.target.loss + TOLERANCE, TINY)))
    chance = np.random.default_rng(SEED)
    waiting = chance.standard_normal(samples)  # the level of every run that has not arrived
    luck = np.random.default_rng([SEED, 1]).standard_normal(samples)  # with its seconds
    met = 0
    possible = logs.min(axis=0) <= goal + NEAR  # elsewhere no sample can have arrived
    last = int(np.flatnonzero(possible)[-1]) if possible.any() else -1
    for first in range(0, len(path), BLOCK):
        part = slice(first, first + BLOCK)
        charge(current(), SAMPLE_NS * len(waiting) * len(path[part]))
        if first > last:
            continue
        fresh = chance.standard_normal((len(waiting), len(path[part])))
        if not possible[part].any():
            continue
        scores = np.sqrt(1.0 - own[part]) * waiting[:, None] + np.sqrt(own[part]) * fresh
        below = _between(logs[:, part], scores) <= goal
        there = below.any(axis=1)
        at = first + below[there].argmax(axis=1)
        met += int((spent[at] + luck[there] * deviation[at] <= deadline).sum())
        waiting, luck = waiting[~there], luck[~there]
        if len(waiting) == 0:
            break
    return 1.0 - (samples - met) / samples


def chance_of_levels(tables: Tables, state: State, actions: NDArray[np.int64], *, samples: int) -> float:
    """The same where only seconds scatter: a sample is a level, its curve ends after some epochs, whose time varies.

    Higher levels end no sooner: where two samples end after the same epoch, so do those between.
    """
    path, spent, deviation = reach(tables, state, actions)
    chance = np.random.default_rng(SEED)
    levels, luck = np.sort(chance.uniform(size=samples)), chance.standard_normal(samples)
    target = tables.problem.target
    certain = (
        int((spent + FARTHEST * deviation <= target.deadline_s).sum()) - 1
    )  # the last epoch that no luck makes late
    never = len(path)

    def ends(sample: int) -> int:
        charge(current(), EPOCH_NS * len(path))
        losses = np.empty(len(path))
        form = contiguous(tables.law.form(float(min(max(levels[sample], 1e-6), 1 - 1e-6))))
        roll(form, state.loss, state.pair, state.epoch + 1, path, losses)
        met = np.flatnonzero(losses <= target.loss + TOLERANCE)
        return max(int(met[0]), certain) if len(met) else never

    end = np.empty(samples, np.int64)
    spans = [(0, samples - 1, ends(0), ends(samples - 1))]
    while spans:
        low, high, early, late = spans.pop()
        end[low], end[high] = early, late
        if early == late:
            end[low:high] = early
        elif high > low + 1:
            middle = (low + high) // 2
            there = ends(middle)
            spans += [(low, middle, early, there), (middle, high, there, late)]
    done = np.flatnonzero(end < never)
    times = spent[end[done]] + luck[done] * deviation[end[done]]
    return float((times <= target.deadline_s + TOLERANCE).sum() / samples)


def reach(tables: Tables, state: State, actions: NDArray[np.int64]) -> Reach:
    """`actions` and then the last one again and again, as far as deadline and cap allow."""
    cap = tables.problem.max_epochs
    room = MOST_EPOCHS if cap is None else max(min(cap - state.epoch, MOST_EPOCHS), 0)
    path = np.concatenate([actions, np.full(max(room - len(actions), 0), actions[-1])])[:room]
    before = np.concatenate(([state.pair], path[:-1])).astype(np.int64)
    spent = state.elapsed_s + np.cumsum(tables.costs.epoch_s[before, path])
    deviation = np.zeros(len(path))
    if tables.variance is not None:
        deviation = np.sqrt(np.cumsum(tables.costs.epoch_s2[before, path]))
    late = np.flatnonzero(~(spent - FARTHEST * deviation <= tables.problem.target.deadline_s + TOLERANCE))
    room = int(late[0]) if len(late) else len(path)
    return Reach(np.ascontiguousarray(path[:room]), spent[:room], deviation[:room])


def _paths(law: LevelLaw, state: State, path: NDArray[np.int64]) -> Array:
    """Losses (scores, epochs) at the levels of `SCORES`."""
    from statistics import NormalDist

    normal = NormalDist()
    charge(current(), EPOCH_NS * len(SCORES) * len(path))
    losses = np.empty((len(SCORES), len(path)))
    levels = [normal.cdf(float(score)) for score in SCORES]
    for row, (first, form) in enumerate(at_levels(law, levels, state.loss, state.pair)):
        roll(contiguous(form), first, state.pair, state.epoch + 1, path, losses[row])
    return np.maximum.accumulate(losses, axis=0)  # a higher level is never the better one


def _at(logs: Array, score: float) -> Array:
    return _between(logs, np.full((1, logs.shape[1]), score))[0]


def _between(logs: Array, scores: Array) -> Array:
    """`logs` (scores, epochs) at other scores (samples, epochs), linear in between."""
    place = np.clip((scores - SCORES[0]) / (SCORES[1] - SCORES[0]), 0.0, len(SCORES) - 1.0)
    left = np.minimum(place.astype(np.int64), len(SCORES) - 2)
    epochs = np.arange(logs.shape[1])[None, :]
    low, high = logs[left, epochs], logs[left + 1, epochs]
    return np.asarray(low + (place - left) * (high - low))
