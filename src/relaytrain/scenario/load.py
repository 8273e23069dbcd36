"""One way in: a path, a preset or a mapping -> `Scenario`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from ..core.errors import ScenarioError, did_you_mean
from ..core.explain import say_met_before
from ..costs.devices import DeviceProfile, load_devices
from .build import build_costs, build_planner, build_problem, build_world, dump
from .checks import admissible, check
from .depl_checks import check_depl
from .faults import Fault, from_pydantic, raise_faults
from .fields import shown
from .laws import build_law
from .model import Scenario
from .overrides import apply_overrides, texts
from .read import Document, read_source
from .schema import SCHEMA_VERSION, ScenarioFile
from .training_checks import check_training

GUESSED = (
    "law: none, and nothing fitted, so plans are guesses until a run's own losses teach; less of a guess: `relaytrain "
    "scout` trains a few relays and writes what they teach; so do `atlas --teach`, or `collect` and `fit`"
)
Source = str | PathLike[str] | Mapping[str, Any] | Scenario


def scenario_from(source: Source, overrides: Iterable[str] = (), without: Iterable[str] = ()) -> Scenario:
    """As `load_scenario`, or a scenario as it is; changes to that are made to its resolved form."""
    if not isinstance(source, Scenario):
        return load_scenario(source, overrides, without)
    changes, left_out = texts(overrides), texts(without)
    if not changes and not left_out:
        return source
    again = load_scenario(source.resolved, changes, left_out)
    return replace(
        again,
        source=source.source,
        preset=source.preset,
        overrides=(*source.overrides, *changes),
        without=(*source.without, *left_out),
    )


def load_scenario(
    source: str | PathLike[str] | Mapping[str, Any] | Document,
    overrides: Iterable[str] = (),
    without: Iterable[str] = (),
) -> Scenario:
    """Read, check and understand a scenario.

    Args:
        source: A path (TOML or JSON), the name of a preset, the tables themselves, or what was read of them.
        overrides: `key=value` texts as of `--set`.
        without: Node sets to leave out, or nodes: then every set that holds one is left out.

    Raises:
        ScenarioError: With file, line, key, what was got and what is expected, for up to five faults at once.
    """
    document = read_source(source)
    changes, left_out = texts(overrides), texts(without)
    data, places = apply_overrides(document.data, changes)
    document = replace(document, data=data, overrides=places)
    file = _validated(document)
    devices = _devices(file)
    raise_faults(document, [*check(file, load_devices()), *check_training(file), *check_depl(file)])
    file, notes = _leave_out(file, left_out)
    file = file.model_copy(update={"name": file.name or _name_from(document)})
    return replace(_built(document, file, devices, notes), overrides=changes, without=left_out)


def _validated(document: Document) -> ScenarioFile:
    from pydantic import ValidationError  # not before numpy, whose types are described slower behind it

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
        raise_faults(document, from_pydantic(error))
        raise AssertionError("unreachable") from None


def _devices(file: ScenarioFile) -> dict[str, DeviceProfile]:
    return load_devices() | {name: DeviceProfile(name, **dict(table)) for name, table in file.devices.items()}


def _name_from(document: Document) -> str:
    stem = document.preset or (document.path.stem if document.path else "scenario")
    cleaned = re.sub(r"[^A-Za-z0-9_.+-]+|\.\.+", "-", stem).strip("-._+")[:64]
    return cleaned or "scenario"


def _leave_out(file: ScenarioFile, names: Sequence[str]) -> tuple[ScenarioFile, list[str]]:
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
            listed = ", ".join(known[:20]) + did_you_mean(name, known)
            raise ScenarioError(f"--without: got {shown(name)}, expected a node set or node: {listed}")
    explicit = file.pairs or None
    left = [s for s in file.node_sets if s.name not in gone]
    pairs = [p for p in file.pairs if p.nodes not in gone]
    if not left or (explicit is not None and not pairs):
        raise ScenarioError(f"--without: got {', '.join(names)}, expected at least one pair to be left")

    def without_gone(table: Any, *, sides: str = "", nodes: Sequence[str] = ()) -> Any:
        """The table with those of its rules that go between nodes still there, and its rows of nodes still there."""
        if table is None:
            return None
        lists = {key: [row for row in getattr(table, key) if row.nodes not in gone] for key in nodes}
        if sides:
            lists[sides] = between(getattr(table, sides))
        return table.model_copy(update=lists)

    def between(rules: list[Any]) -> list[Any]:
        return [r for r in rules if all(side.partition(" on ")[2] not in gone for side in (r.from_, r.to))]

    drawn = without_gone(file.world.random, sides="jumps")
    tables = {
        "depl": without_gone(file.depl, nodes=("clusters", "charges")),
        "node_sets": left,
        "pairs": pairs,
        "changes": between(file.changes),
        "law": without_gone(file.law, sides="jumps", nodes=("curves", "steps")),
        "world": file.world.model_copy(update={"random": drawn}),
        "prior": without_gone(file.prior, sides="handovers", nodes=("curves",)),
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
    depl = None
    if file.depl is not None:
        from .depl_build import build_depl

        depl = build_depl(file, file.depl, problem)
    costs, cost_faults, cost_notes = build_costs(file, problem, devices, depl)
    law, law_faults, law_notes = build_law(file.law, problem, depl)
    raise_faults(document, [*cost_faults, *law_faults])
    if all(costs.why_not(problem.start, now) is not None for now in range(len(problem.pairs))):
        reason = costs.why_not(problem.start, problem.start)
        got = f"no pair that can run from the start ({reason})"
        raise_faults(document, [Fault(("pairs",), got, "a finite cost for one")])
    scenario = Scenario(
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
    more = [GUESSED] if scenario.guessed else []
    if problem.initial_loss <= problem.target.loss:
        more.append(f"target: {say_met_before(problem.target.loss, problem.initial_loss)}")
    return replace(scenario, warnings=(*scenario.warnings, *more))
