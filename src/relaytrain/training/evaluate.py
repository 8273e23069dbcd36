"""Loss, accuracy and other figures of a model on a set; not charged to the run."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import nn

from ..core.outcome import Evaluation
from ..core.user_code import user_code
from ..data.dataset import Dataset
from ..data.held import Held, held_of
from ..data.nested import moved
from ..data.seeding import seeded
from .step import BatchWatch, TrainingStep, step_of
from .threads import threads

LOOK_SEED = 0
"""Whatever a look at a set draws is drawn from this."""


def evaluate(
    model: nn.Module,
    data: Dataset | Held,
    *,
    batch: int = 256,
    step: TrainingStep | None = None,
    thread_count: int = 1,
) -> Evaluation:
    """Evaluate in eval mode, in the order of the set; the model's modes stay as they were.

    Args:
        model: on whatever device it is.
        data: a set of images, or anything held.
        batch: how many at a time, where the set leaves that open.
        step: what makes sums of a batch; of cross-entropy unless said.
        thread_count: of torch.
    """
    held = held_of(data)
    known = step if step is not None else step_of("cross-entropy")
    modes = {module: module.training for module in model.modules()}
    device = next((str(parameter.device) for parameter in model.parameters()), "cpu")
    model.eval()
    totals: dict[str, float] = {}
    watch = BatchWatch(held)
    try:
        with (
            torch.no_grad(),
            threads(thread_count),
            seeded(LOOK_SEED, held),
            user_code("forward of the network"),
        ):
            for given in held.ordered(batch):
                for name, value in watch.sums(known, model, moved(given, device)).items():
                    totals[name] = totals.get(name, 0) + value
    finally:
        for module, training in modes.items():
            module.training = training
    return evaluation_of(totals)


def evaluation_of(totals: Mapping[str, float]) -> Evaluation:
    """Figures from sums: each divided by `count`; `correct` makes the accuracy, `squared_error` the RMSE.

    The loss is `loss`, or the first sum where there is none.
    """
    count = totals["count"]
    means = {name: total / count for name, total in totals.items() if name != "count"}
    loss = means["loss"] if "loss" in means else next(iter(means.values()))
    accuracy = means.pop("correct", means.get("accuracy", math.nan))
    squared = means.pop("squared_error", None)
    figures = {name: mean for name, mean in means.items() if name not in ("loss", "accuracy")}
    if squared is not None:
        figures.setdefault("rmse", math.sqrt(squared))
    return Evaluation(loss, accuracy, figures=figures)
