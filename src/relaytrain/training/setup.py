"""Everything a run needs besides the decision: data by node, versions, settings; built once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..compression.prune import prune, reestimate_batchnorm
from ..core.errors import ScenarioError, UsageError
from ..core.plan import Decision
from ..core.problem import Problem
from ..core.sampling import sampled_nodes
from ..costs.profiled import Timer
from ..data.dataset import Dataset
from ..data.domain import Preprocessing
from ..models.flops import count
from ..models.rebuild import Resolve, build, code_of, from_scenario, of_module, shapes_of, skeleton, spec_of
from ..models.spec import FamilySpec, Spec, family_spec
from ..scenario.model import Scenario
from ..store.files import read_regular
from .checkpoint import Checkpoint
from .datasets import Reader, Sets, build_sets, together
from .devices import check_devices
from .local import Site, tensor_of
from .losses import LossFunction, loss_named
from .own_training import OwnTraining, own_training
from .references import either
from .settings import TrainingSettings

Way = Literal["network", "pruned", "student"]
BATCHNORM_BATCHES = 16
"""Batches from which batch-norm statistics are estimated again after pruning."""
START_LIMIT_BYTES = 1 << 32
"""The largest `start` file that is read."""


@dataclass(frozen=True)
class VersionPlan:
    """How a version comes about.

    network: of its own, the first of them is the full version. pruned: `ratio` of the full version's parameters
    removed. student: a network of its own, reached by distillation. `grow` is the declared way back from a smaller one.
    """

    name: str
    way: Way
    spec: Spec | None = None
    ratio: float = 0.0
    grow: Literal["checkpoint", "distill"] | None = None


@dataclass(frozen=True)
class VersionFacts:
    """What a version measures: FLOPs of one training step of one sample, bytes of its state."""

    parameters: int
    flops_per_sample: int
    weight_bytes: int
    activation_bytes_per_sample: int
    spec: Spec
    reached_ratio: float

    def to_dict(self) -> dict[str, Any]:
        """The JSON form that `run_started` keeps."""
        return {**vars(self), "spec": self.spec.to_dict()}


@dataclass(frozen=True, eq=False)
class TrainingSetup:
    """What trains: built by `from_scenario` or, from objects in this process, by `from_model`.

    `parts` says which rows of a node's data belong to which data set, where there are several to choose from.
    `references` are the user's own functions that a worker process must be able to import, from `folder` first;
    a module that lives in this process only has none and trains in-process only. `preprocessing` is what was done to
    raw images to make the data. `given`: optimizer and schedule of this process, in the place of those by reference.
    """

    problem: Problem
    settings: TrainingSettings
    datasets: Mapping[str, Dataset]
    validation: Dataset
    test: Dataset
    versions: Mapping[str, VersionPlan]
    resolve: Resolve | None = None
    references: tuple[str, ...] = ()
    folder: Path | None = None
    models: Mapping[str, nn.Module] = field(default_factory=dict, repr=False)
    parts: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict, repr=False)
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    given: OwnTraining | None = None
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_scenario(
        cls, scenario: Scenario, *, folder: Path | None = None, read: Reader | None = None
    ) -> TrainingSetup:
        """The setup of a scenario that has `[data]`; reads the data and imports the user's own code.

        Args:
            scenario: `[training]` may be left out, its defaults are PACT's.
            folder: where references look first; by default the scenario's folder.
            read: takes the place of `data.source.read`, for images that are at hand already.
        """
        if not scenario.data:
            raise ScenarioError(
                f"{scenario.name}: no table [data], so there is nothing to train on; "
                'add [data] with source = "digits" (or "module:function") and a network for each version'
            )
        folder = scenario.folder if folder is None else folder
        settings = TrainingSettings.from_table(scenario.training, clock=scenario.problem.clock)
        check_devices(settings, scenario.problem)
        sets = build_sets(scenario.data, scenario.problem, folder, read=read)
        plans, resolve, references = _plans(scenario.resolved["versions"], sets, folder)
        data = (sets.nodes, sets.validation, sets.test)
        made = cls(scenario.problem, settings, *data, plans, resolve, references, folder, parts=sets.parts)
        return replace(made, preprocessing=sets.preprocessing)

    @classmethod
    def from_model(
        cls,
        model: nn.Module | Mapping[str, nn.Module],
        problem: Problem,
        sets: Sets,
        *,
        ratios: Mapping[str, float] | None = None,
        spec: Spec | None = None,
        settings: TrainingSettings | None = None,
        own: OwnTraining | None = None,
    ) -> TrainingSetup:
        """The setup of a module at hand: the first version of `problem` is `model` as it stands, weights included.

        Args:
            model: the full version, or all versions by name (those after the first are reached by distillation).
            problem: its versions name what there is.
            sets: data by node, validation and test.
            ratios: share of parameters removed, for each version that is pruned from the first.
            spec: what `model` was built from; with it, worker processes can build it too.
            settings: how to train.
            own: optimizer and schedule as functions at hand.
        """
        settings = settings if settings is not None else TrainingSettings()
        check_devices(settings, problem)
        _check_data_of_nodes(sets, problem)
        names = [version.name for version in problem.versions] or sorted({pair.version for pair in problem.pairs})
        given = dict(model) if isinstance(model, Mapping) else {names[0]: model}
        plans: dict[str, VersionPlan] = {}
        known: dict[str, Resolve] = {}
        for index, name in enumerate(names):
            if name in given:
                reference = f"in_memory:version_{index}"
                own_spec, follow = of_module(given[name], reference)
                known[reference] = follow
                use: Spec = spec if spec is not None and index == 0 else own_spec
                plans[name] = VersionPlan(name, "network" if index == 0 else "student", use)
            elif ratios is not None and name in ratios:
                plans[name] = VersionPlan(name, "pruned", ratio=ratios[name])
            else:
                raise UsageError(f"versions: nothing for {name!r}, expected a module or a ratio for each version")
        made = cls(problem, settings, sets.nodes, sets.validation, sets.test, plans, either(known), models=given)
        return replace(made, preprocessing=sets.preprocessing, given=own)

    @property
    def full(self) -> VersionPlan:
        """The version that the others are pruned from: the first with a network of its own."""
        return next(plan for plan in self.versions.values() if plan.way == "network")

    @property
    def start(self) -> str:
        """The version that holds the network before epoch 1."""
        return self.problem.pairs[self.problem.start].version

    @property
    def example(self) -> Tensor:
        """Two inputs of the right shape."""
        return torch.zeros((2, *self.validation.input))

    def loss(self) -> LossFunction:
        """The loss function that trains and evaluates."""
        return loss_named(self.settings.loss, self.folder)

    def own_training(self) -> OwnTraining:
        """The user's own optimizer and schedule, where there are any."""
        return own_training(self.settings, self.folder) if self.given is None else self.given

    def site(self, node: str) -> Site:
        """What `node` has at hand, for training in this process."""
        data, device = self.datasets[node], self.settings.device_of(node)
        parts, own = self.parts.get(node), self.own_training()
        return Site.of(data, device=device, resolve=self.resolve, loss=self.loss(), parts=parts, own=own)

    def nodes_of(self, nodes: str) -> tuple[str, ...]:
        """The nodes of a node set: ordered by name, those of a pipeline as its stages are."""
        group = next((s for s in self.problem.node_sets if s.name == nodes), None)
        if group is None or not group.nodes:
            raise ScenarioError(f"node_sets.{nodes}: lists no nodes, expected those that train")
        return group.nodes if group.mode == "pipeline" else tuple(sorted(group.nodes))

    def nodes_in(self, decision: Decision) -> tuple[str, ...]:
        """The nodes that train in an epoch: all of the set, or the share of them that is drawn for it."""
        nodes, name = self.nodes_of(decision.nodes), decision.nodes
        count = next((s.sampled for s in self.problem.node_sets if s.name == name), len(nodes))
        return sampled_nodes(nodes, count, seed=self.settings.seed, epoch=decision.epoch)

    def owners_of(self, nodes: str) -> tuple[str, ...]:
        """The nodes of a set whose data train, in the order of `nodes_of`."""
        group = next((s for s in self.problem.node_sets if s.name == nodes), None)
        return tuple(node for node in self.nodes_of(nodes) if group is not None and node in group.owners)

    def samples_at(self, node: str, datasets: Sequence[str] = ()) -> int:
        """How many samples a pass of `node` goes over: all it holds, or those of the data sets named."""
        parts = self.parts.get(node)
        if not datasets or not parts:
            return len(self.datasets.get(node, ()))
        return sum(last - first for first, last in (parts.get(name, (0, 0)) for name in datasets))

    def data_of(self, nodes: str) -> Dataset:
        """All data that a node set trains on."""
        return together([self.datasets[node] for node in self.owners_of(nodes)])

    def target_set(self) -> Dataset:
        """The set on which the target is read."""
        on = self.problem.target.on
        if on == "train":
            if "train" not in self._cache:
                self._cache["train"] = together(list(self.datasets.values()))
            train: Dataset = self._cache["train"]
            return train
        return self.test if on == "test" else self.validation

    def with_settings(self, **changes: Any) -> TrainingSetup:
        """The same setup with other settings."""
        return replace(self, settings=replace(self.settings, **changes), _cache={})

    def first_checkpoint(self) -> Checkpoint:
        """What the start version holds before epoch 1: initial weights from the seed, or the `start` file."""
        if self.settings.start is not None:
            return self._from_file(Path(self.settings.start))
        return self.initial(self.start)

    def initial(self, version: str) -> Checkpoint:
        """An untrained `version`: drawn from the seed, pruned ones out of the untrained full version."""
        plan = self.plan(version)
        if plan.way != "pruned":
            assert plan.spec is not None
            model = self.models.get(version)
            if model is None:
                model = build(plan.spec, seed=self.settings.seed, resolve=self.resolve)
            return Checkpoint.of_model(model, plan.spec, version)
        model, _ = self._pruned(plan)
        reestimate_batchnorm(model, self.batches(self.problem.pairs[self.problem.start].nodes))
        return Checkpoint.of_model(model, self.spec_of(model), version)

    def plan(self, version: str) -> VersionPlan:
        """How `version` comes about."""
        if version not in self.versions:
            raise ScenarioError(f"versions: no version {version!r}, expected one of {', '.join(self.versions)}")
        return self.versions[version]

    def timer(self) -> Timer:
        """What `costs.profiled.profile` times versions with."""
        from .timing import VersionTimer

        return VersionTimer(self)

    def version_facts(self) -> dict[str, VersionFacts]:
        """Counted parameters, FLOPs and bytes of every version, before any training."""
        if "facts" not in self._cache:
            self._cache["facts"] = {name: self._facts(plan) for name, plan in self.versions.items()}
        facts: dict[str, VersionFacts] = self._cache["facts"]
        return facts

    def shapes_of(self, version: str) -> dict[str, tuple[int, ...]]:
        """Shapes of every tensor in the state of `version`."""
        spec = self.version_facts()[version].spec
        return shapes_of(skeleton(spec)) if isinstance(spec, FamilySpec) else dict(spec.shapes)

    def batches(self, nodes: str, most: int = BATCHNORM_BATCHES) -> list[Tensor]:
        """Up to `most` batches of images of a node set, taken evenly from its nodes, always the same ones."""
        members = self.owners_of(nodes)
        each = max(2, most * self.settings.batch // len(members))
        images = torch.cat([tensor_of(self.datasets[node].images[:each]) for node in members])
        parts = list(torch.split(images, self.settings.batch))
        if len(parts) > 1 and len(parts[-1]) == 1:
            parts[-2:] = [torch.cat(parts[-2:])]
        return parts

    def _facts(self, plan: VersionPlan) -> VersionFacts:
        if plan.way == "pruned":
            model, reached = self._pruned(plan)
            spec = self.spec_of(model)
        else:
            assert plan.spec is not None
            model, spec, reached = build(plan.spec, resolve=self.resolve), plan.spec, 0.0
        with code_of(spec):
            counts = count(model, self.example)
        return VersionFacts(
            counts.parameters, counts.train_flops, counts.weight_bytes, counts.activation_bytes, spec, reached
        )

    def _pruned(self, plan: VersionPlan) -> tuple[nn.Module, float]:
        full = self.initial(self.full.name).model(resolve=self.resolve)
        pruned = prune(full, self.example, plan.ratio, importance=self.settings.importance)
        return pruned.model, pruned.reached

    def spec_of(self, model: nn.Module) -> Spec:
        """The spec of a module pruned out of the full version."""
        assert self.full.spec is not None
        return spec_of(model, self.full.spec)

    def _from_file(self, path: Path) -> Checkpoint:
        loaded = start_file(path, self.folder)
        if type(loaded.spec) is not type(self.full.spec):
            raise ScenarioError(f"training.start: {path} holds another kind of network than {self.full.name}")
        return replace(loaded, version=self.start)


def _check_data_of_nodes(sets: Sets, problem: Problem) -> None:
    """Every node that trains needs data, and data of a node that is not there would train nobody."""
    owners = {node for group in problem.node_sets for node in group.owners}
    lacking, known = sorted(owners - set(sets.nodes)), {node.name for node in problem.nodes} | owners
    foreign = sorted(set(sets.nodes) - known)
    if lacking:
        spare = f", but for {', '.join(foreign)}, which is no node" if foreign else ""
        raise UsageError(f"data: nothing for node {lacking[0]!r}{spare}; expected (images, labels) for each node")
    if foreign:
        raise UsageError(f"data: {foreign[0]!r} is no node of {problem.name}; expected {', '.join(sorted(owners))}")


def start_file(path: Path, folder: Path | None) -> Checkpoint:
    """The checkpoint that `training.start` names, of any origin; a relative path is seen from `folder`."""
    place = path if folder is None or path.is_absolute() else folder / path
    try:
        data = read_regular(place, START_LIMIT_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(
            f"training.start: cannot read {path} ({reason}); expected a checkpoint, and no link to one"
        ) from None
    return Checkpoint.from_bytes(data, where=f"training.start: {path}")


def _plans(
    tables: Sequence[Mapping[str, Any]], sets: Sets, folder: Path | None
) -> tuple[dict[str, VersionPlan], Resolve | None, tuple[str, ...]]:
    """Plans from the resolved `[[versions]]`; factories are called once for their shapes."""
    plans: dict[str, VersionPlan] = {}
    known: dict[str, Resolve] = {}
    classes = max(sets.validation.classes, sets.test.classes, *(d.classes for d in sets.nodes.values()))
    for table in tables:
        name, grow = table["name"], table.get("grow")
        own = table.get("student") or table.get("factory") or table.get("family")
        if own is not None:
            first = not any(plan.way == "network" for plan in plans.values())
            way: Way = "student" if table.get("student") or not first else "network"
            spec = _network(own, table, sets.validation.input, classes, folder, known)
            plans[name] = VersionPlan(name, way, spec, grow=grow)
        else:
            plans[name] = VersionPlan(name, "pruned", ratio=_of_full(table, plans), grow=grow)
    if not any(plan.way == "network" for plan in plans.values()):
        raise ScenarioError("versions: none has a network of its own; give the largest one family or factory")
    return plans, either(known) if known else None, tuple(known)


def _network(
    own: str,
    table: Mapping[str, Any],
    shape: tuple[int, int, int],
    classes: int,
    folder: Path | None,
    known: dict[str, Resolve],
) -> Spec:
    if ":" not in own:
        return family_spec(own, input=shape, classes=classes, width=table.get("width", 1.0))
    known[own] = from_scenario(own, folder)
    network = known[own](own)()
    if not isinstance(network, nn.Module):
        raise ScenarioError(
            f"versions.{table['name']}: {own}() returned {type(network).__name__}, expected a torch.nn.Module"
        )
    spec, _ = of_module(network, own)
    return spec


def _of_full(table: Mapping[str, Any], plans: Mapping[str, VersionPlan]) -> float:
    """The ratio as a share of the full version: 0.5 of a version that lost 0.5 is 0.75 of the full one."""
    ratio, base = float(table["ratio"]), table.get("of")
    before = plans.get(base) if base is not None else None
    if before is None or before.way == "network":
        return ratio
    if before.way == "student":
        raise ScenarioError(
            f"versions.{table['name']}.of: {base} is a student; expected the full version or a pruned one"
        )
    return 1.0 - (1.0 - before.ratio) * (1.0 - ratio)
