"""mcPipe figure 3: three workers, MNIST (here Fashion-MNIST)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..expected import Judgement
from ..trainings import Progress, data_set
from .accuracy import AccuracyCurve, AccuracyScale, curves
from .fig2 import SOURCES
from .figures import AccuracyFigure, times_to


def _extra(
    three: Mapping[str, AccuracyCurve], scale: AccuracyScale, out_dir: Path, progress: Progress | None
) -> dict[str, Judgement]:
    """Two workers are trained for comparison."""
    two, _ = curves(out_dir, data_set(SOURCES)[0], 2, scale, progress)
    seen: dict[str, Judgement] = {}
    for finding, method in (("three-faster", "mcPipe"), ("three-faster-pipedream", "PipeDream")):
        words, faster = times_to(three[method], two[method])
        told = f"{method} to " + ("; ".join(words) or "no level within the time")
        seen[finding] = (bool(faster) and all(faster), told)
    return seen


reproduce = AccuracyFigure(3, SOURCES, 3, __file__, measure=True, extra=_extra).reproduce
