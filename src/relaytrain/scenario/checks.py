"""What no single field can know: names that must be unique, references that must exist, sizes that must stay sane."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ..core.errors import did_you_mean
from .faults import Fault
from .fields import KeyPath, shown
from .prior_table import PriorCurveTable, PriorHandoverTable, PriorTable
from .schema import (
    MAX_PAIRS,
    ChangeTable,
    CurveTable,
    JumpRangeTable,
    JumpTable,
    NodeSetTable,
    ScenarioFile,
    StepsTable,
)

MAX_STATES = 1e10
"""Most states of PACT's grid, pairs x time steps x loss steps, that a scenario may ask for."""

MAX_CELLS = 2_000_000
"""Most figures in tables by epoch, over all pairs (or pairs of pairs for jumps)."""

MAX_MEMBERS = 20_000
"""Most nodes over all node sets, counting a node once for each set."""

MAX_RULE_CELLS = 50_000_000
"""Most entries of changes and jumps, times the changes each may speak of: loading takes a second or two then."""

_DEVICES_HINT = "; declare it as [devices.NAME] or use a shipped profile"


def check(file: ScenarioFile, shipped_devices: Iterable[str]) -> list[Fault]:
    """Everything wrong with a file whose fields are each all right."""
    faults: list[Fault] = []
    for key, names in {
        "versions": [v.name for v in file.versions],
        "nodes": [n.name for n in file.nodes],
        "node_sets": [s.name for s in file.node_sets],
        "datasets": [d.name for d in file.datasets],
        "pairs": [f"{p.version} on {p.nodes}" for p in file.pairs],
    }.items():
        faults += _unique(key, names)
    faults += _references(file, [*shipped_devices, *file.devices])
    faults += _pipelines(file)
    faults += _pairs(file)
    faults += _law(file)
    faults += _planner(file)
    faults += _world(file)
    return faults


def _unique(key: str, names: Sequence[str]) -> list[Fault]:
    seen: set[str] = set()
    faults = []
    for index, name in enumerate(names):
        if name in seen:
            path: KeyPath = (key, index) if key == "pairs" else (key, index, "name")
            faults.append(Fault(path, f"{shown(name)} a second time", "each to be declared once"))
        seen.add(name)
    return faults


def missing(path: KeyPath, name: str, known: Sequence[str], what: str) -> list[Fault]:
    """The fault of a name that nobody declared; none for "*"."""
    if name in known or name == "*":
        return []
    listed = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
    return [
        Fault(path, shown(name), f"a declared {what}: {listed or 'none is declared'}{did_you_mean(name, known[:200])}")
    ]


def _references(file: ScenarioFile, devices: list[str]) -> list[Fault]:
    versions = [v.name for v in file.versions]
    sets = [s.name for s in file.node_sets]
    nodes = {n.name for n in file.nodes}
    faults: list[Fault] = []
    for index, node in enumerate(file.nodes):
        if node.device is not None and node.device not in devices:
            (fault,) = missing(("nodes", index, "device"), node.device, devices, "device")
            faults.append(Fault(fault.path, fault.got, fault.expected + _DEVICES_HINT))
    members = sum(len(group.nodes) for group in file.node_sets)
    if members > MAX_MEMBERS:
        return [Fault(("node_sets",), f"{members} nodes over all sets", f"at most {MAX_MEMBERS}")]
    for index, group in enumerate(file.node_sets):
        seen: set[str] = set()
        for name in group.nodes:
            if name not in nodes:
                faults += missing(("node_sets", index, "nodes"), name, [n.name for n in file.nodes], "node")
            elif name in seen:
                faults.append(Fault(("node_sets", index, "nodes"), f"{shown(name)} twice", "each node once in a set"))
            seen.add(name)
    for index, pair in enumerate(file.pairs):
        faults += missing(("pairs", index, "version"), pair.version, versions, "version")
        faults += missing(("pairs", index, "nodes"), pair.nodes, sets, "node set")
    prior = file.prior
    tables: dict[KeyPath, Sequence[CurveTable | StepsTable | PriorCurveTable]] = {
        ("law", "curves"): file.law.curves,
        ("law", "steps"): file.law.steps,
        ("prior", "curves"): prior.curves if prior else [],
    }
    for place, rows in tables.items():
        for index, row in enumerate(rows):
            faults += missing((*place, index, "version"), row.version, versions, "version")
            faults += missing((*place, index, "nodes"), row.nodes, sets, "node set")
    faults += _entered(prior) if prior else []
    drawn = file.world.random
    rules: list[tuple[KeyPath, ChangeTable | JumpTable | JumpRangeTable | PriorHandoverTable]] = [
        *((("changes", i), rule) for i, rule in enumerate(file.changes)),
        *((("law", "jumps", i), rule) for i, rule in enumerate(file.law.jumps)),
        *((("prior", "handovers", i), rule) for i, rule in enumerate(prior.handovers if prior else [])),
        *((("world", "random", "jumps", i), rule) for i, rule in enumerate(drawn.jumps if drawn else [])),
    ]
    for path, rule in rules:
        for key, side in {"from": rule.from_, "to": rule.to}.items():
            version, _, group_name = side.partition(" on ")
            faults += missing((*path, key), version, versions, "version")
            faults += missing((*path, key), group_name or "*", sets, "node set")
    return faults


def _entered(prior: PriorTable) -> list[Fault]:
    """Experience rises, and curves say something for each of its figures."""
    faults = []
    if any(later <= before for before, later in pairwise(prior.entered)):
        faults.append(Fault(("prior", "entered"), shown(prior.entered), "figures that rise"))
    for index, curve in enumerate(prior.curves):
        for key in ("entered_floor", "entered_pace"):
            figures = getattr(curve, key)
            if figures and len(figures) != len(prior.entered):
                path: KeyPath = ("prior", "curves", index, key)
                expected = f"as many as prior.entered has, {len(prior.entered)}"
                faults.append(Fault(path, f"{len(figures)} figures", expected))
    return faults


def _pipelines(file: ScenarioFile) -> list[Fault]:
    faults: list[Fault] = []
    for index, group in enumerate(file.node_sets):
        if group.mode == "federated":
            for key in ("in_flight", "keep", "checkpoint", "share_data"):
                if getattr(group, key) != NodeSetTable.model_fields[key].default:
                    wanted = "mode = 'pipeline' beside it, or no such key"
                    faults.append(Fault(("node_sets", index, key), f"{key} of a federated set", wanted))
        elif group.sample_share < 1.0:
            wanted = "all of its nodes: each holds a part of the network"
            faults.append(Fault(("node_sets", index, "sample_share"), "a sampled share of a pipeline", wanted))
        if group.sample_share < 1.0 and file.depl is not None:
            wanted = "no such key: [depl] says what an epoch costs, of all nodes"
            faults.append(Fault(("node_sets", index, "sample_share"), "a sampled share beside [depl]", wanted))
    for index, version in enumerate(file.versions):
        if version.chain is not None:
            units = len(version.chain.weight_bytes)
            for key, value in version.chain:
                if isinstance(value, list) and len(value) != units:
                    wanted = f"{units}, one a unit, as weight_bytes has"
                    faults.append(Fault(("versions", index, "chain", key), f"{len(value)} figures", wanted))
    return faults


def admissible(file: ScenarioFile) -> list[tuple[str, str]]:
    """The pairs in order: those listed, or every version on every node set."""
    if file.pairs:
        return [(p.version, p.nodes) for p in file.pairs]
    return [(v.name, s.name) for v in file.versions for s in file.node_sets]


def _pairs(file: ScenarioFile) -> list[Fault]:
    pairs = admissible(file)
    faults: list[Fault] = []
    if len(pairs) > MAX_PAIRS:
        wanted = f"at most {MAX_PAIRS}; list the ones to consider as [[pairs]]"
        faults.append(Fault(("pairs",), f"{len(pairs)} pairs", wanted))
    drawn = file.world.random
    rules = len(file.changes) + len(file.law.jumps) + (len(drawn.jumps) if drawn else 0)
    if rules * len(pairs) ** 2 > MAX_RULE_CELLS:
        wanted = f"at most {MAX_RULE_CELLS // len(pairs) ** 2} for {len(pairs)} pairs; use wildcards"
        faults.append(Fault(("changes",), f"{rules} entries of changes and jumps", wanted))
    start = file.start
    match = [p for p in pairs if start.version in (None, p[0]) and start.nodes in (None, p[1])]
    if not match:
        asked = f"{start.version or '*'} on {start.nodes or '*'}"
        known = ", ".join(f"{v} on {n}" for v, n in pairs[:12])
        faults.append(Fault(("start",), asked, f"one of the admissible pairs: {known}"))
    return faults


def _law(file: ScenarioFile) -> list[Fault]:
    law = file.law
    faults: list[Fault] = []
    everything = ("steps", "curves", "jumps")
    others = {"level": ("steps",), "epoch": ("curves",), "depl": everything, "wide": everything}[law.kind]
    for other in others:
        if getattr(law, other):
            wanted = {"depl": "none; [depl] says it all", "wide": "none, or kind 'level' or 'epoch'"}.get(
                law.kind, f"none; {other} belong to the other kind of law"
            )
            faults.append(Fault(("law", other), f"entries with kind = '{law.kind}'", wanted))
    if law.kind == "level":
        for index, jump in enumerate(law.jumps):
            for key in ("jump", "robust_jump"):
                if isinstance(getattr(jump, key), list):
                    wanted = "one figure: a level law knows no epochs"
                    faults.append(Fault(("law", "jumps", index, key), "a list", wanted))
    pairs = len(admissible(file))
    by_epoch = [*(steps.change for steps in law.steps), *(curve.progress for curve in law.curves)]
    longest = max((len(series) for series in by_epoch if isinstance(series, list)), default=1)
    longest_jump = max((len(j.jump) for j in law.jumps if isinstance(j.jump, list)), default=1)
    if longest * pairs > MAX_CELLS or longest_jump * pairs**2 > MAX_CELLS:
        faults.append(Fault(("law",), "tables by epoch too large for so many pairs", f"at most {MAX_CELLS} figures"))
    return faults


def _planner(file: ScenarioFile) -> list[Fault]:
    grid = file.planner.grid
    if grid is None:
        return []
    if not math.isfinite(file.target.deadline):
        wanted = "target.deadline to be finite: the grid has steps of time"
        return [Fault(("planner", "grid"), "a grid without a deadline", wanted)]
    top = grid.loss_top or file.start.loss
    states = len(admissible(file)) * (file.target.deadline / grid.time_step) * (top / grid.loss_step)
    if states > MAX_STATES:
        wanted = f"at most {MAX_STATES:.0e}; take larger steps or leave the grid out"
        return [Fault(("planner", "grid"), f"about {states:.1e} states", wanted)]
    return []


def _world(file: ScenarioFile) -> list[Fault]:
    faults: list[Fault] = []
    world = file.world
    ranges: dict[KeyPath, list[float] | None] = {
        ("world", "bias_range"): world.bias_range,
        ("world", "robust_shading"): world.robust_shading,
    }
    if world.random is not None:
        drawn = world.random
        for key in ("floor", "scale", "power", "target_loss", "tight_share"):
            ranges["world", "random", key] = getattr(drawn, key)
        for index, jump in enumerate(drawn.jumps):
            ranges["world", "random", "jumps", index, "jump"] = jump.jump
        if file.law.kind != "level":
            faults.append(Fault(("world", "random"), "random worlds with an epoch law", "law.kind = 'level'"))
    for path, values in ranges.items():
        if values is not None and values[0] > values[1]:
            faults.append(Fault(path, f"[{values[0]:g}, {values[1]:g}]", "the lower figure first"))
    return faults
