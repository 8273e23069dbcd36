"""Schedules as data: which stage does what in which slot of time. Nothing runs here.

Asynchronous 1F1B, three stages, window 3, a forward one slot and a backward with its update two::

    F0 F1 F2 .. .. .. .. B0 -- F3 ...     F2  forward of minibatch 2
    .. F0 F1 .. .. B0 -- F2 B1 -- ...     B0  the backward of minibatch 0, `--` while it lasts
    .. .. F0 B0 -- F1 B1 -- F2 B2 ...     ..  idle

Paper: mcPipe Example 2 and Fig. 1(b); PipeDream's backward-first rule. Deviation: `window = "1f1b"` lets stage s hold
max(1, m - s) minibatches; the paper's `uniform` lets every worker hold m, though later ones never fill it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from ...core.errors import UsageError
from .actions import Action, ActionKind

IDLE, LASTS = "..", "--"


class Window(StrEnum):
    """How many minibatches a stage may hold: m everywhere, or fewer the nearer it is to the end."""

    uniform = "uniform"
    one_f_one_b = "1f1b"

    def sizes(self, stages: int, m: int) -> tuple[int, ...]:
        """The window of every stage."""
        return tuple(m if self is Window.uniform else max(1, m - stage) for stage in range(stages))


@dataclass(frozen=True, order=True)
class PlacedAction:
    """An action in time: the slots `start` to `start + length - 1`."""

    start: int
    length: int
    action: Action


@dataclass(frozen=True)
class PipelineSchedule:
    """What every stage does, in order. `flush` is the number of minibatches an update waits for; None: asynchronous."""

    rows: tuple[tuple[PlacedAction, ...], ...]
    flush: int | None = None

    @property
    def stages(self) -> int:
        """How many stages."""
        return len(self.rows)

    @property
    def slots(self) -> int:
        """When the last action ends."""
        return max((row[-1].start + row[-1].length for row in self.rows if row), default=0)

    def in_order(self) -> Iterator[Action]:
        """All actions by start, then stage: each comes after all it needs."""
        yield from (placed.action for placed in sorted(p for row in self.rows for p in row))

    def letters(self) -> tuple[str, ...]:
        """Each stage's actions in order, a letter each; their indexes count up by themselves."""
        return tuple("".join(placed.action.kind.value for placed in row) for row in self.rows)

    def draw(self) -> str:
        """One line a stage, one cell a slot."""
        width = max((len(str(p.action.index)) + 1 for row in self.rows for p in row), default=2)
        lines = []
        for row in self.rows:
            cells = [IDLE] * self.slots
            for placed in row:
                cells[placed.start] = f"{placed.action.kind.value}{placed.action.index}"
                cells[placed.start + 1 : placed.start + placed.length] = [LASTS] * (placed.length - 1)
            lines.append(" ".join(f"{cell:<{width}}" for cell in cells).rstrip())
        return "\n".join(lines)


def async_1f1b(
    stages: int,
    minibatches: int,
    m: int,
    window: Window = Window.one_f_one_b,
    *,
    backward_slots: int = 2,
) -> PipelineSchedule:
    """PipeDream's and mcPipe's schedule: a backward whenever one can run, else a forward while the window has room."""
    _at_least_one(stages=stages, minibatches=minibatches, m=m, backward_slots=backward_slots)
    return _play(stages, minibatches, window.sizes(stages, m), None, backward_slots, forward_first=False)


def sync_1f1b(stages: int, steps: int, m: int, *, backward_slots: int = 1) -> PipelineSchedule:
    """PipeDream-Flush: `m` minibatches, one forward one backward, then an update; `steps` times."""
    _at_least_one(stages=stages, steps=steps, m=m, backward_slots=backward_slots)
    return _play(stages, steps * m, Window.one_f_one_b.sizes(stages, stages), m, backward_slots, forward_first=False)


def gpipe(stages: int, steps: int, m: int, *, backward_slots: int = 1) -> PipelineSchedule:
    """GPipe: `m` forwards, then `m` backwards in the same order, then an update; `steps` times."""
    _at_least_one(stages=stages, steps=steps, m=m, backward_slots=backward_slots)
    return _play(stages, steps * m, (m,) * stages, m, backward_slots, forward_first=True)


@dataclass
class _Stage:
    """How far one stage has come; ends[kind][k] is when k's result is there."""

    free: int = 0
    placed: list[PlacedAction] = field(default_factory=list)
    ends: dict[ActionKind, list[int]] = field(default_factory=lambda: {kind: [] for kind in ActionKind})

    def count(self, kind: ActionKind) -> int:
        return len(self.ends[kind])


def _play(
    stages: int,
    total: int,
    windows: tuple[int, ...],
    flush: int | None,
    backward_slots: int,
    *,
    forward_first: bool,
) -> PipelineSchedule:
    """The clock: in every slot each free stage takes the first action of its rule that is ready; forwards last one."""
    lengths = dict(zip(ActionKind, (1, backward_slots, 1), strict=True))
    line = [_Stage() for _ in range(stages)]
    clock = 0
    while any(
        s.count(ActionKind.backward) < total or (flush and s.count(ActionKind.update) * flush < total) for s in line
    ):
        for index, stage in enumerate(line):
            if stage.free > clock:
                continue
            kind = _next(line, index, clock, total, windows[index], flush, forward_first)
            if kind is not None:
                stage.placed.append(PlacedAction(clock, lengths[kind], Action(index, kind, stage.count(kind))))
                stage.free = clock + lengths[kind]
                stage.ends[kind].append(stage.free)
        clock += 1
    return PipelineSchedule(tuple(tuple(stage.placed) for stage in line), flush)


def _next(
    line: list[_Stage], index: int, clock: int, total: int, window: int, flush: int | None, forward_first: bool
) -> ActionKind | None:
    stage = line[index]
    forwards, backwards, updates = (stage.count(kind) for kind in ActionKind)
    step_end = total if flush is None else (updates + 1) * flush
    if flush is not None and backwards == step_end:
        return ActionKind.update
    before = line[index - 1].ends[ActionKind.forward] if index else None
    after = line[index + 1].ends[ActionKind.backward] if index + 1 < len(line) else stage.ends[ActionKind.forward]
    can_forward = forwards < min(total, step_end) and forwards - backwards < window
    can_forward = can_forward and (before is None or (len(before) > forwards and before[forwards] <= clock))
    can_backward = backwards < forwards and len(after) > backwards and after[backwards] <= clock
    if forward_first and forwards < step_end:
        can_backward = False
    if can_backward:
        return ActionKind.backward
    return ActionKind.forward if can_forward else None


def _at_least_one(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise UsageError(f"{name}: got {value}, expected at least 1")
