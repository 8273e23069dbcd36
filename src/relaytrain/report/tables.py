"""Results as rich tables, for terminals and, without lines and colours, for pipes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..core.explain import (
    OTHERS,
    answer,
    say_bound,
    say_choices,
    say_end,
    say_energy,
    say_nearest,
    say_short,
    say_sure,
    say_time,
)
from ..core.plan import Plan
from .comparison_rows import COLUMNS, comparison_notes, comparison_rows

if TYPE_CHECKING:
    from ..api import Comparison
    from ..planners.pipeline.keeping_plans import KeepingPlans
    from .front_view import FrontView


def table(columns: Sequence[str], *, numbers: Iterable[str] = ()) -> Table:
    """An empty table of the house: one rule under the head, `numbers` set to the right."""
    rows = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    right = set(numbers)
    for name in columns:
        rows.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return rows


def titled(title: str, rows: Table) -> Group:
    """A table under a line that, unlike a title of rich's, does not fold to the table's width."""
    return Group(Text(title, style="bold"), rows)


def plan_tables(plan: Plan) -> RenderableType:
    """A plan for a terminal: what `explain` says, as tables."""
    style = "bold green" if plan.met else "bold yellow" if plan.guess else "bold red"
    parts: list[RenderableType] = [Text(answer(plan), style=style)]
    if plan.decisions and not plan.feasible:
        end = f"ending at loss {plan.losses[-1]:.4g} after {say_time(plan.elapsed_s, plan.time_unit)}"
        parts.append(Text(f"Best effort: {plan.summary()}, {end}."))
    if plan.feasible and not plan.met and not plan.guess:
        parts.append(Text(say_short(plan)))
    if plan.decisions:
        parts += [Text(), titled(f"planner {plan.planner}", _legs(plan)), *_facts(plan)]
    if plan.alternatives:
        parts += [Text(), titled(OTHERS, _alternatives(plan))]
    if plan.nearest:
        ways = say_nearest(((n.loss, n.deadline_s) for n in plan.nearest), plan.time_unit)
        parts.append(Text(f"nearest feasible: {ways}", style="bold yellow"))
    parts += [Text(f"warning: {text}", style="yellow") for text in plan.warnings]
    return Group(*parts)


def _legs(plan: Plan) -> Table:
    columns = ("version", "nodes", "epochs", "energy", "time", "loss", "handover into it")
    rows = table(columns, numbers=("energy", "time", "loss"))
    into = {hand.epoch: hand for hand in plan.handovers}
    for leg in plan.legs:
        hand = into.get(leg.first_epoch)
        cost = ""
        if hand is not None:
            energy, time = say_energy(hand.energy_j, plan.energy_unit), say_time(hand.elapsed_s, plan.time_unit)
            cost = f"loss {hand.loss_change:+.3g}, {energy}, {time}"
        rows.add_row(
            Text(leg.version, style="bold"),
            Text(leg.nodes),
            f"{leg.first_epoch}-{leg.last_epoch}",
            say_energy(leg.energy_j, plan.energy_unit),
            say_time(leg.elapsed_s, plan.time_unit),
            f"{leg.loss:.4g}",
            cost,
        )
    return rows


def _facts(plan: Plan) -> Iterable[RenderableType]:
    yield Text(say_end(plan))
    for words in (*say_choices(plan), say_sure(plan), *say_bound(plan)):
        yield Text(words)


def _alternatives(plan: Plan) -> Table:
    rows = table(("first epoch", "energy", "time", "note"), numbers=("energy", "time"))
    for other in plan.alternatives:
        rows.add_row(
            Text(other.name),
            "impossible" if other.energy_j is None else say_energy(other.energy_j, plan.energy_unit),
            "" if other.elapsed_s is None else say_time(other.elapsed_s, plan.time_unit),
            Text(other.reason),
            style="dim" if other.energy_j is None else "",
        )
    return rows


def comparison_table(comparison: Comparison) -> Group:
    """A line a planner, the optimum first; `sure` when planning again, the next column without."""
    rows = table(COLUMNS, numbers=COLUMNS[1:-1])
    for row in comparison_rows(comparison):
        name, *figures, relay = row.cells
        rows.add_row(Text(name), *figures, Text(relay), style="" if row.met else "dim")
    notes = [
        Text(words, style="yellow" if words.startswith("warning") else "") for words in comparison_notes(comparison)
    ]
    return Group(titled(comparison.problem, rows), *notes)


def front_tables(view: FrontView) -> RenderableType:
    """Least energy by loss and deadline, then the ways to the target from the quickest to the cheapest."""
    deadlines = [say_time(value, view.time_unit) for value in view.deadlines_s]
    names = ["loss \\ deadline", *deadlines]
    title = f"{view.problem}: least energy, {view.how}"
    grid = table(names, numbers=deadlines)
    for loss, row in zip(view.losses, view.energy_j, strict=True):
        cells = ("-" if not math.isfinite(value) else say_energy(value, view.energy_unit) for value in row)
        grid.add_row(Text(f"{loss:.4g}", style="bold"), *cells)
    ways = table(("deadline", "energy", "relay"), numbers=("deadline", "energy"))
    for deadline_s, energy_j, legs in view.ways:
        ways.add_row(say_time(deadline_s, view.time_unit), say_energy(energy_j, view.energy_unit), Text(legs))
    parts: list[RenderableType] = [titled(title, grid)]
    if view.ways:
        parts += [Text(), titled(f"ways to {view.target_loss:g}", ways)]
    else:
        parts.append(Text(f"nothing reaches {view.target_loss:g} by the deadline", style="yellow"))
    if not view.complete:
        parts.append(Text("the sweep was cut short: cells may show more than the least energy", style="yellow"))
    return Group(*parts)


def pipeline_tables(planned: KeepingPlans) -> Group:
    """Who takes which units of a network and what each stage holds, then how fast every way of keeping versions is."""
    from .pipeline_view import stage_rows

    sizes = ("weights", "versions", "optimizer", "in flight", "transient", "total")
    columns = ("device", "units", "compute", "link", *sizes, "on demand")
    stages = table(columns, numbers=columns[2:10])
    for row in stage_rows(planned.plan, lambda count: f"{count / 2**20:.1f}"):
        units = row["units"].replace("–", "-")
        stages.add_row(Text(row["device"]), units, row["compute"], row["link"], *row["sizes"], row["policies"])
    head = (
        f"{planned.network}: {len(planned.units)} units, window {planned.plan.window.value}, m = {planned.plan.m}; MiB"
    )
    ways = table(("versions", "a minibatch", "over the fastest device alone"), numbers=("a minibatch",))
    for way, other in planned.others.items():
        fits = ("does not fit", "-") if other is None else (say_time(other.step_s), f"{other.speedup:.2f}x")
        ways.add_row(way.value, *fits)
    return Group(titled(head, stages), Text(), titled("by how versions are kept", ways))


def simulation_table(result: Any) -> Group:
    """Misses and energy by mode and rule, each with its 95 % interval.

    Energy is over the clairvoyant optimum's, and over that of the rule which knows the true curves.
    """
    columns = ("mode", "rule", "misses", "miss rate", "over clairvoyant", "over true curves", "switches")
    title = f"{result.scenario}: {result.worlds} worlds, seed {result.seed}"
    rows = table(columns, numbers=columns[2:])
    before = None
    for row in result.table():
        if before not in (None, row.mode):
            rows.add_section()
        before = row.mode
        rows.add_row(
            row.mode,
            Text(row.rule),
            f"{row.misses}/{row.worlds}",
            _interval(row.miss_rate, lambda v: f"{v:.1%}"),
            _interval(row.over_clairvoyant, lambda v: f"{v:.3f}"),
            _interval(row.over_true, lambda v: f"{v:.3f}"),
            f"{row.switches:.2f}",
        )
    return titled(title, rows)


def _interval(value: Sequence[float], say: Callable[[float], str]) -> str:
    middle, low, high = value
    return "-" if math.isnan(middle) else f"{say(middle)} [{say(low)}, {say(high)}]".replace("[", "\\[")


def findings_table(findings: Iterable[Any]) -> Group:
    """Which of a paper's findings hold in the run just made."""
    listed = table(("figure", "finding", "holds", "why"))
    for finding in findings:
        style = {True: "green", False: "bold red"}.get(finding.holds, "yellow")
        verdict = Text(finding.word, style=style)
        listed.add_row(Text(finding.figure), Text(finding.finding), verdict, Text(finding.why))
    return titled("findings", listed)


def rows_table(rows: Sequence[Mapping[str, Any]], *, title: str) -> Group:
    """Rows that share their keys, as they are."""
    columns = list(rows[0]) if rows else ["nothing"]
    numbers = [c for c in columns if all(isinstance(row[c], int | float) for row in rows)] if rows else []
    shown = table(columns, numbers=numbers)
    for row in rows:
        shown.add_row(*(Text(f"{row[c]:.4g}" if isinstance(row[c], float) else str(row[c])) for c in columns))
    return titled(title, shown)
