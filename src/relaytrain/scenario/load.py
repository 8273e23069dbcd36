"""One way in: a path, a preset or a mapping -> `Scenario`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ..core.errors import ScenarioError
from ..core.problem import Problem
from ..costs.devices import DeviceProfile, load_devices
from .build import build_costs, build_planner, build_problem, build_world, dump
from .checks import admissible, check
from .depl_checks import check_depl
from .faults import Fault, from_pydantic, raise_faults
from .fields import shown
from .laws import build_law
from .model import Scenario
from .overrides import apply_overrides
from .read import Document, read_source
from .schema import SCHEMA_VERSION, ScenarioFile
from .training_checks import check_training

if TYPE_CHECKING:
    from ..core.depl_settings import DeplSettings


def load_scenario(
    source: str | PathLike[str] | Mapping[str, Any], overrides: Iterable[str] = (), without: Iterable[str] = ()
) -> Scenario:
    """Read, check and understand a scenario.

    Args:
        source: A path (TOML or JSON), the name of a preset, or the tables themselves.
        overrides: `key=value` texts as of `--set`.
        without: Node sets to leave out, or nodes: then every set that holds one is left out.

    Raises:
        ScenarioError: With file, line, key, what was got and what is expected, for up to five faults at once.
    """
    document = read_source(source)
    data, places = apply_overrides(document.data, overrides)
    document = replace(document, data=data, overrides=places)
    file = _validated(document)
    devices = _devices(file)
    raise_faults(document, [*check(file, load_devices()), *check_training(file), *check_depl(file)])
    file, notes = _leave_out(file, without)
    file = file.model_copy(update={"name": file.name or _name_from(document)})
    return _built(document, file, devices, notes)


def _validated(document: Document) -> ScenarioFile:
    units = document.data.get("units")
    plain = set()
    if isinstance(units, dict):
        plain = {axis for axis, own in (("time", "s"), ("energy", "J")) if units.get(axis, own) != own}
    schema = document.data.get("schema", SCHEMA_VERSION)
    if isinstance(schema, int | float) and not isinstance(schema, bool) and schema > SCHEMA_VERSION:
        # Said first and alone: the other faults of a newer file would only mislead.
        raise_faults(
            document, [Fault(("schema",), shown(schema), f"{SCHEMA_VERSION}: this file is made for a newer relaytrain")]
        )
    try:
        return ScenarioFile.model_validate(document.data, context={"plain": plain})
    except ValidationError as error:
        raise_faults(document, from_pydantic(error, document.data))
        raise AssertionError("unreachable") from None


def _devices(file: ScenarioFile) -> dict[str, DeviceProfile]:
    own = {
        name: DeviceProfile(
            name, d.flops_per_s, d.busy_w, d.idle_w, d.memory_bytes, d.bits_per_s, d.j_per_bit, source=d.source
        )
        for name, d in file.devices.items()
    }
    return {**load_devices(), **own}


def _name_from(document: Document) -> str:
    stem = document.preset or (document.path.stem if document.path else "scenario")
    cleaned = re.sub(r"[^A-Za-z0-9_.+-]+|\.\.+", "-", stem).strip("-._+")[:64]
    return cleaned or "scenario"


def _leave_out(file: ScenarioFile, without: Iterable[str]) -> tuple[ScenarioFile, list[str]]:
    names = [without] if isinstance(without, str) else list(without)
    if not names:
        return file, []
    sets = {s.name: s for s in file.node_sets}
    nodes = {n.name for n in file.nodes}
    gone: set[str] = set()
    for name in names:
        known = [*sets, *sorted(nodes)]
        if name in sets:
            gone.add(name)
        elif name in nodes:
            gone |= {s.name for s in file.node_sets if name in s.nodes}
        else:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            listed = ", ".join(known[:20])
            raise ScenarioError(f"--without: got {shown(name)}, expected a node set or node: {listed}{hint}")
    explicit = file.pairs or None
    left = [s for s in file.node_sets if s.name not in gone]
    pairs = [p for p in file.pairs if p.nodes not in gone]
    if not left or (explicit is not None and not pairs):
        raise ScenarioError(f"--without: got {', '.join(names)}, expected at least one pair to be left")

    def kept(side: str) -> bool:
        return side.partition(" on ")[2] not in gone

    law = file.law
    law = law.model_copy(update={
        "curves": [c for c in law.curves if c.nodes not in gone],
        "steps": [s for s in law.steps if s.nodes not in gone],
        "jumps": [j for j in law.jumps if kept(j.from_) and kept(j.to)],
    })  # fmt: skip
    world = file.world
    if world.random is not None:
        jumps = [j for j in world.random.jumps if kept(j.from_) and kept(j.to)]
        world = world.model_copy(update={"random": world.random.model_copy(update={"jumps": jumps})})
    changes = [c for c in file.changes if kept(c.from_) and kept(c.to)]
    prior = file.prior
    if prior is not None:
        curves = [c for c in prior.curves if c.nodes not in gone]
        handovers = [h for h in prior.handovers if kept(h.from_) and kept(h.to)]
        prior = prior.model_copy(update={"curves": curves, "handovers": handovers})
    depl = file.depl
    if depl is not None:
        clusters = [c for c in depl.clusters if c.nodes not in gone]
        charges = [c for c in depl.charges if c.nodes not in gone]
        depl = depl.model_copy(update={"clusters": clusters, "charges": charges})
    tables = {
        "depl": depl,
        "node_sets": left,
        "pairs": pairs,
        "changes": changes,
        "law": law,
        "world": world,
        "prior": prior,
    }
    slim = file.model_copy(update=tables)
    return _restart(file, slim)


def _restart(file: ScenarioFile, slim: ScenarioFile) -> tuple[ScenarioFile, list[str]]:
    """Where the network starts when its set is gone: the first pair left, of the same version if there is one."""
    old = build_problem(file)
    version, nodes = old.pairs[old.start]
    pairs = admissible(slim)
    if (version, nodes) in pairs:
        return slim.model_copy(update={"start": slim.start.model_copy(update={"version": version, "nodes": nodes})}), []
    new = next((p for p in pairs if p[0] == version), pairs[0])
    start = slim.start.model_copy(update={"version": new[0], "nodes": new[1]})
    note = f"start: {version} on {nodes} is left out; the relay starts with {new[0]} on {new[1]}"
    return slim.model_copy(update={"start": start}), [note]


def _built(document: Document, file: ScenarioFile, devices: dict[str, DeviceProfile], notes: list[str]) -> Scenario:
    problem = build_problem(file)
    depl = _depl(file, problem)
    costs, cost_faults, cost_notes = build_costs(file, problem, devices, depl)
    law, law_faults, law_notes = build_law(file.law, problem, depl)
    raise_faults(document, [*cost_faults, *law_faults])
    if all(costs.why_not(problem.start, now) is not None for now in range(len(problem.pairs))):
        reason = costs.why_not(problem.start, problem.start)
        got = f"no pair that can run from the start ({reason})"
        raise_faults(document, [Fault(("pairs",), got, "a finite cost for one")])
    return Scenario(
        problem=problem,
        costs=costs,
        law=law,
        planner=build_planner(file),
        world=build_world(file, problem),
        resolved=dump(file, devices),
        source=document.path,
        preset=document.preset,
        training=file.training.model_dump() if file.training else {},
        data=file.data.model_dump() if file.data else {},
        prior=file.prior.model_dump(by_alias=True, exclude_none=True) if file.prior else {},
        estimator=file.estimator.model_dump(exclude_none=True) if file.estimator else {},
        depl=depl,
        warnings=(*notes, *cost_notes, *law_notes),
    )


def _depl(file: ScenarioFile, problem: Problem) -> DeplSettings | None:
    if file.depl is None:
        return None
    from .depl_build import build_depl

    return build_depl(file, problem)
