"""Several runs in one picture: loss against the energy spent, or against the time used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from ..core.explain import say_energy
from .canvas import GOOD, MUTED, PALETTE, AxisScale, Canvas, text_width
from .run_svg import thinned
from .run_view import RunView

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960.0, 380.0, 74.0, 24.0, 30.0, 56.0
DASHES = ("", "7 3", "2 3", "9 3 2 3")
"""So that runs are told apart also without colours."""


def compare_svg(views: Sequence[RunView], over: Literal["energy", "time"]) -> str:
    """A line a run, its last epoch marked; the target of the first one across."""
    canvas = Canvas(WIDTH, HEIGHT, f"Loss by {over} of {len(views)} runs")
    lines = [_points(view, over) for view in views]
    ends = [at for line in lines for at, _ in line]
    losses = [loss for line in lines for _, loss in line if math.isfinite(loss)]
    if not losses:
        canvas.text((LEFT, 60), "No epoch is done yet.", fill=MUTED)
        return canvas.svg()
    x = AxisScale(0.0, max(*ends, 1e-9) * 1.03, LEFT, WIDTH - RIGHT)
    target = views[0].asked.loss
    y = AxisScale(0.0, max(*losses, target or 0.0) * 1.05, HEIGHT - BOTTOM, TOP)
    canvas.value_axis(y, LEFT, WIDTH - RIGHT, 6)
    canvas.text((LEFT - 8, TOP - 10), views[0].asked.metric, fill=MUTED, anchor="end")
    base = HEIGHT - BOTTOM
    canvas.line((LEFT, base), (WIDTH - RIGHT, base), stroke=MUTED)
    asked = views[0].asked
    if over == "time":
        canvas.time_axis(x, base, asked.time_unit)
        canvas.text(((LEFT + WIDTH - RIGHT) / 2, base + 42), "time used", fill=MUTED, anchor="middle")
    else:
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            at = x.high * share
            words = say_energy(at, asked.energy_unit)
            canvas.text((x(at), base + 18), words, size=11, fill=MUTED, anchor="middle")
        canvas.text(((LEFT + WIDTH - RIGHT) / 2, base + 42), "energy spent", fill=MUTED, anchor="middle")
    if target is not None:
        canvas.target(y, target, LEFT, WIDTH - RIGHT, colour=GOOD)
    wide = max(text_width(view.run, 12) for view in views)
    for index, (view, line) in enumerate(zip(views, lines, strict=True)):
        colour, dash = PALETTE[index % len(PALETTE)], DASHES[index // len(PALETTE) % len(DASHES)]
        drawn = [(x(at), y(loss)) for at, loss in thinned(line)]
        if drawn:
            canvas.path(drawn, stroke=colour, dash=dash)
            canvas.dot(drawn[-1], fill=colour, radius=4, tip=view.run)
        row = TOP + 14 + 18 * index
        left = WIDTH - RIGHT - wide - 44
        canvas.line((left, row - 4), (left + 26, row - 4), stroke=colour, width=2.5, dash=dash)
        canvas.text((left + 34, row), view.run, halo=True)
    return canvas.svg()


def _points(view: RunView, over: str) -> list[tuple[float, float]]:
    spent = 0.0
    points = [(0.0, view.initial_loss)] if view.initial_loss is not None else []
    for epoch in view.epochs:
        spent += epoch.energy_j
        points.append((spent if over == "energy" else epoch.end_s, epoch.loss))
    return points
