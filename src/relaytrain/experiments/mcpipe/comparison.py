"""Update rules compared on one network and one order of minibatches: accuracy after so many updates of each.

    local     one device, an update a minibatch
    data      `workers` devices with a minibatch each, one update for the average of their gradients
    delayed   `workers` stages, each backward with the weights of its forward: PipeDream, mcPipe and best-of alike
    greedy    `workers` stages, each backward with whatever weights are there

Paper: mcPipe section V. Deviation: the pipeline is drained where accuracy is read, every `every` updates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...data.dataset import Dataset
from ...data.domain import shrink, standardised
from ...data.held import InMemory
from ...data.source import read
from ...models.rebuild import build
from ...models.spec import Spec, family_spec
from ...pipeline.networks import chain
from ...pipeline.simulator import simulate
from ...pipeline.unit_counter import measure_shapes
from ...pipeline.update_rules import SGD, OptimizerState
from ...planners.pipeline.chain import Policy, Unit
from ...planners.pipeline.partition import split
from ...planners.pipeline.schedules import async_1f1b
from ...training.evaluate import evaluate
from ...training.threads import threads

Way = Literal["local", "data", "delayed", "greedy"]
Batches = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class ComparisonTask:
    """What is trained: a family at a width on images shrunk by a factor; `images` of them, drawn by `seed`.

    `in_flight` minibatches are under way in a pipeline; accuracy is read every `every` updates.
    """

    source: str
    family: str = "vgg16"
    width: float = 0.125
    shrink: int = 2
    images: int = 6000
    test_images: int = 500
    batch: int = 32
    lr: float = 0.01
    momentum: float = 0.9
    in_flight: int = 4
    every: int = 20
    seed: int = 0

    @property
    def rule(self) -> SGD:
        """SGD with momentum."""
        return SGD(self.lr, self.momentum)


@dataclass(frozen=True, eq=False)
class PipelineBench:
    """A task with its data at hand."""

    task: ComparisonTask
    images: Tensor
    labels: Tensor
    test: InMemory

    @classmethod
    def of(cls, task: ComparisonTask) -> PipelineBench:
        """Read, shrink and standardise."""
        dice = torch.Generator().manual_seed(task.seed)
        train, test = (_whole_set(task.source, part) for part in ("train", "test"))
        chosen = torch.randperm(len(train), generator=dice)[: task.images].numpy()
        small = shrink(train.part(chosen), task.shrink)
        held = shrink(test.part(torch.randperm(len(test), generator=dice)[: task.test_images].numpy()), task.shrink)
        train_on = InMemory.of(standardised(small, small))
        return cls(task, train_on.images, train_on.labels, InMemory.of(standardised(held, small)))

    def spec(self) -> Spec:
        """How to build the network."""
        shape = self.images.shape
        return family_spec(self.task.family, input=(shape[1], shape[2], shape[3]), classes=10, width=self.task.width)

    def model(self) -> nn.Module:
        """The network as the seed draws it."""
        return build(self.spec(), seed=self.task.seed)

    def minibatches(self, count: int) -> Batches:
        """The first `count`, in an order that the seed draws; the data are passed over as often as needed."""
        dice = torch.Generator().manual_seed(self.task.seed + 1)
        batches: Batches = []
        while len(batches) < count:
            order = torch.randperm(len(self.labels), generator=dice)
            whole = len(order) // self.task.batch * self.task.batch
            batches += [(self.images[part], self.labels[part]) for part in torch.split(order[:whole], self.task.batch)]
        return batches[:count]

    def units(self) -> tuple[Unit, ...]:
        """What the network's units weigh, for a minibatch."""
        return measure_shapes(self.model(), self.images.shape[1:], self.task.batch)

    def accuracy(self, model: nn.Module) -> float:
        """The share of right answers on the test images."""
        return evaluate(model, self.test).accuracy


@functools.cache
def _whole_set(source: str, part: str) -> Dataset:
    return read(source, split=part)


def accuracies(
    bench: PipelineBench,
    way: Way,
    updates: int,
    *,
    cuts: Sequence[int] = (),
    workers: int = 1,
) -> tuple[float, ...]:
    """Accuracy before training and after every `every` updates, up to `updates`; stages are cut at `cuts`."""
    model = bench.model()
    with threads(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(bench.task.seed)
        reached = [bench.accuracy(model)]
        trains = _staged(bench, way, model, cuts) if way in ("delayed", "greedy") else _whole(bench, model)
        merge = workers if way == "data" else 1
        batches = bench.minibatches(updates * merge)
        for begin in range(0, updates, bench.task.every):
            part = batches[begin * merge : (begin + bench.task.every) * merge]
            joined = [part[i : i + merge] for i in range(0, len(part), merge)]
            trains([(torch.cat([x for x, _ in group]), torch.cat([y for _, y in group])) for group in joined])
            reached.append(bench.accuracy(model))
    return tuple(reached)


def _whole(bench: PipelineBench, model: nn.Module) -> Callable[[Batches], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=bench.task.lr, momentum=bench.task.momentum)

    def trains(batches: Batches) -> None:
        model.train()
        for inputs, labels in batches:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    return trains


def _staged(bench: PipelineBench, way: Way, model: nn.Module, cuts: Sequence[int]) -> Callable[[Batches], None]:
    parts = [nn.Sequential(*part) for part in split(chain(model), cuts)]  # the model's own layers: it follows them
    policy = Policy.stash if way == "delayed" else Policy.greedy
    states: list[dict[str, OptimizerState]] = []

    def trains(batches: Batches) -> None:
        for part in parts:
            part.train()
        schedule = async_1f1b(len(parts), len(batches), bench.task.in_flight)
        rule, policies = bench.task.rule, [policy] * len(parts)
        done = simulate(
            parts, schedule, batches, F.cross_entropy, rule, policies, states=states or None, count_bytes=False
        )
        for part, weights in zip(parts, done.weights, strict=True):
            part.load_state_dict(weights)
        states[:] = done.states

    return trains
