"""A plan in words: the answer in one sentence, the legs, the band, what was rejected, and the way out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .plan import Plan


def say_time(value: float, unit: str = "s") -> str:
    """Seconds as people say them ("7m40"); other units stay plain numbers."""
    if not math.isfinite(value):
        return "no deadline" if value > 0 else str(value)
    if unit != "s":
        return f"{value:.4g}{' ' + unit if unit else ''}"
    if value < 120:
        return f"{value:.3g}s"
    minutes, seconds = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02d}"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02d}"
    return f"{hours // 24}d{hours % 24:02d}h"


def say_energy(value: float, unit: str = "J") -> str:
    """Joules with a prefix that keeps the number short; other units stay plain numbers."""
    if not math.isfinite(value):
        return "infinite"
    if unit != "J":
        return f"{value:.4g}{' ' + unit if unit else ''}"
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}J"
    return f"{value:.3g} J"


def answer(plan: Plan) -> str:
    """The plan in one sentence."""
    energy, time = say_energy(plan.energy_j, plan.energy_unit), say_time(plan.elapsed_s, plan.time_unit)
    goal = f"loss {plan.target_loss:g}"
    if not plan.decisions and plan.feasible:
        return f"Nothing to do: the loss is already {plan.start_loss:g}, the target {plan.target_loss:g}."
    if not plan.feasible:
        deadline = say_time(plan.deadline_s, plan.time_unit)
        return f"Infeasible: no plan reaches {goal} by {deadline} at any level from {plan.asked:.0%} down."
    words = f"{plan.summary()}: {energy}, {plan.rung:.0%} sure to reach {goal}"
    if math.isfinite(plan.deadline_s):
        words += f" by {say_time(plan.deadline_s, plan.time_unit)}"
    scatter = (
        "" if plan.guaranteed_s is None else f", {plan.rung:.0%} sure by {say_time(plan.guaranteed_s, plan.time_unit)}"
    )
    return words + f" (expected at {time}{scatter})."


def say_sure(plan: Plan) -> str:
    """How probable it is that these very legs reach the target, under each assumption where there are several."""
    if not plan.probabilities:
        return f"{plan.probability:.0%} of sampled curves reach the target in time by these legs, without re-planning"
    ways = "; ".join(f"{value:.2%} with {name}" for name, value in plan.probabilities)
    return f"these legs reach the target, without re-planning, with probability {ways}"


def say_bound(plan: Plan) -> list[str]:
    """The proven bound, if there is one."""
    if not math.isfinite(plan.bound_j):
        return []
    best = plan.bounded.replace("plan under", "optimal under").replace("allocation of", "the best allocation of")
    proof = best if plan.gap <= 1e-6 else f"at most {plan.gap:.1%} above the optimum"
    return [f"no {plan.bounded} needs less than {say_energy(plan.bound_j, plan.energy_unit)} ({proof})"]


def say_choices(plan: Plan) -> list[str]:
    """Data and resources, where the plan chooses them."""
    words = []
    if any(d.datasets for d in plan.decisions):
        words.append("data: " + ", ".join(plan.decisions[0].datasets))
    shares = [d.resources for d in plan.decisions]
    if shares and min(shares) < 1.0 - 1e-9:
        lowest, highest = min(shares), max(shares)
        part = f"{lowest:.0%}" if highest - lowest < 0.005 else f"{lowest:.0%} to {highest:.0%}"
        words.append(f"resources: {part} of what the nodes have")
    return words


def explain(plan: Plan) -> str:
    """The whole explanation as plain text."""
    lines = [answer(plan)]
    if plan.decisions and not plan.feasible:
        ended = say_time(plan.elapsed_s, plan.time_unit)
        lines.append(f"Best effort: {plan.summary()}, ending at loss {plan.losses[-1]:.4g} after {ended}.")
    if plan.feasible and not plan.met:
        lines.append(f"Asked for {plan.asked:.0%}, but only {plan.rung:.0%} can be had; shown is the best effort.")
    if plan.decisions:
        lines += ["", f"planner {plan.planner}"]
        for leg in plan.legs:
            energy, time = say_energy(leg.energy_j, plan.energy_unit), say_time(leg.elapsed_s, plan.time_unit)
            lines.append(
                f"  {leg.version:>10} on {leg.nodes:<12} epochs {leg.first_epoch:>4}-{leg.last_epoch:<4} "
                f"{energy:>10} {time:>9}   loss -> {leg.loss:.4g}"
            )
        for hand in plan.handovers:
            lines.append(
                f"  handover before epoch {hand.epoch}: {hand.before} -> {hand.after}, loss {hand.loss_change:+.3g}, "
                f"{say_energy(hand.energy_j, plan.energy_unit)}, {say_time(hand.elapsed_s, plan.time_unit)}"
            )
        level = plan.rung or plan.asked
        late = ", training on until the target is met" if plan.guaranteed[-1] > plan.target_loss + 1e-9 else ""
        at_level = f"at level {level:.0%} {plan.guaranteed[-1]:.4g}{late}"
        lines.append(f"  after these epochs: expected loss {plan.losses[-1]:.4g}, {at_level}")
        lines += [f"  {words}" for words in (*say_choices(plan), say_sure(plan), *say_bound(plan))]
        if math.isfinite(plan.deadline_s) and abs(plan.ahead) > 1e-9:
            side = "ahead of" if plan.ahead >= 0 else "behind"
            lines.append(f"  now {abs(plan.ahead):.3g} {side} the ideal curve (value {plan.value:.2f})")
    if plan.alternatives:
        lines += ["", "instead, next:"]
        for other in plan.alternatives:
            cost = "impossible" if other.energy_j is None else say_energy(other.energy_j, plan.energy_unit)
            late = "" if other.elapsed_s is None else f" by {say_time(other.elapsed_s, plan.time_unit)}"
            lines.append(f"  {other.name:<26} {cost}{late}{'  ' + other.reason if other.reason else ''}")
    if plan.nearest:
        ways = " or ".join(f"{n.loss:.4g} by {say_time(n.deadline_s, plan.time_unit)}" for n in plan.nearest)
        lines += ["", f"nearest feasible: {ways}"]
    lines += [f"warning: {text}" for text in plan.warnings]
    return "\n".join(lines)
