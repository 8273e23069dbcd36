"""Handovers made later: one curve for a pair, and its progress by epoch.

A law is Markov in the loss, but a leg gets further from the same loss the longer the legs before it were. So a pair
that is not trained now is asked after several times: entered now, and `LATER` epochs later along the present pair's
path. One curve serves all of these legs, with a factor on progress that goes from the first of them to 1 at the last
(`LevelLaw.mult` by epoch), and one robust twin serves their 0.95 paths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.curve import Array, followed, step
from .curve_through import POWERS, TINY, Z_ROBUST
from .tail import HORIZONS

LATER = (0, 8, 21)
"""Epochs from now at which pairs are asked after; beyond the last, progress stays as it is."""

REACH = 21
"""Epochs of a leg that the curve is fitted to."""

FLOORS = 8
MET = (2, 4, 5, 6)
"""Places of `HORIZONS` at which the curve may meet the last leg."""

HALVINGS = 30
PACES = np.exp(np.linspace(math.log(0.05), 0.0, 14))
_NEAR = tuple(h for h in HORIZONS if h <= REACH)
_AT = np.array(_NEAR, dtype=np.float64)
_WEIGHT = 1.0 / np.sqrt(_AT)


@dataclass(frozen=True)
class Entered:
    """A leg that begins `later` epochs from now: the loss after its first, then `mean` and `high` at `HORIZONS`."""

    later: int
    start: float
    mean: Array
    high: Array


def shared_curve(legs: Sequence[Entered], room: float) -> tuple[Array, Array]:
    """The row a, b, s, alpha that serves `legs`, and the factor on progress (len(legs),) at the beginning of each.

    The last leg has factor 1 and is met exactly at one of its epochs; the others' factors are searched, last first, for
    a leg also passes the epochs at which later ones begin. `room` as in `curve_through.curve_through`.
    """
    last = legs[-1]
    start, path = max(last.start, TINY), np.maximum(last.mean[: len(_AT)], TINY)
    met = [at for at in MET if path[at] < start * (1.0 - 1e-9)]
    if not met:
        return np.array([start * 0.5, start * 0.5, 1e9, 1.0]), np.ones(len(legs))
    lowest = min(float(np.min(leg.mean[: len(_AT)])) for leg in legs)
    alpha, a, at = (
        part.ravel()
        for part in np.meshgrid(POWERS, np.linspace(0.0, 0.98, FLOORS) * min(lowest, start), met, indexing="ij")
    )
    left = np.clip((path[at] - a) / (start - a), 1e-9, 1.0 - 1e-6)
    scale = np.maximum(_AT[at] / (left ** (-1.0 / alpha) - 1.0), 1.0 / (1.0 - room ** (-1.0 / alpha)))
    curves = np.column_stack([a, start - a, scale, alpha])
    paces = np.ones((len(curves), len(legs)))
    error = _errors(curves, start, np.ones((len(curves), REACH)), path)
    for i in range(len(legs) - 2, -1, -1):
        leg = legs[i]
        tried = np.repeat(paces[:, None, :], len(PACES), axis=1)
        tried[:, :, i] = PACES
        rows = np.repeat(curves, len(PACES), axis=0)
        by_epoch = pace_by_epoch(tried.reshape(-1, len(legs)), [one.later for one in legs], leg.later)
        wrong = _errors(rows, leg.start, by_epoch, np.maximum(leg.mean[: len(_AT)], TINY)).reshape(len(curves), -1)
        best = wrong.argmin(axis=1)
        paces[:, i] = PACES[best]
        error += wrong[np.arange(len(curves)), best]
    chosen = int(error.argmin())
    return curves[chosen], paces[chosen]


def pace_by_epoch(paces: Array, later: Sequence[int], begun: int) -> Array:
    """Factors (N, REACH) of the epochs after the first of a leg begun `begun` epochs from now; linear between legs."""
    at, known = begun + 1.0 + np.arange(REACH), np.asarray(later, dtype=np.float64)
    right = np.clip(np.searchsorted(known, at), 1, len(known) - 1)
    share = np.clip((at - known[right - 1]) / (known[right] - known[right - 1]), 0.0, 1.0)
    return np.asarray(paces[:, right - 1] * (1.0 - share) + paces[:, right] * share)


def shared_twin(curve: Array, paces: Array, legs: Sequence[Entered]) -> tuple[Array, float, float]:
    """Robust curve, factor on progress and scatter of the 0.95 paths of all `legs`, as `curve_through.robust_twin`."""
    a, b, s, alpha = curve
    later = [leg.later for leg in legs]
    highs = [np.maximum(leg.high[: len(_AT)], TINY) for leg in legs]
    by_epoch = [pace_by_epoch(paces[None, :], later, leg.later) for leg in legs]
    plain = [_followed(curve[None, :], leg.start, pace)[0] for leg, pace in zip(legs, by_epoch, strict=True)]
    lift = max(float(np.log(highs[0][0] / max(plain[0][0], TINY))), 0.0)
    top = max(min(legs[-1].start * 0.999, float(highs[-1].max()) * math.exp(-lift)), a)
    floors, slows = (part.ravel() for part in np.meshgrid(np.linspace(a, top, FLOORS), PACES, indexing="ij"))
    rows = np.column_stack([floors, np.full(len(floors), b), np.full(len(floors), s), np.full(len(floors), alpha)])
    error = np.zeros(len(rows))
    for leg, high, pace in zip(legs, highs, by_epoch, strict=True):
        error += _errors(rows, leg.start, slows[:, None] * pace, high * math.exp(-lift))
    best = int(error.argmin())
    reached = _followed(rows[best : best + 1], legs[0].start, slows[best] * by_epoch[0])[0]
    scatter = max(float(np.log(highs[0][0] / max(reached[0], TINY))), 0.0) / Z_ROBUST
    return rows[best], float(slows[best]), scatter


def entered_from(curves: Array, loss: Array, pace: Array, room: float) -> Array:
    """From which losses (N,) an epoch on each curve leads to `loss`, at most `room` times as high above the floor.

    `pace` (N,): the factors on progress of that epoch.
    """
    low, high = loss, np.where(loss > curves[:, 0], curves[:, 0] + room * (loss - curves[:, 0]), loss)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        short = step(curves.T, middle, pace) < loss
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.asarray(low)


def _followed(curves: Array, start: float, paces: Array) -> Array:
    """The law's own steps from `start` on curves (N, 4) with factors on progress (N, REACH): losses (N, len(_AT))."""
    return followed(curves.T, np.full(len(curves), max(start, TINY)), paces, _NEAR)


def _errors(curves: Array, start: float, paces: Array, wanted: Array) -> Array:
    reached = np.maximum(_followed(curves, start, paces), TINY)
    return np.asarray((((np.log(reached) - np.log(wanted)) * _WEIGHT) ** 2).sum(axis=1))
