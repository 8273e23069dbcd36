"""What no single field of `[depl]` can know."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .checks import missing
from .depl import DeplVersionTable
from .faults import Fault
from .fields import KeyPath
from .schema import ScenarioFile

MAX_DEPL_EPOCHS = 2000


def check_depl(file: ScenarioFile) -> list[Fault]:
    """Everything wrong with `[depl]`, and with a law that rests on it."""
    depl = file.depl
    if depl is None:
        if file.law.kind == "depl":
            return [Fault(("law", "kind"), "'depl' without [depl]", "a table [depl], or kind 'level' or 'epoch'")]
        return []
    versions, sets = [v.name for v in file.versions], [s.name for s in file.node_sets]
    data = [d.name for d in file.datasets]
    faults = _each_once("versions", "version", [v.version for v in depl.versions], versions)
    faults += _each_once("clusters", "nodes", [c.nodes for c in depl.clusters], sets)
    if depl.datasets:
        faults += _each_once("datasets", "dataset", [d.dataset for d in depl.datasets], data)
    for index, switch in enumerate(depl.switches):
        faults += missing(("depl", "switches", index, "from"), switch.from_, versions, "version")
        faults += missing(("depl", "switches", index, "to"), switch.to, versions, "version")
        for name in switch.data:
            faults += missing(("depl", "switches", index, "data"), name, data, "data set")
    by_epoch = any(isinstance(v.work, list) for v in depl.versions)
    by_epoch |= any(s.data or isinstance(s.location, list) or isinstance(s.scale, list) for s in depl.switches)
    if by_epoch and depl.reading == "level":
        wanted = "'epoch': work and switches are listed by epoch or by data"
        faults.append(Fault(("depl", "reading"), "'level' beside lists by epoch", wanted))
    if by_epoch and (depl.dependence.correlation or depl.dependence.common):
        wanted = "none: with work or switches by epoch or data, epochs are planned as independent ones"
        faults.append(Fault(("depl", "dependence"), "dependent epochs", wanted))
    for index, charge in enumerate(depl.charges):
        faults += missing(("depl", "charges", index, "dataset"), charge.dataset, data, "data set")
        faults += missing(("depl", "charges", index, "nodes"), charge.nodes, sets, "node set")
    for index, version in enumerate(depl.versions):
        faults += _noise(index, version)
    if depl.objective == "rate" and not math.isfinite(file.target.deadline):
        wanted = "target.deadline to be finite: the slower, the cheaper; or objective = 'usage'"
        faults.append(Fault(("depl", "objective"), "'rate' without a deadline", wanted))
    if (file.target.max_epochs or 0) > MAX_DEPL_EPOCHS:
        wanted = f"at most {MAX_DEPL_EPOCHS} beside [depl]: distributions are kept for every epoch"
        faults.append(Fault(("target", "max_epochs"), str(file.target.max_epochs), wanted))
    least = min((d.volume for d in depl.datasets), default=1.0)
    if depl.data_gain + depl.data_gain_log * math.log1p(least) <= 0.0:
        got = f"{depl.data_gain:g} beside data_gain_log {depl.data_gain_log:g}"
        faults.append(Fault(("depl", "data_gain"), got, "progress above 0 with the smallest data set alone"))
    return faults


def _each_once(key: str, field: str, names: Sequence[str], declared: Sequence[str]) -> list[Fault]:
    faults: list[Fault] = []
    for index, name in enumerate(names):
        path: KeyPath = ("depl", key, index, field)
        faults += missing(path, name, declared, {"version": "version", "nodes": "node set"}.get(field, "data set"))
        if name in names[:index]:
            faults.append(Fault(path, f"'{name}' a second time", "each once"))
    lacking = [name for name in declared if name not in names]
    if lacking and not faults:
        faults.append(Fault(("depl", key), f"nothing for '{lacking[0]}'", f"an entry for every {field}"))
    return faults


def _noise(index: int, version: DeplVersionTable) -> list[Fault]:
    path: KeyPath = ("depl", "versions", index, "values")
    if version.noise == "empirical" and len(set(version.values)) < 2:
        return [Fault(path, f"{len(version.values)} value(s)", "at least two different ones: noise is empirical")]
    if version.noise != "empirical" and version.values:
        return [Fault(path, f"values with noise = '{version.noise}'", "mean and variance, or noise = 'empirical'")]
    return []
