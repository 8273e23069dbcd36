"""A scenario's `[data]` table -> what every node holds, and the validation and test sets. Deterministic by seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import ScenarioError
from ..core.problem import Node, Problem
from ..core.user_code import user_code
from ..data.dataset import Dataset, from_arrays
from ..data.domain import Preprocessing
from ..data.partition import by_class, by_size, dirichlet, iid, split
from ..data.quick import RECIPES, quick_data
from ..data.source import read as read_source

RESERVED = ("validation", "test")


@dataclass(frozen=True, eq=False)
class Sets:
    """Data by node, and the two sets that nobody trains on; `parts`: rows of a node's data by data set.

    `preprocessing`: what was done to the images of the source to make these.
    """

    nodes: Mapping[str, Dataset]
    validation: Dataset
    test: Dataset
    parts: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    preprocessing: Preprocessing = field(default_factory=Preprocessing)


Reader = Callable[..., Dataset]
"""Called as `data.source.read`."""


def build_sets(
    table: Mapping[str, Any], problem: Problem, folder: Path | None = None, *, read: Reader | None = None
) -> Sets:
    """The sets of a validated `[data]` table, for the nodes of `problem` that belong to a node set.

    Args:
        table: as `Scenario.data`.
        problem: whose nodes get data.
        folder: where `module:function` references and relative folders are looked for first.
        read: takes the place of `data.source.read`, for images that are at hand already.
    """
    members = {name for group in problem.node_sets for name in group.nodes}
    nodes = [node for node in problem.nodes if node.name in members]
    if not nodes:
        raise ScenarioError("node_sets: no set lists a node, expected nodes to hold the data of [data]")
    source = str(table["source"])
    kind = _partition(table, nodes)
    if kind == "datasets":
        sets = _from_datasets(table, problem, folder, read if read is not None else read_source)
    elif kind == "parts":
        sets = _from_parts(table, nodes, _parts(source, table["seed"], folder))
    else:
        sets = _from_whole(table, nodes, kind, folder, read if read is not None else read_source)
    return _prepared(sets, table)


def _partition(table: Mapping[str, Any], nodes: list[Node]) -> str:
    if table["partition"] is not None:
        return str(table["partition"])
    if table["source"] in RECIPES or table["nodes"]:
        return "parts"
    return "sizes" if all(node.samples is not None for node in nodes) else "iid"


def _parts(source: str, seed: int, folder: Path | None) -> dict[str, Dataset]:
    if source in RECIPES:
        return quick_data(seed, source)
    if ":" not in source:
        raise ScenarioError(f"data.partition: {source} has no parts; expected sizes, iid, by-class or dirichlet")
    function = _resolver(folder)(source)
    with user_code(source):
        parts = function()
    if not isinstance(parts, Mapping) or not parts:
        raise ScenarioError(f"data.source: {source}() returned {type(parts).__name__}, expected datasets by name")
    return {str(name): _dataset(part, f"{source} {name}") for name, part in parts.items()}


def _dataset(value: Any, name: str) -> Dataset:
    if isinstance(value, Dataset):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return from_arrays(np.asarray(value[0]), np.asarray(value[1]), name=name)
    raise ScenarioError(f"data.source: {name} is a {type(value).__name__}, expected (images, labels)")


def _from_parts(table: Mapping[str, Any], nodes: list[Node], parts: dict[str, Dataset]) -> Sets:
    for name in RESERVED:
        if name not in parts:
            raise ScenarioError(f"data.source: no part {name!r}, expected one beside {', '.join(parts)}")
    free = [name for name in parts if name not in RESERVED]
    takers: dict[str, list[Node]] = {}
    for node in nodes:
        part = table["nodes"].get(node.name, node.name)
        if part not in free:
            raise ScenarioError(
                f"data.nodes.{node.name}: got {part!r}, expected one of the source's parts: {', '.join(free)}"
            )
        takers.setdefault(part, []).append(node)
    held: dict[str, Dataset] = {}
    for part, group in takers.items():
        whole = parts[part]
        if all(node.samples is not None for node in group):
            wanted = {node.name: node.samples or 0 for node in group}
            shares = by_size(len(whole), wanted, seed=table["seed"])
        else:
            shares = iid(len(whole), [node.name for node in group], seed=table["seed"])
        held |= {name: whole.part(indexes, name) for name, indexes in shares.items()}
    return Sets(_ordered(held, nodes), parts["validation"], parts["test"])


def _from_whole(table: Mapping[str, Any], nodes: list[Node], kind: str, folder: Path | None, read: Reader) -> Sets:
    place = Path(table["folder"]) if table["folder"] else None
    if place is not None and folder is not None and not place.is_absolute():
        place = folder / place
    reference = _resolver(folder) if ":" in table["source"] else None
    train = read(table["source"], split="train", folder=place, resolve=reference)
    test = read(table["source"], split="test", folder=place, resolve=reference)
    seed, share = table["seed"], table["validation"]
    apart = split(train.labels, {"train": 1.0 - share, "validation": share}, seed=seed)
    pool, validation = train.part(apart["train"]), train.part(apart["validation"], "validation")
    names = [node.name for node in nodes]
    sizes = {node.name: node.samples or 0 for node in nodes}
    if kind == "sizes":
        lacking = next((n.name for n in nodes if n.samples is None), None)
        if lacking is not None:
            raise ScenarioError(f"nodes.{lacking}.samples: nothing, expected a number: data.partition is sizes")
        shares = by_size(len(pool), sizes, seed=seed)
    elif kind == "iid":
        shares = iid(len(pool), names, seed=seed)
    elif kind == "by-class":
        missing = next((name for name in names if name not in table["classes"]), None)
        if missing is not None:
            raise ScenarioError(f"data.classes: nothing for node {missing}, expected its classes")
        classes = {name: table["classes"][name] for name in names}
        sized = all(node.samples is not None for node in nodes)
        shares = by_class(pool.labels, classes, seed=seed, sizes=sizes if sized else None)
    else:
        shares = dirichlet(pool.labels, names, alpha=table["alpha"], seed=seed)
    held = {name: pool.part(indexes, name) for name, indexes in shares.items()}
    return Sets(_ordered(held, nodes), validation, test)


def _from_datasets(table: Mapping[str, Any], problem: Problem, folder: Path | None, read: Reader) -> Sets:
    """Every data set of the problem, by its `samples`, divided equally among the nodes of each node set."""
    lacking = next((d.name for d in problem.data if d.samples is None), None)
    if not problem.data or lacking is not None:
        raise ScenarioError(
            f"datasets.{lacking or ''}: no samples, expected [[datasets]] with samples: data.partition is datasets"
        )
    holders = [name for group in problem.node_sets for name in group.nodes]
    twice = next((name for name in holders if holders.count(name) > 1), None)
    if twice is not None:
        raise ScenarioError(f"node_sets: node {twice} is in several, expected one: data.partition is datasets")
    sizes = [Node(d.name, samples=d.samples) for d in problem.data]
    whole = _from_whole(table, sizes, "sizes", folder, read)
    held: dict[str, Dataset] = {}
    parts: dict[str, dict[str, tuple[int, int]]] = {}
    for group in problem.node_sets:
        for node in group.nodes:
            rows, at = [], 0
            parts[node] = {}
            for name, data in whole.nodes.items():
                share = np.array_split(np.arange(len(data)), len(group.nodes))[group.nodes.index(node)]
                rows.append(data.part(share, name))
                parts[node][name] = (at, at + len(share))
                at += len(share)
            held[node] = together(rows)
    return Sets(held, whole.validation, whole.test, parts)


def _ordered(held: dict[str, Dataset], nodes: list[Node]) -> dict[str, Dataset]:
    return {node.name: held[node.name] for node in nodes}


def _prepared(sets: Sets, table: Mapping[str, Any]) -> Sets:
    """Smaller and standardised images where the table asks for them; standardised by the nodes' own statistics."""
    steps = Preprocessing(table["shrink"])
    if table["standardise"]:
        like = together([steps.apply(data) for data in sets.nodes.values()])
        steps = Preprocessing.standardising(like, shrink=steps.shrink)
    held = {name: steps.apply(data) for name, data in sets.nodes.items()}
    validation, test = steps.apply(sets.validation), steps.apply(sets.test)
    return replace(sets, nodes=held, validation=validation, test=test, preprocessing=steps)


def together(parts: list[Dataset]) -> Dataset:
    """Sets of the same classes as one."""
    if len(parts) == 1:
        return parts[0]
    images = np.concatenate([part.images for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    return Dataset(images, labels, max(part.classes for part in parts), "train")


def _resolver(folder: Path | None) -> Callable[[str], Callable[..., Any]]:
    def follow(reference: str) -> Callable[..., Any]:
        from ..scenario.resolve import resolve

        value = resolve(reference, folder).value
        if not callable(value):
            raise ScenarioError(f"data.source: {reference} is a {type(value).__name__}, expected a function")
        reader: Callable[..., Any] = value
        return reader

    return follow
