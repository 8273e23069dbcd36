"""What figures 8 and 9 share: PACT at every value of one parameter and for every target, beside two benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...scenario import Scenario
from ..result import Row
from ..style import BESIDE, SEQUENCE_MARKS, STRATEGIES, legend_below, new_figure
from .panels import Style, cost_by_target, extra_by_target, over_time, zoom
from .smart_factory_runs import HARD, TARGETS, Trace, benchmark, factory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Runs = dict[float, dict[float, Trace]]


@dataclass(frozen=True)
class Sweep:
    """Traces of PACT by value and target, of the benchmarks by name and target, and of rules drawn beside PACT's."""

    runs: Runs
    others: dict[str, dict[float, Trace]]
    beside: dict[str, dict[float, Trace]] = field(default_factory=dict)

    def rows(self, parameter: str, *, reached: bool = False) -> tuple[Row, ...]:
        """The table behind the figure; with `reached`, whether a target was."""
        return tuple(
            {
                parameter: value,
                "l_max": target,
                **({"reached": trace.reached} if reached else {}),
                **trace.row(self.others["Optimum"][target]),
            }
            for value, by_target in self.runs.items()
            for target, trace in by_target.items()
        )

    def beside_notes(self) -> tuple[str, ...]:
        """What the rules drawn beside PACT's came to."""
        return tuple(beside_note(name, traces, self.others["Optimum"]) for name, traces in self.beside.items())


def beside_note(rule: str, traces: Mapping[float, Trace], optimum: Mapping[float, Trace]) -> str:
    """What a rule drawn beside PACT's came to, by target."""
    ratios = ", ".join(f"{trace.cost / optimum[target].cost:.3f} at {target:g}" for target, trace in traces.items())
    return f"rule `{rule}` without a grid, planned again after every epoch; cost over the optimum: {ratios}"


@dataclass(frozen=True)
class Layout:
    """How tall the figure is, how wide its legend, and what its two lower panels magnify, if anything."""

    height: float
    columns: int
    second_switch: Mapping[str, Any] | None = None
    end: Mapping[str, Any] | None = None


Beside = Mapping[str, Callable[[Scenario], Trace]]
"""Rules to be drawn beside PACT's, by what they are called."""


def sweep(values: Sequence[float], pact: Callable[[float, Scenario], Trace], beside: Beside | None = None) -> Sweep:
    """Run `pact` for every value and target, and what is to be drawn beside it for every target."""
    places = {target: factory(target) for target in TARGETS}
    runs = {value: {target: pact(value, where) for target, where in places.items()} for value in values}
    others = {name: {t: benchmark(name, where) for t, where in places.items()} for name in ("Optimum", "StaticLearn")}
    more = {name: {t: play(where) for t, where in places.items()} for name, play in (beside or {}).items()}
    return Sweep(runs, others, more)


def four_panels(
    swept: Sweep, label: Callable[[float], str], styles: Mapping[str, Style], at_hard: Sequence[Trace], layout: Layout
) -> tuple[Figure, Axes]:
    """Cost by target, the same above the optimum, loss and cost over time at the hardest; and the second panel."""
    marks = zip(swept.beside, SEQUENCE_MARKS[::-1], strict=False)
    styles = {**styles, **STRATEGIES, **{name: {**BESIDE, "marker": mark} for name, mark in marks}}
    at_hard = [*at_hard, *(by_target[HARD] for by_target in swept.beside.values() if by_target[HARD].reached)]
    costs = {name: {t: trace.cost for t, trace in by_target.items()} for name, by_target in swept.others.items()}
    mine = {label(value): {t: trace.cost for t, trace in by_target.items()} for value, by_target in swept.runs.items()}
    mine |= {name: {t: trace.cost for t, trace in by_target.items()} for name, by_target in swept.beside.items()}
    figure = new_figure(10.5, layout.height)
    (cost, extra), (loss, spent) = figure.subplots(2, 2)
    cost_by_target(cost, costs | mine, styles)
    cost.set_title("Cost by target")
    extra_by_target(extra, mine, styles, costs["Optimum"])
    extra.set_title("The same for PACT, above the optimum")
    over_time(loss, at_hard, styles, what="loss", target=HARD)
    loss.set_title(rf"Loss at $\ell^{{max}}$ = {HARD:g}; marks: switches and end")
    if layout.second_switch is not None:
        zoom(loss, at_hard, styles, what="loss", box=(0.42, 0.45, 0.56, 0.5), **layout.second_switch)
    over_time(spent, at_hard, styles, what="cost", target=HARD)
    spent.set_title(rf"Cost at $\ell^{{max}}$ = {HARD:g}; marks: switches and end")
    if layout.end is not None:
        zoom(spent, at_hard, styles, what="cost", box=(0.5, 0.08, 0.45, 0.42), **layout.end)
    legend_below(figure, cost, columns=layout.columns)
    return figure, extra
