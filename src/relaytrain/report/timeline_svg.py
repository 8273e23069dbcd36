"""The plan as a timeline: the legs that were run, those to come, and below them, as a ghost, the plan before this one.

::

    [ L on gold ×20 ][ M on silver ×12 |::: M on silver ×4 :::][::: S on bronze ×9 :::]     done | to come
                     [---------- M on silver ×8 ---------][------ S on bronze ------]       the plan before
    0        20s       40s           now                                     deadline
"""

from __future__ import annotations

import math
from itertools import groupby

from ..core.problem import Pair
from .canvas import FAR, INK, MUTED, PALETTE, AxisScale, Canvas, text_width
from .leg_bars import Bar, draw_bars
from .plan_view import PlanView
from .run_svg import thinned, version_colours
from .run_view import RunView

WIDTH, LEFT, RIGHT = 960.0, 74.0, 24.0
TOP, ROW, GHOST = 40.0, 30.0, 22.0
MOST_BARS = 80


def timeline_svg(view: RunView, before: PlanView | None = None) -> str:
    """The run's legs, its present plan, and `before`, the plan that this one took the place of."""
    plan = view.plans[-1] if view.plans else None
    ahead = _bars_of(plan, from_epoch=len(view.epochs) + 1) if plan and not view.verdict else []
    ghost = _bars_of(before, from_epoch=before.epoch) if before and not view.verdict else []
    height = TOP + ROW + (GHOST + 10 if ghost else 0) + 52
    canvas = Canvas(WIDTH, height, "The relay so far, the plan for what is to come, and the plan before it")
    ends = [view.elapsed_s, *(end for _, _, end, _ in (*ahead, *ghost))]
    last_s = max([*(e for e in ends if math.isfinite(e)), 1e-9])
    near = view.asked.deadline_s <= FAR * last_s
    x = AxisScale(0.0, (max(last_s, view.asked.deadline_s) if near else last_s) * 1.03, LEFT, WIDTH - RIGHT)
    colours = version_colours(view)
    bars = [
        Bar(x(leg.start_s), x(leg.end_s), f"{leg.pair} ×{len(leg.epochs)}", colours[leg.pair.version], str(leg.pair))
        for leg in thinned(view.legs, MOST_BARS)
    ]
    canvas.text((LEFT - 10, TOP + ROW / 2 + 4), "relay", fill=MUTED, anchor="end")
    coming = [
        Bar(x(start), x(end), f"{pair} ×{count}", colours.get(pair.version, PALETTE[-1]), f"to come: {pair} ×{count}")
        for pair, start, end, count in ahead
    ]
    draw_bars(canvas, bars, top=TOP, height=ROW, edge=coming[0].left if coming else WIDTH - RIGHT)
    _faint(canvas, coming, TOP, ROW, 0.45)
    if ghost:
        top = TOP + ROW + 8
        canvas.text((LEFT - 10, top + GHOST / 2 + 4), "before", fill=MUTED, anchor="end", size=11)
        rows = [
            Bar(
                x(start),
                x(end),
                f"{pair} ×{count}",
                colours.get(pair.version, PALETTE[-1]),
                f"the plan before: {pair} ×{count}",
            )
            for pair, start, end, count in ghost
        ]
        _faint(canvas, rows, top, GHOST, 0.14)
    base = height - 44
    canvas.line((LEFT, base), (WIDTH - RIGHT, base), stroke=MUTED)
    canvas.time_axis(x, base, view.asked.time_unit)
    if ahead:
        at = x(view.elapsed_s)
        canvas.line((at, TOP - 8), (at, base), stroke=INK, width=1.6)
        canvas.text((at, TOP - 14), "now", anchor="middle", bold=True, size=11, halo=True)
    asked, down = view.asked, (TOP - 8, base)
    canvas.deadline(x, asked.deadline_s, asked.time_unit, down=down, name_y=TOP - 14, far_y=base + 36, size=11)
    return canvas.svg()


def _bars_of(plan: PlanView, *, from_epoch: int) -> list[tuple[Pair, float, float, int]]:
    """Pair, beginning, end and epochs of a plan's legs from an epoch on, on the run's clock."""
    times_s = plan.times_s
    pairs = plan.pairs[: len(times_s)]
    rows: list[tuple[Pair, float, float, int]] = []
    skip = max(from_epoch - plan.epoch, 0)
    start = times_s[skip - 1] if 0 < skip <= len(times_s) else None
    position = skip
    for pair, group in groupby(pairs[skip:]):
        count = len(list(group))
        end = times_s[position + count - 1]
        if start is None:
            start = 2 * times_s[0] - times_s[1] if len(times_s) > 1 else 0.0
        if math.isfinite(start) and math.isfinite(end):
            rows.append((pair, max(start, 0.0), end, count))
        position, start = position + count, end
    return rows[:MOST_BARS]


def _faint(canvas: Canvas, bars: list[Bar], top: float, height: float, opacity: float) -> None:
    for bar in bars:
        wide = max(bar.right - bar.left - 1, 1)
        canvas.rect(bar.left, top, wide, height, fill=bar.colour, opacity=opacity, tip=bar.tip)
        for y in (top, top + height):
            canvas.line((bar.left, y), (bar.left + wide, y), stroke=bar.colour, dash="4 3")
        if text_width(bar.label, 11) + 8 <= wide:
            canvas.text(((bar.left + bar.right) / 2, top + height / 2 + 4), bar.label, size=11, anchor="middle")
