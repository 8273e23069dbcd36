"""One picture of what a run did against what was planned.

::

    [ L on gold ][   M on silver      ][     S on bronze     ]    legs over time, handovers between them
    loss: measured, the band promised epoch by epoch, the first plan, the target
    energy so far, by version, and the first plan's
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from ..core.explain import say_energy, say_share, say_time
from ..core.problem import Pair
from .canvas import BAD, FAR, GOOD, INK, MUTED, PALETTE, PAPER, AxisScale, Canvas, Point, text_width
from .leg_bars import Bar, draw_bars
from .plan_view import PlanView
from .run_parts import EpochView, LegView, legs_of
from .run_view import RunView

WIDTH, LEFT, RIGHT = 960.0, 74.0, 24.0
BAR_Y, BAR_H = 44.0, 32.0
LOSS_Y, LOSS_H = 104.0, 270.0
ENERGY_Y, ENERGY_H = 414.0, 96.0
HEIGHT = 568.0
BAND, BAND_EDGE, FIRST = "#f0a35e", "#c76b15", "#7b8794"
MOST_POINTS = 300
LONGEST = 48
"""Characters of a pair's name; longer ones are cut."""

T = TypeVar("T")


def run_svg(view: RunView) -> str:
    """The run as a self-contained SVG text; before the first epoch a sentence takes its place."""
    canvas = Canvas(WIDTH, HEIGHT if view.epochs else 60, f"What run {view.run} did")
    if not view.epochs:
        canvas.text((LEFT, 36), "No epoch is done yet.", fill=MUTED)
        return canvas.svg()
    first = view.plans[0] if view.plans else None
    end_s = max(e.end_s for e in (*view.epochs, *view.undone))
    end_s = max(end_s, *(t for t in (first.times_s if first else ()) if math.isfinite(t)), 1e-9)
    near = view.asked.deadline_s <= FAR * end_s
    x = AxisScale(0.0, (max(end_s, view.asked.deadline_s) if near else end_s) * 1.03, LEFT, WIDTH - RIGHT)
    colours = version_colours(view)
    _legs(canvas, view, x, colours)
    _loss(canvas, view, x, colours, first)
    _energy(canvas, view, x, colours, first)
    _axes(canvas, view, x)
    base, asked = ENERGY_Y + ENERGY_H, view.asked
    down, name_y = (LOSS_Y, base), ENERGY_Y - 10
    canvas.deadline(x, asked.deadline_s, asked.time_unit, down=down, name_y=name_y, far_y=base + 40)
    beside = near and x(view.asked.deadline_s) > WIDTH * 0.72
    _legend(canvas, view, x(view.asked.deadline_s) - 8 if beside else WIDTH - RIGHT)
    return canvas.svg()


def version_colours(view: RunView) -> dict[str, str]:
    """A colour for each version, in order of first use, then for those planned; the same in pictures and tables."""
    used = (e.pair.version for e in (*view.epochs, *view.undone))
    planned = (pair.version for plan in (*view.plans[-2:], *view.plans[:1]) for pair in plan.pairs)
    return {version: PALETTE[i % len(PALETTE)] for i, version in enumerate(dict.fromkeys((*used, *planned)))}


def thinned(rows: Sequence[T], most: int = MOST_POINTS) -> list[T]:
    """At most `most` of `rows`, evenly, the first and the last among them."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(i * (len(rows) - 1) / (most - 1))] for i in range(most)]


def _name(pair: Pair) -> str:
    words = str(pair)
    return words if len(words) <= LONGEST else words[:LONGEST] + "…"


def _legs(canvas: Canvas, view: RunView, x: AxisScale, colours: dict[str, str]) -> None:
    canvas.text((LEFT - 10, BAR_Y + BAR_H / 2 + 4), "legs", fill=MUTED, anchor="end")
    bars = [
        Bar(
            x(leg.start_s),
            x(leg.end_s),
            f"{_name(leg.pair)} ×{len(leg.epochs)}",
            colours[leg.pair.version],
            _tip(view, leg),
        )
        for leg in thinned(view.legs, 120)
    ]
    draw_bars(canvas, bars, top=BAR_Y, height=BAR_H, edge=WIDTH - RIGHT)
    for hand in thinned(view.handovers, 120):
        canvas.handover(x(hand.at_s), BAR_Y + BAR_H, ENERGY_Y + ENERGY_H)


def _tip(view: RunView, leg: LegView) -> str:
    cost, asked = leg.cost, view.asked
    energy, time = say_energy(cost.energy_j, asked.energy_unit), say_time(cost.elapsed_s, asked.time_unit)
    return f"{_name(leg.pair)}: epochs {leg.first_epoch}-{leg.last_epoch}, {energy}, {time}, loss {leg.loss:.4g}"


def _loss(canvas: Canvas, view: RunView, x: AxisScale, colours: dict[str, str], first: PlanView | None) -> None:
    rows = thinned(view.epochs)
    y = _loss_scale(view, rows, first)
    canvas.value_axis(y, LEFT, WIDTH - RIGHT, 6)
    canvas.text((LEFT - 8, LOSS_Y - 8), view.asked.metric, fill=MUTED, anchor="end")
    if first and first.times_s:
        planned = [
            (x(t), y(v)) for t, v in thinned(list(zip(first.times_s, first.losses, strict=False))) if math.isfinite(t)
        ]
        canvas.path([(x(0.0), y(first.start_loss or y.high)), *planned], stroke=FIRST, width=1.5, dash="5 4")
    for leg in legs_of(rows):  # a band for each leg: between legs the loss jumps
        known = [
            (x(e.end_s), e.predicted)
            for e in leg.epochs
            if e.predicted.loss is not None and e.predicted.guaranteed is not None
        ]
        if len(known) > 1:
            lower = [(at, y(promised.loss or 0.0)) for at, promised in known]
            upper = [(at, y(promised.guaranteed or 0.0)) for at, promised in known]
            canvas.area([*lower, *reversed(upper)], fill=BAND, opacity=0.4)
            canvas.path(upper, stroke=BAND_EDGE, width=1)
        elif known:
            at, promised = known[0]
            canvas.line((at, y(promised.loss or 0.0)), (at, y(promised.guaranteed or 0.0)), stroke=BAND, width=5)
    measured = [(x(0.0), y(view.initial_loss))] if view.initial_loss is not None else []
    canvas.path([*measured, *_measured(view, rows, x, y)], stroke=INK, width=1.8)
    for epoch in thinned(view.undone, 60):
        canvas.dot((x(epoch.end_s), y(epoch.loss)), fill=BAD, hollow=True, tip=f"{_said(epoch)}, undone")
    for epoch in rows:
        radius = 3.2 if len(rows) < 90 else 2
        canvas.dot((x(epoch.end_s), y(epoch.loss)), fill=colours[epoch.pair.version], radius=radius, tip=_said(epoch))
    if view.asked.loss is not None:
        canvas.target(y, view.asked.loss, LEFT, WIDTH - RIGHT, colour=GOOD if view.status == "met" else BAD)


def _loss_scale(view: RunView, rows: list[EpochView], first: PlanView | None) -> AxisScale:
    seen = [view.asked.loss or 0.0, view.initial_loss or 0.0, *(e.loss for e in rows)]
    seen += [e.predicted.guaranteed for e in rows if e.predicted.guaranteed is not None]
    seen += [v for v in (first.losses if first else ()) if math.isfinite(v)]
    seen += [h.loss_after for h in view.handovers if h.loss_after is not None]
    return AxisScale(0.0, max(seen) * 1.05 or 1.0, LOSS_Y + LOSS_H, LOSS_Y)


def _measured(view: RunView, rows: list[EpochView], x: AxisScale, y: AxisScale) -> list[Point]:
    """The losses after each epoch, and the jump seen by a forward pass after each handover."""
    jumps = {h.epoch: h for h in view.handovers if h.loss_after is not None}
    points: list[Point] = []
    for epoch in rows:
        hand = jumps.get(epoch.epoch)
        if hand is not None and hand.loss_after is not None:
            points.append((x(hand.at_s + (hand.elapsed_s or 0.0)), y(hand.loss_after)))
        points.append((x(epoch.end_s), y(epoch.loss)))
    return points


def _said(epoch: EpochView) -> str:
    limit = epoch.predicted.guaranteed
    return f"epoch {epoch.epoch}, {_name(epoch.pair)}: {epoch.loss:.4g}" + (
        f" (promised {limit:.4g})" if limit is not None else ""
    )


def _legend(canvas: Canvas, view: RunView, right: float) -> None:
    level = next((p.level for p in view.plans if p.level), None)
    rows = ["measured after each epoch", f"promised before it{f', at {say_share(level)}' if level else ''}"]
    rows += ["first plan, expected"] if view.plans and view.plans[0].times_s else []
    rows += ["undone by a roll-back"] if view.undone else []
    wide, top = max(text_width(words, 12) for words in rows), LOSS_Y + 18
    left = right - wide - 50
    canvas.rect(left - 8, top - 15, wide + 54, 20 * len(rows) + 4, fill=PAPER, opacity=0.9)
    for row, words in enumerate(rows):
        at = top + 20 * row
        canvas.text((left + 34, at), words)
        if row == 0:
            canvas.line((left, at - 4), (left + 26, at - 4), stroke=INK, width=1.8)
            canvas.dot((left + 13, at - 4), fill=INK)
        elif row == 1:
            canvas.rect(left, at - 10, 26, 11, fill=BAND, opacity=0.45)
        elif words.startswith("first"):
            canvas.line((left, at - 4), (left + 26, at - 4), stroke=FIRST, width=1.5, dash="5 4")
        else:
            canvas.dot((left + 13, at - 4), fill=BAD, hollow=True)


def _energy(canvas: Canvas, view: RunView, x: AxisScale, colours: dict[str, str], first: PlanView | None) -> None:
    unit = view.asked.energy_unit
    planned = [(t, v) for t, v in zip(first.times_s, first.energies_j, strict=False)] if first else []
    planned = [(t, v) for t, v in planned if math.isfinite(t) and math.isfinite(v)]
    top = max(view.totals.useful_j, *(v for _, v in planned), 1e-9) if planned else max(view.totals.useful_j, 1e-9)
    y = AxisScale(0.0, top * 1.12, ENERGY_Y + ENERGY_H, ENERGY_Y)
    canvas.value_axis(y, LEFT, WIDTH - RIGHT, 3, lambda value: say_energy(value, unit))
    canvas.text((LEFT, ENERGY_Y - 10), "useful energy so far", fill=MUTED, halo=True)
    base, spent = y(0.0), 0.0
    for leg in view.legs:
        points = [(leg.start_s, spent)]
        for epoch in leg.epochs:
            spent += epoch.energy_j
            points.append((epoch.end_s, spent))
        drawn = [(x(t), y(v)) for t, v in thinned(points, max(2, MOST_POINTS // len(view.legs)))]
        colour = colours[leg.pair.version]
        canvas.area([*drawn, (drawn[-1][0], base), (drawn[0][0], base)], fill=colour, opacity=0.3)
        canvas.path(drawn, stroke=colour)
    if planned:
        canvas.path([(x(0.0), base), *((x(t), y(v)) for t, v in thinned(planned))], stroke=FIRST, width=1.5, dash="5 4")
    words = say_energy(spent, unit)
    canvas.text((x(view.epochs[-1].end_s) - 6, y(spent) - 6), words, anchor="end", bold=True, halo=True)


def _axes(canvas: Canvas, view: RunView, x: AxisScale) -> None:
    base, unit = ENERGY_Y + ENERGY_H, view.asked.time_unit
    for at in (base, LOSS_Y + LOSS_H):
        canvas.line((LEFT, at), (WIDTH - RIGHT, at), stroke=MUTED)
    canvas.time_axis(x, base, unit)
    words = f"time on the {view.clock} clock" + ("" if unit in {"s", ""} else f", {unit}")
    canvas.text(((LEFT + WIDTH - RIGHT) / 2, base + 40), words, fill=MUTED, anchor="middle")
