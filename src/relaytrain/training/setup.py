"""Everything a run needs besides the decision: data by node, versions, settings; built once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..compression.prune import Measure, Pruned, prune, reestimate_batchnorm
from ..compression.slices import leading
from ..core.errors import ScenarioError, UsageError
from ..core.outcome import Evaluation
from ..core.plan import Decision
from ..core.problem import Problem
from ..core.sampling import sampled_nodes
from ..costs.profiled import Timer
from ..data.batches import in_batches
from ..data.dataset import Dataset
from ..data.domain import Preprocessing
from ..data.held import Held, InMemory, tensor_of
from ..data.nested import Batch, resized
from ..data.own import OwnData, Together
from ..data.seeding import seeded
from ..models.flops import Counts, count, count_step, trainable, weight_bytes
from ..models.rebuild import (
    Resolve,
    build,
    code_of,
    of_module,
    shapes_of,
    skeleton,
    spec_of,
    state_of,
)
from ..models.spec import FamilySpec, Spec, adapter_of
from ..scenario.model import Scenario
from .checkpoint import Checkpoint
from .datasets import Reader, Sets, build_sets, in_memory, joined
from .devices import check_devices
from .evaluate import evaluate
from .known_data import first_batch
from .local import Site
from .losses import LossFunction, loss_named
from .own_data import Data
from .own_training import OwnTraining, own_training
from .references import either
from .settings import TrainingSettings
from .start_file import start_file
from .step import EvaluateFunction, StepFunction, TrainingStep, inputs_in_step, inputs_of, step_of
from .version_plans import RatioIn, VersionFacts, VersionPlan, astray, version_plans

BATCHNORM_BATCHES = 16
"""Batches from which batch-norm statistics are estimated again after pruning."""
LOOK_BATCH = 256
"""Images that are evaluated at a time."""
MOST_COUNTED = 256
_COUNTED: dict[tuple[Any, ...], VersionFacts] = {}


@dataclass(frozen=True, eq=False)
class TrainingSetup:
    """What trains: built by `from_scenario` or, from objects in this process, by `from_model`.

    `parts` says which rows of a node's data belong to which data set, where there are several to choose from.
    `references` are the user's own functions that a worker process must be able to import, from `folder` first;
    a module that lives in this process only has none and trains in-process only. `preprocessing` is what was done to
    raw images to make the data. `functions`: step and evaluate as given in Python, in place of what the settings name;
    `given`: optimizer and schedule of this process, likewise.
    """

    problem: Problem
    settings: TrainingSettings
    datasets: Mapping[str, Data]
    validation: Data
    test: Data
    versions: Mapping[str, VersionPlan]
    resolve: Resolve | None = None
    references: tuple[str, ...] = ()
    folder: Path | None = None
    models: Mapping[str, nn.Module] = field(default_factory=dict, repr=False)
    parts: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict, repr=False)
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    functions: tuple[StepFunction | None, EvaluateFunction | None] = (None, None)
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
        plans, resolve, references = version_plans(scenario.resolved["versions"], sets, folder)
        data = (sets.nodes, sets.validation, sets.test)
        setup = cls(scenario.problem, settings, *data, plans, resolve, references, folder, parts=sets.parts)
        return replace(setup, preprocessing=sets.preprocessing)

    @classmethod
    def from_model(
        cls,
        model: nn.Module | Mapping[str, nn.Module],
        problem: Problem,
        sets: Sets,
        *,
        ratios: Mapping[str, float] | None = None,
        nested: Collection[str] = (),
        spec: Spec | None = None,
        settings: TrainingSettings | None = None,
        functions: tuple[StepFunction | None, EvaluateFunction | None] = (None, None),
        own: OwnTraining | None = None,
        folder: Path | None = None,
    ) -> TrainingSetup:
        """The setup of a module at hand: the first version of `problem` is `model` as it stands, weights included.

        Args:
            model: the full version, or all versions by name (those after the first are reached by distillation).
            problem: its versions name what there is.
            sets: data by node, validation and test.
            ratios: share of parameters removed, for each version that is pruned from the first.
            nested: those of them that are slices of the first, trained with it.
            spec: what `model` was built from; with it, worker processes can build it too.
            settings: how to train.
            functions: step and evaluate of the user's own.
            own: optimizer and schedule as functions at hand.
            folder: where references in the settings look first.
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
                plans[name] = VersionPlan(name, "nested" if name in nested else "pruned", ratio=ratios[name])
            else:
                raise UsageError(f"versions: nothing for {name!r}, expected a module or a ratio for each version")
        setup = cls(problem, settings, sets.nodes, sets.validation, sets.test, plans, either(known), models=given)
        return replace(setup, preprocessing=sets.preprocessing, functions=functions, given=own, folder=folder)

    @property
    def full(self) -> VersionPlan:
        """The version that the others are pruned from: the first with a network of its own."""
        return next(plan for plan in self.versions.values() if plan.way == "network")

    @property
    def start(self) -> str:
        """The version that holds the network before epoch 1."""
        return self.problem.pairs[self.problem.start].version

    @property
    def own_data(self) -> bool:
        """Whether the data are the user's own, and not images in memory."""
        return isinstance(self.validation, OwnData)

    @property
    def example(self) -> Any:
        """Two inputs of the right shape: a tensor, or as the network is called with data of the user's own."""
        if isinstance(self.validation, Dataset):
            return torch.zeros((2, *self.validation.input))
        if self.functions[0] is None and self.settings.step is None:
            return inputs_of(self.example_batch)
        if "inputs" not in self._cache:
            model = self.initial(self.full.name).model(resolve=self.resolve)
            self._cache["inputs"] = inputs_in_step(self.step(), model, self.example_batch)
        return self._cache["inputs"]

    @property
    def example_batch(self) -> Batch:
        """Two samples of data of the user's own, as the step gets them."""
        if "example" not in self._cache:
            self._cache["example"] = resized(first_batch(self.validation, self.settings.batch), 2)
        return self._cache["example"]

    @property
    def input_shape(self) -> list[int] | None:
        """The shape of one input where it is one tensor of numbers; None for anything else."""
        given = self.example
        return list(given.shape[1:]) if isinstance(given, Tensor) and given.is_floating_point() else None

    def loss(self) -> LossFunction:
        """The loss function of outputs and labels."""
        return loss_named(self.settings.loss, self.folder)

    def step(self) -> TrainingStep:
        """What makes a loss, and sums, of a batch."""
        if "step" not in self._cache:
            given, settings = self.functions, self.settings
            self._cache["step"] = step_of(
                settings.loss, given[0] or settings.step, given[1] or settings.evaluate, self.folder
            )
        step: TrainingStep = self._cache["step"]
        return step

    def evaluate(self, model: nn.Module, data: Dataset | Held) -> Evaluation:
        """The figures of a network on a set."""
        size = LOOK_BATCH if isinstance(data, Dataset | InMemory) else self.settings.batch
        return evaluate(model, data, batch=size, step=self.step(), thread_count=self.settings.threads)

    def own_training(self) -> OwnTraining:
        """The user's own optimizer and schedule, where there are any."""
        return own_training(self.settings, self.folder) if self.given is None else self.given

    def site(self, node: str) -> Site:
        """What `node` has at hand, for training in this process."""
        data, device = self.datasets[node], self.settings.device_of(node)
        parts, own = self.parts.get(node), self.own_training()
        return Site.of(data, device=device, resolve=self.resolve, step=self.step(), parts=parts, own=own)

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

    def samples_at(self, node: str, datasets: Sequence[str] = ()) -> int | None:
        """How many samples a pass of `node` goes over: all it holds, or those of the data sets named.

        None where only the pass itself can tell, and the scenario does not say.
        """
        parts = self.parts.get(node)
        if not datasets or not parts:
            held = self.datasets.get(node)
            return 0 if held is None else len(held) if isinstance(held, Dataset) else held.samples
        return sum(last - first for first, last in (parts.get(name, (0, 0)) for name in datasets))

    @property
    def validation_samples(self) -> int | None:
        """How many samples are looked at after every epoch, if that is known."""
        return len(self.validation) if isinstance(self.validation, Dataset) else self.validation.samples

    @property
    def sources(self) -> tuple[str, ...]:
        """References of the user's own functions that gave the data."""
        held = [*self.datasets.values(), self.validation, self.test]
        named = [data.origin.source for data in held if isinstance(data, OwnData) and data.origin is not None]
        return tuple(dict.fromkeys(named))

    @property
    def caveats(self) -> tuple[str, ...]:
        """What of the data cannot be promised to be the same when an epoch is repeated, in words."""
        held = [*self.datasets.values(), self.validation, self.test]
        reasons = [data.unpromised for data in held if isinstance(data, OwnData)]
        return tuple(dict.fromkeys(words for words in reasons if words is not None))

    def counted_at(self, node: str) -> int:
        """Samples of `node` for costs and weights: counted, else as the scenario says, else 0."""
        stated = next((n.samples for n in self.problem.nodes if n.name == node), None)
        return self.samples_at(node) or stated or 0

    def data_of(self, nodes: str) -> Dataset | OwnData | Together:
        """All data that a node set trains on."""
        return joined([self.datasets[node] for node in self.owners_of(nodes)])

    def target_set(self) -> Dataset | OwnData | Together:
        """The set on which the target is read."""
        on = self.problem.target.on
        if on == "train":
            if "train" not in self._cache:
                self._cache["train"] = joined(list(self.datasets.values()))
            train: Dataset | OwnData | Together = self._cache["train"]
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
        if plan.way not in ("pruned", "nested"):
            assert plan.spec is not None
            model = self.models.get(version)
            if model is None:
                model = build(plan.spec, seed=self.settings.seed, resolve=self.resolve)
            return Checkpoint.of_model(model, plan.spec, version)
        model = self._pruned(plan).model
        self.reestimate(model, self.problem.pairs[self.problem.start].nodes)
        whole = self.initial(self.full.name) if plan.way == "nested" else None
        return replace(Checkpoint.of_model(model, self.spec_of(model), version), whole=whole)

    def plan(self, version: str) -> VersionPlan:
        """How `version` comes about."""
        if version not in self.versions:
            raise ScenarioError(f"versions: no version {version!r}, expected one of {', '.join(self.versions)}")
        return self.versions[version]

    def slices_of(self, version: str) -> tuple[Spec, ...]:
        """The nested versions inside `version`, which are trained with it, from the largest."""
        nested = [name for name, plan in self.versions.items() if plan.way == "nested"]
        if not nested or version not in (*nested, self.full.name):
            return ()
        facts = self.version_facts()
        inner = [facts[name] for name in nested if facts[name].parameters < facts[version].parameters]
        return tuple(each.spec for each in sorted(inner, key=lambda each: -each.parameters))

    def is_slice(self, before: str, now: str) -> bool:
        """Whether both are the full version or nested in it, so that a handover between them is a slice."""
        ways = [("nested" if name == self.full.name else self.plan(name).way) for name in (before, now)]
        return before != now and ways == ["nested", "nested"]

    def timer(self) -> Timer:
        """What `costs.profiled.profile` times versions with."""
        from .timing import VersionTimer

        return VersionTimer(self)

    def version_facts(self) -> dict[str, VersionFacts]:
        """Counted parameters, FLOPs and bytes of every version, before any training."""
        if "facts" not in self._cache:
            self._cache["facts"] = {name: self._counted(plan) for name, plan in self.versions.items()}
        facts: dict[str, VersionFacts] = self._cache["facts"]
        return facts

    def shapes_of(self, version: str) -> dict[str, tuple[int, ...]]:
        """Shapes of every tensor in the state of `version`."""
        spec = self.version_facts()[version].spec
        return shapes_of(skeleton(spec)) if isinstance(spec, FamilySpec) else dict(spec.shapes)

    def reestimate(self, model: nn.Module, nodes: str, most: int = BATCHNORM_BATCHES) -> None:
        """Batch-norm statistics anew, in place, from up to `most` batches of a node set, always the same ones."""
        members = self.owners_of(nodes)
        if not self.own_data:
            each = max(2, most * self.settings.batch // len(members))
            held = [in_memory(self.datasets[node]) for node in members]
            images = torch.cat([tensor_of(data.images[:each]) for data in held])
            reestimate_batchnorm(model, in_batches(images, self.settings.batch))
            return
        each = -(-most // len(members))
        sites = [self.site(node) for node in members]
        with seeded(self.settings.seed, *(site.held for site in sites)):
            batches = (batch for site in sites for batch in islice(site.batches(self.settings.batch), each))
            reestimate_batchnorm(model, batches, forward=self.step().loss)

    def _counted(self, plan: VersionPlan) -> VersionFacts:
        """Networks of our families are counted once a process: what they measure follows from what is named here."""
        settings, spec = self.settings, self.full.spec
        if self.own_data or self.models or not all(isinstance(s, FamilySpec | None) for s in (spec, plan.spec)):
            return self._facts(plan)
        shape = tuple(self.example.shape[1:])
        known = replace(plan, name=""), spec, shape, settings.seed, settings.importance, settings.keep
        if known not in _COUNTED:
            if len(_COUNTED) >= MOST_COUNTED:
                _COUNTED.clear()
            _COUNTED[known] = self._facts(plan)
        return _COUNTED[known]

    def _facts(self, plan: VersionPlan) -> VersionFacts:
        if plan.way in ("pruned", "nested"):
            pruned = self._pruned(plan)
            model, spec, reached = pruned.model, self.spec_of(pruned.model), pruned.reached
            far = astray(plan, reached, pruned.whole)
        else:
            assert plan.spec is not None
            model, spec, reached, far = build(plan.spec, resolve=self.resolve), plan.spec, 0.0, ""
        with code_of(spec):
            counts = self._counts(model)
        sent = {name: tensor.numel() * tensor.element_size() for name, tensor in state_of(model, spec).items()}
        trained = counts.parameters if adapter_of(spec) is None else trainable(model)
        return VersionFacts(
            trained,
            counts.train_flops,
            sum(sent.values()),
            counts.activation_bytes,
            spec,
            reached,
            plan.ratio_in,
            counts.weight_bytes - sum(sent.values()),
            far,
        )

    def _counts(self, model: nn.Module) -> Counts:
        """On images by their shape alone, on data of the user's own by their step."""
        if not self.own_data:
            return count(model, self.example)
        return count_step(model, self.step().loss, lambda size: resized(self.example_batch, size))

    def _pruned(self, plan: VersionPlan) -> Pruned:
        full = self.initial(self.full.name).model(resolve=self.resolve)
        measure, settings = self.measure(plan.ratio_in), self.settings
        if plan.way == "nested":
            return leading(full, self.example, plan.ratio, keep=settings.keep, measure=measure)
        return prune(
            full, self.example, plan.ratio, importance=settings.importance, keep=settings.keep, measure=measure
        )

    def measure(self, ratio_in: RatioIn) -> Measure | None:
        """What counts a model in the unit that a ratio was asked in; None for parameters."""
        if ratio_in == "parameters":
            return None
        return weight_bytes if ratio_in == "bytes" else lambda model: self._counts(model).train_flops

    def spec_of(self, model: nn.Module) -> Spec:
        """The spec of a module pruned out of the full version."""
        assert self.full.spec is not None
        return spec_of(model, self.full.spec)

    def _from_file(self, path: Path) -> Checkpoint:
        loaded = start_file(path, self.folder)
        if type(loaded.spec) is not type(self.full.spec):
            raise ScenarioError(f"training.start: {path} holds another kind of network than {self.full.name}")
        if self.plan(self.start).way == "nested" and loaded.whole is None:
            raise ScenarioError(
                f"training.start: {path} holds no full version beside the slice; expected a checkpoint of a run in "
                f"which {self.start} is nested, or a start at {self.full.name}"
            )
        return replace(loaded, version=self.start)


def _check_data_of_nodes(sets: Sets, problem: Problem) -> None:
    """Every node that trains needs data, and data of a node that is not there would train nobody."""
    owners = {node for group in problem.node_sets for node in group.owners}
    lacking, known = sorted(owners - set(sets.nodes)), {node.name for node in problem.nodes} | owners
    foreign = sorted(set(sets.nodes) - known)
    if lacking:
        spare = f", but for {', '.join(foreign)}, which is no node" if foreign else ""
        raise UsageError(f"data: nothing for node {lacking[0]!r}{spare}; expected data for each node")
    if foreign:
        raise UsageError(f"data: {foreign[0]!r} is no node of {problem.name}; expected {', '.join(sorted(owners))}")
