"""Loss and accuracy of a model on a set; not charged to the run."""

from __future__ import annotations

import torch
from torch import nn

from ..core.outcome import Evaluation
from ..core.user_code import user_code
from ..data.dataset import Dataset
from .local import Site
from .losses import LossFunction, loss_named
from .threads import threads


def evaluate(
    model: nn.Module,
    dataset: Dataset | Site,
    *,
    batch: int = 256,
    loss: LossFunction | None = None,
    thread_count: int = 1,
) -> Evaluation:
    """Evaluate in eval mode, in the order of the set; the model's modes stay as they were."""
    site = dataset if isinstance(dataset, Site) else Site.of(dataset)
    function = loss if loss is not None else loss_named("cross-entropy")
    modes = {module: module.training for module in model.modules()}
    model.eval()
    total, right = 0.0, 0
    try:
        with torch.no_grad(), threads(thread_count), user_code("forward of the network"):
            for start in range(0, len(site.labels), batch):
                images, labels = site.images[start : start + batch], site.labels[start : start + batch]
                outputs = model(images)
                total += float(function(outputs, labels)) * len(labels)
                right += int((outputs.argmax(dim=1) == labels).sum())
    finally:
        for module, training in modes.items():
            module.training = training
    return Evaluation(total / len(site.labels), right / len(site.labels))
