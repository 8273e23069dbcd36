"""The chains of a scenario's versions, counted: what `[versions.chain]` writes out so that planning needs no torch."""

from __future__ import annotations

import torch

from ..core.problem import Chain
from ..planners.pipeline.chain import chain_of
from ..training.setup import TrainingSetup
from .networks import chain
from .unit_counter import measure


def counted_chain(setup: TrainingSetup, version: str) -> Chain:
    """The chain of an untrained `version`, for the minibatches that the setup trains with.

    Raises:
        UsageError: its network is neither an `nn.Sequential` nor one of the built-in families.
    """
    model = setup.initial(version).model(resolve=setup.resolve)
    batch = setup.settings.batch
    inputs = torch.empty((batch, *setup.validation.input), device="meta")
    labels = torch.empty(batch, dtype=torch.long, device="meta")
    return chain_of(measure(chain(model), inputs, setup.loss(), labels), batch)
