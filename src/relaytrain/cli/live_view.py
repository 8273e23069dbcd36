"""A run on a terminal while it goes on: a few lines below the epochs that say how it stands, as the dashboard does.

::

    93% sure of loss 0.28 by 10m00 | 38 J to go (12 to 90) | 8m48 left of 10m00, emulated
    loss  █▇▅▄▄▃▃▂▂▂▂  0.41, at most 0.47 at 90% said before; target 0.28
    plan  ████████████████▓▓▓▓▓▓▓▓░░░░░░░░░░  M on silver until ~k 31, then S on bronze
    was   ░░░░░░░░░░░░  M on silver x12 -> S on bronze x4      (when the plan has moved)
    edge-2 failed: killed by signal 9
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from ..core.explain import figure_name, say_energies, say_energy, say_share, say_time
from ..core.problem import Pair
from .output import harmless

if TYPE_CHECKING:
    from ..core.plan import Plan
    from ..relay.job import Line, Notice

BLOCKS = "▁▂▃▄▅▆▇█"
COLOURS = ("#3d9fd6", "#e08a4a", "#33b38a", "#c07ab6", "#c2ae2c", "#8fa6b5", "#e06a97", "#8ba3e0")
"""Of versions in order of first use: those of the pictures, lighter, for dark terminals too."""
SHOWN_LOSSES, BAR = 48, 56


@dataclass
class LiveState:
    """What has been heard of a run."""

    lines: list[Line] = field(default_factory=list)
    done: list[Pair] = field(default_factory=list)
    before: tuple[Pair, ...] = ()
    trouble: str = ""

    def hear(self, line: Line) -> None:
        """An epoch that is safe; epochs that were undone are forgotten."""
        old, new = self.coming, _pairs(line.plan)
        del self.done[line.epoch - 1 :]
        if old and new and _turns(old) != _turns(new):
            self.before = old
        self.done.append(line.pair)
        self.lines = [*(known for known in self.lines[-SHOWN_LOSSES:] if known.epoch < line.epoch), line]

    def heard(self, notice: Notice) -> None:
        """Anything else."""
        if notice.kind in ("failure", "roll-back", "infeasible"):
            self.trouble = notice.words

    @property
    def coming(self) -> tuple[Pair, ...]:
        """The pairs that the plan has after the last epoch."""
        return _pairs(self.lines[-1].plan)[1:] if self.lines else ()


def live_panel(state: LiveState) -> RenderableType:
    """The few lines."""
    if not state.lines:
        return Text("planning the first epoch", style="dim")
    line = state.lines[-1]
    rows = [_standing(line), _losses(state), _plan(state)]
    if state.before:
        rows.append(
            Text("was   ", style="dim")
            + _bar(state, state.before, "░", "dim ")
            + Text(f"  {_legs(state.before)}", "dim")
        )
    if state.trouble:
        rows.append(Text(harmless(state.trouble), style="red"))
    for row in rows:
        row.no_wrap, row.overflow = True, "ellipsis"
    return Group(*rows)


def _standing(line: Line) -> Text:
    time_unit, energy_unit = line.units
    plan = line.plan
    words = []
    if plan is not None:
        by = f" by {say_time(line.deadline_s, time_unit)}" if math.isfinite(line.deadline_s) else ""
        sure = "a guess, on the way to" if line.guess else f"{say_share(plan.sure)} sure of"
        words.append(f"{sure} {figure_name(line.metric)} {plan.target_loss:g}{by}")
    low, middle, high = (value - line.energy_j for value in line.forecast_j)
    if math.isfinite(middle):
        said, least, most = say_energies([max(v, 0.0) for v in (middle, low, high)], energy_unit)
        words.append(f"{said} to go ({least} to {most})")
    elif math.isfinite(line.planned_j):
        words.append(f"{say_energy(max(line.planned_j - line.energy_j, 0.0), energy_unit)} to go")
    left_s = line.deadline_s - line.elapsed_s
    if math.isfinite(left_s):
        words.append(
            f"{say_time(max(left_s, 0.0), time_unit)} left of {say_time(line.deadline_s, time_unit)}, {line.clock}"
        )
    good = plan is not None and plan.met
    return Text(" | ".join(words), style="bold green" if good else "bold yellow")


def _losses(state: LiveState) -> Text:
    shown = state.lines[-SHOWN_LOSSES:]
    line = shown[-1]
    top = max(known.loss for known in shown) or 1.0
    text = Text(f"{figure_name(line.metric):<4}  ", style="dim")
    for known in shown:
        block = (
            BLOCKS[min(int(known.loss / top * (len(BLOCKS) - 1)), len(BLOCKS) - 1)] if known.loss >= 0 else BLOCKS[0]
        )
        text.append(block, style="bold red" if known.broken else "")
    text.append(f"  {line.loss:.3g}")
    if math.isfinite(line.guaranteed):
        how = "a guess" if line.guess else f"at {say_share(line.level)}"
        text.append(f", at most {line.guaranteed:.3g} {how} said before", style="red" if line.broken else "dim")
    if line.plan is not None:
        text.append(f"; target {line.plan.target_loss:g}", style="dim")
    return text


def _plan(state: LiveState) -> Text:
    pairs, count = state.coming, len(state.done)
    text = Text("plan  ", style="dim") + _bar(state, state.done, "█") + _bar(state, pairs, "▒")
    turn = next(((count + 1 + i, pair) for i, pair in enumerate(pairs) if pair != state.done[-1]), None)
    now = f"  {state.done[-1]}"
    return text + Text(harmless(now if turn is None else f"{now} until ~k {turn[0] - 1}, then {turn[1]}"))


def _bar(state: LiveState, pairs: Sequence[Pair], block: str, look: str = "") -> Text:
    """Epochs as blocks in the colours of their versions, drawn together where there are many."""
    colours = _colours(state)
    share = min(1.0, BAR / max(len(state.done) + len(state.coming), len(state.before), 1))
    text, drawn, seen = Text(), 0, 0
    for version, group in groupby(pair.version for pair in pairs):
        seen += len(list(group))
        wide = max(round(seen * share) - drawn, 1)
        drawn += wide
        text.append(block * wide, style=f"{look}{colours.get(version, COLOURS[-1])}")
    return text


def _colours(state: LiveState) -> dict[str, str]:
    every = dict.fromkeys(pair.version for pair in (*state.done, *state.coming, *state.before))
    return {version: COLOURS[i % len(COLOURS)] for i, version in enumerate(every)}


def _pairs(plan: Plan | None) -> tuple[Pair, ...]:
    return () if plan is None else tuple(decision.pair for decision in plan.decisions)


def _turns(pairs: Sequence[Pair]) -> list[tuple[int, Pair]]:
    """Where a plan changes pair; when it ends does not count."""
    return [(i, pair) for i, pair in enumerate(pairs) if i == 0 or pairs[i - 1] != pair]


def _legs(pairs: Sequence[Pair]) -> str:
    return harmless(" -> ".join(f"{pair} x{len(list(group))}" for pair, group in groupby(pairs)))
