"""PACT table I with every campaign in one fit: node sets of 7, 9 and 10 classes, and the figures of each.

The paper learns one lambda_run and one lambda_change from all of its trainings, whatever the classes of the nodes. So
here: the campaigns are joined, seeds numbered on, folds hold out (K1, F1) of both at once. Beside it stands what a fit
of each campaign alone says about the same windows (the folds of `pact-table1`, where they are kept).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...core.errors import UsageError
from ...estimators.judging.evaluate import FIGURES, FoldResult, evaluate_change, evaluate_run
from ...estimators.learned.auto import EPOCHS
from ...estimators.learned.bundle import Bundle, bundle_of
from ..expected import Expected, Judgement, expected_of, judged
from ..figure_traces import campaigns, need_learning
from ..result import Reproduction, Row, written
from ..style import DEFAULT_FORMATS, house_style, legend_below, new_figure, save
from ..trainings import Progress
from .table1 import NAME as TABLE_1

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "pact-table1-mixed"
TITLE = "PACT Table I with every campaign in one fit, by classes of the nodes"
RUN, CHANGE = "lambda_run, one epoch", "lambda_change"
TARGET = 0.9
APART = 1000
"""What the seeds of one campaign are numbered on by, so that no two campaigns share one."""
COLOURS = {"paper": "#D55E00", "auto": "#0072B2"}


@dataclass(frozen=True)
class _Mixed:
    """One quantity: results by estimator of the one fit, and of the fits of each campaign by its name."""

    one: Mapping[str, FoldResult]
    each: Mapping[str, Mapping[str, FoldResult]]


def reproduce(
    out_dir: Path,
    *,
    formats: tuple[str, ...] = DEFAULT_FORMATS,
    epochs: int = EPOCHS,
    progress: Progress | None = None,
) -> Reproduction:
    """Fit both ways on every fold, judge, tabulate and draw; finished folds are kept beside those of `pact-table1`."""
    need_learning()
    bundles = {name: bundle_of(traces, "train") for name, traces in campaigns().items()}
    mixed, keep = joined(bundles), out_dir / f"{TABLE_1}-folds"

    def run(bundle: Bundle) -> dict[str, FoldResult]:
        return evaluate_run(bundle, cumulative=False, epochs=epochs, progress=progress, keep=keep)

    def change(bundle: Bundle) -> dict[str, FoldResult]:
        return evaluate_change(bundle, ("paper", "probe"), epochs=epochs, keep=keep)

    results = {
        RUN: _Mixed(run(mixed), {name: run(bundle) for name, bundle in bundles.items()}),
        CHANGE: _Mixed(change(mixed), {name: change(bundle) for name, bundle in bundles.items()}),
    }
    names = list(bundles)
    rows = tuple(row for quantity, result in results.items() for row in _rows(quantity, result, names))
    with house_style():
        files = save(_draw(results[RUN]), out_dir, NAME, formats)
    expected = expected_of(__file__)
    findings = judged("Table I mixed", expected, _checks(results, names, expected))
    notes = (
        f"one fit of {' and '.join(names)}: {len(mixed.curves)} legs, {len(mixed.switches)} switches, node sets of "
        f"{', '.join(map(str, _classes(mixed)))} classes; training loss, held out by configuration (K1 and F1) of all "
        "campaigns at once, 4 folds",
        "the paper's node sets have 10, 13 and 15 classes of CIFAR-10 and CIFAR-100, on one network; ours 7, 9 and 10 "
        "of the digits and of CIFAR-10, on two",
    )
    return written(NAME, TITLE, out_dir, files, rows, findings, notes)


def joined(bundles: Mapping[str, Bundle]) -> Bundle:
    """All campaigns as one; seeds of the i-th are numbered on by i times `APART`."""
    if len(bundles) < 2:
        raise UsageError(f"traces: got {', '.join(bundles)} alone, expected at least two campaigns for one fit")
    parts = list(enumerate(bundles.values()))
    return Bundle(
        parts[0][1].metric,
        tuple(replace(curve, seed=curve.seed + i * APART) for i, part in parts for curve in part.curves),
        tuple(replace(switch, seed=switch.seed + i * APART) for i, part in parts for switch in part.switches),
        "+".join(bundles),
    )


def _classes(bundle: Bundle) -> list[int]:
    return sorted({curve.classes for curve in bundle.curves})


def _rows(quantity: str, result: _Mixed, names: list[str]) -> list[Row]:
    """The one fit by classes, then both fits by campaign."""
    rows = []
    for estimator, one in result.one.items():
        every = [("all", np.ones(len(one.seed), bool))]
        every += [(str(classes), one.classes == classes) for classes in np.unique(one.classes)]
        rows += [_row(quantity, estimator, "one", "all", *part, one) for part in every]
        for i, name in enumerate(names):
            own = result.each[name][estimator]
            rows.append(_row(quantity, estimator, "one", name, "all", one.seed // APART == i, one))
            rows.append(_row(quantity, estimator, "each", name, "all", np.ones(len(own.seed), bool), own))
    return rows


def _row(
    quantity: str, estimator: str, fit: str, campaign: str, classes: str, at: NDArray[np.bool_], one: FoldResult
) -> Row:
    score = one.score(at)
    return {
        "quantity": quantity,
        "estimator": estimator,
        "fit": fit,
        "campaign": campaign,
        "classes": classes,
        **{figure: getattr(score, figure) for figure in FIGURES},
        "mean_abs": float(abs(one.truth[at]).mean()),
        "values": score.count,
    }


def _checks(results: Mapping[str, _Mixed], names: list[str], expected: Mapping[str, Expected]) -> dict[str, Judgement]:
    run, change = results[RUN], results[CHANGE]

    def covered(estimator: str) -> Judgement:
        shares = {int(c): run.one[estimator].score(run.one[estimator].classes == c).icp for c in _known(run)}
        least = expected[f"{estimator}-classes"].limits["share"]
        return min(shares.values()) >= least, ", ".join(f"{c} classes {share:.3f}" for c, share in shares.items())

    def no_worse(estimator: str) -> Judgement:
        ratios = {}
        for i, name in enumerate(names):
            one, own = run.one[estimator], run.each[name][estimator]
            ratios[name] = one.score(one.seed // APART == i).winkler / own.score().winkler
        words = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
        most = expected[f"{estimator}-no-worse"].limits["ratio"]
        return max(ratios.values()) <= most, f"Winkler's score of the one fit over that of its own: {words}"

    paper = run.one["paper"]
    interval = paper.interval("icp")
    errors = {
        int(c): (change.one["paper"].score(change.one["paper"].classes == c).mae, paper.score(paper.classes == c).mae)
        for c in np.unique(change.one["paper"].classes)
    }
    return {
        "covers": (interval.high >= TARGET, f"{interval}"),
        "change-harder": (
            all(switch > epoch for switch, epoch in errors.values()),
            ", ".join(f"{c} classes: MAE {s:.3f} against {e:.3f}" for c, (s, e) in errors.items()),
        ),
        **{f"{estimator}-classes": covered(estimator) for estimator in COLOURS},
        **{f"{estimator}-no-worse": no_worse(estimator) for estimator in COLOURS},
    }


def _known(result: _Mixed) -> NDArray[np.int64]:
    return np.unique(result.one["paper"].classes)


def _draw(result: _Mixed) -> Figure:
    """Coverage and Winkler's score of lambda_run, by classes, of the one fit."""
    figure = new_figure(8.4, 3.6)
    left, right = figure.subplots(1, 2)
    classes = _known(result)
    for i, (estimator, colour) in enumerate(COLOURS.items()):
        one = result.one[estimator]
        scores = [one.score(one.classes == c) for c in classes]
        at = [p + (i - 0.5) * 0.36 for p in range(len(classes))]
        left.bar(at, [score.icp for score in scores], 0.34, label=estimator, color=colour)
        right.bar(at, [score.winkler for score in scores], 0.34, label=estimator, color=colour)
    left.axhline(TARGET, color="#444444", linewidth=0.9, linestyle=":")
    for axes, words in ((left, "share inside the 90 % interval"), (right, "Winkler's score, one epoch")):
        axes.set_xticks(range(len(classes)), [f"{c} classes" for c in classes])
        axes.set_ylabel(words)
    left.set_ylim(0.5, 1.0)
    legend_below(figure, left, columns=2)
    return figure
