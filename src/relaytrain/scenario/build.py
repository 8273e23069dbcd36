"""A validated file -> problem, costs, law and settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.cost import CostTable, Provenance
from ..core.nesting import slice_changes
from ..core.problem import Chain, Clock, DataSource, Node, NodeSet, Pair, PipelineWay, Problem, Target, Units, Version
from ..core.state import Grid
from ..core.world_settings import WorldSettings
from ..costs.analytic import AnalyticSettings, analytic_costs, missing_for
from ..costs.devices import FIGURES, DeviceProfile
from .checks import admissible
from .faults import Fault
from .model import PlannerSettings
from .nested import slices_in
from .schema import RandomTable, ScenarioFile, VersionTable
from .strict_table import Table
from .training_tables import TrainingTable

if TYPE_CHECKING:
    from ..core.depl_settings import DeplSettings
    from ..core.random_world import RandomWorld

Mask = NDArray[np.bool_]


def build_problem(file: ScenarioFile) -> Problem:
    """The problem; `start` is the first admissible pair that fits `[start]`."""
    pairs = tuple(Pair(*pair) for pair in admissible(file))
    s, t = file.start, file.target
    start = next(i for i, p in enumerate(pairs) if s.version in (None, p.version) and s.nodes in (None, p.nodes))
    return Problem(
        name=file.name or "scenario",
        pairs=pairs,
        start=start,
        initial_loss=file.start.loss,
        target=Target(t.loss, t.deadline, t.probability, t.metric, t.on),
        versions=_versions(file),
        nodes=tuple(Node(n.name, n.device, n.samples, n.classes) for n in file.nodes),
        node_sets=tuple(
            NodeSet(
                s.name,
                tuple(s.nodes),
                s.mode,
                PipelineWay(s.in_flight, s.keep, s.checkpoint, s.share_data),
                s.sample_share,
            )
            for s in file.node_sets
        ),
        data=tuple(DataSource(d.name, d.samples) for d in file.datasets),
        max_epochs=t.max_epochs,
        units=Units(file.units.time, file.units.energy),
        clock=clock_of(file),
    )


def clock_of(file: ScenarioFile) -> Clock:
    """What `[training]` says; else emulated once a node has a device profile, measured without any."""
    if file.training is not None and file.training.clock is not None:
        return file.training.clock
    return "emulated" if any(node.device is not None for node in file.nodes) else "measured"


def _versions(file: ScenarioFile) -> tuple[Version, ...]:
    share, inside = (file.training or TrainingTable()).slice_share, slices_in(file.versions)
    versions = [(_version(table), inside.get(table.name, ())) for table in file.versions]
    return tuple(replace(v, slices=inner, slice_share=share) if inner else v for v, inner in versions)


def _version(table: VersionTable) -> Version:
    chain = None if table.chain is None else Chain(**_frozen(table.chain))
    figures = (table.parameters, table.flops_per_sample, table.weight_bytes, table.activation_bytes_per_sample)
    return Version(table.name, *figures, chain, fixed_bytes=table.fixed_bytes, rank=table.rank or 0)


def _frozen(table: Table) -> dict[str, Any]:
    """The values of a table by key, its lists as tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table}


def _state_tensors(file: ScenarioFile) -> int:
    """Tensors of the weights' size that the optimizer keeps; without [training], what weight_copies leaves for it."""
    if file.training is None:
        return max(0, round(file.costs.weight_copies) - 2)
    if file.training.optimizer == "sgd":
        return 1 if file.training.momentum else 0
    return 2


class ChangeRules:
    """Which changes (row to column) a rule means; the diagonal, no change at all, is never meant."""

    def __init__(self, pairs: tuple[Pair, ...], versions: tuple[Version, ...] = ()) -> None:
        self._versions = np.array([p.version for p in pairs])
        self._nodes = np.array([p.nodes for p in pairs])
        version_moves = self._versions[:, None] != self._versions[None, :]
        nodes_move = self._nodes[:, None] != self._nodes[None, :]
        self._kinds = {
            "any": version_moves | nodes_move,
            "version": version_moves & ~nodes_move,
            "nodes": nodes_move & ~version_moves,
            "both": version_moves & nodes_move,
            "nested": slice_changes(pairs, versions),
        }

    def mask(self, before: str, now: str, kind: str = "any") -> Mask:
        """The changes from `before` to `now`, each a version, a pair "L on gold" or "*"."""
        return np.asarray(self._side(before)[:, None] & self._side(now)[None, :] & self._kinds[kind])

    def _side(self, text: str) -> Mask:
        version, _, nodes = text.partition(" on ")
        fits = np.ones(len(self._versions), dtype=bool) if version == "*" else self._versions == version
        return fits if nodes in ("", "*") else fits & (self._nodes == nodes)


def build_costs(
    file: ScenarioFile, problem: Problem, devices: Mapping[str, DeviceProfile], depl: DeplSettings | None = None
) -> tuple[CostTable, list[Fault], list[str]]:
    """Explicit figures where they are given, `[depl]`'s or modelled ones elsewhere; what can be neither is a fault."""
    pairs = problem.pairs
    modelled, lacking = _modelled(file, problem, devices)
    run_s, run_j = modelled.run_s.copy(), modelled.run_j.copy()
    first = None
    if depl is not None:
        from .depl_build import data_charges, full_costs

        run_s, run_j = full_costs(depl, problem)
        first = data_charges(depl, problem)
        lacking = {}
    change_s, change_j = modelled.change_s.copy(), modelled.change_j.copy()
    spread = np.full(len(pairs), file.costs.spread)
    reasons = dict(modelled.reasons)
    faults: list[Fault] = []
    given = {(p.version, p.nodes): (i, p) for i, p in enumerate(file.pairs)}
    any_modelled = False
    for index, pair in enumerate(pairs):
        position, row = given.get((pair.version, pair.nodes), (-1, None))
        if row is not None:
            run_s[index] = run_s[index] if row.seconds is None else row.seconds
            run_j[index] = run_j[index] if row.energy is None else row.energy
            spread[index] = spread[index] if row.spread is None else row.spread
            if row.reason is not None:
                reasons[index,] = row.reason
        if depl is None and (row is None or row.seconds is None or row.energy is None):
            any_modelled = True
            if row is None or row.spread is None:
                spread[index] = file.costs.modelled_spread if modelled.spread is None else modelled.spread[index]
            if pair in lacking:
                key = "energy" if row is not None and row.seconds is not None else "seconds"
                path = ("pairs",) if row is None else ("pairs", position, key)
                got = f"no {key} for {pair} and no {lacking[pair]} to model it from"
                faults.append(Fault(path, got, "one of the two to be given"))
    told = np.eye(len(pairs), dtype=bool)
    rules = ChangeRules(pairs, problem.versions)
    explained = np.full(told.shape, -1)  # the rule whose reason holds; -2: the modelled reason is overruled
    for number, rule in enumerate(file.changes):
        mask = rules.mask(rule.from_, rule.to, rule.kind)
        if rule.seconds is not None:
            change_s[mask] = rule.seconds
        if rule.energy is not None:
            change_j[mask] = rule.energy
        told |= mask
        if rule.reason is not None:
            explained[mask] = number
        elif rule.seconds is not None or rule.energy is not None:
            explained[mask] = -2
    for i, j in np.argwhere(explained != -1):
        reasons.pop((int(i), int(j)), None)
        reason = file.changes[explained[i, j]].reason if explained[i, j] >= 0 else None
        if reason is not None:
            reasons[int(i), int(j)] = reason
    warnings = []
    free = ~told & np.array([q in lacking for q in pairs])[None, :]
    if free.any() and len(pairs) > 1:
        i, j = np.argwhere(free)[0]
        more = f" and {int(free.sum()) - 1} more" if free.sum() > 1 else ""
        warnings.append(f"changes: nothing given for {pairs[i]} -> {pairs[j]}{more}: taken as free")
    provenance: Provenance = "modelled" if any_modelled else "assumed"
    return CostTable(run_s, change_s, run_j, change_j, spread, reasons, provenance, first), faults, warnings


def _modelled(
    file: ScenarioFile, problem: Problem, devices: Mapping[str, DeviceProfile]
) -> tuple[CostTable, dict[Pair, str]]:
    versions = {v.name: v for v in problem.versions}
    nodes = {n.name: n for n in problem.nodes}
    sets = {s.name: s for s in problem.node_sets}
    lacking: dict[Pair, str] = {}
    for pair in problem.pairs:
        lack = missing_for(versions[pair.version], sets[pair.nodes], nodes)
        if lack is not None:
            lacking[pair] = lack
    links = {n.name: (n.bits_per_s, n.j_per_bit) for n in file.nodes}
    members: dict[str, list[tuple[Node, DeviceProfile]]] = {}
    for group in problem.node_sets:
        if any(p.nodes == group.name and p not in lacking for p in problem.pairs):
            members[group.name] = [(nodes[n], _linked(devices[nodes[n].device or ""], *links[n])) for n in group.nodes]
    c = file.costs
    settings = AnalyticSettings(
        spread=c.modelled_spread,
        batch=c.batch,
        weight_copies=c.weight_copies,
        compress_s=c.compress_seconds,
        compress_j=c.compress_energy,
        grow_back=c.grow_back,
        state_tensors=_state_tensors(file),
    )
    able = [p if p not in lacking else Pair(p.version, "") for p in problem.pairs]
    return analytic_costs(able, versions, sets, members, settings), lacking


def _linked(device: DeviceProfile, bits_per_s: float | None, j_per_bit: float | None) -> DeviceProfile:
    return replace(
        device,
        bits_per_s=device.bits_per_s if bits_per_s is None else bits_per_s,
        j_per_bit=device.j_per_bit if j_per_bit is None else j_per_bit,
    )


def build_planner(file: ScenarioFile) -> PlannerSettings:
    """Who plans."""
    grid = file.planner.grid
    steps = None if grid is None else Grid(grid.loss_step, grid.time_step, grid.loss_top)
    return PlannerSettings(file.planner.name, file.planner.rule, steps, file.planner.seed, file.planner.atlas)


def build_world(file: ScenarioFile, problem: Problem) -> WorldSettings:
    """Noise, estimator errors and, if asked for, how random worlds are drawn."""
    world = file.world
    return WorldSettings(
        progress_noise_sd=world.progress_noise,
        loss_noise_sd=world.loss_noise,
        compute_spread=world.compute_spread,
        transfer_spread=world.transfer_spread,
        bias_sd=world.bias,
        bias_low=world.bias_range[0],
        bias_high=world.bias_range[1],
        jump_bias_sd=world.jump_bias,
        robust_shading=None if world.robust_shading is None else (world.robust_shading[0], world.robust_shading[1]),
        robust_jump_factor=world.robust_jump_factor,
        random=None if world.random is None else _random_world(world.random, problem),
    )


def _random_world(table: RandomTable, problem: Problem) -> RandomWorld:
    """Lists become tuples, and each rule about jumps the changes of pair that it means, the last rule winning."""
    from ..core.random_world import JumpRange, RandomWorld

    settings = _frozen(table)
    rules = ChangeRules(problem.pairs, problem.versions)
    chosen = np.full((len(problem.pairs), len(problem.pairs)), -1)
    for number, rule in enumerate(table.jumps):
        chosen[rules.mask(rule.from_, rule.to)] = number
    jumps = []
    for i, j in np.argwhere(chosen >= 0):
        rule = table.jumps[chosen[i, j]]
        jumps.append(JumpRange(int(i), int(j), rule.jump[0], rule.jump[1], rule.jump_per_loss))
    settings |= {"jumps": tuple(jumps), "slack_extra_s": settings.pop("slack_extra")}
    return RandomWorld(**settings)


def dump(file: ScenarioFile, devices: Mapping[str, DeviceProfile]) -> dict[str, Any]:
    """The file with every default written out and the shipped profiles it uses copied in; infinity is None."""
    data = file.model_dump(by_alias=True, exclude_none=True)
    used = {n.device for n in file.nodes if n.device is not None}
    for name in sorted(used - set(file.devices)):
        profile = devices[name]
        figures = {figure: getattr(profile, figure) for figure in FIGURES}
        data["devices"][name] = {**figures, "source": profile.source[:2000]}
    plain = _jsonable(data)
    assert isinstance(plain, dict)
    return plain


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return None
    return value
