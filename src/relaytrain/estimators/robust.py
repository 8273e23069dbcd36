"""The robust twin of a curve: slower and with a higher floor, fitted to the 0.95 quantile of the loss h epochs ahead."""

from __future__ import annotations

import numpy as np

from ..core.law import ROBUST_LEVEL, Array

HORIZONS = (1, 2, 3, 5, 8, 13, 21, 34, 55)
"""Epochs ahead at which the robust curve is made to meet the quantile."""

SCATTER = (np.array([-2.02018287, -0.95857246, 0.0, 0.95857246, 2.02018287]) * np.sqrt(2.0), np.array([0.0113, 0.2221, 0.5333, 0.2221, 0.0113]))
"""Nodes and weights that stand for a standard normal (Gauss-Hermite, five nodes)."""

ROUNDS = 3
PACES, FLOORS = 13, 9


def quantiles(values: Array, weights: Array, level: float) -> Array:
    """The weighted quantile of values (P, N, T) with weights (P, N), over N: (P, T)."""
    order = np.argsort(values, axis=1, kind="stable")
    sorted_values = np.take_along_axis(values, order, axis=1)
    heaped = np.cumsum(np.take_along_axis(np.broadcast_to(weights[:, :, None], values.shape), order, axis=1), axis=1)
    heaped /= heaped[:, -1:, :]
    first = (heaped < level).sum(axis=1).clip(max=values.shape[1] - 1)
    return np.asarray(np.take_along_axis(sorted_values, first[:, None, :], axis=1)[:, 0, :])


def robust_figures(
    curves: Array, landed: Array, mult: Array, ahead: tuple[Array, Array], noise: float
) -> tuple[Array, Array]:
    """Factor on progress and asymptote (P,) of the curves that meet the 0.95 quantiles at `HORIZONS`.

    Args:
        curves: The expected curves (P, 4).
        landed: The loss (P,) from which each pair would start now.
        mult: Progress (P,) of the expected law.
        ahead: Losses (P, H, horizons) by hypothesis and the weights (P, H) of these.
        noise: Relative scatter of an observed loss.
    """
    values, weights = ahead
    nodes, shares = SCATTER
    scattered = (values[:, :, None, :] * np.exp(noise * nodes)[None, None, :, None]).reshape(len(values), -1, values.shape[2])
    spread = (weights[:, :, None] * shares[None, None, :]).reshape(len(values), -1)
    wanted = np.log(np.maximum(quantiles(scattered, spread, ROBUST_LEVEL), 1e-9))
    floor = curves[:, 0]
    top = np.maximum(quantiles(values, weights, 0.999)[:, -1], floor)  # no asymptote lies above the worst end
    low_pace, high_pace = np.full(len(curves), np.log(0.02)), np.zeros(len(curves))
    low_floor, high_floor = floor.copy(), top
    pace, best_floor = np.ones(len(curves)), floor.copy()
    rows = np.arange(len(curves))
    for _ in range(ROUNDS):
        paces = np.exp(np.linspace(low_pace, high_pace, PACES, axis=1))
        floors = np.linspace(low_floor, high_floor, FLOORS, axis=1)
        tried_pace = np.repeat(paces, FLOORS, axis=1)
        tried_floor = np.tile(floors, (1, PACES))
        reached = np.log(np.maximum(_follow(curves, landed, mult, tried_pace, tried_floor), 1e-9))
        error = ((reached - wanted[:, None, :]) ** 2).sum(axis=2)
        best = error.argmin(axis=1)
        pace, best_floor = tried_pace[rows, best], tried_floor[rows, best]
        step_pace, step_floor = (high_pace - low_pace) / (PACES - 1), (high_floor - low_floor) / (FLOORS - 1)
        low_pace, high_pace = np.log(pace) - step_pace, np.minimum(np.log(pace) + step_pace, 0.0)
        low_floor, high_floor = np.maximum(best_floor - step_floor, floor), np.minimum(best_floor + step_floor, top)
    return pace, best_floor


def _follow(curves: Array, landed: Array, mult: Array, pace: Array, floor: Array) -> Array:
    """The law's own steps (as `core.law.evaluate`) for candidates (P, N): losses (P, N, horizons)."""
    _, drop, scale, power = (curves[:, i : i + 1] for i in range(4))
    loss = np.broadcast_to(landed[:, None], pace.shape).copy()
    factor = mult[:, None] * pace
    seen = np.empty((*pace.shape, len(HORIZONS)))
    for step in range(1, HORIZONS[-1] + 1):
        above = loss > floor
        inside = np.where(above, loss, floor + drop)
        u = ((inside - floor) / drop) ** (-1.0 / power)
        moved = inside + factor * (floor + drop * (u + 1.0 / scale) ** -power - inside)
        loss = np.where(above, np.maximum(moved, 0.0), loss)
        if step in HORIZONS:
            seen[:, :, HORIZONS.index(step)] = loss
    return seen
