"""mcPipe figure 2: two workers, MNIST (here Fashion-MNIST)."""

from __future__ import annotations

from pathlib import Path

from ..result import Reproduction
from ..style import DEFAULT_FORMATS
from . import figures
from .accuracy import Progress

SOURCES = ("fashion-mnist", "digits")
FIGURE = figures.AccuracyFigure(2, SOURCES, workers=2)


def reproduce(
    out_dir: Path,
    *,
    formats: tuple[str, ...] = DEFAULT_FORMATS,
    quick: bool = False,
    seeds: int | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Train all ways with two workers, draw and judge; `quick` trains next to nothing, to see that it runs."""
    return figures.reproduce(FIGURE, out_dir, __file__, formats=formats, quick=quick, seeds=seeds, progress=progress)
