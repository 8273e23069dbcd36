"""What a run's own epochs say about the models: how wide the next epoch's band must be, and how fast the leg really is.

The run's epochs are replayed as forecasts one epoch ahead; adaptive conformal inference and `own_pace` read the misses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.curve import Array
from ...core.law import Z_ROBUST
from ..bands import Bands
from ..legs import SeenLeg
from .auto import RunModel
from .calibration import Adaptive, grown, scores
from .curve_through import TINY
from .features import seen_of
from .pair_facts import Facts

PACE_DOUBT, FORGETTING = 0.5, 0.9
"""How far from 1 a leg's own pace may be, and the weight of an epoch beside the one after it."""


def history_of(leg: SeenLeg, *, with_start: bool) -> Array:
    """Losses of a leg as models read them: with the loss before its first epoch where they learned from it."""
    return np.array([*([leg.start] if with_start or not leg.losses else []), *leg.losses])


def images_of(legs: Sequence[SeenLeg], facts: Sequence[Facts]) -> list[int]:
    """Images that each leg was trained on, each as often as it was."""
    return [len(leg.losses) * facts[leg.pair][1] for leg in legs]


def adapted(model: RunModel, legs: Sequence[SeenLeg], facts: Sequence[Facts]) -> tuple[float | None, float]:
    """Widths to add one epoch ahead after what the run has shown, and the present leg's own pace; first None and 1."""
    histories, done, fixed, stages, truth = [], [], [], [], []
    trained = images_of(legs, facts)
    for stage, leg in enumerate(legs):
        whole = history_of(leg, with_start=model.with_start)
        lead = len(whole) - len(leg.losses)
        for k in range(1 - lead, len(leg.losses)):
            histories.append(whole[: k + lead])
            done.append(k)
            fixed.append((*facts[leg.pair], sum(trained[:stage])))
            stages.append(stage)
            truth.append(leg.losses[k] - whole[k + lead - 1])
    if not histories:
        return None, 1.0
    next_epoch = model.bands(seen_of(histories, done, fixed, stages)).each(lambda part: part[:, 0])
    seen = np.array(truth)
    adaptive = Adaptive(model.warm)
    for score in scores(seen, next_epoch):
        adaptive.tell(float(score))
    here = np.array(stages) == len(legs) - 1
    deviations = (next_epoch.high[here] - next_epoch.low[here]) / (2.0 * Z_ROBUST)
    return adaptive.factor(), own_pace(next_epoch.mean[here], seen[here], deviations)


def own_pace(expected: Array, seen: Array, deviations: Array) -> float:
    """The share of the changes expected of a leg that it has shown lately, between 0 and 1.

    A leg that has come to rest, longer than any that was learned from, is promised the same fall again and again. So
    its progress is weighed against what was expected of it: normal about 1 with standard deviation `PACE_DOUBT`
    beforehand, each epoch a measurement of it, older ones counting less.

    Args:
        expected: changes of the loss one epoch ahead, oldest first.
        seen: what they were.
        deviations: standard deviations of these, as the bands have them.
    """
    if not len(expected):
        return 1.0
    weight = FORGETTING ** np.arange(len(expected) - 1.0, -1.0, -1.0) / np.maximum(deviations, TINY) ** 2
    doubt = PACE_DOUBT**-2
    pace = (doubt + (weight * expected * seen).sum()) / (doubt + (weight * expected**2).sum())
    return float(np.clip(pace, 0.0, 1.0))


def widened_at(changes: Bands, now: int, factor: float | None) -> Bands:
    """Row `now` of changes (N, AHEAD) with `factor` widths more, one epoch ahead; a run less predictable than the
    traces (a positive factor) is so further ahead, too."""
    if factor is None:
        return changes
    wide, ahead = grown(changes, factor), slice(None) if factor > 0.0 else 0
    low, high = changes.low.copy(), changes.high.copy()
    low[now, ahead], high[now, ahead] = wide.low[now, ahead], wide.high[now, ahead]
    return Bands(changes.mean, low, high)


def slowed_at(ahead: Bands, now: int, loss: float, pace: float) -> Bands:
    """Row `now` of paths (N, H) with its changes from `loss` times `pace`, as wide as it was."""
    if pace >= 1.0:
        return ahead
    shift = (pace - 1.0) * (ahead.mean[now] - loss)
    return ahead.put(now, ahead.each(lambda part: np.maximum(part[now] + shift, 0.0)))
