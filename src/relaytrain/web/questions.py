"""Plans for other targets, as the pages show them: the answer, its legs, what else was possible, and its picture."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup

from ..core.explain import (
    answer,
    say_choices,
    say_end,
    say_energy,
    say_nearest,
    say_share,
    say_short,
    say_sure,
    say_time,
)
from ..core.plan import Json, Plan
from ..relay.what_if import WhatIf
from ..report.canvas import PALETTE
from ..report.plan_svg import plan_svg


def plan_words(plan: Plan) -> Json:
    """A plan in words and rows."""
    energy, time = plan.energy_unit, plan.time_unit
    versions = list(dict.fromkeys(leg.version for leg in plan.legs))
    into = {hand.epoch: hand for hand in plan.handovers}
    legs = []
    for leg in plan.legs:
        hand = into.get(leg.first_epoch)
        legs.append(
            {
                "pair": f"{leg.version} on {leg.nodes}",
                "colour": PALETTE[versions.index(leg.version) % len(PALETTE)],
                "epochs": f"{leg.first_epoch}–{leg.last_epoch}",
                "energy": say_energy(leg.energy_j, energy),
                "time": say_time(leg.elapsed_s, time),
                "loss": f"{leg.loss:.4g}",
                "handover": ""
                if hand is None
                else f"loss {hand.loss_change:+.3g}, {say_energy(hand.energy_j, energy)}, "
                f"{say_time(hand.elapsed_s, time)}",
            }
        )
    facts = [say_end(plan), *say_choices(plan), say_sure(plan)] if plan.decisions else []
    short = say_short(plan) if plan.feasible and not plan.met and not plan.guess else ""
    least_j = plan.energy_j
    return {
        "answer": answer(plan).replace(" -> ", " → "),
        "tone": "good" if plan.met else "open" if plan.guess or plan.feasible else "bad",
        "word": "as sure as asked"
        if plan.met
        else "a guess"
        if plan.guess
        else "less sure than asked"
        if plan.feasible
        else "infeasible",
        "short": short,
        "sure": "" if plan.guess else say_share(plan.sure, 1),
        "energy": say_energy(plan.energy_j, energy) if plan.decisions else "",
        "end": say_time(plan.elapsed_s, time) if plan.decisions else "",
        "planner": plan.planner,
        "legs": legs,
        "facts": [words for words in facts if words],
        "alternatives": [
            {
                "name": other.name,
                "energy": "impossible" if other.energy_j is None else say_energy(other.energy_j, energy),
                "over": _over(other.energy_j, least_j),
                "time": "" if other.elapsed_s is None else say_time(other.elapsed_s, time),
                "reason": other.reason,
                "possible": other.energy_j is not None,
            }
            for other in plan.alternatives
        ],
        "nearest": say_nearest(((n.loss, n.deadline_s) for n in plan.nearest), time),
        "warnings": list(plan.warnings),
    }


def plan_parts(plan: Plan) -> Json:
    """The same with its picture."""
    return {
        "plan": plan_words(plan),
        "picture": Markup(plan_svg(plan, headed=False)),
    }  # the canvas escapes its own strings


def _over(energy_j: float | None, least_j: float) -> str:
    if energy_j is None or not (math.isfinite(least_j) and least_j > 0):
        return ""
    return f"{energy_j / least_j - 1.0:+.0%}"


def sliders(question: WhatIf, chosen: dict[str, float | None]) -> list[Json]:
    """The three figures that may be moved: range, present value, and what the run asks."""
    own, state = question.problem.target, question.state
    unit = question.problem.units.time
    loss = _given(chosen["loss"], own.loss)
    losses = min(own.loss, loss) * 0.4, max(state.loss, own.loss * 1.5, loss, 1e-9)
    left_s = state.elapsed_s
    end_s = own.deadline_s if math.isfinite(own.deadline_s) else left_s + 2000 * _epoch_s(question)
    deadline_s = _given(chosen["deadline"], own.deadline_s)
    high = max(end_s * 2.0 - left_s, deadline_s if math.isfinite(deadline_s) else 0.0, left_s + 1e-6)
    shown = deadline_s if math.isfinite(deadline_s) else high
    low = min(left_s + _epoch_s(question), shown)
    sure = _given(chosen["probability"], own.probability)
    return [
        _slider("loss", "target loss", losses, loss, f"{own.loss:g}"),
        _slider("probability", "probability", (0.5, 0.999), sure, say_share(own.probability)),
        _slider("deadline", f"deadline, {unit or 'time'}", (low, high), shown, say_time(own.deadline_s, unit)),
    ]


def _epoch_s(question: WhatIf) -> float:
    seconds = question.costs.epoch_s[question.state.pair]
    finite = seconds[[math.isfinite(value) for value in seconds]]
    return float(finite.min()) if len(finite) else 1.0


def _given(value: float | None, own: float) -> float:
    return own if value is None else value


def _slider(name: str, label: str, span: tuple[float, float], value: float, asked: str) -> Json:
    low, high = span
    return {
        "name": name,
        "label": label,
        "low": _plain(low),
        "high": _plain(high),
        "value": _plain(value),
        "asked": asked,
    }


def _plain(value: float) -> str:
    return f"{value:.7g}"


def asked_of(**values: Any) -> dict[str, float | None]:
    """What was asked for, by the names of the sliders."""
    return {key: None if value is None else float(value) for key, value in values.items()}
