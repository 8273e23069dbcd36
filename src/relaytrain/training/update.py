"""A loss becomes an update: everything between the loss of a batch and the step of the optimizer, in one place.

    with update.forward():                      # precision
        loss = ... of a batch
    update.take(loss, samples)                  # gradients add up; every `accumulate`-th batch is a step
    update.close()                              # after the last batch: a group that is not full counts too

A step divides the gradients by the samples of its group, adds FedProx's mu (w - w_start), clips, and moves the weights
at the learning rate of the moment. Without any of it a step is zero_grad, backward, step: bit for bit the plain loop's.

Deviations: FedProx adds its term to the gradient, not to the loss, which is the same but for rounding: the loss told
of a pass is the data's alone, and no scaling of fp16 touches it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

from torch import Tensor, nn

from .learning_rate import LearningRate
from .optimizer import make_optimizer
from .own_training import OwnTraining
from .precision import lowered, scaler_of, scaler_state
from .settings import TrainingSettings


class Update:
    """Turns losses of batches into steps.

    Args:
        model: in the state that the pass begins with.
        settings: optimizer, schedule, precision, accumulation, clipping, proximal term.
        epoch: from 1.
        batches: of one pass over the data; None where nobody knows.
        device: where the model is.
        own: the user's optimizer and schedule.
        scaler: the state of fp16's scale.
    """

    def __init__(
        self,
        model: nn.Module,
        settings: TrainingSettings,
        epoch: int,
        *,
        batches: int | None = None,
        device: str = "cpu",
        own: OwnTraining | None = None,
        scaler: Mapping[str, Tensor] | None = None,
    ) -> None:
        own = own or OwnTraining()
        self.settings, self.device = settings, device
        self.optimizer = make_optimizer(model, settings, own.optimizer)
        self._rate = LearningRate(self.optimizer, settings, epoch, batches=batches, schedule=own.schedule)
        self._scaler = scaler_of(settings.precision, device, scaler or {})
        self._start: dict[Tensor, Tensor] = {}
        if settings.prox_mu:
            self._start = {parameter: parameter.detach().clone() for parameter in self._parameters()}
        self._batches = self._samples = self._first = 0

    def forward(self) -> AbstractContextManager[object]:
        """Where a batch becomes a loss."""
        return lowered(self.settings.precision, self.device)

    def take(self, loss: Tensor, samples: int) -> None:
        """The mean loss of a batch of so many samples."""
        if self._batches == 0:
            self.optimizer.zero_grad()
            self._first = samples
        group = self.settings.accumulate
        part = loss if group == 1 else loss / (group * self._first / samples)
        scaled = part if self._scaler is None else self._scaler.scale(part)
        scaled.backward()  # type: ignore[no-untyped-call]
        self._batches += 1
        self._samples += samples
        if self._batches == group:
            self._step()

    def close(self) -> None:
        """After the last batch of a pass over the data."""
        if self._batches:
            self._step()

    def scaler_state(self) -> dict[str, Tensor]:
        """What of the scale goes into the checkpoint."""
        return scaler_state(self._scaler)

    def _step(self) -> None:
        settings, scaler = self.settings, self._scaler
        self._rate.before_step()
        if scaler is not None:
            scaler.unscale_(self.optimizer)
        whole = settings.accumulate * self._first
        if self._samples != whole:  # an odd batch, or a group cut short: the mean over the samples there were
            for gradient in self._gradients():
                gradient.mul_(whole / self._samples)
        for parameter, start in self._start.items():
            if parameter.grad is not None:
                parameter.grad.add_(parameter.detach() - start, alpha=settings.prox_mu)
        if settings.clip_norm is not None:
            nn.utils.clip_grad_norm_(self._parameters(), settings.clip_norm)
        if settings.clip_value is not None:
            nn.utils.clip_grad_value_(self._parameters(), settings.clip_value)
        if scaler is None:
            self.optimizer.step()
        else:
            scaler.step(self.optimizer)
            scaler.update()
        self._rate.after_step()
        self._batches = self._samples = 0

    def _parameters(self) -> Iterator[Tensor]:
        for group in self.optimizer.param_groups:
            yield from group["params"]

    def _gradients(self) -> Iterator[Tensor]:
        return (parameter.grad for parameter in self._parameters() if parameter.grad is not None)
