"""The trade-off front cut to what fits a page: losses x deadlines -> least energy, and the ways to the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.explain import say_energy, say_share
from ..core.plan import finite
from .canvas import MUTED, PALETTE, AxisScale, Canvas

if TYPE_CHECKING:
    from ..planners.front import Front

MOST_WAYS, COLUMNS = 12, 6
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860.0, 480.0, 90.0, 170.0, 70.0, 60.0


@dataclass(frozen=True)
class FrontView:
    """`energy_j[i][j]` is the least energy that reaches `losses[i]` by `deadlines_s[j]`; infinity when nothing does."""

    problem: str
    level: str
    target_loss: float
    losses: tuple[float, ...]
    deadlines_s: tuple[float, ...]
    energy_j: tuple[tuple[float, ...], ...]
    ways: tuple[tuple[float, float, str], ...]
    curves: tuple[tuple[tuple[float, float], ...], ...]
    complete: bool
    energy_unit: str
    time_unit: str

    @property
    def how(self) -> str:
        """What `level` means."""
        if self.level == "expected":
            return "if losses fall as expected"
        return f"reached with {say_share(float(self.level))} probability"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; infinity becomes None (docs/formats.md, front)."""
        return {
            "schema": "relaytrain.front/1",
            "problem": self.problem,
            "level": self.level,
            "target_loss": self.target_loss,
            "losses": list(self.losses),
            "deadlines_s": [finite(value) for value in self.deadlines_s],
            "energy_j": [[finite(value) for value in row] for row in self.energy_j],
            "ways": [{"deadline_s": t, "energy_j": e, "legs": legs} for t, e, legs in self.ways],
            "complete": self.complete,
            "units": {"energy": self.energy_unit, "time": self.time_unit},
        }


def front_view(
    front: Front, *, level: str, losses: Sequence[float] = (), deadlines_s: Sequence[float] = ()
) -> FrontView:
    """A readable part of `front`: the losses and deadlines asked for, or some between start and target that tell."""
    problem = front.problem
    goal, start = problem.target.loss, problem.initial_loss
    if not losses:
        top = max(min(start, goal * 3 if goal > 0 else start), goal)
        losses = sorted({goal + (top - goal) * share for share in (0.0, 0.1, 0.25, 0.5, 1.0)})
    curves = [tuple((t, e) for t, e, _ in front.curve(loss)) for loss in losses]
    if not deadlines_s:
        reached = next((curve for curve in curves if curve), ())
        quick, cheap = (reached[0][0], reached[-1][0]) if reached else (0.0, 0.0)
        low = min((curve[0][0] for curve in curves if curve), default=0.0)
        spots = [low + (quick - low) * i / 2 for i in range(2)] + [quick + (cheap - quick) * i / 3 for i in range(4)]
        # rounded up, so that what is written as the deadline is enough
        deadlines_s = sorted({math.ceil(v * 100 - 1e-9) / 100 for v in spots})[-COLUMNS:]
    energy = tuple(tuple(front.energy(loss, deadline) for deadline in deadlines_s) for loss in losses)
    ways = front.curve(goal)
    if len(ways) > MOST_WAYS:
        ways = [ways[round(i * (len(ways) - 1) / (MOST_WAYS - 1))] for i in range(MOST_WAYS)]
    return FrontView(
        problem=problem.name,
        level=level,
        target_loss=goal,
        losses=tuple(losses),
        deadlines_s=tuple(deadlines_s),
        energy_j=energy,
        ways=tuple(ways),
        curves=tuple(curves),
        complete=front.complete,
        energy_unit=problem.units.energy,
        time_unit=problem.units.time,
    )


def front_svg(view: FrontView) -> str:
    """Least energy against the deadline, one staircase a loss, as a self-contained SVG text."""
    canvas = Canvas(WIDTH, HEIGHT, f"RelayTrain front for {view.problem}")
    canvas.text((LEFT, 30), f"{view.problem}: what a deadline and a loss cost", size=18, bold=True)
    canvas.text((LEFT, 50), f"least energy by the deadline allowed, {view.how}", size=12.5, fill=MUTED)
    curves = [(loss, curve) for loss, curve in zip(view.losses, view.curves, strict=True) if curve]
    if not curves:
        canvas.text((LEFT, 90), "nothing is reached by the deadline")
        return canvas.svg()
    times = [t for _, curve in curves for t, _ in curve] + [t for t in view.deadlines_s if math.isfinite(t)]
    energies = [e for _, curve in curves for _, e in curve]
    x = AxisScale(0.0, max(*times, 1e-9) * 1.05, LEFT, WIDTH - RIGHT)
    y = AxisScale(0.0, max(*energies, 1e-9) * 1.05, HEIGHT - BOTTOM, TOP)
    canvas.value_axis(y, LEFT, WIDTH - RIGHT, 6, lambda value: say_energy(value, view.energy_unit))
    base = HEIGHT - BOTTOM
    canvas.line((LEFT, base), (WIDTH - RIGHT, base), stroke=MUTED)
    canvas.time_axis(x, base, view.time_unit, about=7, marks=False)
    unit = "" if view.time_unit in {"s", ""} else f", {view.time_unit}"
    canvas.text(((LEFT + WIDTH - RIGHT) / 2, base + 42), f"deadline{unit}", fill=MUTED, anchor="middle")
    labels = sorted(((y(curve[-1][1]), loss, position) for position, (loss, curve) in enumerate(curves)), reverse=True)
    lowest = math.inf
    for at, loss, position in labels:  # labels keep a line's distance from each other
        lowest = min(at, lowest - 16)
        words = f"loss {loss:.3g}" + (" (target)" if loss == view.target_loss else "")
        canvas.text((WIDTH - RIGHT + 8, lowest + 4), words, fill=PALETTE[position % len(PALETTE)], bold=True)
    for position, (_, curve) in enumerate(curves):
        points = [(x(curve[0][0]), y(curve[0][1]))]
        for t, e in curve[1:]:
            points += [(x(t), points[-1][1]), (x(t), y(e))]
        points.append((WIDTH - RIGHT, points[-1][1]))
        canvas.path(points, stroke=PALETTE[position % len(PALETTE)])
    return canvas.svg()
