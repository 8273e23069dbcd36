"""`[depl]` -> what DepL's planners read, and the costs and the law that PACT's planners need of the same scenario.

An epoch at full resources on all data costs c q / r + s / b seconds; its expected gain is (8) with x at its mean. The
robust twin follows the 0.95 quantile of a version trained alone, as normal figures have it, dependence included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..core.cost import FirstUses
from ..core.curve import Array
from ..core.dependence import Dependence, normal_level, spread_by_epoch, sure
from ..core.depl import DeplData, DeplNodeSet, DeplProblem, DeplTables, DeplVersion, Series
from ..core.depl_settings import MOST_EPOCHS, DeplSettings
from ..core.distribution import Distribution, Empirical, InverseGamma, LogNormal, Normal, StudentT
from ..core.law import ROBUST_LEVEL, EpochLaw
from ..core.problem import Pair, Problem
from .depl import DeplClusterTable, DeplTable, DeplVersionTable
from .schema import ScenarioFile

ALL_DATA = "all"
"""The one data set of a scenario that declares none."""


def build_depl(file: ScenarioFile, depl: DeplTable, problem: Problem) -> DeplSettings:
    """The settings of DepL's planners, from the file's `[depl]`."""
    versions, sets = [v.name for v in file.versions], [s.name for s in file.node_sets]
    by_version = {v.version: v for v in depl.versions}
    by_nodes = {c.nodes: c for c in depl.clusters}
    volumes = {d.dataset: d.volume for d in depl.datasets}
    data = [DeplData(d.name, volumes.get(d.name, 1.0)) for d in file.datasets] or [DeplData(ALL_DATA, 1.0)]
    tables = _tables(depl, versions, [d.name for d in data])
    instance = DeplProblem(
        versions=tuple(_version(by_version[v], trusted=depl.bands == "given") for v in versions),
        switches=tuple(tuple(_switch(depl, a, b) for b in versions) for a in versions),
        node_sets=tuple(_node_set(by_nodes[n]) for n in sets),
        datasets=tuple(data),
        charges=np.array([[_charge(depl, d.name, n) for n in sets] for d in data]),
        initial_loss=problem.initial_loss,
        target=problem.target,
        max_epochs=problem.max_epochs or MOST_EPOCHS,
        gain_base=depl.data_gain,
        gain_slope=depl.data_gain_log,
        objective=depl.objective,
        runs_on=np.array([[(v, n) in problem.pairs for n in sets] for v in versions]),
        charged=depl.charged,
        tables=tables,
    )
    dependence = Dependence(depl.dependence.correlation, depl.dependence.common)
    belief, conformal = sure(dependence), depl.bands == "conformal"
    return DeplSettings(
        instance, depl.max_switches, depl.free_start, belief, depl.eta, depl.reading, depl.within, conformal
    )


def _node_set(table: DeplClusterTable) -> DeplNodeSet:
    return DeplNodeSet(table.nodes, table.capability, table.bandwidth, table.price, table.link_power, table.waiting)


def _version(table: DeplVersionTable, *, trusted: bool) -> DeplVersion:
    steps = tuple(table.gain) if isinstance(table.gain, list) else ()
    gain = steps[0] if isinstance(table.gain, list) else table.gain
    noise = _noise(table)
    if not trusted:  # losses may rise, whatever family was fitted
        noise = Normal(noise.mean, math.sqrt(noise.variance))
    work = table.work[0] if isinstance(table.work, list) else table.work
    return DeplVersion(table.version, table.size, work, gain, table.offset, noise, table.power, steps)


def _noise(table: DeplVersionTable) -> Distribution:
    if table.noise == "empirical":
        return Empirical(tuple(table.values))
    if table.noise == "normal":
        return Normal(table.mean, math.sqrt(table.variance))
    if table.noise == "log-normal" and table.variance > 0:
        return LogNormal(table.mean, table.variance)
    return InverseGamma(table.mean, table.variance)


def _switch(depl: DeplTable, before: str, now: str) -> StudentT | None:
    """The switch of the first epoch, whatever the data."""
    return _series(depl, before, now, ())[0]


def _series(depl: DeplTable, before: str, now: str, data: Sequence[str]) -> Series:
    """A switch by epoch with just these data sets chosen (none: any)."""
    series: Series = (None,) if before == now else (StudentT(0.0, 0.0, 5.0),)
    for row in depl.switches:
        fits = row.from_ in ("*", before) and row.to in ("*", now) and (not row.data or set(row.data) == set(data))
        if fits and before != now:
            locations, scales = _listed(row.location), _listed(row.scale)
            series = tuple(
                None if math.isinf(location) else StudentT(location, scale, row.nu)
                for location, scale in (
                    (locations[min(i, len(locations) - 1)], scales[min(i, len(scales) - 1)])
                    for i in range(max(len(locations), len(scales)))
                )
            )
    return series


def _listed(value: float | list[float]) -> list[float]:
    return value if isinstance(value, list) else [value]


def _tables(depl: DeplTable, versions: Sequence[str], data: Sequence[str]) -> DeplTables | None:
    """What hangs on the epoch and on the data; None where nothing does."""
    by_version = {v.version: v.work for v in depl.versions}
    work = tuple(tuple(w) if isinstance(w := by_version[v], list) else () for v in versions)
    rows = depl.switches
    if not any(work) and not any(r.data or isinstance(r.location, list) or isinstance(r.scale, list) for r in rows):
        return None
    told: list[tuple[str, ...]] = [
        (),
        *dict.fromkeys(tuple(sorted(set(row.data), key=data.index)) for row in rows if row.data),
    ]
    jumps = tuple(
        (
            tuple(data.index(name) for name in names) or None,
            tuple(tuple(_series(depl, a, b, names) for b in versions) for a in versions),
        )
        for names in told
    )
    return DeplTables(work, jumps)


def _charge(depl: DeplTable, dataset: str, nodes: str) -> float:
    fits = [c.charge for c in depl.charges if c.dataset in ("*", dataset) and c.nodes in ("*", nodes)]
    return fits[-1] if fits else 0.0


def full_costs(settings: DeplSettings, problem: Problem) -> tuple[Array, Array]:
    """Seconds and price of an epoch of every pair, on all data at full resources: shape (pairs,) each."""
    rows = [settings.epoch_cost(pair, settings.instance.all_data, 1.0) for pair in problem.pairs]
    return np.array([r[0] for r in rows]), np.array([r[1] for r in rows])


def data_charges(settings: DeplSettings, problem: Problem) -> FirstUses | None:
    """What bringing all data to a node set costs, once; None where it costs nothing anywhere."""
    charges = settings.instance.data_charge(settings.instance.all_data)
    group = np.array([settings.nodes(pair.nodes) for pair in problem.pairs], np.int64)
    return FirstUses(np.zeros(len(group)), charges[group], group) if charges.any() else None


def depl_law(settings: DeplSettings, pairs: Sequence[Pair]) -> EpochLaw:
    """The gains of (8) by epoch for every pair, all data used, and the switches' jumps."""
    instance = settings.instance
    gain = instance.data_gain(instance.all_data)
    z = normal_level(ROBUST_LEVEL)
    k = np.arange(1, instance.max_epochs + 1)
    run, robust = [], []
    for version in instance.versions:
        steps = gain * version.progress(k)
        spread = spread_by_epoch(steps * math.sqrt(version.noise.variance), settings.belief.mean)
        run.append(-steps * version.noise.mean)
        robust.append(run[-1] + z * np.diff(spread, prepend=0.0))
    index = [settings.version(pair.version) for pair in pairs]
    epochs = k.tolist() if instance.tables is not None else [1]
    change, change_robust = (
        np.array([[[_jump(instance, k, a, b, level) for b in index] for a in index] for k in epochs])
        for level in (0.0, z)
    )
    return EpochLaw(np.array([run[m] for m in index]).T, change, np.array([robust[m] for m in index]).T, change_robust)


def _jump(instance: DeplProblem, k: int, before: int, now: int, z: float) -> float:
    jump = instance.jump_at(k, instance.all_data, before, now)
    spread = 0.0 if jump is None else z * math.sqrt(jump.variance)
    return instance.mean_jump(before, now, k, instance.all_data) + spread
