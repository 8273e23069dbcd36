"""One node's pass over its data: the only place that trains. Every transport calls `train_node`.

Written out, a pass is the plain PyTorch loop:

    torch.manual_seed(seed)                      # seed of (run, epoch, node)
    for batch in batches of a random order:
        loss = loss_function(model(images), labels)
        optimizer.zero_grad(); loss.backward(); optimizer.step()

so one node, one version and no handover give bit for bit what that loop gives. What else may happen between a loss and
a step (`training.update`) is what people write into such a loop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..core.errors import RelayTrainError
from ..core.user_code import UserCodeError
from ..costs.profiled import minibatches
from ..data.batches import batches
from ..data.dataset import Dataset
from ..models.rebuild import Resolve, code_of
from .checkpoint import Checkpoint
from .losses import LossFunction, loss_named
from .optimizer import load_state, read_state
from .own_training import OwnTraining
from .settings import TrainingSettings
from .task import FailureKind, NodeResult, NodeTask, failed
from .threads import threads
from .update import Update
from .workbench import loaded

Progress = Callable[[], None]
"""Called after every batch; may raise `TooLate` to end the pass."""


class TooLate(RelayTrainError):
    """The pass is past its deadline."""


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
    """What a node has at hand: its data as tensors, its device, and the user's code it may call."""

    images: Tensor = field(repr=False)
    labels: Tensor = field(repr=False)
    device: str = "cpu"
    resolve: Resolve | None = None
    loss: LossFunction | None = None
    parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    own: OwnTraining = field(default_factory=OwnTraining)

    @classmethod
    def of(
        cls,
        data: Dataset,
        *,
        device: str = "cpu",
        resolve: Resolve | None = None,
        loss: LossFunction | None = None,
        parts: Mapping[str, tuple[int, int]] | None = None,
        own: OwnTraining | None = None,
    ) -> Site:
        """A site that holds `data`; `parts` says which rows belong to which data set."""
        images, labels = tensor_of(data.images).to(device), tensor_of(data.labels).to(device)
        return cls(images, labels, device, resolve, loss, dict(parts or {}), own or OwnTraining())

    def only(self, datasets: Sequence[str]) -> Site:
        """The site with the rows of these data sets alone; all of them where none is named."""
        if not datasets or not self.parts:
            return self
        missing = [name for name in datasets if name not in self.parts]
        if missing:
            raise KeyError(f"data set {missing[0]!r} is not at this node; here are {', '.join(self.parts)}")
        rows = [slice(*self.parts[name]) for name in datasets]
        images, labels = torch.cat([self.images[at] for at in rows]), torch.cat([self.labels[at] for at in rows])
        return replace(self, images=images, labels=labels, parts={})


def tensor_of(array: NDArray[Any]) -> Tensor:
    """The array as a tensor, without a copy where torch may write to it."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def train_node(task: NodeTask, site: Site, progress: Progress | None = None) -> NodeResult:
    """One pass over the node's data from the task's checkpoint. Whatever goes wrong becomes a result with an error."""
    cpu, wall = time.process_time(), time.monotonic()

    def fail(kind: FailureKind, error: str) -> NodeResult:
        return failed(task, kind, error, cpu_s=time.process_time() - cpu, wall_s=time.monotonic() - wall)

    try:
        site = site.only(task.datasets)
        progress = capped(task, progress)
        checkpoint = Checkpoint.opened(task.checkpoint)
        with threads(task.settings.threads):
            trained, train_loss = _trained(task, site, checkpoint, progress)
    except TooLate as late:
        return fail("late", str(late) or "past its deadline")
    except UserCodeError as error:
        short_of_memory = isinstance(error.__cause__, MemoryError | torch.OutOfMemoryError)
        return fail("refused" if short_of_memory else "user", str(error))  # another node may have enough
    except Exception as error:  # torch itself may fail in any way
        return fail("refused", f"{type(error).__name__}: {str(error).strip()[:300]}")
    if not math.isfinite(train_loss):
        return fail("non-finite", f"its training loss became {train_loss}")
    return NodeResult(
        task.run,
        task.node,
        task.epoch,
        task.attempt,
        samples=len(site.labels),
        checkpoint=trained,
        train_loss=train_loss,
        cpu_s=time.process_time() - cpu,
        wall_s=time.monotonic() - wall,
    )


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


def _trained(task: NodeTask, site: Site, checkpoint: Checkpoint, progress: Progress | None) -> tuple[Checkpoint, float]:
    settings = task.settings
    model = loaded(checkpoint, resolve=site.resolve, device=site.device)
    count = minibatches(len(site.labels), settings.batch)
    update = Update(
        model, settings, task.epoch, batches=count, device=site.device, own=site.own, scaler=checkpoint.scaler
    )
    load_state(update.optimizer, model, checkpoint.optimizer)
    loss = site.loss if site.loss is not None else loss_named(settings.loss)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(task.seed)
        with code_of(checkpoint.spec):
            train_loss = train_pass(model, update, site, settings, loss, progress=progress)
    state = read_state(update.optimizer, model) if settings.optimizer_state == "average" else {}
    trained = Checkpoint.of_model(model, checkpoint.spec, checkpoint.version, state)
    return replace(trained, scaler=update.scaler_state()), train_loss


def train_pass(
    model: nn.Module,
    update: Update,
    site: Site,
    settings: TrainingSettings,
    loss_function: LossFunction,
    *,
    progress: Progress | None = None,
) -> float:
    """Train in place, `local_epochs` times over the site's data; the mean loss over all samples seen.

    The order comes from torch's random state. A last batch of one image joins the batch before it, since batch norm
    needs two.
    """
    model.train()
    total, seen = 0.0, 0
    for _ in range(settings.local_epochs):
        for chosen in batches(len(site.labels), settings.batch):
            images, labels = site.images[chosen], site.labels[chosen]
            with update.forward():
                loss = loss_function(model(images), labels)
            update.take(loss, len(labels))
            total += loss.item() * len(labels)
            seen += len(labels)
            if progress is not None:
                progress()
        update.close()
    return total / seen
