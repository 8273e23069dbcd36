"""DepL figure 7: epochs spent with each version by the optimum, DepL and best-exp (AlexNet)."""

from __future__ import annotations

from pathlib import Path

from ..expected import Seen, judged
from ..result import Reproduction
from ..style import DEFAULT_FORMATS
from .bars import written
from .study import DEPL, GREEDY, LOOSE, OPTIMUM, TARGETS, TIGHT, Study, findings_of, measured_notes, named, study

NAME = "depl-fig7"
TITLE = "DepL Fig. 7: epochs spent with each version, AlexNet"
PRESET = "depl_alexnet"


def reproduce(out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, curves: str = "stand-in") -> Reproduction:
    """Count, draw and judge."""
    found = study(PRESET, curves)
    files, rows = written(found, "epochs", out_dir, named(NAME, curves), formats)
    expected = findings_of(__file__, curves)
    findings = judged("DepL Fig. 7", expected, _checks(found, expected["like-optimum"].limits["share"]))
    return Reproduction(
        NAME,
        TITLE,
        files,
        rows,
        findings,
        measured_notes(PRESET, curves) or ("stand-in curves: which version is used where depends on them",),
    )


def _checks(found: Study, share: float) -> dict[str, Seen]:
    legs = {name: "; ".join(f"{t:g}: {found[t][name].legs()}" for t in TARGETS) for name in (OPTIMUM, DEPL, GREEDY)}
    moved = {
        t: sum(
            abs(a - b) for a, b in zip(found[t][OPTIMUM].epochs.values(), found[t][DEPL].epochs.values(), strict=True)
        )
        / len(found[t][OPTIMUM].plan.versions)
        for t in TARGETS
    }
    total = {name: {t: len(found[t][name].plan.versions) for t in TARGETS} for name in (OPTIMUM, GREEDY)}
    loose, tight = found[LOOSE], found[TIGHT]
    counts = "; ".join(f"{t:g}: {total[GREEDY][t]} (optimum {total[OPTIMUM][t]})" for t in TARGETS)
    return {
        "like-optimum": (
            max(moved.values()) <= share,
            "epochs moved between versions: " + ", ".join(f"{v:.0%} at {t:g}" for t, v in moved.items()),
        ),
        "loose-intermediate": (
            all({v for v, n in loose[name].epochs.items() if n} == {"intermediate"} for name in (OPTIMUM, DEPL)),
            f"optimum {legs[OPTIMUM]}",
        ),
        "tight-all": (
            all(all(tight[name].epochs.values()) for name in (OPTIMUM, DEPL)),
            f"at {TIGHT:g}: optimum {tight[OPTIMUM].legs()}; DepL {tight[DEPL].legs()}",
        ),
        "best-exp-fast": (
            all({v for v, n in found[t][GREEDY].epochs.items() if n} == {"fast-unsteady"} for t in TARGETS),
            f"best-exp {legs[GREEDY]}",
        ),
        "best-exp-more-epochs": (
            all(total[GREEDY][t] > total[OPTIMUM][t] for t in TARGETS),
            f"epochs of best-exp: {counts}",
        ),
    }
