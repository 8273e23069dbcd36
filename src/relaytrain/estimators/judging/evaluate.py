"""`evaluate`: estimators judged on folds of traces that they have not seen, side by side on the same windows.

Every estimator is fitted anew on each fold; its forecasts of the tested windows are kept with the seed and stage of
each, so that figures come with their spread over folds and with intervals that draw whole seeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array
from ..bands import Bands, stacked
from ..learned.auto import EPOCHS, RunModel, steps_of
from ..learned.bundle import Bundle
from ..learned.change_model import Target, targets
from ..learned.features import LEAST_HISTORY, Windows, per_epoch, windows
from ..learned.fit import change_model, run_model
from ..learned.fitted import Fitted, Name
from ..learned.splits import Fold, by_configuration, by_seed
from .kept_forecasts import kept
from .metrics import ForecastInterval, Score, by_clusters, mean_and_spread, mean_by_clusters, score, winkler_of

By = Literal["configuration", "seed"]
FIGURES = ("mae", "mil", "icp", "upper", "winkler")


@dataclass(frozen=True)
class FoldResult:
    """Forecasts of one estimator over all folds: truth and bands (N, ...), seed, stage, kind, fold and classes of each.

    Classes are those of the nodes that train, of a switch those of the nodes it goes to.
    """

    name: str
    truth: Array
    bands: Bands
    seed: NDArray[np.int64]
    stage: NDArray[np.int64]
    fold: NDArray[np.int64]
    kind: NDArray[np.str_]
    classes: NDArray[np.int64]
    cpu_s: float = 0.0

    def score(self, rows: NDArray[np.bool_] | None = None) -> Score:
        """All figures, over some rows."""
        at = slice(None) if rows is None else rows
        return score(self.truth[at], self.bands.each(lambda part: part[at]))

    def folds(self) -> list[Score]:
        """The figures of each fold."""
        return [self.score(self.fold == i) for i in np.unique(self.fold)]

    def spread(self, figure: str) -> tuple[float, float]:
        """Mean and standard deviation of a figure over folds."""
        return mean_and_spread(self.folds(), figure)

    def interval(self, figure: Literal["icp", "upper", "winkler", "mae"], stage: int | None = None) -> ForecastInterval:
        """A figure with its cluster-bootstrap interval (clusters: seeds)."""
        at = np.ones(len(self.seed), bool) if stage is None else self.stage == stage
        truth, bands = self.truth[at], self.bands.take(at)
        values = {
            "icp": (truth >= bands.low) & (truth <= bands.high),
            "upper": truth <= bands.high,
            "winkler": winkler_of(truth, bands),
            "mae": np.abs(truth - bands.mean),
        }[figure]
        return mean_by_clusters(np.asarray(values, dtype=np.float64), self.seed[at])


def relative_winkler(one: FoldResult, other: FoldResult) -> ForecastInterval:
    """Winkler's score of `one` over `other`'s minus one, paired window by window, drawn by seeds."""
    mine, theirs = (winkler_of(t.truth, t.bands).reshape(len(t.seed), -1).sum(axis=1) for t in (one, other))
    names, at = np.unique(one.seed, return_inverse=True)
    sums = np.zeros((2, len(names)))
    np.add.at(sums[0], at, mine)
    np.add.at(sums[1], at, theirs)
    return by_clusters(lambda i: float(sums[0, i].sum() / sums[1, i].sum() - 1.0), np.arange(len(names)))


def folds_of(bundle: Bundle, by: By = "configuration", *, seed: int = 0) -> Iterator[Fold]:
    """The folds of a split."""
    return by_configuration(bundle, seed=seed) if by == "configuration" else by_seed(bundle, seed=seed)


def evaluate_run(
    bundle: Bundle,
    names: Sequence[Name] = ("paper", "auto"),
    *,
    by: By = "configuration",
    cumulative: bool = True,
    seed: int = 0,
    epochs: int = EPOCHS,
    given: Fitted | None = None,
    progress: Callable[[str], None] | None = None,
    keep: Path | None = None,
) -> dict[str, FoldResult]:
    """lambda_run: every name on every fold; `given` is judged as it stands, without fitting (zero-trace).

    `keep` is a folder for finished folds, which are not fitted again.
    """
    forecasts: dict[Name, list[tuple[Windows, Bands, float]]] = {name: [] for name in names}
    if given is not None:
        forecasts[given.name] = []
    for fold in folds_of(bundle, by, seed=seed):
        if progress is not None:
            progress(f"{bundle.source} {fold.name}")
        plain = windows(fold.test.curves, least=LEAST_HISTORY)
        led = windows(fold.test.curves, least=LEAST_HISTORY, with_start=True)

        def forecast(model: RunModel, plain: Windows = plain, led: Windows = led) -> Bands:
            bands = model.bands((led if model.with_start else plain).seen)
            return steps_of(bands) if not cumulative and model.cumulative else bands

        def learned(
            name: Name, fold: Fold = fold, forecast: Callable[[RunModel], Bands] = forecast
        ) -> tuple[Bands, float]:
            started = time.process_time()
            model = run_model(name, fold, seed=seed, cumulative=cumulative, epochs=epochs)
            return forecast(model), time.process_time() - started

        for name, rows in forecasts.items():
            if given is not None and name == given.name:
                rows.append((plain, forecast(given.run), 0.0))
            else:
                rows.append((plain, *kept(keep, fold, (name, "run", cumulative, seed, epochs), partial(learned, name))))
    return {name: _joined(name, parts, cumulative=cumulative) for name, parts in forecasts.items()}


def _joined(name: str, parts: Sequence[tuple[Windows, Bands, float]], *, cumulative: bool) -> FoldResult:
    rows = [w for w, _, _ in parts]
    truth = np.concatenate([w.target if cumulative else per_epoch(w.target) for w in rows])
    fold = np.concatenate([np.full(len(w), i) for i, w in enumerate(rows)])
    return FoldResult(
        name,
        truth,
        stacked([b for _, b, _ in parts]),
        np.concatenate([w.seed for w in rows]),
        np.concatenate([w.stage for w in rows]),
        fold,
        np.full(len(truth), ""),
        np.concatenate([w.seen.fixed[:, 0].astype(np.int64) for w in rows]),
        float(np.mean([s for _, _, s in parts])),
    )


def evaluate_change(
    bundle: Bundle,
    inputs: Sequence[str] = ("paper", "nodes", "probe"),
    *,
    target: Target = "first-epoch",
    by: By = "configuration",
    seed: int = 0,
    epochs: int = EPOCHS,
    keep: Path | None = None,
) -> dict[str, FoldResult]:
    """lambda_change: the paper's inputs, the nodes' too, the probe too, on every fold; `keep` as in `evaluate_run`."""
    parts: dict[str, list[tuple[Fold, Bands, float]]] = {name: [] for name in inputs}
    for fold in folds_of(bundle, by, seed=seed):
        if not fold.test.switches or not fold.train.switches:
            continue

        def learned(name: str, fold: Fold = fold) -> tuple[Bands, float]:
            started = time.process_time()
            model = change_model(name, target, fold, seed=seed, epochs=epochs)
            return model.bands(model.rows(fold.test.switches)), time.process_time() - started

        for name in inputs:
            parts[name].append(
                (fold, *kept(keep, fold, (name, "change", target, seed, epochs), partial(learned, name)))
            )
    return {name: _switched(name, rows, target) for name, rows in parts.items() if rows}


def _switched(name: str, parts: Sequence[tuple[Fold, Bands, float]], target: Target) -> FoldResult:
    switches = [s for fold, _, _ in parts for s in fold.test.switches]
    return FoldResult(
        name,
        targets(switches, target),
        stacked([b for _, b, _ in parts]),
        np.array([s.seed for s in switches]),
        np.array([s.stage for s in switches]),
        np.concatenate([np.full(len(fold.test.switches), i) for i, (fold, _, _) in enumerate(parts)]),
        np.array([s.kind for s in switches]),
        np.array([s.after[0] for s in switches]),
        float(np.mean([s for _, _, s in parts])),
    )
