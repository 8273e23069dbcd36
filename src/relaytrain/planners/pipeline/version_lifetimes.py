"""Which weight versions a schedule keeps alive at a stage: counts of in-flight minibatches, versions, pending updates.

A forward uses the newest version; the backward of the same minibatch must find that version again. Versions count
the updates made at the stage. After every action:

    in_flight   minibatches between their forward and their backward
    versions    distinct versions that these need, and the newest: what a stash holds
    pending     updates between the oldest of them and the newest: what mcPipe holds as pairs
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from .actions import ActionKind
from .schedules import PipelineSchedule, Window, async_1f1b


@dataclass(frozen=True)
class Alive:
    """What is alive at one moment."""

    in_flight: int
    versions: int
    pending: int


def timeline(schedule: PipelineSchedule, stage: int) -> tuple[Alive, ...]:
    """The counts after each action of `stage`, in order."""
    newest = 0
    needed: deque[int] = deque()
    counts = []
    for placed in schedule.rows[stage]:
        kind = placed.action.kind
        if kind is ActionKind.forward:
            needed.append(newest)
        elif kind is ActionKind.backward:
            needed.popleft()
        newest += kind is ActionKind.update or (kind is ActionKind.backward and schedule.flush is None)
        oldest = needed[0] if needed else newest
        counts.append(Alive(len(needed), len({*needed, newest}), newest - oldest))
    return tuple(counts)


def peak(schedule: PipelineSchedule, stage: int) -> Alive:
    """The largest of each count, at whatever moment it occurs."""
    counts = timeline(schedule, stage)
    return Alive(max(c.in_flight for c in counts), max(c.versions for c in counts), max(c.pending for c in counts))


def steady_peaks(stages: int, m: int, window: Window = Window.one_f_one_b) -> tuple[Alive, ...]:
    """The peaks of a long asynchronous run; for m = `stages` and window 1f1b, stage s has m - 1 - s pending updates."""
    schedule = async_1f1b(stages, 4 * (stages + m), m, window)
    return tuple(peak(schedule, stage) for stage in range(stages))
