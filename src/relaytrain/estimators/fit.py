"""`fit`: traces in, a fitted estimator out; a quarter of the configurations is held out for stopping and calibration.

    fit(bundle_of(traces, "train")) -> Fitted                                  # auto
    fit(bundle_of(traces, "test"), name="paper") -> Fitted
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..core.errors import ScenarioError
from .auto import EPOCHS, RunModel, fit_auto, fit_paper
from .calibration import conformal_factor, scores
from .change import ChangeModel, Target, fit_linear, node_inputs, paper_inputs, probe_inputs, targets
from .curves import Bundle, Switch
from .features import windows
from .fitted import Fitted, Name
from .metrics import Bands
from .splits import Fold, by_configuration, by_seed

LEAST_WINDOWS = 30
LEAST_SWITCHES = 12
_INPUTS = {"paper": paper_inputs, "nodes": node_inputs, "probe": probe_inputs}


def fit(
    bundle: Bundle, *, name: Name = "auto", change_target: Target = "jump", seed: int = 0, epochs: int = EPOCHS
) -> Fitted:
    """An estimator for runs like those of the traces.

    Args:
        bundle: curves and switches of one metric.
        name: `auto`, or `paper` for PACT's own networks without calibration.
        change_target: what the change model learns; see `change`.
        seed: of networks, trees and the split.
        epochs: passes over the windows at most.

    Raises:
        ScenarioError: too few epochs to learn from.
    """
    count = len(windows(bundle.curves))
    if count < LEAST_WINDOWS:
        raise ScenarioError(
            f"traces: got {count} windows of 3 epochs and 5 after them, expected at least {LEAST_WINDOWS}; collect more "
            "(relaytrain collect), or use --estimator prior"
        )
    started = time.process_time()
    fold = held_out_quarter(bundle, seed=seed)
    run = run_model(name, fold, seed=seed, change_target=change_target, epochs=epochs)
    change = change_now = None
    if len(bundle.switches) >= LEAST_SWITCHES:
        if name == "paper":
            change = change_model("paper", change_target, fold, seed=seed, epochs=epochs)
        else:
            change = change_model("nodes", change_target, fold, seed=seed, epochs=epochs)
            if change_target == "first-epoch":  # the probe *is* the jump
                change_now = change_model("probe", change_target, fold, seed=seed, epochs=epochs)
    about = {
        "source": bundle.source,
        "seeds": len(bundle.seeds),
        "curves": len(bundle.curves),
        "windows": count,
        "switches": len(bundle.switches),
        "seed": seed,
        "calibration": "conformal" if run.calibrated else "empirical",
    }
    made = Fitted(name, bundle.metric, run, change, change_now, about)
    return replace(made, about={**about, "cpu_s": round(time.process_time() - started, 1)})


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
    name: Name, fold: Fold, *, seed: int = 0, cumulative: bool = True, change_target: Target = "jump", epochs: int = EPOCHS
) -> RunModel:
    """lambda_run of a name, from the training and calibration parts of a fold."""
    if name == "paper":
        return fit_paper(fold.train, fold.calibration, seed=seed, cumulative=cumulative, epochs=epochs)
    start = change_target == "jump"
    return fit_auto(fold.train, fold.calibration, seed=seed, cumulative=cumulative, with_start=start, epochs=epochs)


def change_model(inputs: str, target: Target, fold: Fold, *, seed: int = 0, epochs: int = EPOCHS) -> ChangeModel:
    """lambda_change: the paper's network with the paper's inputs; with more inputs averaged with a linear model."""
    from .paper import CHANGE_RECIPE, fit_change

    read = _INPUTS[inputs]
    train, rest = fold.train.switches, fold.calibration.switches
    if not rest:
        rest = train
    rows, truth = read(train), targets(train, target)
    held_out = read(rest), targets(rest, target)
    recipe = replace(CHANGE_RECIPE, epochs=round(CHANGE_RECIPE.epochs * epochs / EPOCHS))
    nets = [fit_change(rows, truth, held_out, replace(recipe, seed=seed + i)) for i in range(1 if inputs == "paper" else 2)]
    if inputs == "paper":
        return ChangeModel("paper", target, tuple(nets))
    linear = fit_linear(rows, truth, np.array([s.group for s in train]))
    model = ChangeModel("probe" if inputs == "probe" else "nodes", target, (*nets, linear), (0.25, 0.25, 0.5))
    return _calibrated(model, rest)


def _calibrated(model: ChangeModel, rest: Sequence[Switch]) -> ChangeModel:
    bands = model.bands(model.rows(rest))
    found = scores(targets(rest, model.target), Bands(bands.mean, bands.low, bands.high))
    runs = np.array([s.seed * 1_000_000 + s.run for s in rest])
    factor = conformal_factor(found, runs)
    return model if factor is None else replace(model, factor=max(factor, 0.0))


