"""DepL figure 8: cost incurred with each version by the optimum, DepL and best-exp (AlexNet)."""

from __future__ import annotations

from pathlib import Path

from ..expected import Seen, judged
from ..result import Reproduction
from ..style import DEFAULT_FORMATS
from .bars import written
from .study import DEPL, GREEDY, OPTIMUM, TARGETS, Study, findings_of, measured_notes, named, study

NAME = "depl-fig8"
TITLE = "DepL Fig. 8: cost incurred with each version, AlexNet"
PRESET = "depl_alexnet"


def reproduce(out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, curves: str = "stand-in") -> Reproduction:
    """Add up, draw and judge."""
    found = study(PRESET, curves)
    files, rows = written(found, "costs", out_dir, named(NAME, curves), formats)
    findings = judged("DepL Fig. 8", findings_of(__file__, curves), _checks(found))
    return Reproduction(
        NAME,
        TITLE,
        files,
        rows,
        findings,
        ("cost: kappa * x summed over the version's epochs", *measured_notes(PRESET, curves)),
    )


def _checks(found: Study) -> dict[str, Seen]:
    costs = {t: {name: found[t][name].plan.cost for name in (OPTIMUM, DEPL, GREEDY)} for t in TARGETS}
    share = {t: found[t][GREEDY].costs["fast-unsteady"] / found[t][GREEDY].plan.cost for t in TARGETS}
    each = {
        name: {t: found[t][name].plan.cost / len(found[t][name].plan.versions) for t in TARGETS}
        for name in (OPTIMUM, GREEDY)
    }
    more = all(len(found[t][GREEDY].plan.versions) > len(found[t][OPTIMUM].plan.versions) for t in TARGETS)
    dearer = all(each[GREEDY][t] > each[OPTIMUM][t] for t in TARGETS)
    said = "; ".join(f"{t:g}: {each[GREEDY][t]:.1f} (optimum {each[OPTIMUM][t]:.1f})" for t in TARGETS)
    return {
        "best-exp-highest": (
            all(costs[t][GREEDY] == max(costs[t].values()) > costs[t][OPTIMUM] for t in TARGETS),
            "; ".join(f"{t:g}: " + ", ".join(f"{name} {v:.0f}" for name, v in row.items()) for t, row in costs.items()),
        ),
        "fast-dominates": (
            min(share.values()) > 0.5,
            "share of the fast-unsteady version in best-exp's cost: "
            + ", ".join(f"{v:.0%} at {t:g}" for t, v in share.items()),
        ),
        "more-in-each": (dearer, f"best-exp's cost an epoch: {said}"),
        "more-epochs-and-more-in-each": (
            more and dearer,
            f"best-exp's cost an epoch: {said}; its epochs are fewer, see Fig. 7",
        ),
    }
