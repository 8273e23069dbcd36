"""Exact weight-to-go of a law without epoch index, un-quantised: thresholds instead of a loss grid.

For a monotone law "from pair p the goal can be reached with weight w" holds for all losses up to a threshold. A
backward Dijkstra over labels (pair, threshold) in order of weight therefore gives the whole value function: label by
label each pair's threshold rises. The tables do not depend on the present state, so re-planning is a lookup.

Paper: replaces the search of Alg. 1-2 (shortest path to Omega) by its dual staircase; no vertex set is built.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.law import CURVE, TABLE, LawForm
from .best_first import DROP, FOLLOW, NOWHERE, STOP, STOPPED, NextLabel, PathLabel, best_first
from .kernels import INNER, highest_before, highest_mid, jit, next_loss
from .togo import STEPS, ToGo

NO_LIMIT = 2**62
"""Labels made; those kept are limited instead."""
STEP_UP = 1e-12
"""A label must raise its pair's threshold by more than this to be kept."""


class _Space(NamedTuple):
    form: LawForm
    weight: NDArray[np.float64]
    tops: NDArray[np.float64]
    watch_loss: float
    margin: float
    most: int


class _Swept(NamedTuple):
    """Each pair's threshold so far (P,), and four numbers by the names below."""

    best: NDArray[np.float64]
    now: NDArray[np.float64]


KEPT, LIMIT, WATCH, MID = 0, 1, 2, 3


def _settle_threshold(space: _Space, store: _Swept, label: PathLabel, weight: float) -> Any:
    pair, theta = label.pair, label.loss
    if weight > store.now[LIMIT] or store.now[KEPT] >= space.most:
        return STOP
    if theta <= store.best[pair] + STEP_UP:
        return DROP
    store.best[pair] = theta
    store.now[KEPT] += 1.0
    if pair == store.now[WATCH] and theta >= space.watch_loss:
        store.now[LIMIT] = min(store.now[LIMIT], weight * (1.0 + space.margin) + 1e-9)
        store.now[WATCH] = -1.0
    if space.form.kind != TABLE:
        store.now[MID] = highest_mid(space.form, 1, theta, pair)
    return FOLLOW


def _step_threshold(space: _Space, store: _Swept, label: PathLabel, before: int) -> Any:
    """From a threshold back to that of a pair `before`."""
    now, theta, most = label.pair, label.loss, space.tops[before]
    step = space.weight[before, now]
    if not np.isfinite(step) or store.best[before] >= most:
        return NOWHERE
    top = min(highest_before(space.form, 1, theta, store.now[MID], before, now), most)
    # Where progress beyond the curve makes the law fall at high losses, those may be the ones that land low.
    if (
        space.form.kind == CURVE
        and space.form.mult[0, now] > 1.0
        and next_loss(space.form, 1, most, before, now) <= theta
    ):
        top = most
    if top <= store.best[before] + STEP_UP:
        return NOWHERE
    return NextLabel(before, top, 0.0, label.energy_j + step, label.energy_j + step)


_loop = best_first(_settle_threshold, _step_threshold, **INNER)


@jit
def _sweep(
    form: Any, weight: Any, tops: Any, goal: float, limit: float, watch: int, loss: float, margin: float, most: int
) -> Any:
    """All in one call, as plans make many small tables. The labels kept are regrouped by pair, thresholds ascending."""
    pairs = weight.shape[0]
    space = _Space(form, weight, tops, loss, margin, most)
    store = _Swept(np.full(pairs, -np.inf), np.array([0.0, limit, float(watch), 0.0]))
    outcome = _loop(space, store, pairs, PathLabel(0, 0, 0, goal, 0.0, 0.0), np.arange(pairs), NO_LIMIT)
    labels, settled = outcome.labels, outcome.settled
    offsets = np.zeros(pairs + 1, np.int64)
    for item in settled:
        offsets[labels.pair[item] + 1] += 1
    for pair in range(pairs):
        offsets[pair + 1] += offsets[pair]
    cursor, row_of = offsets[:-1].copy(), np.full(labels.pair.shape[0], -1, np.int64)
    for item in settled:
        row_of[item] = cursor[labels.pair[item]]
        cursor[labels.pair[item]] += 1
    theta, cost = np.empty(settled.shape[0]), np.empty(settled.shape[0])
    action, successor = np.full(settled.shape[0], -1, np.int64), np.full(settled.shape[0], -1, np.int64)
    for item in settled:
        row, ahead = row_of[item], labels.parent[item]
        theta[row], cost[row] = labels.loss[item], labels.energy_j[item]
        if ahead >= 0:
            action[row], successor[row] = labels.pair[ahead], row_of[ahead]
    return offsets, theta, cost, action, successor, outcome.last_rank if outcome.status == STOPPED else np.inf


def thresholds(
    form: LawForm,
    weight: NDArray[np.float64],
    goal: float,
    *,
    tops: NDArray[np.float64],
    limit: float = np.inf,
    watch: tuple[int, float] = (-1, 0.0),
    margin: float = np.inf,
    most: int = 500_000,
) -> ToGo:
    """Weight-to-go staircases of every pair.

    `weight` (P, P) is the weight of an epoch on the column's pair after the row's. Thresholds above `tops` (P,) are of
    no interest. Labels above `limit` are not made; once pair `watch[0]` is covered up to loss `watch[1]` the limit
    falls to (1 + `margin`) times the weight found there.
    """
    offsets, theta, cost, action, successor, above = _sweep(form, weight, tops, goal, limit, *watch, margin, most)
    return ToGo(STEPS, goal, offsets, theta, cost, action, successor, above, np.zeros((0, 0, 0)), 0.0)
