"""mcPipe figure 3: three workers, MNIST (here Fashion-MNIST)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..expected import Expected, Seen
from ..result import Reproduction
from ..style import DEFAULT_FORMATS
from . import figures
from .accuracy import AccuracyCurve, AccuracyScale, Progress, curves, data_set
from .fig2 import SOURCES

NAME = "mcpipe-fig3"


def reproduce(
    out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, quick: bool = False, progress: Progress | None = None
) -> Reproduction:
    """Train all ways with three workers (two for comparison), draw and judge; `quick` trains next to nothing."""

    def extra(
        found: Mapping[str, AccuracyCurve], scale: AccuracyScale, expected: Mapping[str, Expected]
    ) -> dict[str, Seen]:
        two, _ = curves(out_dir, data_set(SOURCES)[0], 2, scale, progress)
        words, faster = figures.times_to(found["mcPipe"], two["mcPipe"])
        pipe, also = figures.times_to(found["PipeDream"], two["PipeDream"])
        return {
            "three-faster": (
                bool(faster) and all(faster),
                "mcPipe to " + ("; ".join(words) or "no level within the time"),
            ),
            "three-faster-pipedream": (
                bool(also) and all(also),
                "PipeDream to " + ("; ".join(pipe) or "no level within the time"),
            ),
        }

    return figures.reproduce(
        out_dir, __file__, name=NAME, title="mcPipe Fig. 3: accuracy over time, three workers", figure="mcPipe Fig. 3",
        sources=SOURCES, workers=3, formats=formats, quick=quick, progress=progress, extra=extra, measure=True,
    )  # fmt: skip
