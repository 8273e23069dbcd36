"""`auto`: gradient-boosted quantiles averaged with recurrent networks, calibrated; the default when there are traces.

Three makes that err differently: trees on what an inverse-square-root law misses, the paper's network, and the same
network on losses relative to the newest one; the average of their quantiles is better than each (measured, `reproduce
pact-table1`). Networks here take larger batches and steps than the paper's, so that four cost as much as one. Trained here, predicted with
numpy and compiled code alone: neither scikit-learn nor torch is needed to plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..core.law import Array
from .bounds import calibrated_offset
from .calibration import conformal_factor, grown, scores
from .curves import Bundle
from .features import AHEAD, NAMES, Seen, Windows, per_epoch, sqrt_ahead, sqrt_rate, tree_features, windows
from .lstm import Recurrent
from .metrics import Bands, ordered
from .tail import PLAIN_POWER, growth_power, paths, rolled_out, rounds_of
from .trees import Forest, quantile_forests

FOREST = {"max_iter": 120, "learning_rate": 0.06, "max_leaf_nodes": 8, "min_samples_leaf": 40, "l2_regularization": 1.0}
TREE_SHARE = 0.3
"""Weight of the trees in the average; the networks share the rest."""
NETS = (False, False, True, True)
"""The networks: whether each reads losses relative to the newest one."""

EPOCHS = 60
"""Passes over the windows at most; training stops earlier when held-out runs get no better."""

_TREE_LEVELS = (None, 0.05, 0.95)


@dataclass(frozen=True)
class RunModel:
    """lambda_run of any make: forests (middle, low, high) and networks, averaged; then the conformal step.

    `factor`: widths added on each side; `calibrated`: whether enough runs stood behind it; `warm`: scores one epoch
    ahead that adaptive inference starts from; `tail_power`: growth of widths beyond five epochs; `rounds`: how often the
    model is applied to its own forecast before the tail.
    """

    forests: tuple[Forest, ...] = ()
    nets: tuple[Recurrent, ...] = ()
    tree_share: float = TREE_SHARE
    factor: float = 0.0
    calibrated: bool = False
    warm: Array = field(default_factory=lambda: np.zeros(0))
    tail_power: float = PLAIN_POWER
    rounds: int = 0
    cumulative: bool = True
    with_start: bool = False
    bound_offset: float | None = None
    """Of the shape bound, calibrated on held-out windows; None: no bound."""

    def raw(self, seen: Seen) -> Bands:
        """Change of the loss 1 to 5 epochs ahead, (N, AHEAD) each, before the conformal step."""
        each: list[tuple[float, Bands]] = []
        share = (1.0 if not self.nets else self.tree_share) if self.forests else 0.0
        if self.forests:
            rows = tree_features(seen).reshape(-1, len(NAMES))
            base, scale = tree_base(seen, cumulative=self.cumulative)
            found = [base + forest.predict(rows).reshape(-1, AHEAD) * scale for forest in self.forests]
            each.append((share, ordered(Bands(found[0], found[1], found[2]))))
        each += [((1.0 - share) / len(self.nets), net.bands(seen)) for net in self.nets]
        parts = [sum(weight * getattr(bands, name) for weight, bands in each) for name in ("mean", "low", "high")]
        return ordered(Bands(*(np.asarray(part) for part in parts)))

    def bands(self, seen: Seen) -> Bands:
        """The same with the conformal step."""
        return grown(self.raw(seen), self.factor)

    def paths(self, seen: Seen) -> Bands:
        """Losses at `tail.HORIZONS` epochs ahead, (N, len(HORIZONS)) each."""
        return self.ahead(seen, self.bands(seen))

    def ahead(self, seen: Seen, changes: Bands) -> Bands:
        """The same with bands of the next five epochs' changes that somebody has corrected."""
        rolled = rolled_out(self.raw, seen, changes.mean, self.rounds if self.cumulative else 0)
        return paths(seen, changes, self.tail_power, rolled)


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
    return tuple(quantile_forests(rows, unit, _TREE_LEVELS, seed=seed, **FOREST))


def calibrated(model: RunModel, held_out: Windows, target: Array, *, only_wider: bool = True) -> RunModel:
    """`model` with the conformal step from held-out windows, when they are of enough runs, and the warm scores.

    The networks stopped training by these same runs, which makes their scores a little too good; so by default the step
    only ever widens.
    """
    if not len(held_out):
        return model
    if model.cumulative:
        model = replace(model, bound_offset=calibrated_offset(held_out.seen, model.raw(held_out.seen)))
    found = scores(target, model.raw(held_out.seen))
    runs = np.repeat(held_out.seed * 1_000_000 + held_out.run, AHEAD)
    factor = conformal_factor(found.reshape(-1), runs)
    made = replace(model, warm=found[:, 0])
    if factor is None:
        return made
    return replace(made, factor=max(factor, 0.0) if only_wider else factor, calibrated=True)


def fit_auto(
    train: Bundle,
    held_out: Bundle,
    *,
    seed: int = 0,
    cumulative: bool = True,
    with_start: bool = False,
    epochs: int = EPOCHS,
) -> RunModel:
    """`auto`'s lambda_run: trees and networks on `train`, stopping and calibration on `held_out` (other runs)."""
    from .paper import Recipe, fit_run

    rows, rest = (windows(b.curves, least=0, with_start=with_start) for b in (train, held_out))
    target, rest_target = ((w.target if cumulative else per_epoch(w.target)) for w in (rows, rest))
    recipes = [
        Recipe(3e-3, 64, epochs, relative=relative, cumulative=cumulative, seed=seed + i) for i, relative in enumerate(NETS)
    ]
    model = RunModel(
        fit_trees(rows, target, seed=seed, cumulative=cumulative),
        tuple(fit_run(rows, rest, recipe) for recipe in recipes),
        rounds=rounds_of(train.curves),
        cumulative=cumulative,
        with_start=with_start,
    )
    return calibrated(_widening(model, held_out), rest, rest_target)


def _widening(model: RunModel, held_out: Bundle) -> RunModel:
    """The model with the growth of its bands beyond five epochs as its own forecasts of runs left out have it."""
    if not model.cumulative:
        return model
    power = growth_power(lambda seen: model.paths(seen).mean, held_out.curves, with_start=model.with_start)
    return replace(model, tail_power=power)


def fit_paper(
    train: Bundle, held_out: Bundle, *, seed: int = 0, cumulative: bool = True, epochs: int = EPOCHS
) -> RunModel:
    """The paper's lambda_run alone, with no conformal step."""
    from .features import LEAST_HISTORY
    from .paper import Recipe, fit_run

    parts = [windows(b.curves, least=LEAST_HISTORY) for b in (train, held_out)]
    net = fit_run(parts[0], parts[1], Recipe(cumulative=cumulative, seed=seed, epochs=epochs))
    return _widening(RunModel(nets=(net,), rounds=rounds_of(train.curves), cumulative=cumulative), held_out)
