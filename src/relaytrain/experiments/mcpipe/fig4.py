"""mcPipe figure 4: three workers, CIFAR-10."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..expected import Seen
from ..result import Reproduction
from ..style import DEFAULT_FORMATS
from . import figures
from .accuracy import FULL, AccuracyCurve, AccuracyScale, Progress, curves, data_set
from .fig2 import SOURCES as EASIER

SCALE = replace(FULL, updates=600)
"""An update of the larger images takes twice as long."""
FIGURE = figures.AccuracyFigure(4, ("cifar10", "digits"), workers=3, full=SCALE)


def reproduce(
    out_dir: Path,
    *,
    formats: tuple[str, ...] = DEFAULT_FORMATS,
    quick: bool = False,
    seeds: int | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Train all ways on the harder data set, draw and judge; `quick` trains next to nothing."""

    def extra(harder: Mapping[str, AccuracyCurve], scale: AccuracyScale) -> dict[str, Seen]:
        easier, _ = curves(out_dir, data_set(EASIER)[0], 3, scale, progress)
        words, slower = figures.times_to(easier["mcPipe"], harder["mcPipe"])
        told = "easier data set against this one to " + ("; ".join(words) or "no level")
        return {"slower": (bool(slower) and all(slower), told)}

    return figures.reproduce(
        FIGURE, out_dir, __file__, formats=formats, quick=quick, seeds=seeds, progress=progress, extra=extra
    )
