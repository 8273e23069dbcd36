"""What a network and data of the user's own say about themselves, counted and written as a scenario to start from.

The network is built once, the data are read once, a few batches are timed. Whatever comes of that is in the file; what
it cannot tell, such as the loss to reach or how losses fall, is left out, with the command that finds it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core.cost import CostTable
from ..core.errors import RelayTrainError, ScenarioError
from ..core.families import FAMILIES
from ..core.outcome import Evaluation
from ..core.user_code import UserCodeError, user_code
from ..costs.profiled import Profile, profile
from ..data.dataset import Dataset
from ..data.nested import rows, shapes
from ..data.own import Indivisible, OwnData
from ..scenario import load_scenario
from ..scenario.resolve import function_at, resolve, split_reference
from ..training.known_data import classes_of, first_batch
from ..training.own_soundness import walk
from ..training.setup import TrainingSetup
from ..training.soundness import check_sound
from ..training.version_plans import VersionFacts

FULL, SMALL, SMALL_RATIO = "full", "small", 0.5
HERE, TRAIN, ALL = "here", "train", "together"
TIMED_BATCHES = 4
_JUDGED = ("validation", "test")


@dataclass(frozen=True)
class CountRequest:
    """What to count: `model` (`module:function` or a family) on `data` (`module:function` or a name).

    `folder` is where the scenario will lie, and where references are looked for first. `nodes`: names that the data's
    function knows. `training`: keys of `[training]` that say how a batch becomes a loss, such as `step`.
    """

    model: str
    data: str
    folder: Path
    nodes: tuple[str, ...] = ()
    training: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CountedNode:
    """A node that holds data: how many samples, of how many classes; None where nobody can tell."""

    name: str
    samples: int | None
    classes: int | None


@dataclass(frozen=True)
class CountedScenario:
    """All that was found out. `small` is None, with `why_no_small`, where the network cannot be pruned.

    `input`: the shape of an image, or of a batch of other data in words. `figures`: what a target may be read from,
    untrained. `batch`: samples in a batch of the user's own loader.
    """

    asked: CountRequest
    partition: str | None
    nodes: tuple[CountedNode, ...]
    sets: Mapping[str, tuple[str, ...]]
    input: tuple[int, ...] | str
    full: VersionFacts
    small: VersionFacts | None
    figures: Mapping[str, float]
    pairs: tuple[tuple[str, str, float, float], ...]
    machine: str
    why_no_small: str = ""
    batch: int | None = None

    @property
    def start_loss(self) -> float:
        """On the validation set, untrained."""
        return self.figures["loss"]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        names = ("parameters", "flops_per_sample", "weight_bytes", "activation_bytes_per_sample", "reached_ratio")
        versions = {FULL: self.full, SMALL: self.small}
        return {
            "input": self.input if isinstance(self.input, str) else list(self.input),
            "nodes": {node.name: {"samples": node.samples, "classes": node.classes} for node in self.nodes},
            "versions": {n: {k: getattr(v, k) for k in names} for n, v in versions.items() if v is not None},
            "start_loss": self.start_loss,
            "figures": dict(self.figures),
            "pairs": [dict(zip(("version", "nodes", "seconds", "energy"), pair, strict=True)) for pair in self.pairs],
        }


def count_scenario(asked: CountRequest) -> CountedScenario:
    """Build the network, read the data, and count.

    A function without arguments gives parts by name, one node each. One that takes a name is called with "train" and
    "test"; where it gives a loader, which cannot be divided, "train" becomes a node.

    Raises:
        ScenarioError, UserCodeError: what no run could survive, in the words of `doctor`.
    """
    try:
        return _counted(asked, *_division(asked))
    except Indivisible:
        return _counted(asked, "by-node", (TRAIN,))
    except UserCodeError as error:
        if asked.nodes or ":" not in asked.data or not isinstance(error.__cause__, LookupError):
            raise
        raise UserCodeError(f"{error}; it was called with {TRAIN!r}: name the nodes it knows with --node") from error


def _division(asked: CountRequest) -> tuple[str | None, tuple[str, ...]]:
    """How the data are divided, and among which nodes."""
    if asked.nodes:
        return "by-node", asked.nodes
    if _takes_nothing(asked.data, asked.folder):
        return "parts", _parts(asked.data, asked.folder)
    return None, (HERE,)


def _counted(asked: CountRequest, partition: str | None, names: tuple[str, ...]) -> CountedScenario:
    why = ""
    try:
        setup, costs = _setup(asked, partition, names, small=True)
        facts = setup.version_facts()
        if facts[SMALL].parameters >= facts[FULL].parameters:
            raise ScenarioError("none of its layers can be pruned")
        if facts[SMALL].reached_ratio < SMALL_RATIO / 2:
            raise ScenarioError(facts[SMALL].astray)
    except Indivisible:
        raise
    except RelayTrainError as error:
        setup, costs = _setup(asked, partition, names, small=False)  # raises what is wrong with more than that
        facts = setup.version_facts()
        why = str(error)
    batch = None
    if isinstance(setup.validation, OwnData) and setup.validation.kind in ("loader", "batches"):
        batch = rows(first_batch(setup.validation, setup.settings.batch))
        setup = setup.with_settings(batch=batch)
    check_sound(setup)
    probed = setup.evaluate(setup.initial(FULL).model(resolve=setup.resolve), setup.validation)
    nodes = tuple(_node(setup, name) for name in setup.datasets)
    timed = profile(setup, batches=TIMED_BATCHES)
    return CountedScenario(
        asked,
        partition,
        nodes,
        {group.name: group.nodes for group in setup.problem.node_sets},
        setup.validation.input if isinstance(setup.validation, Dataset) else shapes(setup.example_batch),
        facts[FULL],
        facts.get(SMALL),
        _figures(probed),
        _priced(setup, costs, timed, nodes),
        f"{timed.machine}, one thread",
        why,
        batch,
    )


def _node(setup: TrainingSetup, name: str) -> CountedNode:
    """Samples and classes of a node, by going over its data where nothing else tells."""
    samples, classes = setup.samples_at(name), classes_of(setup.datasets[name])
    if samples is None or classes is None:
        walked = walk(setup, name)
        samples = walked.samples if samples is None and walked.whole else samples
        seen = walked.classes if walked.whole and not setup.settings.step else None
        classes = len(seen) if classes is None and seen else classes
    return CountedNode(name, samples, classes)


def _figures(probed: Evaluation) -> dict[str, float]:
    error = {} if math.isnan(probed.accuracy) else {"error": 1.0 - probed.accuracy}
    return {"loss": probed.loss, **error, **probed.figures}


def _priced(
    setup: TrainingSetup, before: CostTable, timed: Profile, nodes: tuple[CountedNode, ...]
) -> tuple[tuple[str, str, float, float], ...]:
    """Seconds and joules of an epoch of every pair; none where a node's samples are not known."""
    samples = {node.name: node.samples for node in nodes if node.samples is not None}
    if len(samples) < len(nodes):
        return ()
    costs = timed.costs(setup.problem, samples, before)
    return tuple(
        (pair.version, pair.nodes, float(costs.run_s[at]), float(costs.run_j[at]))
        for at, pair in enumerate(setup.problem.pairs)
    )


def _takes_nothing(data: str, folder: Path) -> bool:
    """Whether a function of the user's is called without arguments: it then gives parts by name."""
    if ":" not in data:
        return False
    function = function_at(data, folder, "--data")
    try:
        needed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # one of C's
        return False
    return not any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in needed)


def _parts(data: str, folder: Path) -> tuple[str, ...]:
    with user_code(data):
        given = resolve(data, folder)()
    if not isinstance(given, Mapping):
        raise ScenarioError(
            f"--data: {data} takes no argument and gave a {type(given).__name__}: let it take the part's name, "
            '"train" or "test", and return that part (a Dataset, or arrays: inputs and labels); or expected without an '
            'argument: a dict of parts, "validation" and "test" among them'
        )
    names = tuple(str(name) for name in given if name not in _JUDGED)
    if not names:
        raise ScenarioError(f"--data: {data} gave {', '.join(map(str, given))}, expected parts to train on beside them")
    return names


def _setup(
    asked: CountRequest, partition: str | None, names: tuple[str, ...], *, small: bool
) -> tuple[TrainingSetup, CostTable]:
    sets = {name: (name,) for name in names} | ({ALL: tuple(names)} if len(names) > 1 else {})
    versions: list[dict[str, Any]] = [{"name": FULL, **network_key(asked.model)}]
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
        "training": dict(asked.training),
        "data": {"source": asked.data, **({} if partition is None else {"partition": partition})},
    }
    loaded = load_scenario(tables)
    placed = replace(loaded, source=asked.folder.absolute() / "counted.toml")
    return TrainingSetup.from_scenario(placed), loaded.costs


def network_key(model: str) -> dict[str, str]:
    """How a version names its network: a function of the user's, or a family of ours."""
    if ":" in model:
        split_reference(model)
        return {"factory": model}
    if model not in FAMILIES:
        raise ScenarioError(f"--model: got '{model[:60]}', expected module:function or one of {', '.join(FAMILIES)}")
    return {"family": model}
