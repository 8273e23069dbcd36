"""The user's own optimizer and learning-rate schedule: functions of the model and of the optimizer, by reference.

def adamw(model):                                          optimizer = "mine:adamw"
    return torch.optim.AdamW(groups_of(model), lr=3e-4)

def one_cycle(optimizer):                                  lr_schedule = "mine:one_cycle", lr_every = "step"
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=500)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from ..core.user_code import UserCodeError, user_code
from .settings import TrainingSettings

MakeOptimizer = Callable[[nn.Module], torch.optim.Optimizer]
MakeSchedule = Callable[[torch.optim.Optimizer], LRScheduler]


@dataclass(frozen=True)
class OwnTraining:
    """What the user brings; None where a name of ours says it."""

    optimizer: MakeOptimizer | None = None
    schedule: MakeSchedule | None = None


def own_training(settings: TrainingSettings, folder: Path | None = None) -> OwnTraining:
    """The functions that `settings` name by reference, `folder` first; imports the user's code.

    Raises:
        ScenarioError: a reference leads nowhere, or to what is no function.
    """
    optimizer, schedule = settings.optimizer, settings.lr_schedule
    own = OwnTraining()
    if ":" not in optimizer + schedule:
        return own
    from ..scenario.resolve import function_at  # brings pydantic along, which a worker does without

    if ":" in optimizer:
        own = replace(own, optimizer=checked_optimizer(function_at(optimizer, folder, "training.optimizer"), optimizer))
    if ":" in schedule:
        own = replace(own, schedule=checked_schedule(function_at(schedule, folder, "training.lr_schedule"), schedule))
    return own


def checked_optimizer(function: Callable[[nn.Module], Any], name: str) -> MakeOptimizer:
    """`function` with its failures told as the user's own, and what it returns looked at."""

    def make(model: nn.Module) -> torch.optim.Optimizer:
        with user_code(name):
            optimizer = function(model)
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise UserCodeError(
                f"training.optimizer: {name} returned {type(optimizer).__name__}, expected a torch.optim.Optimizer "
                "over the parameters of the model it is given"
            )
        known = {id(parameter) for parameter in model.parameters()}
        if any(id(parameter) not in known for group in optimizer.param_groups for parameter in group["params"]):
            raise UserCodeError(
                f"training.optimizer: {name} trains parameters that are not the model's; make it anew at every call, "
                "from the model it is given"
            )
        return optimizer

    return make


def checked_schedule(function: Callable[[torch.optim.Optimizer], Any], name: str) -> MakeSchedule:
    """Likewise; a schedule that waits for a loss is refused, for a pass knows none but its own."""

    def make(optimizer: torch.optim.Optimizer) -> LRScheduler:
        with user_code(name):
            schedule = function(optimizer)
        if isinstance(schedule, ReduceLROnPlateau) or not isinstance(schedule, LRScheduler):
            raise UserCodeError(
                f"training.lr_schedule: {name} returned {type(schedule).__name__}, expected a scheduler of "
                "torch.optim.lr_scheduler that needs no loss"
            )
        return schedule

    return make
