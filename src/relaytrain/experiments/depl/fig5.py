"""DepL figure 5: cost, expected loss and the effect of eta, for AlexNet."""

from __future__ import annotations

from pathlib import Path

from ..expected import Seen, judged
from ..result import Reproduction
from ..style import DEFAULT_FORMATS
from .costs import checks, etas_of, written
from .study import ETA, findings_of, measured_notes, named, study

NAME = "depl-fig5"
TITLE = "DepL Fig. 5: DepL and benchmark strategies, AlexNet"
PRESET = "depl_alexnet"


def reproduce(out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, curves: str = "stand-in") -> Reproduction:
    """Plan with every strategy for every target, draw and judge."""
    found, etas = study(PRESET, curves), etas_of(PRESET, curves)
    files, rows = written(found, etas, out_dir, named(NAME, curves), formats)
    expected = findings_of(__file__, curves)
    seen: dict[str, Seen] = checks(found, etas, expected)
    findings = judged("DepL Fig. 5", expected, seen)
    notes = (
        f"DepL: the paper's procedure, merged reading, eta = {ETA}; the optimum: the exact search, at most three switches",
        *(
            measured_notes(PRESET, curves)
            or ("stand-in curves (see the preset): orderings and shapes are compared, never numbers",)
        ),
    )
    return Reproduction(NAME, TITLE, files, rows, findings, notes)
