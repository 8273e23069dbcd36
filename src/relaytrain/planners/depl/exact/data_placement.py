"""Data chosen for each node set, z(d, n): what a node set holds decides how long its epochs take and what they achieve.

Node sets that hold the same data form a group, and an epoch of a version in a group is a version of its own, with the
group's work and progress and only its node sets to run on. Changing the group alone costs nothing, but counts as a
switch of the search. So a choice of data for each node set is judged by the same exact search as a shared one.

Paper: DepL section III, z(d, n), constraint (6).
Deviations: (6) as printed makes a node set that holds data train in every epoch; here data that is not used is not
brought.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ....core.depl import DeplData, DeplProblem
from ....core.distribution import StudentT
from ..data_choice import powerset
from ..solution import DeplPlan, complete
from .joint import plan
from .version_search import SWITCHES, VersionSchedule, VersionSearch

DataOf = tuple[tuple[int, ...], ...]
"""The datasets of each node set; an empty one is not used."""

EXHAUSTIVE = 4_096
"""Up to so many choices all are tried, the most promising first; beyond, local search from the best shared one."""


def plan_per_node_set(instance: DeplProblem, *, switches: int = SWITCHES) -> DeplPlan:
    """The cheapest plan when every node set may hold data of its own; never dearer than `plan`'s."""
    shared = plan(instance, switches=switches)
    if shared.feasible and not shared.versions:
        return shared
    placed = _Placements(instance, switches, shared.cost)
    count = (2 ** len(instance.datasets)) ** len(instance.node_sets)
    exact = count <= EXHAUSTIVE and shared.exact
    if count <= EXHAUSTIVE:
        placed.try_all()
    else:
        placed.descend(shared.data_of if shared.feasible else _everything(instance))
    if placed.best is None:
        return replace(shared, exact=exact)
    data_of, schedule = placed.best
    whole, origin = grouped(instance, data_of)
    solution = complete(whole, (0,), schedule.versions)
    held = tuple(data if n in solution.node_sets else () for n, data in enumerate(data_of))
    return replace(
        solution,
        versions=tuple(origin[m] for m in solution.versions),
        datasets=tuple(sorted({d for data in held for d in data})),
        data_of=held,
        exact=exact,
    )


def grouped(instance: DeplProblem, data_of: DataOf) -> tuple[DeplProblem, list[int]]:
    """The problem with each node set's data settled, and the version that each of its versions stands for."""
    groups = sorted({data for data in data_of if data})
    pairs = [(data, m) for data in groups for m in range(len(instance.versions))]
    versions = []
    for data, m in pairs:
        version, volume, gain = instance.versions[m], instance.volume(data), instance.data_gain(data)
        versions.append(
            replace(version, name=f"{version.name}/{data}", work=version.work * volume, gain=version.gain * gain)
        )
    nothing = StudentT(0.0, 0.0, 5.0)
    switches = tuple(
        tuple(None if a == b else nothing if a[1] == b[1] else instance.switches[a[1]][b[1]] for b in pairs)
        for a in pairs
    )
    charges = [sum(instance.charges[d, n] for d in data) if data else math.inf for n, data in enumerate(data_of)]
    whole = replace(
        instance,
        versions=tuple(versions),
        switches=switches,
        datasets=(DeplData("as placed", 1.0),),
        charges=np.array([charges], np.float64),
        gain_base=1.0,
        gain_slope=0.0,
        runs_on=np.array([[data_of[n] == data for n in range(len(data_of))] for data, _ in pairs]),
    )
    return whole, [m for _, m in pairs]


def as_planned(instance: DeplProblem, solution: DeplPlan) -> tuple[DeplProblem, tuple[int, ...], tuple[int, ...]]:
    """Problem, data and versions that the loss of a plan is worked out under: `grouped` where data differs by place."""
    held = {data for data in solution.data_of if data}
    if len(held) < 2:
        return instance, solution.datasets, solution.versions
    data_of = tuple(data or next(iter(held)) for data in solution.data_of)
    whole, origin = grouped(instance, data_of)
    groups = sorted(held)
    count = len(origin) // len(groups)
    at = zip(solution.versions, solution.node_sets, strict=True)
    return whole, (0,), tuple(groups.index(data_of[n]) * count + m for m, n in at)


def _everything(instance: DeplProblem) -> DataOf:
    return (tuple(range(len(instance.datasets))),) * len(instance.node_sets)


class _Placements:
    """The best placement seen that costs less than any before it."""

    def __init__(self, instance: DeplProblem, switches: int, below: float) -> None:
        self.instance, self.switches, self.below = instance, switches, below
        self.best: tuple[DataOf, VersionSchedule] | None = None

    def try_all(self) -> None:
        """Every placement, by its floor; shared ones are known already."""
        sets = [(), *powerset(len(self.instance.datasets))]
        every = itertools.product(sets, repeat=len(self.instance.node_sets))
        rows = [(self._search(data_of).floor(), data_of) for data_of in every if len({*data_of} - {()}) > 1]
        for floor, data_of in sorted(rows):
            if floor >= self.below:
                break
            self._try(data_of)

    def descend(self, data_of: DataOf) -> None:
        """Changes one node set's data at a time while that helps."""
        improving = True
        while improving:
            improving = False
            for near in self._neighbours(data_of):
                if self._try(near):
                    data_of, improving = near, True
                    break

    def _try(self, data_of: DataOf) -> bool:
        schedule = self._search(data_of).best(below=self.below)
        if schedule is None:
            return False
        self.best, self.below = (data_of, schedule), schedule.cost
        return True

    def _search(self, data_of: DataOf) -> VersionSearch:
        return VersionSearch(grouped(self.instance, data_of)[0], (0,), switches=self.switches)

    def _neighbours(self, data_of: DataOf) -> Iterator[DataOf]:
        others = {*data_of} - {()}
        for n, data in enumerate(data_of):
            changed = {tuple(sorted({*data} ^ {d})) for d in range(len(self.instance.datasets))} | others | {()}
            for new in sorted(changed - {data}):
                near = (*data_of[:n], new, *data_of[n + 1 :])
                if any(near):
                    yield near
