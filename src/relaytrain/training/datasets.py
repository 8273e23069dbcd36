"""A scenario's `[data]` table -> what every node holds, and the validation and test sets. Deterministic by seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ScenarioError, UsageError
from ..core.problem import Node, Problem
from ..core.user_code import user_code
from ..data.dataset import Dataset
from ..data.domain import Preprocessing
from ..data.own import Origin, OwnData, Together, labels_of
from ..data.partition import by_class, by_size, dirichlet, iid, split
from ..data.quick import RECIPES, quick_data
from ..data.source import read as read_source
from .own_data import Data, by_node, data_of, divisible_labels, from_python, function_of, result_of

RESERVED = ("validation", "test")


@dataclass(frozen=True, eq=False)
class Sets:
    """Data by node, and the two sets that nobody trains on; `parts`: rows of a node's data by data set.

    `preprocessing`: what was done to the images of the source to make these. Either all are images in memory, or none.
    """

    nodes: Mapping[str, Data]
    validation: Data
    test: Data
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
    elif kind == "by-node":
        sets = _by_node(table, nodes, folder)
    else:
        sets = _from_whole(table, nodes, kind, folder, read if read is not None else read_source)
    return _prepared(sets, table)


def _partition(table: Mapping[str, Any], nodes: list[Node]) -> str:
    if table["partition"] is not None:
        return str(table["partition"])
    if table["source"] in RECIPES or table["nodes"]:
        return "parts"
    return "sizes" if all(node.samples is not None for node in nodes) else "iid"


def _parts(source: str, seed: int, folder: Path | None) -> Mapping[str, Data]:
    if source in RECIPES:
        return quick_data(seed, source)
    if ":" not in source:
        raise ScenarioError(f"data.partition: {source} has no parts; expected sizes, iid, by-class or dirichlet")
    parts = result_of(Origin(source), folder)
    if not isinstance(parts, Mapping) or not parts:
        raise ScenarioError(f"data.source: {source}() returned {type(parts).__name__}, expected datasets by name")

    def anew(part: str) -> Callable[[], Any]:
        return lambda: result_of(Origin(source), folder)[part]

    named = {str(name): value for name, value in parts.items()}
    return {
        name: data_of(value, f"{name} of {source}", Origin(source, part=name), anew(name))
        for name, value in named.items()
    }


def _by_node(table: Mapping[str, Any], nodes: list[Node], folder: Path | None) -> Sets:
    source = str(table["source"])
    if ":" not in source:
        raise ScenarioError(f"data.partition: by-node needs a function of your own as source, got {source}")
    parts = by_node(source, [node.name for node in nodes], folder)
    return Sets({node.name: parts[node.name] for node in nodes}, parts["validation"], parts["test"])


def _from_parts(table: Mapping[str, Any], nodes: list[Node], parts: Mapping[str, Data]) -> Sets:
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
    held: dict[str, Data] = {}
    for part, group in takers.items():
        whole = parts[part]
        if len(group) == 1 and isinstance(whole, OwnData) and (whole.kind != "samples" or group[0].samples is None):
            held[group[0].name] = whole  # all of it, whatever it is
            continue
        if isinstance(whole, OwnData):
            whole.check_divisible()
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
    train, test = (_read(read, str(table["source"]), which, place, folder) for which in ("train", "test"))
    seed, share = table["seed"], table["validation"]
    apart = split(_classes(train), {"train": 1.0 - share, "validation": share}, seed=seed)
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
        shares = by_class(divisible_labels(pool, kind), classes, seed=seed, sizes=sizes if sized else None)
    else:
        shares = dirichlet(divisible_labels(pool, kind), names, alpha=table["alpha"], seed=seed)
    held = {name: pool.part(indexes, name) for name, indexes in shares.items()}
    return Sets(_ordered(held, nodes), validation, test)


def _read(read: Reader, source: str, which: str, place: Path | None, folder: Path | None) -> Data:
    """One set of a source by name, or what a function of the user's own gives."""
    if ":" not in source:
        return read(source, split=which, folder=place)
    if read is not read_source:
        return read(source, split=which, folder=place, resolve=lambda named: function_of(named, folder))
    origin = Origin(source, which)
    return data_of(result_of(origin, folder), f"{which} of {source}", origin, lambda: result_of(origin, folder))


def _classes(data: Data) -> NDArray[np.int64]:
    """Classes by which a split is even; all alike where data of a user's own do not have them."""
    if isinstance(data, Dataset):
        return data.labels
    data.check_divisible()
    labels = labels_of(data)
    return np.zeros(len(data), dtype=np.int64) if labels is None else labels


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
    held: dict[str, Data] = {}
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
            one = joined(rows)
            assert not isinstance(one, Together)  # samples of one dataset
            held[node] = one
    return Sets(held, whole.validation, whole.test, parts)


def _ordered(held: dict[str, Data], nodes: list[Node]) -> dict[str, Data]:
    return {node.name: held[node.name] for node in nodes}


def _prepared(sets: Sets, table: Mapping[str, Any]) -> Sets:
    """Smaller and standardised images where the table asks for them; standardised by the nodes' own statistics."""
    _check_alike(sets, table)
    if isinstance(sets.validation, OwnData):
        return sets
    steps = Preprocessing(table["shrink"])
    nodes = {name: in_memory(data) for name, data in sets.nodes.items()}
    if table["standardise"]:
        like = together([steps.apply(data) for data in nodes.values()])
        steps = Preprocessing.standardising(like, shrink=steps.shrink)
    held = {name: steps.apply(data) for name, data in nodes.items()}
    validation, test = steps.apply(sets.validation), steps.apply(in_memory(sets.test))
    return replace(sets, nodes=held, validation=validation, test=test, preprocessing=steps)


def _check_alike(sets: Sets, table: Mapping[str, Any]) -> None:
    """All data of a run are images in memory, or none; what is done to images is for those alone."""
    everything = {**sets.nodes, "validation": sets.validation, "test": sets.test}
    own = [name for name, data in everything.items() if isinstance(data, OwnData)]
    if own and len(own) < len(everything):
        arrays = next(name for name in everything if name not in own)
        raise ScenarioError(
            f"data.source: {arrays} is (images, labels) and {own[0]} is not; give all of them as arrays, or all as "
            "Datasets (torch.utils.data.TensorDataset makes one of arrays)"
        )
    for key, unchanged in (("shrink", 1), ("standardise", False)) if own else ():
        if table[key] != unchanged:
            raise ScenarioError(
                f"data.{key}: got {str(table[key]).lower()}, for images in memory only; {own[0]} is data of your own: "
                "do it where they are read, in the Dataset's transform"
            )


def in_memory(data: Data | Together, what: str = "this") -> Dataset:
    """Images and labels as arrays.

    Raises:
        ScenarioError: they are data of the user's own, and `what` cannot work with those.
    """
    if isinstance(data, Dataset):
        return data
    raise ScenarioError(
        f"data.source: {what} works on images in memory, got data of your own; give (images, labels) as arrays"
    )


def joined(parts: Sequence[Data]) -> Data | Together:
    """Data of several nodes as one: images one set, samples of one dataset as well, others follow each other."""
    own = [part for part in parts if isinstance(part, OwnData)]
    if not own:
        return together([part for part in parts if isinstance(part, Dataset)])
    first = own[0]
    if len(own) > 1 and all(part.value is first.value and part.indexes is not None for part in own):
        return replace(first, indexes=np.concatenate([part.indexes for part in own if part.indexes is not None]))
    return first if len(own) == 1 else Together(tuple(own))


def together(parts: list[Dataset]) -> Dataset:
    """Sets of the same classes as one."""
    if len(parts) == 1:
        return parts[0]
    images = np.concatenate([part.images for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    return Dataset(images, labels, max(part.classes for part in parts), "train")


def sets_of(data: Mapping[str, Any] | Callable[[str], Any], problem: Problem, seed: int = 0) -> Sets:
    """The sets of what a caller in Python gives; see `rt.train`."""
    members = [node for group in problem.node_sets for node in group.nodes]
    names = list(dict.fromkeys([*(node.name for node in problem.nodes if node.name in members), *members]))
    if not isinstance(data, Mapping):
        if not callable(data):
            raise UsageError(
                f"data: got a {type(data).__name__}, expected data by node, or a function of a node's name"
            )
        by_name: dict[str, Any] = {}
        for name in (*names, *RESERVED):
            with user_code(getattr(data, "__name__", "data")):
                by_name[name] = data(name)
        data = by_name
    missing = [name for name in RESERVED if name not in data]
    if missing:
        raise UsageError(f"data: no '{missing[0]}', expected (images, labels) by node, and for validation and test")
    parts = from_python(data)
    if "train" in parts and "train" not in names and not any(name in parts for name in names):
        parts |= _divided(parts.pop("train"), problem, names, seed)
    nodes = {name: part for name, part in parts.items() if name not in RESERVED}
    return Sets(nodes, parts["validation"], parts["test"])


def _divided(whole: Data, problem: Problem, names: list[str], seed: int) -> dict[str, Data]:
    """One set among nodes, by their `samples` where all have some, else equally."""
    if isinstance(whole, OwnData):
        whole.check_divisible()
    samples = {node.name: node.samples for node in problem.nodes}
    sizes = {name: samples.get(name) or 0 for name in names}
    shares = by_size(len(whole), sizes, seed=seed) if all(sizes.values()) else iid(len(whole), names, seed=seed)
    return {name: whole.part(indexes, name) for name, indexes in shares.items()}
