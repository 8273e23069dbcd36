"""A handover's work: the checkpoint of one version becomes that of another. Deterministic, so it can be redone.

| kind | when |
|---|---|
| same | the version stays (new nodes, same weights) |
| prune | the new version is a smaller one of the same network; optimizer state follows the kept channels |
| slice | the new version is nested in the one before, or around it: cut out of the full version, or the full one |
| distill | the new version is a student, or declared `grow = "distill"` |
| rank | both are ranks of one adapter: the product of its factors stays, as far as the new rank allows |
| restore | going back to a larger version declared `grow = "checkpoint"`: its last checkpoint |
"""

from __future__ import annotations

import time
from dataclasses import replace

from torch import nn

from ..compression.carry import carry_optimizer
from ..compression.channels import parameter_count
from ..compression.distill import DistillOptions, distill
from ..compression.prune import prune, prune_to
from ..compression.slices import cut_out, cut_state, state_written_into, written_into
from ..core.errors import ScenarioError
from ..core.outcome import Handed
from ..data.held import tensor_of
from ..models.rebuild import code_of
from ..models.spec import FamilySpec, adapter_of
from .adapter_rank import at_new_rank
from .checkpoint import Checkpoint
from .datasets import in_memory
from .settings import seed_of
from .setup import TrainingSetup
from .threads import threads
from .version_plans import VersionPlan

ANEW = "the optimizer begins anew: not all of its state has the shape of the weights"


def hand_over(
    setup: TrainingSetup, checkpoint: Checkpoint, to_version: str, nodes: str, *, last: Checkpoint | None = None
) -> Handed:
    """What `to_version` starts from on `nodes`.

    Args:
        setup: the run's setup.
        checkpoint: what the version before ended with.
        to_version: the new version; the same one costs nothing.
        nodes: the new node set: its data serve batch norm and distillation.
        last: the new version's own last checkpoint, if it ever trained; needed to go back to it by `checkpoint`.

    Raises:
        ScenarioError: the new version is larger and no way to it is declared.
    """
    cpu, wall = time.process_time(), time.monotonic()
    plan = setup.plan(to_version)
    if checkpoint.version == to_version:
        return Handed(checkpoint, "same")
    with threads(setup.settings.threads), code_of(checkpoint.spec):
        handed = _handed(setup, checkpoint, plan, nodes, last)
    return replace(handed, elapsed_s=time.monotonic() - wall, cpu_s=time.process_time() - cpu)


def _handed(
    setup: TrainingSetup, checkpoint: Checkpoint, plan: VersionPlan, nodes: str, last: Checkpoint | None
) -> Handed:
    if adapter_of(checkpoint.spec) is not None and plan.spec is not None and adapter_of(plan.spec) is not None:
        note = "the server's state begins anew at another rank" if checkpoint.server else None
        return Handed(at_new_rank(checkpoint, setup.initial(plan.name)), "rank", note=note)
    if plan.way == "student":
        return _distilled(setup, checkpoint, plan, nodes)
    if setup.is_slice(checkpoint.version, plan.name):
        return _sliced(setup, checkpoint, plan, nodes)
    checkpoint = widened(checkpoint)
    if _is_smaller(setup, checkpoint, plan):
        return _pruned(setup, checkpoint, plan, nodes)
    if plan.grow == "distill":
        return _distilled(setup, checkpoint, plan, nodes)
    if plan.grow == "checkpoint":
        if last is None and plan.name == setup.start:
            last = setup.first_checkpoint()
        if last is None:
            raise ScenarioError(
                f"versions.{plan.name}.grow: {plan.name} has no checkpoint to go back to, since it never trained; "
                'expected grow = "distill" for versions entered from a smaller one'
            )
        return Handed(replace(last, version=plan.name), "restore")
    raise ScenarioError(
        f"versions.{plan.name}: larger than {checkpoint.version}, and no way to it is declared; "
        'give it grow = "checkpoint" or grow = "distill", or forbid the change with seconds = inf'
    )


def widened(checkpoint: Checkpoint) -> Checkpoint:
    """The full version with the slice that was trained written into it; itself where there is no more."""
    whole = checkpoint.whole
    if whole is None:
        return checkpoint
    shapes = {name: tuple(tensor.shape) for name, tensor in whole.weights.items()}
    both = _follows(whole) and _follows(checkpoint)
    return replace(
        whole,
        weights=written_into(whole.weights, checkpoint.weights),
        optimizer=state_written_into(whole.optimizer, checkpoint.optimizer, shapes) if both else {},
        server=state_written_into(whole.server, checkpoint.server, shapes),
        scaler=checkpoint.scaler,
    )


def _sliced(setup: TrainingSetup, before: Checkpoint, plan: VersionPlan, nodes: str) -> Handed:
    """A slice of the full version, which stays beside it; only batch norm's statistics are its own, estimated again."""
    whole = widened(before)
    checkpoint, note = replace(whole, version=plan.name), None if _follows(before) else ANEW
    if plan.way == "nested":
        shapes, spec = setup.shapes_of(plan.name), setup.version_facts()[plan.name].spec
        state = cut_state(whole.optimizer, shapes) if _follows(whole) else {}
        server = cut_state(whole.server, shapes)
        checkpoint = Checkpoint(spec, cut_out(whole.weights, shapes), state, plan.name, server, whole.scaler, whole)
    model = checkpoint.model(resolve=setup.resolve)
    setup.reestimate(model, nodes)
    weights = Checkpoint.of_model(model, checkpoint.spec, checkpoint.version).weights
    reached = setup.version_facts()[plan.name].reached_ratio
    return Handed(replace(checkpoint, weights=weights), "slice", reached, note=note)


def _is_smaller(setup: TrainingSetup, checkpoint: Checkpoint, plan: VersionPlan) -> bool:
    """Whether pruning leads from the checkpoint to the plan's version."""
    full = setup.full.spec
    if plan.way != "pruned" or full is None:
        return False
    if isinstance(full, FamilySpec) != isinstance(checkpoint.spec, FamilySpec):
        return False
    if isinstance(full, FamilySpec) and isinstance(checkpoint.spec, FamilySpec):
        if full.family != checkpoint.spec.family:
            return False
    elif full.to_dict().get("factory") != checkpoint.spec.to_dict().get("factory"):
        return False
    before = setup.plan(checkpoint.version)
    if before.way == "pruned" and before.ratio_in != plan.ratio_in:
        facts = setup.version_facts()
        return facts[before.name].parameters >= facts[plan.name].parameters
    return before.way == "network" or (before.way == "pruned" and before.ratio <= plan.ratio)


def _pruned(setup: TrainingSetup, checkpoint: Checkpoint, plan: VersionPlan, nodes: str) -> Handed:
    model = checkpoint.model(resolve=setup.resolve)
    size = setup.measure(plan.ratio_in) or parameter_count
    full = setup.version_facts()[setup.full.name].size(plan.ratio_in)
    importance = setup.settings.importance
    pruned = prune_to(model, setup.example, setup.shapes_of(plan.name), importance=importance)
    if pruned is None and size(model) > full * (1.0 - plan.ratio):  # another network's shapes: by ratio then
        pruned = prune(
            model,
            setup.example,
            plan.ratio,
            of="full",
            full_parameters=full,
            importance=importance,
            keep=setup.settings.keep,
            measure=size,
        )
    smaller: nn.Module = model if pruned is None else pruned.model
    setup.reestimate(smaller, nodes)
    state, server = checkpoint.optimizer, checkpoint.server
    note = None
    if pruned is not None:
        if not _follows(checkpoint):
            state, note = {}, ANEW
        state, server = (carry_optimizer(held, pruned.kept) for held in (state, server))
    reached = 1.0 - size(smaller) / full
    successor = Checkpoint.of_model(smaller, setup.spec_of(smaller), plan.name, state)
    return Handed(replace(successor, server=server, scaler=checkpoint.scaler), "prune", reached, note=note)


def _follows(checkpoint: Checkpoint) -> bool:
    """Whether the optimizer's state can be pruned like the weights; an optimizer of the user's own may factor it."""
    shapes = {name: tensor.shape for name, tensor in checkpoint.weights.items()}
    return all(not t.ndim or t.shape == shapes[key.partition("/")[2]] for key, t in checkpoint.optimizer.items())


def _distilled(setup: TrainingSetup, checkpoint: Checkpoint, plan: VersionPlan, nodes: str) -> Handed:
    note = (
        f"the server's state ({setup.settings.strategy}) begins anew with other weights" if checkpoint.server else None
    )
    teacher = checkpoint.model(resolve=setup.resolve)
    fresh = setup.initial(plan.name)
    student = fresh.model(resolve=setup.resolve)
    data = in_memory(setup.data_of(nodes), f"distillation into {plan.name}")
    asked = setup.settings.distill
    seed = seed_of(setup.settings.seed, 0, plan.name)
    options = DistillOptions(**vars(asked), batch=setup.settings.batch, momentum=setup.settings.momentum, seed=seed)
    trained = distill(teacher, student, tensor_of(data.images), tensor_of(data.labels), options)
    return Handed(Checkpoint.of_model(trained, fresh.spec, plan.name), "distill", note=note)
