"""DepL figure 6: cost, expected loss and the effect of eta, for MobileNet."""

from __future__ import annotations

from pathlib import Path

from ..expected import Seen, judged
from ..result import Reproduction
from ..style import DEFAULT_FORMATS
from .costs import checks, etas_of, written
from .study import ETA, LOOSE, OPTIMUM, TARGETS, TIGHT, findings_of, listed, measured_notes, named, study

NAME = "depl-fig6"
TITLE = "DepL Fig. 6: DepL and benchmark strategies, MobileNet"
PRESET = "depl_mobilenet"


def reproduce(out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, curves: str = "stand-in") -> Reproduction:
    """Plan with every strategy for every target, draw and judge."""
    found, etas = study(PRESET, curves), etas_of(PRESET, curves)
    files, rows = written(found, etas, out_dir, named(NAME, curves), formats)
    expected = findings_of(__file__, curves)
    seen: dict[str, Seen] = checks(found, etas, expected) | _against_alexnet(curves)
    findings = judged("DepL Fig. 6", expected, seen)
    notes = (
        f"DepL: the paper's procedure, merged reading, eta = {ETA}; the optimum: the exact search, at most three switches",
        *(
            measured_notes(PRESET, curves)
            or ("stand-in curves (see the preset): orderings and shapes are compared, never numbers",)
        ),
    )
    return Reproduction(NAME, TITLE, files, rows, findings, notes)


def _against_alexnet(curves: str) -> dict[str, Seen]:
    mine, other = study(PRESET, curves), study("depl_alexnet", curves)
    share = {t: mine[t][OPTIMUM].plan.cost / other[t][OPTIMUM].plan.cost for t in TARGETS}
    steep = {
        name: found[TIGHT][OPTIMUM].plan.cost / found[LOOSE][OPTIMUM].plan.cost
        for name, found in (("MobileNet", mine), ("AlexNet", other))
    }
    return {
        "cheaper": (all(v < 1 for v in share.values()), f"MobileNet's cost over AlexNet's: {listed(share)}"),
        "steeper": (
            steep["MobileNet"] > steep["AlexNet"],
            f"cost at {TIGHT:g} over cost at {LOOSE:g}: " + ", ".join(f"{name} {v:.2f}" for name, v in steep.items()),
        ),
    }
