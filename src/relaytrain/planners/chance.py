"""The chance that a path reaches the target in time when observed losses scatter round their curve.

A run ends at the first loss that is observed at or below the target, so luck counts as well as the curve. Samples have
two parts: what a run is like (one level for all its epochs) and what scatters an epoch alone. Epoch h is at the level
of z_h = sqrt(1 - w_h) z + sqrt(w_h) e_h, where w_h is the scatter's share of the variance h epochs ahead: whatever the
mix, the loss h epochs ahead has the law's own quantiles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.law import ROBUST_LEVEL, Z_ROBUST, LevelLaw, begin
from ..core.state import TOLERANCE, State
from .instance import contiguous
from .kernels import roll
from .tables import Tables

Array = NDArray[np.float64]
SCORES = np.linspace(-3.2, 3.2, 33)
"""Standard normal scores of the levels whose paths are followed; in between, paths are interpolated."""

MOST_EPOCHS = 20_000
BLOCK = 64
"""Epochs sampled at a time: most samples arrive soon."""

TINY = 1e-12


def scattered(tables: Tables) -> bool:
    """The law says that observed losses scatter."""
    return isinstance(tables.law, LevelLaw) and tables.law.raised(ROBUST_LEVEL) is not None


def chance_in_time(tables: Tables, state: State, actions: NDArray[np.int64], *, samples: int, seed: int = 0) -> float:
    """The share of `samples` seeded runs that reach the target in time by `actions`, the last pair training on."""
    law = tables.law
    assert isinstance(law, LevelLaw) and law.scatter is not None
    path = _in_time(tables, state, actions)
    if len(path) == 0:
        return 0.0
    logs = np.log(np.maximum(_paths(law, state, path), TINY))  # (scores, epochs)
    whole = np.maximum(_at(logs, Z_ROBUST) - _at(logs, 0.0), TINY) / Z_ROBUST  # standard deviation, epoch by epoch
    own = np.minimum(law.scatter[path] / whole, 1.0) ** 2
    goal = float(np.log(max(tables.problem.target.loss + TOLERANCE, TINY)))
    chance = np.random.default_rng(seed)
    waiting = chance.standard_normal(samples)  # the level of every run that has not arrived
    for first in range(0, len(path), BLOCK):
        part = slice(first, first + BLOCK)
        fresh = chance.standard_normal((len(waiting), len(path[part])))
        scores = np.sqrt(1.0 - own[part]) * waiting[:, None] + np.sqrt(own[part]) * fresh
        waiting = waiting[~(_between(logs[:, part], scores) <= goal).any(axis=1)]
        if len(waiting) == 0:
            break
    return 1.0 - len(waiting) / samples


def _in_time(tables: Tables, state: State, actions: NDArray[np.int64]) -> NDArray[np.int64]:
    """`actions` and then the last one again and again, as far as deadline and cap allow."""
    cap = tables.problem.max_epochs
    room = MOST_EPOCHS if cap is None else max(min(cap - state.epoch, MOST_EPOCHS), 0)
    path = np.concatenate([actions, np.full(max(room - len(actions), 0), actions[-1])])[:room]
    before = np.concatenate(([state.pair], path[:-1])).astype(np.int64)
    spent = state.elapsed_s + np.cumsum(tables.costs.epoch_s[before, path])
    late = np.flatnonzero(~(spent <= tables.problem.target.deadline_s + TOLERANCE))
    return np.ascontiguousarray(path[: late[0]] if len(late) else path)


def _paths(law: LevelLaw, state: State, path: NDArray[np.int64]) -> Array:
    """Losses (scores, epochs) at the levels of `SCORES`."""
    from statistics import NormalDist

    normal = NormalDist()
    losses = np.empty((len(SCORES), len(path)))
    for row, score in enumerate(SCORES):
        level = normal.cdf(float(score))
        first = begin(law, state.loss, state.pair, level)
        roll(contiguous(law.form(level)), first, state.pair, state.epoch + 1, path, losses[row])
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
