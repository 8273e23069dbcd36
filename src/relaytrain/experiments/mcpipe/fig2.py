"""mcPipe figure 2: two workers, MNIST (here Fashion-MNIST)."""

from __future__ import annotations

from pathlib import Path

from ..result import Reproduction
from ..style import DEFAULT_FORMATS
from . import figures
from .accuracy import Progress

NAME = "mcpipe-fig2"
SOURCES = ("fashion-mnist", "digits")


def reproduce(
    out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, quick: bool = False, progress: Progress | None = None
) -> Reproduction:
    """Train all ways with two workers, draw and judge; `quick` trains next to nothing, to see that it runs."""
    return figures.reproduce(
        out_dir, __file__, name=NAME, title="mcPipe Fig. 2: accuracy over time, two workers", figure="mcPipe Fig. 2",
        sources=SOURCES, workers=2, formats=formats, quick=quick, progress=progress,
    )  # fmt: skip
