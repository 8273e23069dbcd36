"""What a network and data of the user's own say about themselves, counted and written as a scenario to start from.

The network is built once, the data are read once, a few batches are timed. Whatever comes of that is in the file; what
it cannot tell, such as the loss to reach or how losses fall, is left out, with the command that finds it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core.cost import CostTable
from ..core.errors import RelayTrainError, ScenarioError
from ..core.families import FAMILIES
from ..core.user_code import user_code
from ..costs.profiled import profile
from ..data.dataset import Dataset
from ..scenario import load_scenario
from ..scenario.resolve import resolve, split_reference
from ..training.evaluate import evaluate
from ..training.setup import TrainingSetup, VersionFacts
from ..training.soundness import check_sound

FULL, SMALL, SMALL_RATIO = "full", "small", 0.5
HERE, ALL = "here", "together"
TIMED_BATCHES = 4
_JUDGED = ("validation", "test")


@dataclass(frozen=True)
class CountedNode:
    """A node that holds data: how many samples, of how many classes."""

    name: str
    samples: int
    classes: int


@dataclass(frozen=True)
class CountedScenario:
    """All that was found out. `small` is None, with `why_no_small`, where the network cannot be pruned."""

    model: str
    data: str
    parts: bool
    nodes: tuple[CountedNode, ...]
    sets: Mapping[str, tuple[str, ...]]
    input: tuple[int, ...]
    full: VersionFacts
    small: VersionFacts | None
    start_loss: float
    start_accuracy: float
    pairs: tuple[tuple[str, str, float, float], ...]
    machine: str
    why_no_small: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        names = ("parameters", "flops_per_sample", "weight_bytes", "activation_bytes_per_sample", "reached_ratio")
        versions = {FULL: self.full, SMALL: self.small}
        return {
            "input": list(self.input),
            "nodes": {node.name: {"samples": node.samples, "classes": node.classes} for node in self.nodes},
            "versions": {n: {k: getattr(v, k) for k in names} for n, v in versions.items() if v is not None},
            "start_loss": self.start_loss,
            "pairs": [dict(zip(("version", "nodes", "seconds", "energy"), pair, strict=True)) for pair in self.pairs],
        }


def count_scenario(model: str, data: str, folder: Path) -> CountedScenario:
    """Build `model` (`module:function` or a family), read `data` (`module:function` or a name), and count.

    Args:
        model: looked for in `folder` first.
        data: likewise; a function without arguments gives parts by name, one node each.
        folder: where the scenario will lie.

    Raises:
        ScenarioError, UserCodeError: what no run could survive, in the words of `doctor`.
    """
    parts = _takes_nothing(data, folder)
    names = _parts(data, folder) if parts else (HERE,)
    why = ""
    try:
        setup, costs = _setup(model, data, names, parts, folder, small=True)
        facts = setup.version_facts()
    except RelayTrainError as error:
        setup, costs = _setup(
            model, data, names, parts, folder, small=False
        )  # raises what is wrong with more than that
        facts = setup.version_facts()
        why = str(error)
    held = {name: part for name, part in setup.datasets.items() if isinstance(part, Dataset)}
    if len(held) < len(setup.datasets) or not isinstance(setup.validation, Dataset):
        raise ScenarioError(
            f"--data: {data} gives data of another kind; only images and labels in memory can be counted"
        )
    check_sound(setup)
    first = setup.initial(FULL).model(resolve=setup.resolve)
    probed = evaluate(first, setup.validation, loss=setup.loss())
    timed = profile(setup, batches=TIMED_BATCHES)
    samples = {name: len(part) for name, part in setup.datasets.items()}
    sets = {group.name: group.nodes for group in setup.problem.node_sets}
    costs = timed.costs(setup.problem, samples, costs)
    pairs = tuple(
        (pair.version, pair.nodes, float(costs.run_s[at]), float(costs.run_j[at]))
        for at, pair in enumerate(setup.problem.pairs)
    )
    return CountedScenario(
        model, data, parts,
        tuple(CountedNode(n, len(d), int((d.histogram() > 0).sum())) for n, d in held.items()),
        sets, setup.validation.input, facts[FULL], facts.get(SMALL), probed.loss, probed.accuracy, pairs,
        f"{timed.machine}, one thread", why,
    )  # fmt: skip


def _takes_nothing(data: str, folder: Path) -> bool:
    """Whether a function of the user's is called without arguments: it then gives parts by name."""
    if ":" not in data:
        return False
    function = resolve(data, folder).value
    if not callable(function):
        raise ScenarioError(f"--data: {data} is a {type(function).__name__}, expected a function")
    try:
        needed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # one of C's
        return False
    return not any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in needed)


def _parts(data: str, folder: Path) -> tuple[str, ...]:
    with user_code(data):
        given = resolve(data, folder).value()
    if not isinstance(given, Mapping):
        raise ScenarioError(
            f"--data: {data} gave a {type(given).__name__}, expected parts by name with (images, labels) of each, "
            '"validation" and "test" among them; or let it take "train" or "test" and return (images, labels)'
        )
    names = tuple(str(name) for name in given if name not in _JUDGED)
    if not names:
        raise ScenarioError(f"--data: {data} gave {', '.join(map(str, given))}, expected parts to train on beside them")
    return names


def _setup(
    model: str, data: str, names: Sequence[str], parts: bool, folder: Path, *, small: bool
) -> tuple[TrainingSetup, CostTable]:
    sets = {name: (name,) for name in names} | ({ALL: tuple(names)} if len(names) > 1 else {})
    versions: list[dict[str, Any]] = [{"name": FULL, **network_key(model)}]
    if small:
        versions.append({"name": SMALL, "ratio": SMALL_RATIO})
    tables: dict[str, Any] = {
        "schema": 1,
        "name": "counted",
        "target": {"loss": 1e-6},  # never looked at: nothing is planned
        "versions": versions,
        "nodes": [{"name": name} for name in names],
        "node_sets": [{"name": name, "nodes": list(members)} for name, members in sets.items()],
        "pairs": [
            {"version": version["name"], "nodes": name, "seconds": 1.0, "energy": 1.0}
            for version in versions
            for name in sets
        ],
        "changes": [{"seconds": 0.0, "energy": 0.0}],
        "data": {"source": data, **({"partition": "parts"} if parts else {})},
    }
    loaded = load_scenario(tables)
    placed = replace(loaded, source=folder.absolute() / "counted.toml")
    return TrainingSetup.from_scenario(placed), loaded.costs


def network_key(model: str) -> dict[str, str]:
    """How a version names its network: a function of the user's, or a family of ours."""
    if ":" in model:
        split_reference(model)
        return {"factory": model}
    if model not in FAMILIES:
        raise ScenarioError(f"--model: got '{model[:60]}', expected module:function or one of {', '.join(FAMILIES)}")
    return {"family": model}
