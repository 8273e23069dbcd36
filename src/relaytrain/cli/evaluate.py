"""`relaytrain evaluate`: how good estimators are on traces they have not seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import LEARNING, UsageError, need_packages
from .fit import MetricName, SeedOption, Traces, bundle_named
from .options import Figure, Format, Output
from .output import check_file, emit_json, emit_view, note, progress, write_figure

if TYPE_CHECKING:
    from ..estimators.judging.evaluate import FoldResult

SHORT = "How good estimators are on traces they have not seen."
HELP = """Fit and judge estimators on folds of traces: whole configurations or seeds are held out, never windows.

Shown by stage of the relay, with the spread over folds: MAE, mean length and coverage of the 90 % interval (MIL, ICP),
coverage of the upper side, Winkler's score (width + 20 x what lies outside: lower is better). `--fitted FILE` judges a
file as it stands, and says when these are the traces that it was fitted on: use others.
"""
EXAMPLES = """\b
Examples:
  relaytrain evaluate digits
  relaytrain evaluate traces/ --by seed --estimator auto --figure calibration.svg
  relaytrain evaluate other-traces/ --fitted fit.npz
"""

ByName = Annotated[str, typer.Option("--by", metavar="WHAT", help="configuration or seed: what is held out.")]
Names = Annotated[
    list[str] | None, typer.Option("--estimator", metavar="NAME", help="paper, auto or zero-trace (repeatable; all).")
]
FittedFile = Annotated[Path | None, typer.Option("--fitted", metavar="FILE", help="Judge this file, fit nothing.")]


def evaluate(
    traces: Traces,
    by: ByName = "configuration",
    metric: MetricName = "test",
    names: Names = None,
    fitted: FittedFile = None,
    seed: SeedOption = 0,
    figure: Figure = None,
    output: Output = Format.text,
) -> int:
    """Read, fit on folds, judge, show."""
    check_file("--figure", figure, ".svg")
    chosen = names or (["paper", "auto", "zero-trace"] if fitted is None else [])
    for name in chosen:
        if name not in ("paper", "auto", "zero-trace"):
            raise UsageError(f"--estimator: got '{name}', expected paper, auto or zero-trace")
    if by not in ("configuration", "seed"):
        raise UsageError(f"--by: got '{by}', expected configuration or seed")
    bundle, _ = bundle_named(traces, metric)
    from ..estimators.judging.evaluate import evaluate_run
    from ..estimators.learned.fitted import load_fitted
    from ..estimators.learned.zero_trace import zero_trace

    learned = [name for name in chosen if name != "zero-trace"]
    if learned:
        need_packages("evaluate learns with", LEARNING)
    given = load_fitted(fitted) if fitted is not None else zero_trace() if "zero-trace" in chosen else None
    with progress("learning and judging"):
        tested = evaluate_run(
            bundle,
            tuple("paper" if name == "paper" else "auto" for name in learned),
            by="seed" if by == "seed" else "configuration",
            seed=seed,
            progress=note,
            given=given,
        )
    rows = [row for result in tested.values() for row in rows_of(result)]
    seen = given is not None and bool(bundle.source) and given.about.get("source") == bundle.source
    if output is Format.json:
        standing = {} if given is None else {"as_it_stands": {"estimator": given.name, "fitted_on_these_traces": seen}}
        body = {"schema": "relaytrain.evaluation/1", "by": by, "metric": metric, "seed": seed, **standing, "rows": rows}
        emit_json(body)
    else:
        from ..report.tables import rows_table

        how = [f"held out by {by}"] if learned else []
        if given is not None:
            words = "fitted on these traces, which it has seen" if seen else "nothing is fitted here"
            how.append(f"{given.name} as it stands ({words})")
        emit_view(
            rows_table(tuple(rows), title=f"{bundle.source or traces}: k+1 to k+5, {', '.join(how)}, {metric} loss")
        )
    if figure is not None:
        from ..report.calibration_svg import calibration_svg

        bands = {name: (result.truth, result.bands.low, result.bands.high) for name, result in tested.items()}
        write_figure(figure, calibration_svg(bands))
    return 0


def rows_of(tested: FoldResult) -> list[dict[str, Any]]:
    """One row for all stages, with the spread over folds, and one for each."""
    from ..estimators.judging.evaluate import FIGURES

    whole = {f: tested.spread(f) for f in FIGURES}
    rows: list[dict[str, Any]] = [
        {"estimator": tested.name, "stage": "all", "windows": len(tested.truth)}
        | {f: round(mean, 4) for f, (mean, _) in whole.items()}
        | {f"{f}_sd": round(sd, 4) for f, (_, sd) in whole.items() if f in ("mae", "icp", "winkler")}
    ]
    for stage in sorted(set(tested.stage.tolist())):
        at = tested.stage == stage
        score, sds = tested.score(at), {"mae_sd": "", "icp_sd": "", "winkler_sd": ""}
        rows.append(
            {"estimator": tested.name, "stage": str(stage), "windows": int(at.sum())}
            | {f: round(getattr(score, f), 4) for f in FIGURES}
            | sds
        )
    return rows
