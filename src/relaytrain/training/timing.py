"""Timing a few batches of every version: the measuring half of `costs.profiled.profile`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import torch

from ..costs.profiled import Timing, VersionTimings
from ..data.held import FixedBatches, InMemory
from ..data.nested import Batch, resized
from .checkpoint import Checkpoint
from .known_data import first_batch
from .local import Site, train_node, train_pass
from .setup import TrainingSetup
from .task import NodeTask
from .threads import threads
from .update import Update

WARM_UP = 3
ENOUGH_S = 0.25
"""CPU seconds of steps after which a version at one batch size is known well enough."""
MOST_STEPS = 200
SMALLER = 4
"""The second batch size is so many times smaller."""


@dataclass
class _Case:
    """One version at one batch size, ready to step."""

    version: str
    size: int
    step: Callable[[], object]
    taken_s: list[float]

    def more(self, batches: int) -> bool:
        count = len(self.taken_s)
        return count < batches or (sum(self.taken_s) < ENOUGH_S and count < MOST_STEPS)


class VersionTimer:
    """Times versions of a setup on the data of its largest node.

    Versions take turns step by step, so that what else the machine does falls on all of them alike.
    """

    def __init__(self, setup: TrainingSetup) -> None:
        self.setup = setup
        self.batch, self.local_epochs = setup.settings.batch, setup.settings.local_epochs
        self._node = max(setup.datasets, key=setup.counted_at)
        self._site = setup.site(self._node)
        self._example: Batch = None

    def time(self, batches: int) -> dict[str, VersionTimings]:
        """Steps at the full batch size and at a quarter of it, and whole tasks of one small batch."""
        sizes = sorted({self.batch, max(2, self.batch // SMALLER)})
        starts = {name: self.setup.initial(name) for name in self.setup.versions}
        steps = [case for name, start in starts.items() for case in self._steps(name, start, sizes)]
        tasks = [self._task(name, start, sizes[0]) for name, start in starts.items()]
        with threads(self.setup.settings.threads), torch.random.fork_rng(devices=[]):
            _time([*steps, *tasks], batches)
        facts = self.setup.version_facts()
        timings = {}
        for task in tasks:
            own = [case for case in steps if case.version == task.version]
            pass_s = max(0.0, median(task.taken_s) - median(own[0].taken_s))
            each = tuple(Timing(case.size, taken) for case in own for taken in case.taken_s)
            timings[task.version] = VersionTimings(each, pass_s, float(facts[task.version].flops_per_sample))
        return timings

    def _steps(self, version: str, start: Checkpoint, sizes: Sequence[int]) -> list[_Case]:
        settings = self.setup.settings
        model = start.model(resolve=self.setup.resolve).to(self._site.device)
        update = Update(model, settings, 1, device=self._site.device, own=replace(self._site.own, schedule=None))
        cases = []
        for size in sizes:
            one = replace(settings, batch=size, local_epochs=1)
            cases.append(_Case(version, size, partial(train_pass, model, update, self._batch(size), one), []))
        return cases

    def _task(self, version: str, start: Checkpoint, size: int) -> _Case:
        settings = replace(self.setup.settings, local_epochs=1)
        task = NodeTask("profile", 1, 0, self._node, start.data, settings)
        return _Case(version, size, partial(train_node, task, self._batch(size)), [])

    def _batch(self, size: int) -> Site:
        """`size` samples, repeated from the start where the node holds fewer."""
        site, held = replace(self._site, parts={}), self._site.held
        if isinstance(held, InMemory):
            chosen = torch.arange(size) % held.samples
            return replace(site, held=InMemory(held.images[chosen], held.labels[chosen]))
        if self._example is None:
            self._example = first_batch(self.setup.datasets[self._node], self.batch)
        return replace(site, held=FixedBatches((resized(self._example, size),), size))


def _time(cases: list[_Case], batches: int) -> None:
    for case in cases:
        for _ in range(WARM_UP):
            case.step()
    while open_ := [case for case in cases if case.more(batches)]:
        for case in open_:
            began = time.process_time()
            case.step()
            case.taken_s.append(time.process_time() - began)
