"""Legs as bars over time: a label inside where it fits, above on a leader where it does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .canvas import PAPER, Canvas, text_width


class Bar(NamedTuple):
    """One leg from `left` to `right` on the picture."""

    left: float
    right: float
    label: str
    colour: str
    tip: str


def draw_bars(canvas: Canvas, bars: Sequence[Bar], *, top: float, height: float, edge: float) -> None:
    """Draw `bars` in order of time; labels stay left of `edge`, in two rows above where they do not fit inside."""
    taken_from = [edge, edge]  # by row of labels above the bars; right to left, so leaders never cross
    for bar in reversed(bars):
        canvas.rect(bar.left, top, max(bar.right - bar.left - 1, 1), height, fill=bar.colour, tip=bar.tip)
        width = text_width(bar.label, 12)
        row = next((row for row in (0, 1) if bar.left + width + 16 <= taken_from[row]), None)
        if width + 10 <= bar.right - bar.left:
            middle = ((bar.left + bar.right) / 2, top + height / 2 + 4)
            canvas.text(middle, bar.label, fill=PAPER, anchor="middle", bold=True)
        elif row is not None:
            line_top = top - 16 - 16 * row
            canvas.line((bar.left + 1, line_top), (bar.left + 1, top), stroke=bar.colour)
            canvas.text((bar.left + 5, line_top + 9), bar.label, fill=bar.colour, bold=True)
            taken_from[row] = bar.left
