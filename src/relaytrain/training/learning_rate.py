"""The learning rate of every step of a pass: a function of epoch and step, so that a resumed run agrees.

A name of ours (`TrainingSettings.lr_share`) holds for the epoch; warm-up rises linearly over the steps of the first
`warmup_epochs` passes, and reaches the whole rate at their last step. A schedule of the user's own is made anew for
every pass and taken to where it stands: once for each epoch before, or with `lr_every = "step"` once for each step.
"""

from __future__ import annotations

import math
import warnings

import torch

from ..core.errors import ScenarioError
from ..core.user_code import user_code
from .own_training import MakeSchedule
from .settings import TrainingSettings


class LearningRate:
    """Sets the rate of an optimizer before each of its steps.

    Args:
        optimizer: just made, at its rate of a whole share.
        settings: schedule and warm-up.
        epoch: from 1.
        batches: of one pass over the data; None where nobody knows, then warm-up rises by the epoch.
        schedule: the user's own.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        settings: TrainingSettings,
        epoch: int,
        *,
        batches: int | None = None,
        schedule: MakeSchedule | None = None,
    ) -> None:
        self._optimizer, self._settings, self._epoch = optimizer, settings, epoch
        self._steps = None
        if batches is not None:
            self._steps = settings.local_epochs * max(1, math.ceil(batches / settings.accumulate))
        self._taken = 0
        self._rates = [group["lr"] for group in optimizer.param_groups]
        self._scheduler = None
        if schedule is not None:
            self._scheduler = schedule(optimizer)
            for _ in range(self._before(epoch)):
                self._advance()
        else:
            self._set(settings.lr_share(epoch))
        self._warms = epoch <= math.ceil(settings.warmup_epochs)

    def before_step(self) -> None:
        """To be called before every step."""
        if self._warms:
            self._set(self._settings.lr_share(self._epoch) * self._warm())
        self._taken += 1

    def after_step(self) -> None:
        """To be called after every step."""
        if self._scheduler is not None and self._settings.lr_every == "step":
            self._advance()

    def _warm(self) -> float:
        steps = self._steps or 1
        done = (self._epoch - 1) * steps + (min(self._taken, steps - 1) if self._steps else 0)
        return min(1.0, (done + 1) / max(1.0, self._settings.warmup_epochs * steps))

    def _set(self, share: float) -> None:
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * share

    def _before(self, epoch: int) -> int:
        """How often the schedule was advanced before this pass."""
        if self._settings.lr_every == "epoch":
            return epoch - 1
        if self._steps is None:
            raise ScenarioError(
                'training.lr_every: got "step", but the batches of these data cannot be counted; expected "epoch"'
            )
        return (epoch - 1) * self._steps

    def _advance(self) -> None:
        assert self._scheduler is not None
        with warnings.catch_warnings(), user_code(self._settings.lr_schedule):
            warnings.simplefilter("ignore")  # torch cannot know of the steps before, nor of one that overflowed
            self._scheduler.step()
