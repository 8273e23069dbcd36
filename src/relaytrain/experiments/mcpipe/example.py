"""mcPipe's Examples 1 and 2 as schedules: three dense layers on workers 1 to 3, worker 4 compares with the labels.

    A  activation vector   D  error vector   U  weight update      one slot each, and one slot on every link

Worker 4 has no weights: only errors. Worker 1 sends no error on: only activations and updates. Workers 2 and 3 send the
error as soon as it is there and update afterwards. A worker prefers errors to activations, and processes `window`
activations ahead of its updates at most: 1 without pipelining (Example 1), 4 with (Example 2).

The paper does not print how long boxes and links take; with a slot for each, both examples come out as told there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...planners.pipeline.actions import Action, ActionKind
from ...planners.pipeline.schedules import PipelineSchedule, PlacedAction

WORKERS = 4
HOP = 1
"""Slots that a vector spends on a link."""


@dataclass(frozen=True)
class Box:
    """One box of the figure: `what` is A, D or U."""

    worker: int
    what: str
    index: int
    start: int

    @property
    def end(self) -> int:
        """When its result is there."""
        return self.start + 1


@dataclass
class _Worker:
    free: int = 0
    boxes: list[Box] = field(default_factory=list)

    def ends(self, what: str) -> list[int]:
        return [box.end for box in self.boxes if box.what == what]


@dataclass(frozen=True)
class Example:
    """All boxes, worker by worker."""

    boxes: tuple[tuple[Box, ...], ...]
    window: int

    def updates(self, worker: int, until: int) -> int:
        """Updates of `worker` (0 is the paper's Worker 1) that are done by `until`."""
        return sum(box.what == "U" and box.end <= until for box in self.boxes[worker])

    def busy(self, worker: int, until: int) -> float:
        """The share of the slots before `until` in which `worker` works."""
        return sum(box.end <= until for box in self.boxes[worker]) / until

    def schedule(self, until: int) -> PipelineSchedule:
        """Workers 1 to 3 in the words of the product: an error and its update are one backward."""
        rows = []
        for worker, boxes in enumerate(self.boxes[:-1]):
            row = []
            for box in boxes:
                if box.what == "A" and box.end <= until:
                    row.append(PlacedAction(box.start, 1, Action(worker, ActionKind.forward, box.index)))
                if box.what == "U" and box.end <= until:
                    length = 2 if worker else 1
                    row.append(PlacedAction(box.end - length, length, Action(worker, ActionKind.backward, box.index)))
            rows.append(tuple(sorted(row)))
        return PipelineSchedule(tuple(rows))

    def __iter__(self) -> Iterator[Box]:
        return (box for boxes in self.boxes for box in boxes)


def play(window: int, slots: int) -> Example:
    """The first `slots` slots."""
    line = [_Worker() for _ in range(WORKERS)]
    for clock in range(slots):
        for at in range(WORKERS):
            if line[at].free <= clock:
                for box in _next(line, at, clock, window):
                    line[at].boxes.append(box)
                    line[at].free = box.end
    return Example(tuple(tuple(worker.boxes) for worker in line), window)


def _next(line: list[_Worker], at: int, clock: int, window: int) -> list[Box]:
    def ready(source: int, what: str, index: int) -> bool:
        ends = line[source].ends(what)
        return len(ends) > index and ends[index] + HOP <= clock

    me = line[at]
    if at == WORKERS - 1:
        done = len(me.boxes)
        return [Box(at, "D", done, clock)] if ready(at - 1, "A", done) else []
    ahead, done = len(me.ends("A")), len(me.ends("U"))
    if done < ahead and ready(at + 1, "D", done):
        if at == 0:
            return [Box(at, "U", done, clock)]
        return [Box(at, "D", done, clock), Box(at, "U", done, clock + 1)]
    if ahead - done < window and (at == 0 or ready(at - 1, "A", ahead)):
        return [Box(at, "A", ahead, clock)]
    return []


@dataclass(frozen=True)
class Life:
    """How long something is stored: a version of the weights, or the pair that stands for an update."""

    number: int
    begin: int
    end: int


@dataclass(frozen=True)
class Lives:
    """What a worker stores, and when: all versions under PipeDream; under mcPipe the oldest needed, and pairs."""

    stash: tuple[Life, ...]
    weights: tuple[Life, ...]
    pairs: tuple[Life, ...]


def lives(example: Example, worker: int, until: int) -> Lives:
    """The weight versions of `worker`; version v is there after v updates, pair v is what makes v + 1 of v."""
    boxes = [box for box in example.boxes[worker] if (box.start if box.what == "A" else box.end) < until]
    events = [(box.start if box.what == "A" else box.end, box.what == "U") for box in boxes if box.what != "D"]
    newest = base = since = 0
    flying: deque[int] = deque()
    begun, last, pending = {0: 0}, {0: 0}, dict[int, int]()
    weights, pairs = [], []
    events.sort(key=lambda event: (event[0], not event[1]))  # a forward sees the update before it
    for time, updates in events:
        if not updates:
            flying.append(newest)
            continue
        last[flying.popleft()] = time
        pending[newest], newest = time, newest + 1
        begun[newest] = last[newest] = time
        last[newest - 1] = max(last[newest - 1], time)
        oldest = flying[0] if flying else newest
        while base < oldest:
            weights += [Life(base, since, time)] if time > since else []
            begin = pending.pop(base)
            pairs += [Life(base, begin, time)] if time > begin else []
            base, since = base + 1, time
    weights.append(Life(base, since, until))
    pairs += [Life(update, begin, until) for update, begin in pending.items()]
    for version in {newest, *flying}:
        last[version] = until
    return Lives(tuple(Life(v, begin, last[v]) for v, begin in begun.items()), tuple(weights), tuple(pairs))


def most(stored: tuple[Life, ...]) -> int:
    """The most that are stored at once."""
    moments = {life.begin for life in stored}
    return max((sum(life.begin <= time < life.end for life in stored) for time in moments), default=0)
