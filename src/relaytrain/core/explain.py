"""A plan in words: the answer in one sentence, the legs, the band, what was rejected, and the way out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

from .state import TOLERANCE

if TYPE_CHECKING:
    from .plan import Plan

OTHERS = "other choices for the next epoch, each with the best plan after it"
"""Above a plan's alternatives."""

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


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


def rounded_up(value: float) -> float:
    """The least number of four digits (whole above those) that is not below `value`, but for the tolerance."""
    if not math.isfinite(value) or value <= TOLERANCE:
        return max(value, 0.0) if math.isfinite(value) else value
    exact = Decimal(repr(float(value))) - Decimal(repr(0.9 * TOLERANCE))
    place = Decimal(1).scaleb(min(exact.adjusted() - 3, 0))
    return float(exact.quantize(place, ROUND_CEILING))


def say_by(value: float, unit: str = "s") -> str:
    """A time that may be typed in as a deadline: rounded up to four digits, the second, or the minute."""
    if not math.isfinite(value):
        return say_time(value, unit)
    if unit != "s":
        return f"{rounded_up(value):.10g}{' ' + unit if unit else ''}"
    if value < 120:
        return f"{rounded_up(value):g}s"
    minutes, seconds = divmod(math.ceil(value - 0.9 * TOLERANCE), 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02d}"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02d}m{seconds:02d}"
    hours, minutes = divmod(hours * 60 + minutes + (seconds > 0), 60)
    return f"{hours // 24}d{hours % 24:02d}h{minutes:02d}"


def say_nearest(nearest: Iterable[tuple[float, float]], time_unit: str = "s") -> str:
    """Targets in reach, each a loss with its deadline, in figures that may be typed in: none is rounded down."""
    return " or ".join(f"loss {rounded_up(loss):.10g} by {say_by(late_s, time_unit)}" for loss, late_s in nearest)


def say_energy(value: float, unit: str = "J") -> str:
    """Joules with a prefix that keeps the number short; other units stay plain numbers."""
    if not math.isfinite(value):
        return "infinite"
    if unit != "J":
        return f"{value:.4g}{' ' + unit if unit else ''}"
    for size, prefix in _PREFIXES:
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}J"
    return f"{value:.3g} J"


def say_energies(values: Sequence[float], unit: str = "J") -> list[str]:
    """Several energies, the first with its unit, the others as numbers in the same one."""
    first = say_energy(values[0], unit)
    size = next((size for size, prefix in _PREFIXES if unit == "J" and first.endswith(f" {prefix}J")), 1.0)
    digits = 3 if unit == "J" else 4
    return [first, *(f"{value / size:.{digits}g}" if math.isfinite(value) else "no end" for value in values[1:])]


def say_share(value: float, digits: int = 0) -> str:
    """A share in percent with as many digits as it takes: one below 1 never reads 100 %, one above 0 never 0 %."""
    for more in range(digits, 5):
        shown = round(100.0 * value, more)
        if (value >= 1.0 or shown < 100.0) and (value <= 0.0 or shown > 0.0):
            return f"{value:.{more}%}"
    return ">99.9999%" if value > 0.5 else "<0.0001%"


def say_failure(node: str, reason: str) -> str:
    """A failure in words; what is noted of the orchestrator itself is no node's fault."""
    return reason if node == "orchestrator" else f"node {node} failed: {reason}"


def figure_name(metric: str) -> str:
    """What a target's figure is called in a line: an error is said as a loss, any other metric by its name."""
    return "loss" if metric == "error" else metric


def say_handover(before: object, after: object, kind: str, losses: tuple[float, float], metric: str) -> str:
    """A handover that was made, and the target's figure before and after it."""
    return f"handover {before} -> {after} ({kind}), {figure_name(metric)} {losses[0]:.4g} -> {losses[1]:.4g}"


def say_rolled_back(epoch: int, reason: str, forbidden: Sequence[str] | None = None) -> str:
    """A roll-back, and which pair it forbids."""
    bans = f"; {forbidden[0]} on {forbidden[1]} is not used again" if forbidden else ""
    return f"rolled back to the end of epoch {epoch}: {reason}{bans}"


def say_infeasible(
    loss: float | None, deadline_s: float, nearest: Sequence[tuple[float, float]], time_unit: str = "s"
) -> str:
    """That no plan is left, and what would be in reach: losses, each with its deadline."""
    goal = "the target" if loss is None else f"loss {loss:g}"
    by = f" by {say_time(deadline_s, time_unit)}" if math.isfinite(deadline_s) else ""
    ways = say_nearest(nearest, time_unit)
    return f"no plan is feasible that reaches {goal}{by}" + (f"; nearest feasible: {ways}" if ways else "")


def say_met_before(target: float, initial_loss: float) -> str:
    """That there is nothing to train for."""
    return (
        f"the target {target:g} is met before training, by a loss of {initial_loss:.4g}: there is nothing to train for"
    )


def say_feasible(rung: float) -> str:
    """That there is a plan again."""
    return f"a plan is feasible again, {say_share(rung)} sure"


def answer(plan: Plan) -> str:
    """The plan in one sentence."""
    energy, time = say_energy(plan.energy_j, plan.energy_unit), say_time(plan.elapsed_s, plan.time_unit)
    goal = f"loss {plan.target_loss:g}"
    if not plan.decisions and plan.feasible:
        return f"Nothing to do: the loss is already {plan.start_loss:g}, the target {plan.target_loss:g}."
    if not plan.feasible:
        deadline = say_time(plan.deadline_s, plan.time_unit)
        levels = f"from {say_share(plan.asked)} down" + (" to 50%" if plan.asked > 0.5 else "")
        return f"Infeasible: no plan reaches {goal} by {deadline} at any level {levels}."
    if plan.guess:
        by = f" by {say_time(plan.deadline_s, plan.time_unit)}" if math.isfinite(plan.deadline_s) else ""
        legs = say_energy(math.fsum(leg.energy_j for leg in plan.legs), plan.energy_unit)
        return f"A guess, for nothing is known of these losses: {plan.summary()}, perhaps {legs}, for {goal}{by}."
    if plan.energy_interval_j is not None:
        low, high = say_energies(plan.energy_interval_j, plan.energy_unit)
        energy += f" ({low} to {high} in 8 of 10)"
    words = f"{plan.summary()}: {energy}, {say_share(plan.sure)} sure to reach {goal}"
    if math.isfinite(plan.deadline_s):
        words += f" by {say_time(plan.deadline_s, plan.time_unit)}"
    if plan.energy_interval_j is not None:
        return words + f" (half of the worlds by {time})."
    scatter = ""
    if plan.guaranteed_s is not None:
        scatter = f", {say_share(plan.rung)} sure by {say_time(plan.guaranteed_s, plan.time_unit)}"
    return words + f" (expected at {time}{scatter})."


def say_short(plan: Plan) -> str:
    """That a plan is less sure than was asked for."""
    asked, rung, most = say_share(plan.asked), say_share(plan.sure), plan.attainable
    if most is None:
        return f"Asked for {asked}, but this plan rests on {rung}; shown is the best effort."
    if most >= plan.asked - 1e-12:
        return f"Asked for {asked}, but this plan rests on {rung}; a plan for {asked} can be had, by pact."
    shown = "" if most <= plan.rung else f" for {rung}"
    return f"Asked for {asked}, but only {most:.1%} can be had; shown is the best effort{shown}."


def say_few_seeds(seeds: int, asked: float, stated: float) -> str | None:
    """Where the number of seeds is why a plan states less than was asked for: that, and how many would do."""
    coverage = seeds / (seeds + 1.0)
    share = stated / coverage
    if stated >= asked - 1e-12 or (share < asked <= coverage):
        return None
    whose = "1 seed" if seeds == 1 else f"{seeds} seeds"
    loss = f"no plan states more than {say_share(coverage, 1)}"
    need = f"more than {math.floor(asked / max(1.0 - asked, TOLERANCE) + TOLERANCE):,}"
    if share > asked:
        loss = f"{loss}, and this one, {say_share(share, 1)} sure in its worlds, {say_share(stated, 1)}"
        need = f"about {math.ceil(asked / (share - asked)):,} like them"
    return (
        f"what is believed of losses was fitted to {whose}, and one run in {seeds + 1} may be unlike all of them: "
        f"{loss}; for {say_share(asked)} it takes {need} (relaytrain atlas, relaytrain scout)"
    )


def say_end(plan: Plan) -> str:
    """The loss after the last epoch of a plan, expected and with its probability."""
    if plan.guess:
        return (
            f"after these epochs the loss may be {plan.losses[-1]:.2g} or so, or as high as {plan.guaranteed[-1]:.2g}"
        )
    if plan.energy_interval_j is not None:
        return f"after these epochs half of the worlds have met the target; median loss {plan.losses[-1]:.4g}"
    level, most = say_share(plan.rung or plan.asked), plan.guaranteed[-1]
    return f"after these epochs: expected loss {plan.losses[-1]:.4g}, with {level} probability at most {most:.4g}"


def say_sure(plan: Plan) -> str:
    """How probable it is that these very legs reach the target, under each assumption where there are several."""
    if plan.guess:
        if plan.energy_interval_j is None:
            return "every run plans again after each epoch, with what its own losses show"
        low, high = (say_energy(value, plan.energy_unit) for value in plan.energy_interval_j)
        return f"energy from {low} to {high} or more; a run plans again after each epoch, with what its own losses show"
    if plan.energy_interval_j is not None:
        return "probability and energy are over worlds drawn from what is believed, following this schedule"
    if not plan.probabilities:
        share = "all" if plan.probability >= 1.0 else f"{say_share(plan.probability)} of"
        return f"{share} sampled curves reach the target in time by these legs, without re-planning"
    ways = "; ".join(f"{say_share(value, 2)} with {name}" for name, value in plan.probabilities)
    return f"these legs reach the target, without re-planning, with probability {ways}"


def say_bound(plan: Plan) -> list[str]:
    """The proven bound, if there is one."""
    if plan.guess or not math.isfinite(plan.bound_j):
        return []
    best = plan.bounded.replace("allocation of", "the best allocation of")
    best = f"optimal {best.removeprefix('plan ')}" if best.startswith("plan ") else best
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
        lines += [] if plan.guess else [say_short(plan)]
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
        late = ", training on until the target is met" if plan.guaranteed[-1] > plan.target_loss + 1e-9 else ""
        lines.append(f"  {say_end(plan)}{late}")
        lines += [f"  {words}" for words in (*say_choices(plan), say_sure(plan), *say_bound(plan))]
        if math.isfinite(plan.deadline_s) and abs(plan.ahead) > 1e-9 and not plan.guess:
            side = "ahead of" if plan.ahead >= 0 else "behind"
            lines.append(f"  now {abs(plan.ahead):.3g} {side} the ideal curve (value {plan.value:.2f})")
    if plan.alternatives:
        lines += ["", f"{OTHERS}:"]
        for other in plan.alternatives:
            cost = "impossible" if other.energy_j is None else say_energy(other.energy_j, plan.energy_unit)
            late = "" if other.elapsed_s is None else f" by {say_time(other.elapsed_s, plan.time_unit)}"
            lines.append(f"  {other.name:<26} {cost}{late}{'  ' + other.reason if other.reason else ''}")
    if plan.nearest:
        ways = say_nearest(((n.loss, n.deadline_s) for n in plan.nearest), plan.time_unit)
        lines += ["", f"nearest feasible: {ways}"]
    lines += [f"warning: {text}" for text in plan.warnings]
    return "\n".join(lines)
