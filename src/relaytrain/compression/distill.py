"""Distillation: another kind of handover, to any student, by learning from the teacher's outputs.

    loss = alpha T^2 KL(teacher / T || student / T) + (1 - alpha) cross-entropy

Into a fresh student this is a far larger change than pruning; the planner sees it as a handover with its own jump.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..core.errors import NonFiniteTraining, UsageError
from ..data.batches import batches


@dataclass(frozen=True)
class DistillOptions:
    """How to distil; the defaults are a short handover, not a full training."""

    temperature: float = 2.0
    alpha: float = 0.7
    epochs: int = 1
    batch: int = 64
    lr: float = 1e-2
    momentum: float = 0.9
    seed: int = 0

    def __post_init__(self) -> None:
        ranges = {
            "temperature": self.temperature > 0,
            "alpha": 0 <= self.alpha <= 1,
            "epochs": self.epochs >= 1,
            "batch": self.batch >= 2,
            "lr": self.lr > 0,
            "momentum": 0 <= self.momentum < 1,
        }
        for name, fits in ranges.items():
            if not fits:
                raise UsageError(f"distill.{name}: got {getattr(self, name)}, which is out of range")


def distill(
    teacher: nn.Module, student: nn.Module, images: Tensor, labels: Tensor, options: DistillOptions
) -> nn.Module:
    """A trained copy of `student`, in eval mode; teacher, student and torch's random state stay as they were.

    The same seed gives the same bits. A last batch of one image joins the batch before it, since batch norm needs two.
    """
    if len(images) < 2 or len(images) != len(labels):
        raise UsageError(f"images: got {len(images)} and {len(labels)} labels, expected as many of both, at least 2")
    teacher = copy.deepcopy(teacher).eval()
    student = copy.deepcopy(student).train()
    optimizer = torch.optim.SGD(student.parameters(), lr=options.lr, momentum=options.momentum)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        for _ in range(options.epochs):
            for chosen in batches(len(images), options.batch):
                inputs = images[chosen]
                with torch.no_grad():
                    wanted = teacher(inputs)
                loss = distill_loss(student(inputs), wanted, labels[chosen], options)
                if not torch.isfinite(loss):
                    raise NonFiniteTraining("distill: the loss became NaN or infinite; try a smaller lr")
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    return student.eval()


def distill_loss(student: Tensor, teacher: Tensor, labels: Tensor, options: DistillOptions) -> Tensor:
    """The loss above for logits (batch, classes); T^2 keeps the gradients' size independent of T."""
    t = options.temperature
    soft = functional.kl_div(
        functional.log_softmax(student / t, dim=1),
        functional.log_softmax(teacher / t, dim=1),
        reduction="batchmean",
        log_target=True,
    )
    return options.alpha * t * t * soft + (1.0 - options.alpha) * functional.cross_entropy(student, labels)
