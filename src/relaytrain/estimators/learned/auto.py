"""`auto`: gradient-boosted quantiles averaged with recurrent networks, calibrated; the default when there are traces.

Three makes that err differently: trees on what an inverse-square-root law misses, the paper's network, and the same
network on the logarithms of losses; the average of their quantiles is better than each (measured, `reproduce
pact-table1`). Trained here, predicted with numpy and compiled code alone: planning needs neither of their makers.

Cross-fitting: the traces are cut into `PARTS` parts of whole configurations, and each member (a network, three forests)
learns without one of them. What a member says about the part it has not seen gives honest scores of *every* run, and no
run is lost to calibration; the average of all members, which is what predicts, is a little better than each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array
from ..bands import Bands, averaged, ordered, stacked
from .bounds import calibrated_offset
from .bundle import Bundle, LegCurve
from .calibration import BUFFER, category_factors, grown, scores
from .features import (
    AHEAD,
    LEAST_HISTORY,
    NAMES,
    Seen,
    Windows,
    per_epoch,
    sqrt_ahead,
    sqrt_rate,
    together,
    tree_features,
    windows,
)
from .lstm import Recurrent
from .splits import parts_of
from .tail import PLAIN_POWER, growth_power, paths, rolled_out, rounds_of
from .trees import Forest, doubled, fit_forest, joined

FOREST = {"max_iter": 60, "learning_rate": 0.2, "max_leaf_nodes": 8, "min_samples_leaf": 40, "l2_regularization": 1.0}
TREE_SHARE = 0.5
"""Weight of the trees in the average; the networks share the rest."""

PARTS = 4
"""Members; every second network reads logarithms."""

LR, BATCH, STEPS = 2e-2, 48, 400
"""Greatest rate, curves a batch and number of batches of `auto`'s networks."""

LEAST_LEGS = 2
"""Of a stage, to trust what was learned of it: of a single leg nobody has been asked what he thinks of another."""

BLOCK = 2048
"""States predicted together at most: what that takes stays small."""

EPOCHS = 60
"""Passes over the windows at most for networks that stop early. Fewer make `auto`'s shorter in proportion."""

_TREE_LEVELS = (None, 0.05, 0.95)


@dataclass(frozen=True)
class RunModel:
    """lambda_run of any make: forests (middle, low, high) and networks, averaged; then the conformal step.

    `factors` (stages, 2): widths added on each side in each stage, the last row in later ones too, to legs of fewer
    than `LEAST_HISTORY` epochs and to others; `calibrated`: whether enough runs stood behind it; `warm`: scores one
    epoch ahead that adaptive inference starts from; `tail_power`: growth of widths beyond five epochs; `rounds`: how
    often the model is applied to its own forecast before the tail.
    """

    forests: tuple[Forest, ...] = ()
    nets: tuple[Recurrent, ...] = ()
    tree_share: float = TREE_SHARE
    factors: Array = field(default_factory=lambda: np.zeros((1, 2)))
    calibrated: bool = False
    warm: Array = field(default_factory=lambda: np.zeros(0))
    tail_power: float = PLAIN_POWER
    rounds: int = 0
    cumulative: bool = True
    with_start: bool = False
    bound_offset: float | None = None
    """Of the shape bound, calibrated on held-out windows; None: no bound."""
    unknown: tuple[int, ...] = ()
    """Stages of which fewer than `LEAST_LEGS` legs were learned: nothing vouches for forecasts of them."""

    @property
    def reads_before(self) -> bool:
        """Whether a forecast depends on what was trained before the leg."""
        return bool(self.forests)

    def raw(self, seen: Seen) -> Bands:
        """Change of the loss 1 to 5 epochs ahead, (N, AHEAD) each, before the conformal step."""
        if len(seen) > BLOCK:
            rows = np.arange(len(seen))
            return stacked([self.raw(seen.take(rows[first : first + BLOCK])) for first in range(0, len(seen), BLOCK)])
        each: list[tuple[float, Bands]] = []
        share = (1.0 if not self.nets else self.tree_share) if self.forests else 0.0
        if self.forests:
            table = doubled(tree_features(seen).reshape(-1, len(NAMES)))
            base, scale = tree_base(seen, cumulative=self.cumulative)
            levels = [base + forest.walked(table).reshape(-1, AHEAD) * scale for forest in self.forests]
            each.append((share, ordered(Bands(*levels))))
        each += [((1.0 - share) / len(self.nets), net.bands(seen)) for net in self.nets]
        return averaged(each)

    def bands(self, seen: Seen) -> Bands:
        """The same with the conformal step; round the shipped estimator's too in stages that were not learned."""
        bands = self.widened(self.raw(seen), seen)
        lost = np.isin(seen.stage, self.unknown)
        return self._doubted(bands, seen, lost) if lost.any() else bands

    def _doubted(self, bands: Bands, seen: Seen, lost: NDArray[np.bool_]) -> Bands:
        """Where `lost`, bands that cover those of the zero-trace estimator as well, round the middle of both."""
        from .zero_trace import zero_trace

        other = zero_trace().run.bands(seen.take(lost))
        other = other if self.cumulative else steps_of(other)
        mine = bands.take(lost)
        low, high = np.minimum(mine.low, other.low), np.maximum(mine.high, other.high)
        return bands.put(lost, Bands((mine.mean + other.mean) / 2.0, low, high))

    def widened(self, bands: Bands, seen: Seen) -> Bands:
        """The conformal step alone, on bands (N, AHEAD)."""
        late = (seen.position >= LEAST_HISTORY).astype(np.int64)
        return grown(bands, self.factors[np.minimum(seen.stage, len(self.factors) - 1), late][:, None])

    def paths(self, seen: Seen) -> Bands:
        """Losses at `tail.HORIZONS` epochs ahead, (N, len(HORIZONS)) each."""
        return self.ahead(seen, self.bands(seen))

    def ahead(self, seen: Seen, changes: Bands) -> Bands:
        """The same with bands of the next five epochs' changes that somebody has corrected."""
        rolled = rolled_out(self.raw, seen, changes.mean, self.rounds if self.cumulative else 0)
        return paths(seen, changes, self.tail_power, rolled)


def steps_of(bands: Bands) -> Bands:
    """Cumulative bands as those of single epochs, for models that know no others: as wide as the nearest one."""
    mean = per_epoch(bands.mean)
    return Bands(mean, mean + (bands.low - bands.mean)[:, :1], mean + (bands.high - bands.mean)[:, :1])


def unknown_stages(curves: Sequence[LegCurve]) -> tuple[int, ...]:
    """Stages, up to the last of the traces, that have fewer than `LEAST_LEGS` legs to learn from."""
    counts = np.bincount([c.stage for c in curves if len(c.losses) > AHEAD], minlength=1)
    return tuple(int(stage) for stage in np.flatnonzero(counts < LEAST_LEGS))


def tree_base(seen: Seen, *, cumulative: bool = True) -> tuple[Array, Array]:
    """What the trees' targets are measured from, (N, AHEAD), and divided by, (N, 1).

    The inverse-square-root law through the newest losses, and the root of the newest loss: trees learn what that law
    misses, and one tree serves high losses and low ones.
    """
    ahead = np.arange(1.0, AHEAD + 1.0)[None, :]
    base = sqrt_ahead(seen.loss[:, None], sqrt_rate(seen.history)[:, None], ahead) - seen.loss[:, None]
    return (base if cumulative else per_epoch(base)), np.maximum(seen.loss, 0.05)[:, None] ** 0.5


def fit_trees(train: Windows, target: Array, *, seed: int = 0, cumulative: bool = True) -> tuple[Forest, ...]:
    """The three forests."""
    rows = tree_features(train.seen).reshape(-1, len(NAMES))
    base, scale = tree_base(train.seen, cumulative=cumulative)
    unit = ((target - base) / scale).reshape(-1)
    return tuple(fit_forest(rows, unit, level, seed=seed, **FOREST) for level in _TREE_LEVELS)


def calibrated(model: RunModel, held_out: Windows, target: Array, bands: Bands) -> RunModel:
    """`model` with conformal step, warm scores and the bound's offset from `bands` of windows never learned from."""
    if not len(held_out):
        return model
    if model.cumulative:
        model = replace(model, bound_offset=calibrated_offset(held_out.seen, bands))
    missed = scores(target, bands)
    runs = held_out.seed * 1_000_000 + held_out.run
    origin = np.char.add(np.char.add(held_out.seed.astype(np.str_), " "), held_out.group)
    late = (held_out.seen.position >= LEAST_HISTORY).astype(np.int64)
    whole = category_factors(missed, late, runs, origin)
    each = category_factors(missed, 2 * held_out.stage + late, runs, origin)
    stages = range(int(held_out.stage.max()) + 1)
    factors = [[each.get(2 * stage + side, whole.get(side, 0.0)) for side in (0, 1)] for stage in stages]
    model = replace(model, factors=np.array(factors), calibrated=len(whole) == 2)
    left = scores(target, model.widened(bands, held_out.seen))[:, 0]
    return replace(model, warm=np.quantile(left, np.linspace(0.0, 1.0, min(BUFFER, len(left)))))


def fit_auto(
    train: Bundle, *, seed: int = 0, cumulative: bool = True, with_start: bool = False, epochs: int = EPOCHS
) -> RunModel:
    """`auto`'s lambda_run: one member for every part of the traces, learned without it and judged on it."""
    part, _ = parts_of(train, PARTS)
    members = [
        _member(_but(train, part, i), i, seed=seed, cumulative=cumulative, with_start=with_start, epochs=epochs)
        for i in range(PARTS)
    ]
    rows = [windows(_only(train, part, i), least=0, with_start=with_start) for i in range(PARTS)]
    used = [i for i in range(PARTS) if len(rows[i])]
    bands = stacked([members[i].raw(rows[i].seen) for i in used])
    target = np.concatenate([rows[i].target for i in used])
    model = replace(
        members[0],
        forests=tuple(joined([member.forests[level] for member in members]) for level in range(len(_TREE_LEVELS))),
        nets=tuple(net for member in members for net in member.nets),
        rounds=rounds_of(train.curves),
        unknown=unknown_stages(train.curves),
        tail_power=float(np.mean([_widening(members[i], _only(train, part, i)).tail_power for i in used])),
    )
    return calibrated(model, together([rows[i] for i in used]), target if cumulative else per_epoch(target), bands)


def _member(
    curves: tuple[LegCurve, ...], number: int, *, seed: int, cumulative: bool, with_start: bool, epochs: int
) -> RunModel:
    from .paper import LearningRecipe, fit_on_curves

    rows = windows(curves, least=0, with_start=with_start)
    target = rows.target if cumulative else per_epoch(rows.target)
    recipe = LearningRecipe(LR, BATCH, relative=number % 2 == 1, cumulative=cumulative, seed=seed + number)
    net = fit_on_curves(curves, recipe, steps=max(STEPS * epochs // EPOCHS, 1), with_start=with_start)
    forests = fit_trees(rows, target, seed=seed + number, cumulative=cumulative)
    return RunModel(forests, (net,), rounds=rounds_of(curves), cumulative=cumulative, with_start=with_start)


def _widening(model: RunModel, held_out: tuple[LegCurve, ...]) -> RunModel:
    """The model with the growth of its bands beyond five epochs as its own forecasts of runs left out have it."""
    if not model.cumulative:
        return model
    power = growth_power(lambda seen: model.paths(seen).mean, held_out, with_start=model.with_start)
    return replace(model, tail_power=power)


def _only(bundle: Bundle, part: NDArray[np.int64], number: int) -> tuple[LegCurve, ...]:
    return tuple(c for c, p in zip(bundle.curves, part, strict=True) if p == number)


def _but(bundle: Bundle, part: NDArray[np.int64], number: int) -> tuple[LegCurve, ...]:
    return tuple(c for c, p in zip(bundle.curves, part, strict=True) if p != number)


def fit_paper(
    train: Bundle, held_out: Bundle, *, seed: int = 0, cumulative: bool = True, epochs: int = EPOCHS
) -> RunModel:
    """The paper's lambda_run alone, with no conformal step."""
    from .paper import LearningRecipe, fit_run

    parts = [windows(b.curves, least=LEAST_HISTORY) for b in (train, held_out)]
    net = fit_run(parts[0], parts[1], LearningRecipe(cumulative=cumulative, seed=seed, epochs=epochs))
    return _widening(RunModel(nets=(net,), rounds=rounds_of(train.curves), cumulative=cumulative), held_out.curves)
