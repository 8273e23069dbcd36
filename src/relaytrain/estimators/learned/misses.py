"""By how much forecasts miss, leg by leg, on the traces that were learned from: what worlds are drawn with.

`scatter`: what a loss has of luck, by epoch of a leg; early epochs after a handover have much of it, late ones little.
`entered`: by how much legs missed what was forecast of them before their handover was made, luck included; of the two
the first is gone after an epoch, the rest stays for the whole leg. `stayed`: the same of legs under way, by epochs
ahead. `common`: the share of the first's variance that all legs of a seed have in common. What entered legs miss by
because of what they are (entered early or late, with few images or many) is no doubt but a `bias`, a line that is put
right: networks and trees that also have to know epochs ahead smooth over it.

The models have learned from the same legs, which flatters them little: on seeds that they had not seen the misses of
`quickstart`'s legs were as large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ...core.curve import Array
from .bundle import Bundle, LegCurve
from .features import LEAST_HISTORY, Seen, seen_of
from .tail import HORIZONS

if TYPE_CHECKING:
    from .fitted import Fitted

EPOCHS = 48
"""Epochs of a leg after which its scatter no longer falls."""
ENTERED = (1, *(1 + h for h in HORIZONS))
"""Epochs of a leg at which forecasts from before its handover are judged."""
FALLS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
LEAST_COUNT = 12
"""Of differences or legs, to say something of a stage."""
LEAST = 5e-3
COMMON, SEEDS = 0.3, 3.0
"""What legs of a seed have in common where no seeds say, and how many seeds that is worth."""
RIDGE, FEW_SEEDS = 4.0, 4.0
"""Penalty of the bias's line, and seeds that count as much as there being none: legs of a seed go well or ill alike."""
EVERY = 3
"""Epochs between two forecasts of a leg under way."""


def _none() -> Array:
    return np.zeros((0, 0))


@dataclass(frozen=True)
class Misses:
    """Standard deviations of logarithms of losses, a row a stage (the last one for later ones too): `scatter` by
    epoch of a leg, `entered` at `ENTERED`, `stayed` at `HORIZONS`. No rows: nothing is known."""

    scatter: Array = field(default_factory=_none)
    entered: Array = field(default_factory=_none)
    stayed: Array = field(default_factory=_none)
    bias: Array = field(default_factory=_none)
    """At `ENTERED`, a row a place: of one, and of each of `leg_inputs` in units of the next array."""
    inputs: Array = field(default_factory=_none)
    """Rows: mean, standard deviation, least and greatest of `leg_inputs` in the traces."""
    common: float = COMMON

    def corrected(self, legs: Array) -> Array:
        """Logarithms (N, len(ENTERED)) to add to forecasts of entered legs with `leg_inputs` (N, F)."""
        if not self.bias.size:
            return np.zeros((len(legs), len(ENTERED)))
        return np.asarray(_design(legs, self.inputs) @ self.bias.T)


def leg_inputs(images: float, samples: int, pruned: float, stage: int) -> tuple[float, ...]:
    """What the misses of a leg hang on: images trained on before it, its own, the share pruned away, its stage."""
    return float(np.log1p(images)), float(np.log(max(samples, 1))), float(pruned), float(stage)


def _design(legs: Array, inputs: Array) -> Array:
    mean, spread, low, high = inputs
    return np.concatenate([np.ones((len(legs), 1)), (np.clip(legs, low, high) - mean) / spread], axis=1)


def misses_of(fitted: Fitted, bundle: Bundle) -> Misses:
    """How `fitted` misses the legs of `bundle`."""
    scatter = scatter_by_stage(bundle.curves)
    stayed = _by_stage(*_stayed(fitted, bundle.curves))
    if fitted.change is None or not bundle.switches:
        return Misses(scatter, _none(), stayed)
    rows, legs = _entered(fitted, bundle)
    stages, seeds = np.array([leg.stage for leg in legs]), np.array([leg.seed for leg in legs])
    known = np.array([leg_inputs(leg.images, leg.samples, leg.pruned, leg.stage) for leg in legs])
    spread = known.std(axis=0)
    inputs = np.stack([known.mean(axis=0), np.where(spread > 1e-6, spread, 1.0), known.min(axis=0), known.max(axis=0)])
    design = _design(known, inputs)
    bias = np.stack([_line(design, rows[:, at]) for at in range(len(ENTERED))])
    for at in range(1, len(ENTERED)):
        if np.isfinite(rows[:, at]).sum() < LEAST_COUNT:
            bias[at] = bias[at - 1]
    many = len(np.unique(seeds))
    bias *= many / (many + FEW_SEEDS)
    left = rows - design @ bias.T
    entered = _by_stage(left, stages) * np.sqrt(1.0 + 1.0 / many)  # the mean itself is one of so many seeds
    return Misses(scatter, entered, stayed, bias, inputs, _common(left, stages, seeds))


def _line(design: Array, values: Array) -> Array:
    """Least squares with a small penalty on all but the constant, of what is known."""
    known = np.isfinite(values)
    rows = design[known]
    penalty = RIDGE * np.eye(design.shape[1])
    return np.asarray(np.linalg.solve(rows.T @ rows + penalty, rows.T @ values[known]))


def _entered(fitted: Fitted, bundle: Bundle) -> tuple[Array, list[LegCurve]]:
    """Logarithms (S, len(ENTERED)) of losses over what was forecast before each switch, and the legs."""
    from .handovers import Handovers

    legs = {(curve.seed, curve.run): curve for curve in bundle.curves}
    whole = [(switch, legs[switch.seed, switch.run]) for switch in bundle.switches]
    histories = [
        Handovers(fitted, (switch.before, switch.after)).entered([switch.history], 0, [leg.images])[1]
        for switch, leg in whole
    ]
    fixed, stages = [leg.fixed for _, leg in whole], [leg.stage for _, leg in whole]
    ahead = fitted.run.paths(seen_of(histories, [1] * len(whole), fixed, stages)).mean
    forecast = np.concatenate([np.array([history[-1] for history in histories])[:, None], ahead], axis=1)
    rows = np.stack([_logs(leg.losses, row, ENTERED) for (_, leg), row in zip(whole, forecast, strict=True)])
    return rows, [leg for _, leg in whole]


def _stayed(fitted: Fitted, curves: Sequence[LegCurve]) -> tuple[Array, Array]:
    """Logarithms (W, len(HORIZONS)) of losses over what was forecast of legs under way; stages (W,)."""
    histories, positions, origin = [], [], []
    for curve in curves:
        losses, lead = curve.history(with_start=fitted.run.with_start)
        for done in range(LEAST_HISTORY, len(curve.losses), EVERY):
            histories.append(losses[: done + lead])
            positions.append(float(done))
            origin.append(curve)
    if not histories:
        return np.zeros((0, len(HORIZONS))), np.zeros(0)
    stages = [curve.stage for curve in origin]
    seen: Seen = seen_of(histories, positions, [curve.fixed for curve in origin], stages)
    ahead = fitted.run.paths(seen).mean
    rest = [curve.losses[int(done) :] for curve, done in zip(origin, positions, strict=True)]
    return np.stack([_logs(*row, HORIZONS) for row in zip(rest, ahead, strict=True)]), np.array(stages)


def _logs(losses: Array, forecast: Array, epochs: Sequence[int]) -> Array:
    """Logarithms of losses over forecasts at `epochs`; NaN beyond the last loss."""
    at = np.array(epochs)
    known = at <= len(losses)
    logs = np.full(len(at), np.nan)
    logs[known] = np.log(np.maximum(losses[at[known] - 1], 1e-6) / np.maximum(forecast[known], 1e-6))
    return logs


def _by_stage(rows: Array, stages: Array) -> Array:
    """Root mean squares (stages, places); a place too few have reached takes the one before it."""
    count = int(stages.max(initial=-1)) + 1
    if len(rows) < LEAST_COUNT:
        return _none()
    return np.stack([_sizes(rows[stages == s] if (stages == s).sum() >= LEAST_COUNT else rows) for s in range(count)])


def _sizes(rows: Array) -> Array:
    sizes = np.full(rows.shape[1], LEAST)
    for at in range(rows.shape[1]):
        known = rows[np.isfinite(rows[:, at]), at]
        if len(known) >= LEAST_COUNT:
            sizes[at] = max(float(np.sqrt(np.mean(known**2))), LEAST)
        elif at:
            sizes[at] = sizes[at - 1]
    return sizes


def _common(rows: Array, stages: Array, seeds: Array) -> float:
    """What legs of a seed have in common: the correlation of two of other stages, drawn towards `COMMON`."""
    with np.errstate(invalid="ignore"):
        size = np.nan_to_num(rows[:, 1:]).sum(axis=1) / np.maximum(np.isfinite(rows[:, 1:]).sum(axis=1), 1)
    known = np.unique(seeds)
    means = np.array([[_mean(size[(seeds == k) & (stages == s)]) for s in np.unique(stages)] for k in known])
    within = np.array([_spread(size[stages == s]) for s in np.unique(stages)])
    unit = means / within
    products = [
        unit[:, i] * unit[:, j] for i in range(unit.shape[1]) for j in range(i) if np.isfinite(unit[:, [i, j]]).all()
    ]
    if not products:
        return COMMON
    correlation = float(np.clip(np.mean(products), 0.0, 0.9))
    return (correlation * len(known) + COMMON * SEEDS) / (len(known) + SEEDS)


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _spread(values: Array) -> float:
    return max(float(np.sqrt(np.mean(values**2))), 1e-6)


def scatter_by_stage(curves: Sequence[LegCurve]) -> Array:
    """Relative scatter (stages, EPOCHS): late + (first - late) exp(-(j - 1) / fall), by least squares for each stage.

    From second differences of the logarithms of losses, less what all legs bend by in an epoch. A stage that has too
    few takes those of all.
    """
    stages = max((curve.stage for curve in curves), default=-1) + 1
    every = _differences(curves)
    if len(every) < LEAST_COUNT:
        return _none()
    rows = [_differences([curve for curve in curves if curve.stage == stage]) for stage in range(stages)]
    return np.stack([_falling(row if len(row) >= LEAST_COUNT else every) for row in rows])


def _differences(curves: Sequence[LegCurve]) -> Array:
    """(D, 2): epoch of the leg and the second difference there, of unit variance for unit scatter."""
    points = []
    for curve in curves:
        second = np.diff(np.log(np.maximum(curve.losses, 1e-6)), n=2) / np.sqrt(6.0)
        points += [(j + 2.0, value) for j, value in enumerate(second)]
    return np.array(points).reshape(-1, 2)


def _falling(rows: Array) -> Array:
    epochs, values = rows.T
    by_epoch = np.array([j for j in np.unique(epochs) if np.count_nonzero(epochs == j) > 1])
    if not len(by_epoch):
        return np.full(EPOCHS, max(float(np.sqrt(np.mean(values**2))), LEAST))
    size = np.array([values[epochs == j].std(ddof=1) for j in by_epoch])
    weight = np.sqrt([np.count_nonzero(epochs == j) for j in by_epoch])
    tried = []
    for fall in FALLS:
        columns = np.stack([np.exp(-(by_epoch - 1.0) / fall), np.ones(len(by_epoch))], axis=1) * weight[:, None]
        (more, late), *_ = np.linalg.lstsq(columns, size * weight, rcond=None)
        late = max(float(late), 0.3 * float(size.min()), LEAST)
        first = max(late + float(more), late)
        error = float((weight**2 * (late + (first - late) * np.exp(-(by_epoch - 1.0) / fall) - size) ** 2).sum())
        tried.append((error, first, late, fall))
    _, first, late, fall = min(tried)
    return np.asarray(late + (first - late) * np.exp(-np.arange(EPOCHS) / fall))
