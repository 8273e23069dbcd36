"""Where a batch becomes a loss: the step that trains, and the sums from which a set's figures are made.

    loss = step.loss(model, batch)          # a tensor of one number, the mean over the batch
    sums = step.sums(model, batch)          # {"count": 32, "loss": 41.2, ...}, added up over a set

`PlainStep` understands (inputs, labels), dicts as Hugging Face makes them and outputs with `.loss`. `OwnStep` is the
user's: `step(model, batch) -> loss` and, if there is one, `evaluate(model, batch) -> sums`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from ..core.errors import ScenarioError
from ..core.user_code import UserCodeError, defined_at, told, user_code
from ..data.held import Held
from ..data.nested import Batch, rows, shapes, without_number
from .losses import LossFunction, loss_named

Sums = Mapping[str, float]
"""Sums over samples by name, and `count`, by which they are divided."""
StepFunction = Callable[[nn.Module, Batch], Tensor]
EvaluateFunction = Callable[[nn.Module, Batch], Mapping[str, Any]]
Got = TypeVar("Got")


class TrainingStep(Protocol):
    """What training and evaluation do with a batch."""

    @property
    def trained_by(self) -> str:
        """The user's own function that makes the loss, as `file:line: name`; empty where it is none of theirs."""
        ...

    @property
    def judged_by(self) -> str:
        """The same of the sums."""
        ...

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The mean loss of the batch, with its gradient."""
        ...

    def sums(self, model: nn.Module, batch: Batch) -> Sums:
        """Sums over the batch; called in eval mode, without gradients."""
        ...


@dataclass(frozen=True)
class PlainStep:
    """The step of whoever brings none: `loss_function` of the network's outputs and the labels.

    The network is called with all but the last part of a tuple or list, and with the keywords of a dict, `labels` among
    them where its `forward` takes them. Where the outputs have a `loss`, that is it; else their `logits`, if they have
    some, are compared.
    """

    loss_function: LossFunction

    @property
    def trained_by(self) -> str:
        """No function of the user's own."""
        return ""

    judged_by = trained_by

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The mean loss of the batch."""
        return self._loss(*_forward(model, batch))

    def sums(self, model: nn.Module, batch: Batch) -> Sums:
        """Loss, and right answers where labels are classes or squared error where they are numbers."""
        outputs, labels = _forward(model, batch)
        count = rows(batch)
        sums = {"count": count, "loss": float(self._loss(outputs, labels)) * count}
        given = _logits(outputs)
        if not isinstance(given, Tensor) or not isinstance(labels, Tensor):
            return sums
        if labels.is_floating_point():
            if given.numel() == labels.numel():
                sums["squared_error"] = float((given.reshape(labels.shape) - labels).square().mean()) * count
        elif given.ndim == labels.ndim + 1 == 2:
            sums["correct"] = int((given.argmax(dim=1) == labels).sum())
        return sums

    def _loss(self, outputs: Any, labels: Any) -> Tensor:
        own = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", None)
        if isinstance(own, Tensor):
            return own
        if labels is None:
            raise UserCodeError(
                'data: a batch is a dict without "labels", and the outputs have no loss; give [training] step'
            )
        return self.loss_function(_logits(outputs), labels)


def _forward(model: nn.Module, batch: Batch) -> tuple[Any, Any]:
    """Outputs and labels."""
    if isinstance(batch, tuple | list) and len(batch) >= 2:
        return model(*batch[:-1]), batch[-1]
    if isinstance(batch, Mapping):
        takes = takes_labels(model.__class__)  # type: ignore[arg-type]
        given = batch if takes else {key: value for key, value in batch.items() if key != "labels"}
        return model(**given), batch.get("labels")
    raise UserCodeError(
        f"data: a batch is a {type(batch).__name__}, expected (inputs, labels) or a dict with labels; for anything "
        "else give [training] step (or step= in rt.train)"
    )


def inputs_of(batch: Batch) -> Any:
    """What of a batch goes into the network, as `PlainStep` calls it: a tensor, a tuple of them, or a dict."""
    if isinstance(batch, tuple | list) and len(batch) >= 2:
        return batch[0] if len(batch) == 2 else tuple(batch[:-1])
    if isinstance(batch, Mapping):
        return {key: value for key, value in batch.items() if key != "labels"}
    return batch


def inputs_in_step(step: TrainingStep, model: nn.Module, batch: Batch) -> Any:
    """What a step of the user's own calls the network with, the first time: a tensor, a tuple of them, or a dict."""
    seen: list[Any] = []

    def look(module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        named = inspect.signature(module.forward).bind(*arguments, **keywords).arguments if keywords else {}
        seen.append(named or (arguments[0] if len(arguments) == 1 else arguments))

    hook = model.register_forward_pre_hook(look, with_kwargs=True)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            step.loss(model.eval(), batch)
    finally:
        hook.remove()
    return seen[0] if seen else inputs_of(batch)


def class_labels(batch: Batch) -> set[int] | None:
    """The labels of a batch as `PlainStep` finds them; None where they are not one whole number a sample."""
    pair = isinstance(batch, tuple | list) and len(batch) >= 2
    labels = batch[-1] if pair else batch.get("labels") if isinstance(batch, Mapping) else None
    if not isinstance(labels, Tensor) or labels.ndim != 1 or labels.is_floating_point() or labels.is_complex():
        return None
    return set(labels.tolist())


@cache
def takes_labels(kind: type) -> bool:
    """Whether the `forward` of such networks has a parameter `labels`, or takes any."""
    parameters = inspect.signature(kind.forward).parameters  # type: ignore[attr-defined]
    return "labels" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _logits(outputs: Any) -> Any:
    if isinstance(outputs, Tensor):
        return outputs
    named = outputs.get("logits") if isinstance(outputs, Mapping) else getattr(outputs, "logits", None)
    return outputs if named is None else named


@dataclass(frozen=True)
class OwnStep:
    """A step of the user's own; what is not given is done as by `plain`.

    `names` are those of step and evaluate, for messages.
    """

    plain: PlainStep
    step: StepFunction | None = None
    evaluate: EvaluateFunction | None = None
    names: tuple[str, str] = ("step", "evaluate")

    @property
    def trained_by(self) -> str:
        """Where the step is defined, and its name."""
        return _placed(self.step, self.names[0])

    @property
    def judged_by(self) -> str:
        """Where evaluate, or without one the step, is defined, and its name."""
        return self.trained_by if self.evaluate is None else _placed(self.evaluate, self.names[1])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """What the user's step returns, if it is one number that carries a gradient."""
        if self.step is None:
            return self.plain.loss(model, batch)
        name = self.names[0]
        with user_code(name):
            loss = self.step(model, batch)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise UserCodeError(
                f"{defined_at(self.step) or name}: {name} returned {_shown(loss)}, expected one number: "
                "the mean loss of the batch"
            )
        if model.training and not loss.requires_grad:
            raise UserCodeError(
                f"{defined_at(self.step) or name}: {name} returned a loss without a gradient; do not detach it, and "
                "compute it from the model's outputs"
            )
        return loss

    def sums(self, model: nn.Module, batch: Batch) -> Sums:
        """What the user's evaluate returns; without one the loss of the step."""
        if self.evaluate is None:
            if self.step is None:
                return self.plain.sums(model, batch)
            count = rows(batch)
            return {"count": count, "loss": float(self.loss(model, batch)) * count}
        name = self.names[1]
        with user_code(name):
            given = self.evaluate(model, batch)
            sums = {str(key): float(value) for key, value in given.items()} if isinstance(given, Mapping) else {}
        if not sums.get("count", 0.0) > 0.0 or len(sums) < 2:
            raise UserCodeError(
                f"{defined_at(self.evaluate) or name}: {name} returned {_shown(given)}, expected a dict of sums over "
                'the batch with "count", such as {"count": 32, "loss": 41.2}'
            )
        return sums


def _placed(function: Callable[..., Any] | None, name: str) -> str:
    """`file:line: name` of the user's function; nothing where there is none."""
    if function is None:
        return ""
    place = defined_at(function)
    return f"{place}: {name}" if place else name


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return f"a dict of {', '.join(map(str, value)) or 'nothing'}"
    return f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"


def step_of(
    loss: str,
    step: str | StepFunction | None = None,
    evaluate: str | EvaluateFunction | None = None,
    folder: Path | None = None,
) -> TrainingStep:
    """The step that settings, or a caller in Python, name; references are followed, `folder` first."""
    plain = PlainStep(loss_named(loss, folder))
    if step is None and evaluate is None:
        return plain
    functions, names = [], []
    for key, given in (("step", step), ("evaluate", evaluate)):
        functions.append(_function(key, given, folder))
        names.append(given if isinstance(given, str) else key)
    return OwnStep(plain, functions[0], functions[1], (names[0], names[1]))


def _function(key: str, given: Any, folder: Path | None) -> Any:
    if not isinstance(given, str):
        if given is not None and not callable(given):
            raise ScenarioError(f"{key}: got a {type(given).__name__}, expected a function of (model, batch)")
        return given
    from ..scenario.resolve import function_at

    return function_at(given, folder, f"training.{key}")


class BatchWatch:
    """Holds the batches of a pass against each other, and looks at one closely only once something has gone wrong."""

    def __init__(self, held: Held) -> None:
        self.held, self.count = held, 0
        self._first = ""

    def loss(self, step: TrainingStep, model: nn.Module, batch: Batch) -> Tensor:
        """The loss of the batch; where it cannot be had and the batch is unlike the first one, that is said."""
        return self._told(step.loss, model, batch)

    def sums(self, step: TrainingStep, model: nn.Module, batch: Batch) -> Sums:
        """The same for its sums; a batch that holds NaN is refused where they do."""
        sums = self._told(step.sums, model, batch)
        if not all(map(math.isfinite, sums.values())):
            self.check_numbers(batch)
        return sums

    def _told(self, call: Callable[[nn.Module, Batch], Got], model: nn.Module, batch: Batch) -> Got:
        self.count += 1
        if self.count == 1:
            self._first = shapes(batch)
        try:
            return call(model, batch)
        except Exception as error:
            self._explain(error, batch)
            raise

    def check_numbers(self, batch: Batch) -> None:
        """Blame the batch for a loss that is no number if it holds some that are none."""
        if without_number(batch):
            raise UserCodeError(
                f"{self.held.place}: batch {self.count} of the pass holds NaN or infinity; clean or drop such samples "
                "where they are read"
            )

    def _explain(self, error: Exception, batch: Batch) -> None:
        now = shapes(batch)
        if now != self._first:
            words = told(error, "step").partition("; ")[0]
            raise UserCodeError(
                f"{self.held.place}: batch {self.count} of the pass is {now}, the first was {self._first}, and "
                f"it cannot be trained on ({words}); give batches of one shape, or a step that takes all"
            ) from error
