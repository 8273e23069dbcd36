"""One node's pass over its data: the only place that trains. Every transport calls `train_node`.

Written out, a pass is the plain PyTorch loop:

    torch.manual_seed(seed)                      # seed of (run, epoch, node); numpy and random likewise
    for batch in loader:                         # data.held: images in memory, or what the user brought
        loss = step(model, batch)                # training.step: the user's, or loss_function(model(inputs), labels)
        optimizer.zero_grad(); loss.backward(); optimizer.step()

so one node, one version and no handover give bit for bit what that loop gives. What else may happen between a loss and
a step (`training.update`) is what people write into such a loop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import nn

from ..data.dataset import Dataset
from ..data.held import Held, held_of
from ..data.nested import Batch, moved, rows
from ..data.seeding import seeded
from ..models.rebuild import Resolve, code_of
from .answer import TooLate, answered
from .checkpoint import Checkpoint
from .optimizer import load_state, read_state
from .ordered_widths import ordered_widths
from .own_training import OwnTraining
from .settings import TrainingSettings
from .step import BatchWatch, TrainingStep, step_of
from .task import NodeResult, NodeTask
from .threads import threads
from .update import Update
from .workbench import loaded

Progress = Callable[[], None]
"""Called after every batch; may raise `TooLate` to end the pass."""


def deadline(began_s: float, timeout_s: float | None) -> Progress | None:
    """A `Progress` that ends a pass so long after `began_s` (monotonic), within a batch; None where nothing limits."""
    if timeout_s is None:
        return None

    def progress() -> None:
        if time.monotonic() - began_s > timeout_s:
            raise TooLate(f"no answer within {timeout_s:g} s")

    return progress


@dataclass(frozen=True, eq=False)
class Site:
    """What a node has at hand: its data as batches, its device, and the user's code it may call.

    `parts` says which rows belong to which data set.
    """

    held: Held
    device: str = "cpu"
    resolve: Resolve | None = None
    step: TrainingStep | None = None
    parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    own: OwnTraining = field(default_factory=OwnTraining)

    @classmethod
    def of(
        cls,
        data: Dataset | Held,
        *,
        device: str = "cpu",
        resolve: Resolve | None = None,
        step: TrainingStep | None = None,
        parts: Mapping[str, tuple[int, int]] | None = None,
        own: OwnTraining | None = None,
    ) -> Site:
        """A site that holds `data`."""
        return cls(held_of(data, device), device, resolve, step, dict(parts or {}), own or OwnTraining())

    def batches(self, size: int, epoch: int = 1) -> Iterator[Batch]:
        """The batches of one pass of training, on the device."""
        passed = self.held.shuffled(size, epoch)
        return iter(passed) if self.device == "cpu" else (moved(batch, self.device) for batch in passed)

    def only(self, datasets: Sequence[str]) -> Site:
        """The site with the rows of these data sets alone; all of them where none is named."""
        if not datasets or not self.parts:
            return self
        missing = [name for name in datasets if name not in self.parts]
        if missing:
            raise KeyError(f"data set {missing[0]!r} is not at this node; here are {', '.join(self.parts)}")
        return replace(self, held=self.held.spans([self.parts[name] for name in datasets]), parts={})


def train_node(task: NodeTask, site: Site, progress: Progress | None = None) -> NodeResult:
    """One pass over the node's data from the task's checkpoint. Whatever goes wrong becomes a result with an error."""

    def train() -> tuple[Checkpoint, int, float]:
        here, paused = site.only(task.datasets), capped(task, progress)
        checkpoint = Checkpoint.opened(task.checkpoint)
        with threads(task.settings.threads):
            trained, done = _trained(task, here, checkpoint, paused)
        return trained, done.samples if here.held.samples is None else here.held.samples, done.loss

    return answered(task, train)


def capped(
    task: NodeTask,
    progress: Progress | None,
    *,
    clock: Callable[[], float] = time.process_time,
    sleep: Callable[[float], None] = time.sleep,
) -> Progress | None:
    """`progress` with pauses, on the measured clock, that leave the pass no more than its share of the processor.

    On the emulated clock a share of the resources lengthens the epoch on that clock alone.
    """
    if task.resources >= 1.0 or task.settings.clock != "measured":
        return progress
    last = clock()

    def paused() -> None:
        nonlocal last
        if progress is not None:
            progress()
        now = clock()
        sleep((now - last) * (1.0 / task.resources - 1.0))
        last = now

    return paused


def _trained(
    task: NodeTask, site: Site, checkpoint: Checkpoint, progress: Progress | None
) -> tuple[Checkpoint, Passed]:
    settings = task.settings
    model = loaded(checkpoint, resolve=site.resolve, device=site.device)
    update = Update(
        model,
        settings,
        task.epoch,
        batches=site.held.batches(settings.batch),
        device=site.device,
        own=site.own,
        scaler=checkpoint.scaler,
    )
    load_state(update.optimizer, model, checkpoint.optimizer)
    widths = ordered_widths(model, task.slices, settings.slice_share, task.seed, resolve=site.resolve)
    with seeded(task.seed, site.held), code_of(checkpoint.spec), widths:
        done = train_pass(model, update, site, settings, epoch=task.epoch, progress=progress)
    state = read_state(update.optimizer, model) if settings.optimizer_state == "average" else {}
    trained = Checkpoint.of_model(model, checkpoint.spec, checkpoint.version, state)
    return replace(trained, scaler=update.scaler_state()), done


@dataclass(frozen=True)
class Passed:
    """What a pass saw: the mean loss over all samples, and how many there are."""

    loss: float
    samples: int


def train_pass(
    model: nn.Module,
    update: Update,
    site: Site,
    settings: TrainingSettings,
    *,
    epoch: int = 1,
    progress: Progress | None = None,
) -> Passed:
    """Train in place, `local_epochs` times over the site's data. The order comes from the random states."""
    model.train()
    step = site.step if site.step is not None else step_of(settings.loss)
    watch = BatchWatch(site.held)
    total, seen = 0.0, 0
    for number in range(settings.local_epochs):
        for batch in site.batches(settings.batch, (epoch - 1) * settings.local_epochs + number):
            with update.forward():
                loss = watch.loss(step, model, batch)
            value, count = loss.item(), rows(batch)
            if not math.isfinite(value):
                watch.check_numbers(batch)
            update.take(loss, count)
            total += value * count
            seen += count
            if progress is not None:
                progress()
        update.close()
    return Passed(total / seen, seen // settings.local_epochs)
