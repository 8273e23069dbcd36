"""What the layer widths of the paper's networks matter: python benchmarks/widths.py [CAMPAIGN] [--nets N].

PACT gives its widths in a drawing alone (Fig. 3), so ours (`estimators.learned.paper.WIDTHS`, `CHANGE_WIDTHS`)
are halved and doubled: lambda_run over k+1 to k+5 and lambda_change, as `reproduce pact-table1` judges them, on the
same folds by configuration. Several initialisations tell what is width and what is luck; differences are paired
window by window, and intervals draw whole seeds. About three CPU-minutes an initialisation; with --keep an
interrupted run goes on.
"""

from __future__ import annotations

import argparse
import itertools
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from relaytrain.estimators.bands import Bands
from relaytrain.estimators.judging.evaluate import FoldResult, relative_winkler
from relaytrain.estimators.judging.kept_forecasts import kept
from relaytrain.estimators.learned.bundle import bundle_of
from relaytrain.estimators.learned.change_model import LAST, paper_inputs, targets
from relaytrain.estimators.learned.features import windows
from relaytrain.estimators.learned.paper import CHANGE_RECIPE, LearningRecipe, RunNet, fit_change, fit_run
from relaytrain.estimators.learned.splits import Fold, by_configuration
from relaytrain.traces.trace_files import bundled_traces

FACTORS = (0.5, 1.0, 2.0)
Learned = tuple[Bands, float]


def scaled(recipe: LearningRecipe, factor: float, seed: int) -> LearningRecipe:
    """The recipe with every layer `factor` times as wide."""
    return replace(recipe, widths=tuple(round(width * factor) for width in recipe.widths), seed=seed)


def run_net(fold: Fold, recipe: LearningRecipe) -> Learned:
    """Forecasts of a fold's tested windows by lambda_run, and CPU-seconds of the fit."""
    started = time.process_time()
    net = fit_run(windows(fold.train.curves), windows(fold.calibration.curves), recipe)
    spent = time.process_time() - started
    return net.bands(windows(fold.test.curves).seen), spent


def change_net(fold: Fold, recipe: LearningRecipe) -> Learned:
    """The same of lambda_change and the tested switches."""
    rows = [
        (paper_inputs(part.switches), targets(part.switches, "first-epoch")) for part in (fold.train, fold.calibration)
    ]
    started = time.process_time()
    net = fit_change(*rows[0], rows[1], recipe)
    spent = time.process_time() - started
    return net.bands(paper_inputs(fold.test.switches)), spent


def weights_of(name: str, widths: tuple[int, ...]) -> int:
    """How many weights a network of these widths has."""
    if name == "lambda_run":
        return sum(part.numel() for part in RunNet(widths, inputs=1).parameters())
    return sum((a + 1) * b for a, b in itertools.pairwise((1 + LAST, *widths, 3)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaign", nargs="?", default="digits")
    parser.add_argument("--nets", type=int, default=2, metavar="N", help="initialisations")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder for finished folds")
    given = parser.parse_args()
    seeds = range(given.nets)
    folds = list(by_configuration(bundle_of(bundled_traces()[given.campaign], "train")))
    print(f"{given.campaign}, {len(folds)} folds, {given.nets} initialisations")
    print(
        "| | widths | weights | MAE | MIL | ICP | Winkler | against x 1 | CPU-s a fit "
        "|\n|---|---|---|---|---|---|---|---|---|"
    )
    for name, usual, make in (("lambda_run", LearningRecipe(), run_net), ("lambda_change", CHANGE_RECIPE, change_net)):
        found = {}
        for factor in FACTORS:
            parts = []
            for seed in seeds:
                recipe = scaled(usual, factor, seed)
                for fold in folds:
                    settings = ("paper", name, recipe.widths, seed)
                    learned = kept(given.keep, fold, settings, partial(make, fold, recipe))
                    parts.append((fold, *learned))
            found[factor] = tested(name, parts, len(folds))
        for factor, one in found.items():
            widths = scaled(usual, factor, 0).widths
            other = relative_winkler(one, found[1.0])
            score, each = one.score(), [one.score(one.kind == str(seed)).winkler for seed in seeds]
            against = "" if factor == 1.0 else f"{other.value:+.1%} [{other.low:+.1%}, {other.high:+.1%}]"
            print(
                f"| {name} x {factor:g} | {', '.join(map(str, widths))} | {weights_of(name, widths):,} | "
                f"{score.mae:.4f} | {score.mil:.4f} "
                f"| {score.icp:.3f} | {score.winkler:.4f} ({', '.join(f'{v:.4f}' for v in each)}) | {against} | "
                f"{one.cpu_s:.1f} |",
                flush=True,
            )


def tested(name: str, parts: list[tuple[Fold, Bands, float]], folds: int) -> FoldResult:
    """All folds and initialisations; `kind` names the initialisation."""
    bands = Bands(*(np.concatenate([getattr(b, part) for _, b, _ in parts]) for part in ("mean", "low", "high")))
    if name == "lambda_run":
        rows = [windows(fold.test.curves) for fold, _, _ in parts]
        truth, seeds, stages = [r.target for r in rows], [r.seed for r in rows], [r.stage for r in rows]
    else:
        switches = [fold.test.switches for fold, _, _ in parts]
        truth = [targets(some, "first-epoch") for some in switches]
        seeds, stages = (
            [np.array([getattr(s, what) for s in some]) for some in switches] for what in ("seed", "stage")
        )
    sizes = [len(some) for some in truth]
    return FoldResult(
        name, np.concatenate(truth), bands, np.concatenate(seeds), np.concatenate(stages),
        np.repeat([i % folds for i in range(len(parts))], sizes),
        np.repeat([str(i // folds) for i in range(len(parts))], sizes),
        float(np.mean([spent for _, _, spent in parts])),
    )  # fmt: skip


if __name__ == "__main__":
    main()
