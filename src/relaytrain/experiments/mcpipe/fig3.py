"""mcPipe figure 3: three workers, MNIST (here Fashion-MNIST)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..expected import Seen
from ..result import Reproduction
from ..style import DEFAULT_FORMATS
from . import figures
from .accuracy import AccuracyCurve, AccuracyScale, Progress, curves, data_set
from .fig2 import SOURCES

FIGURE = figures.AccuracyFigure(3, SOURCES, workers=3, measure=True)


def reproduce(
    out_dir: Path,
    *,
    formats: tuple[str, ...] = DEFAULT_FORMATS,
    quick: bool = False,
    seeds: int | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Train all ways with three workers (two for comparison), draw and judge; `quick` trains next to nothing."""

    def extra(three: Mapping[str, AccuracyCurve], scale: AccuracyScale) -> dict[str, Seen]:
        two, _ = curves(out_dir, data_set(SOURCES)[0], 2, scale, progress)
        seen: dict[str, Seen] = {}
        for finding, method in (("three-faster", "mcPipe"), ("three-faster-pipedream", "PipeDream")):
            words, faster = figures.times_to(three[method], two[method])
            told = f"{method} to " + ("; ".join(words) or "no level within the time")
            seen[finding] = (bool(faster) and all(faster), told)
        return seen

    return figures.reproduce(
        FIGURE, out_dir, __file__, formats=formats, quick=quick, seeds=seeds, progress=progress, extra=extra
    )
