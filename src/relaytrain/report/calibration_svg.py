"""A calibration plot: of the values forecast, how many lay inside bands scaled wider and narrower than stated."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from .canvas import FAINT, INK, MUTED, PALETTE, AxisScale, Canvas

Values = NDArray[np.float64]
SIZE, LEFT, TOP = 460.0, 60.0, 40.0
STATED = (*(round(0.5 + 0.05 * i, 2) for i in range(10)), 0.99)
WIDTH_AT_90 = NormalDist().inv_cdf(0.95)


def calibration_svg(forecasts: Mapping[str, tuple[Values, Values, Values]]) -> str:
    """Stated against observed coverage for (truth, low, high) of 90 % bands by name, as a self-contained SVG text.

    Other levels than 90 % are the band scaled about its middle as a normal's would be; 90 % is marked.
    """
    canvas = Canvas(SIZE + LEFT + 30, SIZE + TOP + 50, "Calibration: stated against observed coverage")
    x, y = AxisScale(0.45, 1.0, LEFT, LEFT + SIZE), AxisScale(0.45, 1.0, TOP + SIZE, TOP)
    canvas.text((LEFT, 22), "Coverage: stated and observed", bold=True, size=14)
    for tick in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        canvas.line((x(tick), TOP), (x(tick), TOP + SIZE), stroke=FAINT)
        canvas.line((LEFT, y(tick)), (LEFT + SIZE, y(tick)), stroke=FAINT)
        canvas.text((x(tick), TOP + SIZE + 18), f"{tick:.1f}", size=11, fill=MUTED, anchor="middle")
        canvas.text((LEFT - 8, y(tick) + 4), f"{tick:.1f}", size=11, fill=MUTED, anchor="end")
    canvas.line((x(0.45), y(0.45)), (x(1.0), y(1.0)), stroke=INK, dash="4 4")
    canvas.text((LEFT + SIZE / 2, TOP + SIZE + 38), "stated", size=12, anchor="middle")
    for i, (name, (truth, low, high)) in enumerate(forecasts.items()):
        colour = PALETTE[i % len(PALETTE)]
        seen = observed(truth, low, high)
        canvas.path([(x(s), y(o)) for s, o in zip(STATED, seen, strict=True)], stroke=colour)
        canvas.dot(
            (x(0.9), y(seen[STATED.index(0.9)])), fill=colour, tip=f"{name}: {seen[STATED.index(0.9)]:.3f} at 0.90"
        )
        canvas.text((LEFT + 14, TOP + 20 + 18 * i), name, fill=colour, bold=True)
    return canvas.svg()


def observed(truth: Values, low: Values, high: Values) -> list[float]:
    """The share of values inside at each of `STATED`."""
    middle, half = (low + high) / 2.0, np.maximum((high - low) / 2.0, 1e-12)
    away = np.abs(truth - middle) / half
    return [float((away <= NormalDist().inv_cdf(0.5 + level / 2.0) / WIDTH_AT_90 + 1e-12).mean()) for level in STATED]
