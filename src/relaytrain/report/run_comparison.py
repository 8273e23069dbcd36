"""Several runs side by side: one column a run, one row a question."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..core.explain import say_energy, say_share, say_time
from .happenings import failed_nodes, promises
from .plan_view import say_pairs
from .run_sections import shortened
from .run_view import RunView
from .verdict import verdict_of


class ComparedRow(NamedTuple):
    """`cells` in the order of the runs; `best` is the place of the best one, where there is a best."""

    name: str
    cells: tuple[str, ...]
    best: int | None = None


def compared(views: Sequence[RunView]) -> list[ComparedRow]:
    """What sets the runs apart."""

    def row(name: str, say: Callable[[RunView], str], figure: Callable[[RunView], float | None] | None = None) -> None:
        known = [None if figure is None else figure(view) for view in views]
        finite = [value for value in known if value is not None and math.isfinite(value)]
        best = known.index(min(finite)) if len(set(finite)) > 1 else None
        rows.append(ComparedRow(name, tuple(say(view) for view in views), best))

    rows: list[ComparedRow] = []
    row("outcome", lambda v: verdict_of(v).word)
    row("target", lambda v: "" if v.asked.loss is None else f"{v.asked.metric} {v.asked.loss:g}")
    row("deadline", lambda v: say_time(v.asked.deadline_s, v.asked.time_unit))
    row("loss", lambda v: "" if v.loss is None else f"{v.loss:.4g}", lambda v: v.loss)
    row("energy", lambda v: say_energy(v.totals.energy_j, v.asked.energy_unit), _met(lambda v: v.totals.energy_j))
    row("of it wasted", lambda v: say_energy(v.totals.wasted_j, v.asked.energy_unit))
    row("time", lambda v: say_time(v.elapsed_s, v.asked.time_unit), _met(lambda v: v.elapsed_s))
    row("clock", lambda v: v.clock)
    row("epochs", lambda v: str(len(v.epochs)))
    row("relay", lambda v: shortened(say_pairs([e.pair for e in v.epochs])))
    row("first plan", lambda v: shortened(v.plans[0].summary()) if v.plans else "")
    row("its energy", _first_energy)
    row("stated probability", _stated)
    row("bounds kept", _kept)
    row("nodes failed", lambda v: str(sum(failed_nodes(v).values())))
    row("planner", lambda v: v.planner)
    row("seed", lambda v: str(v.started.get("seed", "")))
    return rows


def _met(figure: Callable[[RunView], float]) -> Callable[[RunView], float | None]:
    """Only runs that met their target compete: the cheapest way to miss it is to do nothing."""
    return lambda view: figure(view) if view.status == "met" else None


def _first_energy(view: RunView) -> str:
    first = view.plans[0] if view.plans else None
    return "" if first is None or first.energy_j is None else say_energy(first.energy_j, view.asked.energy_unit)


def _stated(view: RunView) -> str:
    first = view.plans[0] if view.plans else None
    if first is None or first.probability is None:
        return ""
    return "a guess" if first.guess else say_share(first.sure or 0.0, 1)


def _kept(view: RunView) -> str:
    broken, judged = promises(view)
    return f"{judged - broken} of {judged}" if judged else ""
