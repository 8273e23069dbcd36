"""Whether data, networks and loss fit together: what no run could survive, found before it spends anything.

`run` raises the first fault, `doctor` lists them all and takes a step of training on the data of every node as well.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ..core.errors import ScenarioError
from ..data.batches import batches
from ..data.dataset import Dataset
from ..data.held import tensor_of
from ..models.rebuild import code_of
from ..models.spec import FactorySpec
from .datasets import in_memory
from .optimizer import read_state
from .own_soundness import network_of, own_faults
from .setup import TrainingSetup
from .threads import threads
from .update import Update
from .version_plans import VersionPlan

LOOKED_AT = 2
"""Images of the forward pass that shows what a network gives."""
ONE_VALUE = "more than 1 value per channel"
"""What torch's batch norm says about a batch that it can take no mean over."""


def check_sound(setup: TrainingSetup) -> None:
    """Raise the first of `faults`."""
    for fault in faults(setup):
        raise fault


def faults(setup: TrainingSetup) -> Iterator[ScenarioError]:
    """What stands in the way of any run: shapes that differ, networks that do not fit the data, too few images."""
    if setup.own_data:
        yield from own_faults(setup)
        return
    shape = in_memory(setup.validation).input
    sets = {"the test set": in_memory(setup.test), **{f"node {name}": data for name, data in _images(setup).items()}}
    odd = {name: data for name, data in sets.items() if data.input != shape}
    for name, data in odd.items():
        yield ScenarioError(
            f"data: {name} has images of shape {list(data.input)}, the validation set {list(shape)}; "
            "bring them to one shape"
        )
    if not odd:
        for plan in setup.versions.values():
            if plan.spec is not None:
                yield from _of_network(setup, plan)


def _images(setup: TrainingSetup) -> dict[str, Dataset]:
    return {name: in_memory(data) for name, data in setup.datasets.items()}


def _of_network(setup: TrainingSetup, plan: VersionPlan) -> Iterator[ScenarioError]:
    empty = isinstance(plan.spec, FactorySpec) and not plan.spec.shapes
    try:
        model = nn.Module() if empty else network_of(setup, plan)
        if not any(parameter.requires_grad for parameter in model.parameters()):
            yield ScenarioError(f"{_named(plan)} has no trainable parameters; give it layers to train")
            return
        outputs = _outputs(setup, plan, model)
    except ScenarioError as error:
        yield error
        return
    wrong = _misfit(setup, outputs)
    if wrong is not None:
        yield ScenarioError(f"{_named(plan)} {wrong}")
        return
    yield from _single_images(setup, plan, model)


def _outputs(setup: TrainingSetup, plan: VersionPlan, model: nn.Module) -> object:
    assert plan.spec is not None
    with code_of(plan.spec), torch.no_grad(), torch.random.fork_rng(devices=[]), threads(setup.settings.threads):
        outputs: object = model.eval()(tensor_of(in_memory(setup.validation).images[:LOOKED_AT]))
    return outputs


def _misfit(setup: TrainingSetup, outputs: object) -> str | None:
    """Why these outputs cannot be compared with the labels; a loss of the user's own may take any tensor."""
    if not isinstance(outputs, Tensor):
        return f"returns a {type(outputs).__name__}; return one tensor with a row for each input"
    validation = in_memory(setup.validation)
    rows = min(LOOKED_AT, len(validation))
    if outputs.ndim == 0 or len(outputs) != rows:
        return f"returns {list(outputs.shape)} for {rows} inputs; return one tensor with a row for each input"
    if ":" in setup.settings.loss:
        return None
    if outputs.ndim != 2:
        return f"returns {list(outputs.shape)} for {rows} inputs; expected a row of one output for each class"
    sets = {**_images(setup), "validation": validation, "test": in_memory(setup.test)}
    classes = max(data.classes for data in sets.values())
    if outputs.shape[1] < classes:
        holder, largest = max(((name, int(data.labels.max())) for name, data in sets.items()), key=lambda one: one[1])
        return (
            f"gives {outputs.shape[1]} outputs, but the data are of {classes} classes: label {largest} at {holder}; "
            f"give it {classes} outputs, or count labels from 0"
        )
    return None


def _single_images(setup: TrainingSetup, plan: VersionPlan, model: nn.Module) -> Iterator[ScenarioError]:
    """Nodes whose only image is too little for batch norm."""
    for name, data in _images(setup).items():
        if len(data) > 1:
            continue
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                copy.deepcopy(model).train()(tensor_of(data.images))
        except ValueError as error:
            if ONE_VALUE in str(error):
                yield ScenarioError(
                    f"data: node {name} has one image, and batch norm in {plan.name} needs two; give it more samples"
                )


def step_fault(setup: TrainingSetup, plan: VersionPlan, node: str) -> ScenarioError | None:
    """What goes wrong in one step of training on a batch of `node`; nothing of it is kept."""
    assert plan.spec is not None
    data = in_memory(setup.datasets[node])
    try:
        with torch.random.fork_rng(devices=[]), threads(setup.settings.threads), code_of(plan.spec):
            torch.manual_seed(setup.settings.seed)
            chosen = next(iter(batches(len(data), setup.settings.batch))).numpy()
            model = network_of(setup, plan).train()
            update = Update(model, setup.settings, 1, batches=1, own=setup.own_training())
            with update.forward():
                loss = setup.step().loss(model, (tensor_of(data.images[chosen]), tensor_of(data.labels[chosen])))
            update.take(loss, len(chosen))
            grown = [] if setup.settings.precision == "fp16" else _not_finite(model)  # too large a scale is no fault
            update.close()
            read_state(update.optimizer, model)
    except ScenarioError as error:
        return error
    if not bool(loss.isfinite()) or grown:
        what = f"a loss of {loss.item():g}" if not grown else f"a gradient that is no number in {grown[0]}"
        return ScenarioError(f"{_named(plan)} has {what} on the first batch of {node}; check its data and start values")
    return None


def _not_finite(model: nn.Module) -> list[str]:
    """Parameters whose gradient is no number."""
    return [name for name, p in model.named_parameters() if p.grad is not None and not bool(p.grad.isfinite().all())]


def _named(plan: VersionPlan) -> str:
    factory = f" ({plan.spec.factory})" if isinstance(plan.spec, FactorySpec) else ""
    return f"versions.{plan.name}{factory}: the network"
