"""The robust twin of a curve: slower and with a higher floor, fitted to the 0.95 quantile of the loss h epochs
ahead."""

from __future__ import annotations

import numpy as np

from ...core.curve import Array, followed
from ...core.law import ROBUST_LEVEL, Z_ROBUST

HORIZONS = (1, 2, 3, 5, 8, 13, 21, 34, 55)
"""Epochs ahead at which the robust curve is made to meet the quantile."""

ROUNDS = 2
PACES, FLOORS = 13, 7


def quantiles(values: Array, weights: Array, levels: tuple[float, ...]) -> tuple[Array, ...]:
    """Weighted quantiles, over N, of values (P, N, T) with weights (P, N): (P, T) for each level."""
    order = np.argsort(values, axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=1)
    heaped = np.cumsum(np.take_along_axis(weights[:, :, None], order, axis=1), axis=1)
    last = values.shape[1] - 1
    at_levels = []
    for level in levels:
        first = (heaped < level * heaped[:, -1:, :]).sum(axis=1).clip(max=last)
        at_levels.append(np.asarray(np.take_along_axis(ranked, first[:, None, :], axis=1)[:, 0, :]))
    return tuple(at_levels)


def robust_figures(
    curves: Array, landed: Array, mult: Array, ahead: tuple[Array, Array], noise: Array, scatter: Array
) -> tuple[Array, Array]:
    """Factor on progress and asymptote (P,) of the curves that, raised by the scatter, meet the 0.95 quantiles at
    `HORIZONS`.

    The noise of the loss h epochs ahead adds to the spread of the hypotheses as variances do, in logarithms. The law
    raises every loss of the level by the scatter itself; the curve has to make up for the rest.

    Args:
        curves: The expected curves (P, 4).
        landed: The loss (P,) from which each pair would start now.
        mult: Progress (P,) of the expected law.
        ahead: Losses (P, H, horizons) by hypothesis and the weights (P, H) of these.
        noise: Relative noise (P, horizons) of an observed loss.
        scatter: What the law says of it (P,).
    """
    values, weights = ahead
    middle, high, most = quantiles(values, weights, (0.5, ROBUST_LEVEL, 0.999))
    centre = np.log(np.maximum(middle, 1e-9))
    away = np.log(np.maximum(high, 1e-9)) - centre
    wanted = centre + np.sqrt(away**2 + (Z_ROBUST * noise) ** 2) - Z_ROBUST * scatter[:, None]
    floor = curves[:, 0]
    top = np.maximum(most[:, -1], floor)  # no asymptote lies above the worst end
    low_pace, high_pace = np.full(len(curves), np.log(0.02)), np.zeros(len(curves))
    low_floor, high_floor = floor.copy(), top
    pace, best_floor = np.ones(len(curves)), floor.copy()
    rows = np.arange(len(curves))
    for _ in range(ROUNDS):
        paces = np.exp(np.linspace(low_pace, high_pace, PACES, axis=1))
        floors = np.linspace(low_floor, high_floor, FLOORS, axis=1)
        tried_pace = np.repeat(paces, FLOORS, axis=1)
        tried_floor = np.tile(floors, (1, PACES))
        tried = (tried_floor, *(curves[:, i : i + 1] for i in (1, 2, 3)))
        losses = followed(tried, landed[:, None], (mult[:, None] * tried_pace)[..., None], HORIZONS)
        reached = np.log(np.maximum(losses, 1e-9))
        error = ((reached - wanted[:, None, :]) ** 2).sum(axis=2)
        best = error.argmin(axis=1)
        pace, best_floor = tried_pace[rows, best], tried_floor[rows, best]
        step_pace, step_floor = (high_pace - low_pace) / (PACES - 1), (high_floor - low_floor) / (FLOORS - 1)
        low_pace, high_pace = np.log(pace) - step_pace, np.minimum(np.log(pace) + step_pace, 0.0)
        low_floor, high_floor = np.maximum(best_floor - step_floor, floor), np.minimum(best_floor + step_floor, top)
    return pace, best_floor
