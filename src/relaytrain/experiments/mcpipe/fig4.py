"""mcPipe figure 4: three workers, CIFAR-10."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..expected import Judgement
from ..trainings import Progress, data_set
from .accuracy import FULL, AccuracyCurve, AccuracyScale, curves
from .fig2 import SOURCES as EASIER
from .figures import AccuracyFigure, times_to

SCALE = replace(FULL, updates=600)
"""An update of the larger images takes twice as long."""


def _extra(
    harder: Mapping[str, AccuracyCurve], scale: AccuracyScale, out_dir: Path, progress: Progress | None
) -> dict[str, Judgement]:
    """The easier data set is trained for comparison."""
    easier, _ = curves(out_dir, data_set(EASIER)[0], 3, scale, progress)
    words, slower = times_to(easier["mcPipe"], harder["mcPipe"])
    told = "easier data set against this one to " + ("; ".join(words) or "no level")
    return {"slower": (bool(slower) and all(slower), told)}


reproduce = AccuracyFigure(4, ("cifar10", "digits"), 3, __file__, full=SCALE, extra=_extra).reproduce
