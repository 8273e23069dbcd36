"""`relaytrain fit`: an estimator learned from traces, as one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import LEARNING, UsageError, need_packages
from .options import Format, Output
from .output import check_file, emit, emit_json, note, progress

if TYPE_CHECKING:
    from ..estimators.learned.bundle import Bundle

SHORT = "Learn an estimator of the loss from traces."
HELP = """Learn an estimator of the loss from traces, and keep it as one file for `run --estimator auto --fitted FILE`.

TRACES is a folder of trace files (`relaytrain collect`), or the name of a campaign that ships with RelayTrain. `auto`
averages gradient-boosted quantiles with recurrent networks and calibrates them; `paper` is PACT's networks as printed.
`auto` cross-fits: each of its members learns without a quarter of the configurations and is calibrated on it; `paper`
holds a quarter out to know when to stop. Needs scikit-learn and torch; predicting, and so planning, needs neither.
"""
EXAMPLES = """\b
Examples:
  relaytrain fit traces/ fit.npz
  relaytrain fit digits fit.npz --metric test
  relaytrain fit traces/ paper.npz --estimator paper --metric train
"""

Traces = Annotated[str, typer.Argument(metavar="TRACES", help="A trace folder, or a bundled campaign's name.")]
OutFile = Annotated[Path, typer.Argument(metavar="OUT", help="The file to write, *.npz.")]
MetricName = Annotated[
    str, typer.Option("--metric", metavar="LOSS", help="test (what targets are on unless told otherwise) or train.")
]
EstimatorName = Annotated[str, typer.Option("--estimator", metavar="NAME", help="auto or paper.")]
ChangeTarget = Annotated[
    str | None,
    typer.Option(
        "--change-target", metavar="WHAT", help="jump or first-epoch (what the traces say).", show_default=False
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="Of networks, trees and the split.")]


def bundle_named(traces: str, metric: str) -> tuple[Bundle, str]:
    """The curves of a folder or of a bundled campaign, and the change target its traces name."""
    from ..estimators.learned.bundle import bundle_of
    from ..traces.trace_files import bundled_traces, read_campaigns

    if metric not in ("train", "test"):
        raise UsageError(f"--metric: got '{metric}', expected train or test")
    if Path(traces).exists() or "/" in traces:
        campaigns = read_campaigns(Path(traces))
        if len(campaigns) > 1:
            names = ", ".join(sorted(campaigns))
            raise UsageError(f"{traces}: got several campaigns ({names}), expected one; name its folder")
        traced = next(iter(campaigns.values()))
    else:
        campaigns = bundled_traces()
        if traces not in campaigns:
            raise UsageError(f"TRACES: got '{traces}', expected a folder or one of {', '.join(sorted(campaigns))}")
        traced = campaigns[traces]
    return bundle_of(traced, "train" if metric == "train" else "test"), traced.change_target


def fit(
    traces: Traces,
    out: OutFile,
    metric: MetricName = "test",
    estimator: EstimatorName = "auto",
    change_target: ChangeTarget = None,
    seed: SeedOption = 0,
    output: Output = Format.text,
) -> int:
    """Read, learn, write."""
    if estimator not in ("auto", "paper"):
        raise UsageError(f"--estimator: got '{estimator}', expected auto or paper")
    if change_target not in (None, "jump", "first-epoch"):
        raise UsageError(f"--change-target: got '{change_target}', expected jump or first-epoch")
    check_file("OUT", out, ".npz")
    bundle, stored = bundle_named(traces, metric)
    need_packages("fit learns with", LEARNING)
    from ..estimators.learned.fit import fit as learn

    note(f"learning {estimator} from {len(bundle.curves)} curves of {len(bundle.seeds)} seeds ({metric} loss)")
    target = change_target or stored
    with progress("learning"):
        fitted = learn(
            bundle,
            name="paper" if estimator == "paper" else "auto",
            seed=seed,
            change_target="first-epoch" if target == "first-epoch" else "jump",
        )
    fitted.save(out)
    body = {
        "schema": "relaytrain.fit/1",
        "file": str(out),
        "estimator": fitted.name,
        "metric": fitted.metric,
        **fitted.about,
    }
    if output is Format.json:
        emit_json(body)
    else:
        emit("\n".join(f"{key:<12} {value}" for key, value in body.items() if key != "schema"))
    return 0
