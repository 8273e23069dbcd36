"""Actions and schedules read back from their text, written apart from what writes it."""

from __future__ import annotations

import re

from relaytrain.core.errors import UsageError
from relaytrain.planners.pipeline.actions import Action, ActionKind
from relaytrain.planners.pipeline.schedules import IDLE, LASTS, PipelineSchedule, PlacedAction

_TEXT = re.compile(r"(\d+)([FBU])(\d+)", re.ASCII)


def parse_action(text: str) -> Action:
    """The inverse of `str(action)`."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise UsageError(f"action: got {text[:40]!r}, expected stage, one of F B U, index, such as 0F3")
    stage, kind, index = match.groups()
    return Action(int(stage), ActionKind(kind), int(index))


def parse_grid(text: str, flush: int | None = None) -> PipelineSchedule:
    """The inverse of `PipelineSchedule.draw`."""
    rows = []
    for stage, line in enumerate(text.strip().splitlines()):
        row: list[PlacedAction] = []
        for slot, cell in enumerate(line.split()):
            if cell == LASTS and row and row[-1].start + row[-1].length == slot:
                row[-1] = PlacedAction(row[-1].start, row[-1].length + 1, row[-1].action)
            elif cell[0] in {"F", "B", "U"} and cell[1:].isdecimal():
                row.append(PlacedAction(slot, 1, Action(stage, ActionKind(cell[0]), int(cell[1:]))))
            elif cell != IDLE:
                raise UsageError(f"grid: stage {stage}, slot {slot}: got {cell[:20]!r}, expected F0, B0, U0, -- or ..")
        rows.append(tuple(row))
    return PipelineSchedule(tuple(rows), flush)
