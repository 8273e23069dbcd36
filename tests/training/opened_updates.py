"""Which of the nodes' answers pass the checks, as an epoch looks at them."""

from __future__ import annotations

from collections.abc import Sequence

from relaytrain.training.aggregate import Updates, open_update
from relaytrain.training.checkpoint import Checkpoint
from relaytrain.training.task import NodeResult


def open_updates(results: Sequence[NodeResult], start: Checkpoint) -> tuple[Updates, dict[str, str]]:
    """The updates that pass the checks, and for the other nodes why not."""
    accepted: Updates = {}
    refused: dict[str, str] = {}
    for answer in sorted(results, key=lambda answer: answer.node):
        update = open_update(answer, start)
        if isinstance(update, str):
            refused[answer.node] = update
        else:
            accepted[answer.node] = (answer.samples, update)
    return accepted, refused
