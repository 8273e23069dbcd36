"""Whether data and step of the user's own fit each other and the networks, found before a run spends anything.

`run` tries one batch of the validation set; `doctor` walks through the data of every node as well.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from ..core.errors import ScenarioError
from ..core.user_code import UserCodeError
from ..data.held import FixedBatches, Held
from ..data.nested import Batch, moved, rows, shapes, without_number
from ..data.seeding import seeded
from ..models.rebuild import build, code_of
from .evaluate import evaluation_of
from .known_data import first_batch
from .optimizer import read_state
from .setup import TrainingSetup
from .step import BatchWatch, class_labels
from .threads import threads
from .update import Update
from .version_plans import VersionPlan

MOST_WALKED, LONGEST_WALK_S = 2000, 20.0
"""Batches and seconds after which a walk through a node's data ends."""
MOST_SHAPES = 4
"""Batches of different shapes that are tried."""


def own_faults(setup: TrainingSetup) -> Iterator[ScenarioError]:
    """What stands in the way of any run: a batch of the validation set is trained on, without keeping anything."""
    yield from _images_only(setup)
    try:
        batch = first_batch(setup.validation, setup.settings.batch)
    except ScenarioError as error:
        yield error
        return
    for plan in setup.versions.values():
        if plan.spec is not None:
            fault = _trainable(setup, plan) or step_fault_on(setup, plan, _held(setup), [batch], "the validation set")
            if fault is not None:
                yield fault
                return


def _images_only(setup: TrainingSetup) -> Iterator[ScenarioError]:
    """What works on images in memory alone, asked of other data."""
    for plan in setup.versions.values():
        if plan.way == "student" or plan.grow == "distill":
            yield ScenarioError(
                f"versions.{plan.name}: distillation works on images in memory, got data of your own; reach it by "
                "ratio, or give (images, labels) as arrays"
            )
    for group in setup.problem.node_sets:
        if group.mode == "pipeline":
            yield ScenarioError(
                f"node_sets.{group.name}: a pipeline works on images in memory, got data of your own; give it "
                'mode = "federated", or (images, labels) as arrays'
            )


def _held(setup: TrainingSetup) -> Held:
    held: Held = setup.validation  # type: ignore[assignment]  # asked for data of the user's own only
    return held


def network_of(setup: TrainingSetup, plan: VersionPlan) -> nn.Module:
    """The untrained network of a version that has one of its own; a copy, free to be trained."""
    assert plan.spec is not None
    given = setup.models.get(plan.name)
    return build(plan.spec, seed=setup.settings.seed, resolve=setup.resolve) if given is None else copy.deepcopy(given)


def _trainable(setup: TrainingSetup, plan: VersionPlan) -> ScenarioError | None:
    if any(parameter.requires_grad for parameter in network_of(setup, plan).parameters()):
        return None
    return ScenarioError(f"versions.{plan.name}: the network has no trainable parameters; give it layers to train")


def step_fault_on(
    setup: TrainingSetup, plan: VersionPlan, held: Held, batches: list[Batch], whose: str
) -> ScenarioError | None:
    """What goes wrong when the untrained network takes a step on, and is evaluated on, each of these batches."""
    assert plan.spec is not None
    step, watch, looks = setup.step(), BatchWatch(held), BatchWatch(held)
    try:
        with seeded(setup.settings.seed), threads(setup.settings.threads), code_of(plan.spec):
            for batch in batches:
                model = network_of(setup, plan).train()
                update = Update(model, setup.settings, 1, batches=1, own=setup.own_training())
                with update.forward():
                    loss = watch.loss(step, model, batch)
                update.take(loss, rows(batch))
                update.close()
                read_state(update.optimizer, model)
                if not bool(loss.isfinite()):
                    watch.check_numbers(batch)
                    by = f", by {step.trained_by}" if step.trained_by else ""
                    return ScenarioError(
                        f"versions.{plan.name}: the network has a loss of {loss.item():g} on a batch of {whose}, which "
                        f"holds no NaN{by}; check {'it and ' if by else ''}the network's start values"
                    )
                with torch.no_grad():
                    sums = looks.sums(step, model.eval(), batch)
                evaluation_of(sums).metric(setup.problem.target.metric)
    except ScenarioError as error:
        return error
    except RuntimeError as error:  # a network of ours on data that it was not made for
        return ScenarioError(f"versions.{plan.name}: the network fails on a batch of {whose} ({error})")
    return None


@dataclass(frozen=True)
class Walked:
    """A pass over a node's data without training: `different` has the first batch of every shape.

    `classes` are the labels that were seen where all of them are whole numbers, one a sample.
    """

    batches: int
    samples: int
    whole: bool
    different: tuple[Batch, ...]
    classes: frozenset[int] | None = None


def walk(setup: TrainingSetup, node: str) -> Walked:
    """Go through the data of `node` as an epoch would.

    Raises:
        UserCodeError: they raise, give nothing, or hold NaN; with the user's file and line.
    """
    site, began = setup.site(node), time.monotonic()
    examples: dict[str, Batch] = {}
    count = samples = 0
    whole = True
    classes: set[int] | None = set()
    with seeded(setup.settings.seed, site.held):
        for batch in site.batches(setup.settings.batch):
            count, samples = count + 1, samples + rows(batch)
            if without_number(batch):
                raise UserCodeError(
                    f"{site.held.place}: batch {count} of {node} holds NaN or infinity; clean or drop such samples "
                    "where they are read"
                )
            seen = class_labels(batch)
            classes = None if classes is None or seen is None else classes | seen
            if len(examples) < MOST_SHAPES:
                examples.setdefault(shapes(batch), moved(batch, "cpu"))
            if count >= MOST_WALKED or time.monotonic() - began > LONGEST_WALK_S:
                whole = False
                break
    return Walked(count, samples, whole, tuple(examples.values()), None if classes is None else frozenset(classes))


def rebuilt_alike(setup: TrainingSetup, plan: VersionPlan) -> bool:
    """Whether a network saved and built anew gives the same sums on the example, bit for bit."""
    from .checkpoint import Checkpoint

    start = setup.initial(plan.name)
    models = [source.model(resolve=setup.resolve) for source in (start, Checkpoint.from_bytes(start.to_bytes()))]
    batch = setup.example_batch
    seen = []
    for model in models:
        with torch.no_grad(), seeded(0), threads(setup.settings.threads):
            seen.append(dict(BatchWatch(FixedBatches((batch,))).sums(setup.step(), model.eval(), batch)))
    return seen[0] == seen[1]
