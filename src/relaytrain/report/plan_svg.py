"""One picture that explains a plan: who trains when, how the loss falls, what it costs.

::

    the answer in a sentence
    [ L on gold ][   M on silver      ][        S on bronze        ]     legs over time
    \\__ expected, band at the level, handover jumps ____ target         loss over time
    ____/----------- energy so far                                       energy over time
"""

from __future__ import annotations

import math
from html import escape
from itertools import pairwise

from ..core.explain import answer, say_energy, say_nearest, say_share, say_time
from ..core.plan import Leg, Plan
from .canvas import BAD, FAR, GOOD, INK, MUTED, PALETTE, PAPER, AxisScale, Canvas, text_width
from .leg_bars import Bar, draw_bars

WIDTH, LEFT, RIGHT = 960.0, 70.0, 30.0
BAR_Y, BAR_H = 118.0, 34.0
LOSS_Y, LOSS_H = 176.0, 250.0
ENERGY_Y, ENERGY_H = 462.0, 76.0
HEIGHT = 598.0
BAND = "#f0a35e"
Curve = list[tuple[float, float]]
"""Points of a picture."""


def plan_svg(plan: Plan, *, headed: bool = True) -> str:
    """The plan as a self-contained SVG text; `headed`: with its answer above, which a page says by itself."""
    if not plan.decisions:
        return _empty(plan)
    top = 0.0 if headed else BAR_Y - 44
    canvas = Canvas(WIDTH, HEIGHT, f"RelayTrain plan for {plan.problem}: {plan.summary()}", top=top)
    if headed:
        _heading(canvas, plan)
    first_s = plan.times_s[plan.legs[0].epochs - 1] - plan.legs[0].elapsed_s
    near = math.isfinite(plan.deadline_s) and plan.deadline_s - first_s <= FAR * (plan.elapsed_s - first_s)
    until = max(plan.elapsed_s, plan.deadline_s) if near else plan.elapsed_s
    x = AxisScale(first_s, first_s + (until - first_s) * 1.04 or 1.0, LEFT, WIDTH - RIGHT)
    starts = [first_s, *(plan.times_s[leg.last_epoch - plan.decisions[0].epoch] for leg in plan.legs)]
    versions = list(dict.fromkeys(leg.version for leg in plan.legs))
    colours = {version: PALETTE[i % len(PALETTE)] for i, version in enumerate(versions)}
    _legs(canvas, plan, x, starts, colours)
    _handovers(canvas, plan, x, first_s)
    curves = _loss(canvas, plan, x, first_s)
    _energy(canvas, plan, x, starts, colours)
    _time_axis(canvas, plan, x)
    down, far_y = (LOSS_Y, ENERGY_Y + ENERGY_H), ENERGY_Y + ENERGY_H + 38
    canvas.deadline(x, plan.deadline_s, plan.time_unit, down=down, name_y=LOSS_Y + LOSS_H - 10, far_y=far_y)
    beside = near and x(plan.deadline_s) > (LEFT + WIDTH) * 0.6
    _legend(canvas, plan, x(plan.deadline_s) - 8 if beside else WIDTH - RIGHT - 8, curves)
    return canvas.svg()


def plan_html(plan: Plan) -> str:
    """The plan for a notebook: the picture, and the plain explanation to unfold below it."""
    words = f'<pre style="white-space:pre-wrap">{escape(plan.explain())}</pre>'
    folded = f'<details><summary style="cursor:pointer">explanation</summary>{words}</details>'
    return f'<div style="max-width:{WIDTH:g}px;background:#fff;color:{INK}">{plan_svg(plan)}{folded}</div>'


def _empty(plan: Plan) -> str:
    canvas = Canvas(WIDTH, 120, f"RelayTrain plan for {plan.problem}")
    _heading(canvas, plan)
    return canvas.svg()


def _heading(canvas: Canvas, plan: Plan) -> None:
    verdict, colour = ("a plan as sure as asked", GOOD) if plan.met else ("best effort: less than was asked", BAD)
    verdict, colour = ("a guess", MUTED) if plan.guess else (verdict, colour)
    canvas.text((LEFT, 30), plan.problem, size=19, bold=True)
    canvas.text((WIDTH - RIGHT, 30), verdict, size=14, fill=colour, anchor="end", bold=True)
    if not plan.feasible and plan.nearest:
        ways = say_nearest(((n.loss, n.deadline_s) for n in plan.nearest), plan.time_unit)
        words = [answer(plan), f"Nearest feasible: {ways}."]
    else:
        words = _wrapped(answer(plan).replace(" -> ", " → "), 13, WIDTH - LEFT - RIGHT)
    for row, line in enumerate(words[:2]):
        canvas.text((LEFT, 52 + 17 * row), line, size=13, fill=MUTED)


def _wrapped(text: str, size: float, width: float) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    if len(lines) > 2:  # very long relays: the end of the sentence says more than its middle
        lines = [lines[0] + " ...", "... " + lines[-1]]
    return lines


def _legs(canvas: Canvas, plan: Plan, x: AxisScale, starts: list[float], colours: dict[str, str]) -> None:
    canvas.text((LEFT - 10, BAR_Y + BAR_H / 2 + 4), "legs", fill=MUTED, anchor="end")
    bars = [
        Bar(x(start), x(end), f"{leg.version} on {leg.nodes} ×{leg.epochs}", colours[leg.version], _tip(plan, leg))
        for leg, start, end in zip(plan.legs, starts, starts[1:], strict=False)
    ]
    draw_bars(canvas, bars, top=BAR_Y, height=BAR_H, edge=WIDTH - RIGHT)


def _tip(plan: Plan, leg: Leg) -> str:
    energy, time = say_energy(leg.energy_j, plan.energy_unit), say_time(leg.elapsed_s, plan.time_unit)
    epochs = f"epochs {leg.first_epoch}-{leg.last_epoch}"
    return f"{leg.version} on {leg.nodes}: {epochs}, {energy}, {time}, loss {leg.loss:.4g}"


def _handovers(canvas: Canvas, plan: Plan, x: AxisScale, first_s: float) -> None:
    for hand in plan.handovers:
        position = hand.epoch - plan.decisions[0].epoch
        at = x(plan.times_s[position - 1] if position else first_s)
        canvas.handover(at, BAR_Y + BAR_H, ENERGY_Y + ENERGY_H)


def _loss(canvas: Canvas, plan: Plan, x: AxisScale, first_s: float) -> tuple[Curve, ...]:
    """Losses expected and at the level; where they were drawn."""
    expected = [(first_s, plan.start_loss), *zip(plan.times_s, plan.losses, strict=True)]
    robust = [(first_s, plan.start_loss), *zip(plan.times_s, plan.guaranteed, strict=True)]
    seen = [v for _, v in (*expected, *robust) if math.isfinite(v)] + [plan.target_loss]
    y = AxisScale(0.0, max(seen) * 1.05 or 1.0, LOSS_Y + LOSS_H, LOSS_Y)
    canvas.value_axis(y, LEFT, WIDTH - RIGHT, 5)
    canvas.text((LEFT - 8, LOSS_Y - 10), "loss", fill=MUTED, anchor="end")
    drawn = [(x(t), y(v)) for t, v in expected if math.isfinite(v)]
    upper = [(x(t), y(v)) for t, v in robust if math.isfinite(v)]
    canvas.area([*drawn[: len(upper)], *reversed(upper)], fill=BAND, opacity=0.45)
    canvas.path(upper, stroke="#c76b15", width=1)
    canvas.path(drawn, stroke=INK, width=2.2)
    canvas.target(y, plan.target_loss, LEFT, WIDTH - RIGHT, colour=GOOD if plan.met else BAD)
    return drawn, upper


def _legend(canvas: Canvas, plan: Plan, right: float, curves: tuple[Curve, ...]) -> None:
    """In the upper corner, where losses have usually fallen by then; in the lower one where they have not."""
    more = ", then trains on" if plan.met and plan.guaranteed[-1] > plan.target_loss + 1e-9 else ""
    rows = [
        f"expected, ends at {plan.losses[-1]:.4g}",
        f"or as high as {plan.guaranteed[-1]:.2g}"
        if plan.guess or plan.energy_interval_j is not None  # a plan over worlds states one probability, and not here
        else f"with {say_share(plan.rung or plan.asked)} probability at most {plan.guaranteed[-1]:.4g}{more}",
        f"handover ({len(plan.handovers)})",
    ]
    wide, top = max(text_width(words, 12) for words in rows), LOSS_Y + 16
    left = right - wide - 44
    if any(_crosses(curve, left - 6, top + 49) for curve in curves):
        top = LOSS_Y + LOSS_H - 54
    canvas.rect(left - 6, top - 15, wide + 50, 64, fill=PAPER, opacity=0.85)
    canvas.line((left, top - 4), (left + 26, top - 4), stroke=INK, width=2.2)
    canvas.rect(left, top + 10, 26, 11, fill=BAND, opacity=0.45)
    canvas.area([(left + 8, top + 40), (left + 18, top + 40), (left + 13, top + 32)], fill=INK)
    for row, words in enumerate(rows):
        canvas.text((left + 34, top + 20 * row), words)


def _crosses(curve: Curve, left: float, bottom: float) -> bool:
    """Whether a curve enters the corner right of `left` and above `bottom`."""
    return any(after[0] >= left and min(before[1], after[1]) < bottom for before, after in pairwise(curve))


def _energy(canvas: Canvas, plan: Plan, x: AxisScale, starts: list[float], colours: dict[str, str]) -> None:
    on_path_j = sum(leg.energy_j for leg in plan.legs)  # `plan.energy_j` may be of all worlds
    before_j, plain = plan.energies_j[-1] - on_path_j, plan.energy_unit != "J"
    y = AxisScale(min(before_j, 0.0), max(*plan.energies_j, 0.0) * 1.1 or 1.0, ENERGY_Y + ENERGY_H, ENERGY_Y)
    canvas.value_axis(y, LEFT, WIDTH - RIGHT, 3, "{:g}".format if plain else say_energy)
    unit = f", {plan.energy_unit}" if plain and plan.energy_unit else ""
    canvas.text((LEFT, ENERGY_Y - 8), f"energy so far{unit}", fill=MUTED, halo=True)
    base, previous, offset = y(y.low), before_j, plan.decisions[0].epoch
    for leg, start in zip(plan.legs, starts, strict=False):
        rows = range(leg.first_epoch - offset, leg.last_epoch - offset + 1)
        points = [(x(start), y(previous)), *((x(plan.times_s[i]), y(plan.energies_j[i])) for i in rows)]
        canvas.area([*points, (points[-1][0], base), (points[0][0], base)], fill=colours[leg.version], opacity=0.3)
        canvas.path(points, stroke=colours[leg.version])
        previous = plan.energies_j[rows[-1]]
    end = (x(plan.elapsed_s) - 6, y(plan.energies_j[-1]) - 6)
    canvas.text(end, say_energy(plan.energies_j[-1], plan.energy_unit), anchor="end", bold=True, halo=True)


def _time_axis(canvas: Canvas, plan: Plan, x: AxisScale) -> None:
    base, end = ENERGY_Y + ENERGY_H, WIDTH - RIGHT
    canvas.line((LEFT, base), (end, base), stroke=MUTED)
    canvas.line((LEFT, LOSS_Y + LOSS_H), (end, LOSS_Y + LOSS_H), stroke=MUTED)
    canvas.time_axis(x, base, plan.time_unit)
    unit = "" if plan.time_unit in {"s", ""} else f", {plan.time_unit}"
    canvas.text(((LEFT + end) / 2, base + 38), f"time{unit}", fill=MUTED, anchor="middle")
