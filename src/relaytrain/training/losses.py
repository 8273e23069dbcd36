"""Loss functions by name: cross-entropy, squared error, or the user's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import Tensor
from torch.nn import functional

from ..core.errors import ScenarioError
from ..core.user_code import UserCodeError, user_code

LossFunction = Callable[[Tensor, Tensor], Tensor]
"""(outputs, labels) -> the mean loss of the batch."""


def loss_named(name: str, folder: Path | None = None) -> LossFunction:
    """The loss called `name`; a reference is followed, `folder` first, which runs the user's code."""
    if name == "cross-entropy":
        return cross_entropy
    if name == "mse":
        return squared_error
    if ":" not in name:
        raise ScenarioError(f"training.loss: got {name!r}, expected cross-entropy, mse or dotted.module:name")
    from ..scenario.resolve import resolve

    value = resolve(name, folder)
    if not callable(value):
        raise ScenarioError(f"training.loss: {name} is a {type(value).__name__}, expected a function")

    def own(outputs: Tensor, labels: Tensor) -> Tensor:
        with user_code(name):
            loss = value(outputs, labels)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            shown = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise UserCodeError(f"training.loss: {name} returned {shown}, expected one number: the mean of the batch")
        return loss

    return own


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """torch's own; numbers to be predicted are no classes, and torch would take a batch of them for one sample."""
    if labels.is_floating_point() and outputs.ndim < 2:
        raise UserCodeError(
            f"training.loss: cross-entropy of outputs {list(outputs.shape)} and labels that are floats, expected "
            'classes as whole numbers; to predict numbers use loss = "mse"'
        )
    if outputs.ndim > 1 and outputs.shape[1] == 1:
        raise UserCodeError(
            "training.loss: cross-entropy of one output a sample, which is 0 whatever the network says; to predict "
            'numbers use loss = "mse", for two classes give the network two outputs'
        )
    return functional.cross_entropy(outputs, labels)


def squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean squared distance of the outputs from the labels: from one-hot ones where labels are classes."""
    if not labels.is_floating_point():
        return functional.mse_loss(outputs, functional.one_hot(labels, outputs.shape[1]).to(outputs.dtype))
    if outputs.numel() != labels.numel():
        raise UserCodeError(
            f"training.loss: mse of outputs {list(outputs.shape)} and labels {list(labels.shape)}, expected as many of "
            "both; give the network one output for each number"
        )
    return functional.mse_loss(outputs if outputs.shape == labels.shape else outputs.reshape(labels.shape), labels)
