"""How a run ended, in one word, one colour and one or two sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..core.explain import figure_name, say_energy, say_share, say_time
from ..relay.going_on import go_on
from .audit_rates import wilson
from .event_fields import number, text, whole
from .happenings import failed_nodes, promises
from .run_view import RunView


class Verdict(NamedTuple):
    """`tone` is good, bad or open; `sentence` says by how much; `notes` are the run's own words."""

    word: str
    tone: str
    sentence: str
    notes: tuple[str, ...]


WORDS = {
    "met": ("target met", "good"),
    "missed": ("target missed", "bad"),
    "stopped": ("stopped", "open"),
    "failed": ("failed", "bad"),
    "running": ("running", "open"),
    "interrupted": ("interrupted", "open"),
}


RESUMABLE = ("stopped", "failed", "interrupted")


def verdict_of(view: RunView, store: Path | None = None) -> Verdict:
    """The verdict of a run, finished or not; `store` as for `go_on`."""
    word, tone = WORDS.get(view.status, (view.status, "open"))
    if view.status == "met" and view.asked.loss is None:
        word = "done"  # a run that was asked for its epochs alone
    parts = [_loss_words(view), _time_words(view), _energy_words(view), _broken_words(view), _failed_words(view)]
    sentence = "; ".join(part for part in parts if part) + "."
    if view.status in RESUMABLE:
        sentence += f" To go on: {go_on(view.run, view.started, store)}"
    notes = (view.verdict or {}).get("notes") or ()
    return Verdict(word, tone, sentence, tuple(text(note)[:400] for note in list(notes)[:20]))


def say_tested(verdict: Mapping[str, Any], metric: str = "loss") -> str:
    """What the test set said of the network at the end, in the target's metric first; nothing where it was not asked.

    `verdict`: the body of the event.
    """
    loss, accuracy, figure = (number(verdict.get(f"test_{name}")) for name in ("loss", "accuracy", "figure"))
    said = [] if figure is None or figure_name(metric) == "loss" else [f"test {metric} {figure:.4g}"]
    said += [] if loss is None else [f"loss {loss:.4g}" if said else f"test loss {loss:.4g}"]
    said += [] if loss is None or accuracy is None else [f"accuracy {accuracy:.1%}"]
    return ", ".join(said)


def say_sets(sets: Mapping[str, Any]) -> str:
    """Prediction sets in words: what was aimed at, their size, how often they hold the truth, and how sure that is."""
    level, coverage, size = (number(sets.get(key)) for key in ("level", "coverage", "mean_size"))
    count = whole(sets.get("judged_on"))
    if level is None or coverage is None or size is None or count is None:
        return ""
    low, high = wilson(round(coverage * count), count)
    held = f"the truth in {say_share(coverage, 1)} ({say_share(low, 1)} to {say_share(high, 1)})"
    return f"prediction sets for {say_share(level)}: {size:.2f} classes on average, {held} of {count} test images"


def _loss_words(view: RunView) -> str:
    asked = view.asked
    if view.loss is None:
        return "No loss is known yet"
    after = (
        f"after {len(view.epochs)} epoch{'s' * (len(view.epochs) != 1)}" if view.epochs else "before the first epoch"
    )
    words = f"{asked.on.capitalize()} {asked.metric} {view.loss:.4g} {after}"
    if asked.loss is None:
        return words
    gap = view.loss - asked.loss
    return f"{words}, {abs(gap):.3g} {'above' if gap > 1e-9 else 'below'} the target {asked.loss:g}"


def _time_words(view: RunView) -> str:
    unit, left_s = view.asked.time_unit, view.asked.deadline_s - view.elapsed_s
    used = say_time(view.elapsed_s, unit)
    if not math.isfinite(left_s):
        return f"{used}, no deadline"
    side = "to spare" if left_s >= 0 else "too late"
    return f"{used} of {say_time(view.asked.deadline_s, unit)} used, {say_time(abs(left_s), unit)} {side}"


def _broken_words(view: RunView) -> str:
    broken, judged = promises(view)
    return f"{broken} of {judged} epochs ended above their bound" if broken else ""


def _failed_words(view: RunView) -> str:
    counts = failed_nodes(view)
    named = ", ".join(f"{node} {count}" for node, count in list(counts.items())[:5])
    return f"nodes failed {sum(counts.values())} times ({named})" if counts else ""


def _energy_words(view: RunView) -> str:
    unit = view.asked.energy_unit
    words = f"{say_energy(view.totals.energy_j, unit)} spent"
    if view.totals.wasted_j > 0:
        words += f", {say_energy(view.totals.wasted_j, unit)} of it wasted"
    first = view.plans[0] if view.plans else None
    # a guess states no energy that a run could be held against
    if view.finished and first is not None and first.energy_j and first.epoch == 1 and not first.guess:
        change = view.totals.energy_j / first.energy_j - 1.0
        words += f" (first plan: {say_energy(first.energy_j, unit)}, {change:+.0%})"
    return words
