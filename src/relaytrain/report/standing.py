"""How a run stands now, in one line: how sure it is, what it will still take, and what comes next."""

from __future__ import annotations

import math

from ..core.explain import say_energies, say_energy, say_share, say_time
from .plan_view import PlanView
from .run_view import RunView
from .verdict import verdict_of


def standing_line(view: RunView) -> str:
    """`94% sure to reach 0.28 in time; 38 J to go (12 to 90), 8m48 left of 10m00, emulated; next: S at ~k 31`."""
    plan = view.plans[-1] if view.plans else None
    if view.status != "running" or plan is None:
        return verdict_of(view).sentence
    parts = [_sure(view, plan), f"{_to_go(view, plan)}, {_left(view)}"]
    ahead = [(epoch, pair) for epoch, pair in plan.handovers() if epoch > len(view.epochs)]
    if ahead:
        parts.append(f"next: {ahead[0][1]} at ~epoch {ahead[0][0]}")
    return "; ".join(parts) + "."


def _sure(view: RunView, plan: PlanView) -> str:
    goal = "the target" if view.asked.loss is None else f"{view.asked.metric} {view.asked.loss:g}"
    if plan.guess:
        return f"A guess: nothing is known of these losses but what this run has shown, on the way to {goal}"
    if not plan.feasible:
        return f"No plan reaches {goal} in time any more; going on as well as possible"
    return f"{say_share(plan.sure or 0.0)} sure to reach {goal} in time"


def _to_go(view: RunView, plan: PlanView) -> str:
    unit = view.asked.energy_unit
    low, middle, high = plan.to_go_j
    if math.isfinite(middle) and math.isfinite(low) and math.isfinite(high):
        said, least, most = say_energies((middle, low, high), unit)
        return f"{said} to go ({least} to {most} in 8 of 10)"
    return f"{say_energy(plan.energy_j, unit)} to go" if plan.energy_j is not None else "energy to go unknown"


def _left(view: RunView) -> str:
    unit, left_s = view.asked.time_unit, view.asked.deadline_s - view.elapsed_s
    if not math.isfinite(left_s):
        return f"{say_time(view.elapsed_s, unit)} of {view.clock} time used, no deadline"
    if left_s < 0:
        return f"{say_time(-left_s, unit)} of {view.clock} time too late"
    return f"{say_time(left_s, unit)} of {view.clock} time left of {say_time(view.asked.deadline_s, unit)}"
