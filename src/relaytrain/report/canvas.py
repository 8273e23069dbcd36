"""A very small SVG canvas: shapes and text on a light background, every string escaped, no outside resource."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Literal

from ..core.explain import say_time

Point = tuple[float, float]
Say = Callable[[float], str]

INK, MUTED, FAINT, PAPER = "#1f2933", "#52606d", "#d9e2ec", "#ffffff"
GOOD, BAD = "#1b7f4b", "#c0392b"
# After Okabe and Ito, told apart also with colour-vision deficiency; darkened so that white text can stand on them.
PALETTE = ("#0072b2", "#b8500a", "#00795a", "#8e4a86", "#7a6a00", "#2f4858", "#a11d50", "#4b6cb7")
FAR = 1.6
"""A deadline further than this many times what is drawn is named, not drawn: it would squeeze the rest."""
FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"


def clean(text: str) -> str:
    """Text fit for XML: control characters dropped, the rest escaped."""
    return escape("".join(c for c in text if c >= " " and not 0xD800 <= ord(c) <= 0xDFFF and c not in "\ufffe\uffff"))


def text_width(text: str, size: float) -> float:
    """About how wide `text` is; good enough to decide whether a label fits."""
    return sum(0.95 if ord(c) > 0x2E7F else 0.34 if c in " .,:;'|ilI()" else 0.6 for c in text) * size


def ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Round values between `low` and `high`."""
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low]
    power = 10.0 ** math.floor(math.log10(span / about))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if span / (m * power) <= about + 1e-9)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def clock_ticks(low: float, high: float, about: int = 7) -> list[float]:
    """Round times in seconds: halves and whole minutes, hours and days instead of powers of ten."""
    span = high - low
    steps = (30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800)
    step = next((step for step in steps if span / step <= about), 0)
    if span < 120 or not step:
        return ticks(low, high, about)
    return [float(i * step) for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class AxisScale:
    """Values from `low` to `high` laid out from `start` to `end`, kept within."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where `value` lies."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


class Canvas:
    """Collects elements and writes them as one SVG text."""

    def __init__(self, width: float, height: float, title: str, *, top: float = 0.0) -> None:
        """What lies above `top` is not shown."""
        self.width, self.height, self.title, self.top = width, height, title, top
        self._parts: list[str] = []

    def _add(self, tag: str, inside: str = "", **attributes: str | float) -> None:
        """An element; underscores in names stand for hyphens, numbers are rounded to hundredths."""
        words = "".join(
            f' {name.replace("_", "-")}="{value if isinstance(value, str) else format(round(value, 2), "g")}"'
            for name, value in attributes.items()
            if value != ""
        )
        self._parts.append(f"<{tag}{words}>{inside}</{tag}>" if inside else f"<{tag}{words}/>")

    def rect(self, x: float, y: float, w: float, h: float, *, fill: str, opacity: float = 1.0, tip: str = "") -> None:
        """A filled rectangle, with a tooltip where the viewer shows one."""
        inside = f"<title>{clean(tip)}</title>" if tip else ""
        self._add("rect", inside, x=x, y=y, width=max(w, 0.0), height=max(h, 0.0), fill=fill, fill_opacity=opacity)

    def line(self, start: Point, end: Point, *, stroke: str = FAINT, width: float = 1, dash: str = "") -> None:
        """A straight line."""
        (x1, y1), (x2, y2) = start, end
        self._add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, stroke_width=width, stroke_dasharray=dash)

    def path(self, points: list[Point], *, stroke: str, width: float = 2, dash: str = "") -> None:
        """A polyline."""
        corners = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
        look = {"fill": "none", "stroke_linejoin": "round", "stroke": stroke}
        self._add("polyline", points=corners, **look, stroke_width=width, stroke_dasharray=dash)

    def dot(self, at: Point, *, fill: str, radius: float = 3, hollow: bool = False, tip: str = "") -> None:
        """A round marker; a hollow one is drawn in outline."""
        inside = f"<title>{clean(tip)}</title>" if tip else ""
        look = {"fill": PAPER, "stroke": fill} if hollow else {"fill": fill}
        self._add("circle", inside, cx=at[0], cy=at[1], r=radius, **look)

    def area(self, points: list[Point], *, fill: str, opacity: float = 1.0) -> None:
        """A filled polygon."""
        self._add("polygon", points=" ".join(f"{x:.2f},{y:.2f}" for x, y in points), fill=fill, fill_opacity=opacity)

    def text(
        self,
        at: Point,
        words: str,
        *,
        size: float = 12,
        fill: str = INK,
        anchor: Literal["start", "middle", "end"] = "start",
        bold: bool = False,
        halo: bool = False,
    ) -> None:
        """One line of text; `halo` keeps it readable over lines."""
        extra: dict[str, str | float] = {"text_anchor": anchor, "font_weight": "600" if bold else ""}
        if halo:
            extra |= {"stroke": PAPER, "stroke_width": 3, "paint_order": "stroke", "stroke_linejoin": "round"}
        self._add("text", clean(words), x=at[0], y=at[1], font_size=size, fill=fill, **extra)

    def value_axis(self, y: AxisScale, left: float, right: float, about: int, say: Say = "{:g}".format) -> None:
        """About so many lines across, each with its value to the left."""
        for value in ticks(0.0, y.high, about):
            self.line((left, y(value)), (right, y(value)))
            self.text((left - 8, y(value) + 4), say(value), size=11, fill=MUTED, anchor="end")

    def time_axis(self, x: AxisScale, base: float, unit: str, *, about: int = 8, marks: bool = True) -> None:
        """Times below the line at `base`, in minutes and hours where the unit is seconds."""
        for value in clock_ticks(x.low, x.high) if unit == "s" else ticks(x.low, x.high, about):
            if marks:
                self.line((x(value), base), (x(value), base + 5), stroke=MUTED)
            words = say_time(value) if unit == "s" else f"{value:g}"
            self.text((x(value), base + 18), words, size=11, fill=MUTED, anchor="middle")

    def handover(self, at: float, top: float, bottom: float) -> None:
        """A handover: a mark below the legs that end at `top`, and a dotted line down to `bottom`."""
        self.line((at, top), (at, bottom), stroke="#9aa5b1", dash="2 3")
        self.area([(at - 5, top + 9), (at + 5, top + 9), (at, top + 1)], fill=INK)

    def target(self, y: AxisScale, loss: float, left: float, right: float, *, colour: str) -> None:
        """The loss to reach: a line across with its name above."""
        at = y(loss)
        self.line((left, at), (right, at), stroke=colour, width=1.6, dash="7 4")
        self.text((left + 6, at - 6), f"target {loss:g}", fill=colour, bold=True, halo=True)

    def deadline(
        self, x: AxisScale, deadline_s: float, unit: str, *, down: Point, name_y: float, far_y: float, size: float = 12
    ) -> None:
        """A deadline: a line `down` between two heights, named at `name_y`; beyond `x` its name alone, at `far_y`."""
        words = f"deadline {say_time(deadline_s, unit)}"
        if deadline_s <= x.high:
            at = x(deadline_s)
            self.line((at, down[0]), (at, down[1]), stroke=BAD, width=1.6, dash="7 4")
            if at - text_width(words, size) > x.start:
                self.text((at - (size - 7), name_y), words, size=size, fill=BAD, anchor="end", bold=True, halo=True)
            else:
                self.text((at + (size - 7), name_y), words, size=size, fill=BAD, bold=True, halo=True)
        elif math.isfinite(deadline_s):
            self.text((x.end, far_y), f"{words} →", fill=MUTED, anchor="end")

    def svg(self) -> str:
        """The whole picture."""
        w, h = f"{self.width:g}", f"{self.height - self.top:g}"
        size = f'viewBox="0 {self.top:g} {w} {h}" width="{w}" height="{h}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">'
        below = f' y="{self.top:g}"' if self.top else ""
        paper = f'<rect{below} width="100%" height="100%" fill="{PAPER}"/>'
        return "\n".join([head, f"<title>{clean(self.title)}</title>", paper, *self._parts, "</svg>", ""])
