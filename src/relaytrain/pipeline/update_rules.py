"""Update rules as functions: (weight, gradient, state) -> (weight, state); only the gradient is used up.

Weight and state stay as they are, which is what lets mcPipe replay updates from an old version and throw the result
away; or, for the one who owns them, both are written in place. The arithmetic is that of torch.optim, operation by
operation. Beside the gradient, whose memory becomes the new weight's, an update needs room for the new state and for
nothing else: 1 + state tensors of the parameter's size, in place the gradient alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..core.errors import UsageError

RULES = ("sgd", "momentum", "adam")
"""Rules that commands know by name."""


@dataclass(frozen=True)
class OptimizerState:
    """What a rule remembers of one parameter: how many updates, and tensors of the parameter's shape."""

    steps: int = 0
    tensors: tuple[Tensor, ...] = ()


class Rule(Protocol):
    """How a gradient becomes an update."""

    @property
    def state_tensors(self) -> int:
        """Tensors of the parameter's size that the rule keeps after its first update."""

    def step(
        self, weight: Tensor, gradient: Tensor, state: OptimizerState, *, into: Tensor | None = None
    ) -> tuple[Tensor, OptimizerState]:
        """The weight and the state after one update, both new; the gradient's memory may hold the weight.

        With `into` the weight is written there, which may be the old one's place, and the state's tensors are written
        over; they are there then before the first update too, whatever they hold.
        """


@dataclass(frozen=True)
class SGD:
    """torch.optim.SGD: learning rate, momentum, weight decay."""

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check(self.lr, momentum=self.momentum, weight_decay=self.weight_decay)

    @property
    def state_tensors(self) -> int:
        """The momentum buffer, where there is momentum."""
        return 1 if self.momentum else 0

    def step(
        self, weight: Tensor, gradient: Tensor, state: OptimizerState, *, into: Tensor | None = None
    ) -> tuple[Tensor, OptimizerState]:
        """w - lr * buffer, buffer = momentum * buffer + gradient + weight_decay * w."""
        if self.weight_decay:
            gradient.add_(weight, alpha=self.weight_decay)
        place = gradient if into is None else into
        if not self.momentum:
            return torch.add(weight, gradient, alpha=-self.lr, out=place), OptimizerState(state.steps + 1)
        if state.steps:
            old = state.tensors[0]
            buffer = (old.mul(self.momentum) if into is None else old.mul_(self.momentum)).add_(gradient)
        else:
            buffer = gradient.clone() if into is None else state.tensors[0].copy_(gradient)
        return torch.add(weight, buffer, alpha=-self.lr, out=place), OptimizerState(state.steps + 1, (buffer,))

    def unrolled(self, updates: int) -> tuple[float, float, tuple[float, ...]]:
        """The weight after `updates` updates as a sum: of the weight, the buffer and each gradient, oldest first.

        Both recurrences are linear, so their coefficients follow the same recurrences.
        """
        weight = [1.0, 0.0, *[0.0] * updates]
        buffer = [0.0, 1.0, *[0.0] * updates]
        for index in range(updates):
            buffer = [self.momentum * b + self.weight_decay * w for b, w in zip(buffer, weight, strict=True)]
            buffer[2 + index] += 1.0
            weight = [w - self.lr * b for b, w in zip(buffer, weight, strict=True)]
        return weight[0], weight[1], tuple(weight[2:])


@dataclass(frozen=True)
class Adam:
    """torch.optim.Adam; `weight_decay` is added to the gradient, as there."""

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check(self.lr, weight_decay=self.weight_decay, beta1=self.betas[0], beta2=self.betas[1])

    @property
    def state_tensors(self) -> int:
        """The two moments."""
        return 2

    def step(
        self, weight: Tensor, gradient: Tensor, state: OptimizerState, *, into: Tensor | None = None
    ) -> tuple[Tensor, OptimizerState]:
        """Adam's update with both bias corrections."""
        if self.weight_decay:
            gradient.add_(weight, alpha=self.weight_decay)
        beta1, beta2 = self.betas
        if into is not None:
            first, second = state.tensors if state.steps else (tensor.zero_() for tensor in state.tensors)
            first.lerp_(gradient, 1 - beta1)
            second.mul_(beta2)
        elif state.steps:
            first, second = state.tensors[0].lerp(gradient, 1 - beta1), state.tensors[1].mul(beta2)
        else:
            first, second = torch.zeros_like(weight).lerp_(gradient, 1 - beta1), torch.zeros_like(weight)
        second.addcmul_(gradient, gradient, value=1 - beta2)
        steps = state.steps + 1
        step_size = self.lr / (1 - beta1**steps)
        root = torch.sqrt(second, out=gradient).div_(math.sqrt(1 - beta2**steps)).add_(self.eps)
        place = root if into is None else into
        return torch.addcdiv(weight, first, root, value=-step_size, out=place), OptimizerState(steps, (first, second))


def rule_named(optimizer: str, lr: float = 0.01) -> Rule:
    """The rule that `optimizer` (sgd, momentum or adam) names."""
    if optimizer not in RULES:
        raise UsageError(f"--optimizer: got {optimizer[:40]!r}, expected one of {', '.join(RULES)}")
    return Adam(lr) if optimizer == "adam" else SGD(lr, 0.9 if optimizer == "momentum" else 0.0)


def _check(lr: float, **others: float) -> None:
    if not (math.isfinite(lr) and lr > 0):
        raise UsageError(f"lr: got {lr}, expected a positive number")
    for name, value in others.items():
        if not 0.0 <= value < 1.0:
            raise UsageError(f"{name}: got {value}, expected a number in [0, 1)")
