"""`fit`: traces in, a fitted estimator out.

`paper` holds out a quarter of the configurations to know when to stop; `auto` cross-fits and uses them all.

    fit(bundle_of(traces, "train")) -> Fitted                                  # auto
    fit(bundle_of(traces, "test"), name="paper") -> Fitted
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ...core.errors import ScenarioError
from ..bands import stacked
from .auto import EPOCHS, PARTS, RunModel, fit_auto, fit_paper
from .bundle import Bundle
from .calibration import conformal_factor, scores
from .change_model import INPUTS, ChangeModel, Target, fit_linear, paper_inputs, targets
from .features import windows
from .fitted import Fitted, Name
from .misses import misses_of
from .splits import Fold, by_configuration, by_seed, parts_of

LEAST_WINDOWS = 30
LEAST_SWITCHES = 12
CHANGE_LR, CHANGE_BATCH, CHANGE_EPOCHS, CHANGE_WIDTHS = 3e-2, 4096, 300, (32, 16)
"""Of `auto`'s networks for handovers: all switches of most campaigns are one batch."""
NET_SHARE, MANY_SWITCHES = 0.5, 200
"""Weight of the networks beside the linear model, and from how many switches on they have it: few teach too little."""


def fit(
    bundle: Bundle, *, name: Name = "auto", change_target: Target = "jump", seed: int = 0, epochs: int = EPOCHS
) -> Fitted:
    """An estimator for runs like those of the traces.

    Args:
        bundle: curves and switches of one metric.
        name: `auto`, or `paper` for PACT's own networks without calibration.
        change_target: what the change model learns; see `change_model`.
        seed: of networks, trees and the split.
        epochs: passes over the windows at most.

    Raises:
        ScenarioError: too few epochs to learn from.
    """
    count = len(windows(bundle.curves))
    if count < LEAST_WINDOWS:
        raise ScenarioError(
            f"traces: got {count} windows of 3 epochs and 5 after them, expected at least {LEAST_WINDOWS}; collect "
            "more "
            "(relaytrain collect), or use --estimator prior"
        )
    started = time.process_time()
    fold = held_out_quarter(bundle, seed=seed)
    run = run_model(name, fold, seed=seed, change_target=change_target, epochs=epochs)
    change = None
    if len(bundle.switches) >= LEAST_SWITCHES:
        change = change_model("paper" if name == "paper" else "nodes", change_target, fold, seed=seed, epochs=epochs)
    about: dict[str, Any] = {
        "source": bundle.source,
        "seeds": len(bundle.seeds),
        "curves": len(bundle.curves),
        "windows": count,
        "switches": len(bundle.switches),
        "seed": seed,
        "calibration": "conformal" if run.calibrated else "empirical",
    }
    fitted = Fitted(name, bundle.metric, run, change, about)
    fitted = replace(fitted, misses=misses_of(fitted, bundle))
    about["cpu_s"] = round(time.process_time() - started, 1)
    return fitted


def held_out_quarter(bundle: Bundle, *, seed: int = 0) -> Fold:
    """Train on three quarters of the configurations (or seeds), hold out the rest; the test part is empty."""
    groups = {curve.group for curve in bundle.curves} - {""}
    folds = None
    if len(groups) >= 4:
        folds = by_configuration(bundle, folds=4, seed=seed)
    elif len(bundle.seeds) >= 3:
        folds = by_seed(bundle, seed=seed)
    if folds is not None:
        first = next(folds)
        return Fold(_union(first.train, first.test), first.calibration, bundle.of_seeds(()), "fit")
    out = [i % 4 == 3 for i in range(len(bundle.curves))]
    late = [i % 4 == 3 for i in range(len(bundle.switches))]
    kept = bundle.only([not o for o in out], [not o for o in late])
    return Fold(kept, bundle.only(out, late), bundle.of_seeds(()), "fit")


def _union(one: Bundle, other: Bundle) -> Bundle:
    return replace(one, curves=one.curves + other.curves, switches=one.switches + other.switches)


def run_model(
    name: Name,
    fold: Fold,
    *,
    seed: int = 0,
    cumulative: bool = True,
    change_target: Target = "jump",
    epochs: int = EPOCHS,
) -> RunModel:
    """lambda_run of a name, from the training and calibration parts of a fold."""
    if name == "paper":
        return fit_paper(fold.train, fold.calibration, seed=seed, cumulative=cumulative, epochs=epochs)
    start, whole = change_target == "jump", _union(fold.train, fold.calibration)
    return fit_auto(whole, seed=seed, cumulative=cumulative, with_start=start, epochs=epochs)


def change_model(inputs: str, target: Target, fold: Fold, *, seed: int = 0, epochs: int = EPOCHS) -> ChangeModel:
    """lambda_change: the paper's network with the paper's inputs; with more inputs `auto`'s, see `_auto_change`."""
    from .paper import CHANGE_RECIPE, fit_change

    if inputs != "paper":
        return _auto_change(
            "probe" if inputs == "probe" else "nodes", target, _union(fold.train, fold.calibration), seed, epochs
        )
    train, rest = fold.train.switches, fold.calibration.switches or fold.train.switches
    recipe = replace(CHANGE_RECIPE, epochs=round(CHANGE_RECIPE.epochs * epochs / EPOCHS), seed=seed)
    held_out = paper_inputs(rest), targets(rest, target)
    return ChangeModel("paper", target, (fit_change(paper_inputs(train), targets(train, target), held_out, recipe),))


def _auto_change(
    inputs: Literal["nodes", "probe"], target: Target, bundle: Bundle, seed: int, epochs: int
) -> ChangeModel:
    """Networks averaged with a linear model, cross-fitted as `auto` is: each network learns without one part."""
    from .paper import LearningRecipe, fit_change

    switches, (_, part) = bundle.switches, parts_of(bundle, PARTS)
    rows, truth = INPUTS[inputs](switches), targets(switches, target)
    groups = np.array([s.group for s in switches])
    recipe = LearningRecipe(CHANGE_LR, CHANGE_BATCH, max(CHANGE_EPOCHS * epochs // EPOCHS, 1), widths=CHANGE_WIDTHS)
    share = NET_SHARE * min(len(switches) / MANY_SWITCHES, 1.0)
    nets, rows_out, bands_out = [], [], []
    for i in range(PARTS):
        kept, out = part != i, part == i
        if not kept.any():
            continue
        nets.append(fit_change(rows[kept], truth[kept], None, replace(recipe, seed=seed + i)))
        pair = nets[-1], fit_linear(rows[kept], truth[kept], groups[kept])
        member = ChangeModel(inputs, target, pair, (share, 1.0 - share))
        rows_out.append(np.flatnonzero(out))
        bands_out.append(member.bands(rows[out]))
    bands = stacked(bands_out).take(np.argsort(np.concatenate(rows_out)))
    weights = (*(share / len(nets) for _ in nets), 1.0 - share)
    model = ChangeModel(inputs, target, (*nets, fit_linear(rows, truth, groups)), weights)
    alike = len(np.unique(groups))  # all seeds of a configuration err alike
    factor = conformal_factor(scores(truth, bands), np.arange(len(truth)), independent=alike)
    return model if factor is None else replace(model, factor=factor)
