"""A comparison of planners in words: a row each, for terminals and notebooks alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..core.explain import say_energy, say_share, say_time

if TYPE_CHECKING:
    from ..api import Comparison

COLUMNS = ("planner", "energy", "over optimum", "time", "sure", "without re-planning", "relay")


class PlannerRow(NamedTuple):
    """One planner: its cells as of `COLUMNS`, and whether its plan meets what was asked."""

    cells: tuple[str, ...]
    met: bool


def comparison_rows(comparison: Comparison) -> Iterator[PlannerRow]:
    """A row a planner, the optimum first; `sure` when planning again, the next column without."""
    for name, plan in comparison.plans.items():
        ratio, known = comparison.ratio(name), plan.feasible and not plan.guess
        cells = (
            name,
            say_energy(plan.energy_j, plan.energy_unit) if plan.feasible else "-",
            "-" if ratio is None else f"{ratio:.3f}x",
            say_time(plan.elapsed_s, plan.time_unit) if plan.feasible else "-",
            say_share(plan.sure) if known else "-",
            say_share(plan.probability) if known else "-",
            plan.summary() if plan.feasible else "misses the target",
        )
        yield PlannerRow(cells, plan.met)


def comparison_notes(comparison: Comparison) -> list[str]:
    """What has to be said beside the rows."""
    warned: dict[str, list[str]] = {}
    for name, plan in comparison.plans.items():
        for words in plan.warnings if plan.feasible else ():
            warned.setdefault(words.replace(plan.planner, "its planner"), []).append(name)
    notes = [f"warning: {', '.join(names)}: {words}" for words, names in warned.items()]
    averaged = [name for name, plan in comparison.plans.items() if plan.feasible and plan.energy_interval_j]
    if averaged:
        notes.insert(0, f"{', '.join(averaged)}: mean energy over worlds, luck included; others: expected curves")
    return notes
