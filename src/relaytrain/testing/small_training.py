"""A small scenario that trains in a second, for tests: two node sets, three versions, digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..scenario import load_scenario
from ..training.aggregate import Updates, open_update
from ..training.checkpoint import Checkpoint
from ..training.setup import TrainingSetup
from ..training.task import NodeResult

DEVICE = {"flops_per_s": 1e9, "busy_w": 5.0, "idle_w": 1.0}


def tables(*, family: str = "cnn", width: float = 1.0, **training: Any) -> dict[str, Any]:
    """Gold (one node, 128 images) and silver (two nodes, 64 and 48), full, half and small."""
    return {
        "name": "small",
        "target": {"loss": 0.5, "deadline": 1000.0},
        "start": {"loss": 2.3, "version": "full", "nodes": "gold"},
        "versions": [
            {"name": "full", "family": family, "width": width, "parameters": 1000, "flops_per_sample": 3e6},
            {"name": "half", "ratio": 0.5, "parameters": 500, "flops_per_sample": 2e6},
            {"name": "small", "ratio": 0.5, "of": "half", "parameters": 250, "flops_per_sample": 1e6},
        ],
        "nodes": [
            {"name": "cloud", "device": "box", "samples": 128},
            {"name": "edge-1", "device": "box", "samples": 64},
            {"name": "edge-2", "device": "box", "samples": 48},
        ],
        "node_sets": [{"name": "gold", "nodes": ["cloud"]}, {"name": "silver", "nodes": ["edge-2", "edge-1"]}],
        "devices": {"box": DEVICE},
        "law": {"kind": "level", "curves": [{"floor": 0.1, "drop": 2.0, "scale": 3.0, "power": 1.0}]},
        "training": {"lr": 0.02, "batch": 16, **training},
        "data": {"source": "digits"},
    }


def three_legs(*, epochs: int = 4, **training: Any) -> dict[str, Any]:
    """Gold, silver, bronze, pruned at both handovers: costs leave no other way. Four nodes, emulated clock."""
    base = tables(**{"width": 0.5, "clock": "emulated", "batch": 8, **training})
    nodes = [*base["nodes"], {"name": "far", "device": "box", "samples": 96}]
    legs = ("full on silver", "full on gold", "half on silver", "small on bronze")
    costs = dict(zip(legs, (math.inf, 1.0, 6.0, 30.0), strict=True))
    return {
        **base,
        "name": "three-legs",
        "target": {"loss": 0.3, "deadline": 100.0, "max_epochs": epochs, "probability": 0.6},
        "start": {"loss": 2.3, "version": "full", "nodes": "silver"},
        "nodes": nodes,
        "node_sets": [*base["node_sets"], {"name": "bronze", "nodes": ["far"]}],
        "pairs": [
            {"version": pair.split()[0], "nodes": pair.split()[2], "seconds": min(cost, 2.0), "energy": cost}
            for pair, cost in costs.items()
        ],
        "changes": [
            {"seconds": math.inf, "energy": math.inf},
            *({"from": before, "to": now, "seconds": 1.0, "energy": 1.0} for before, now in pairwise(legs)),
        ],
        "law": {
            "kind": "level",
            "robust_progress": 0.9,
            "curves": [
                {"floor": 1.7, "drop": 0.6, "scale": 0.3, "power": 2.0},
                {"version": "half", "floor": 1.2, "drop": 1.1, "scale": 0.5, "power": 2.0},
                {"version": "small", "floor": 0.05, "drop": 2.3, "scale": 1.0},
            ],
        },
    }


def small_setup(*, family: str = "cnn", width: float = 1.0, **training: Any) -> TrainingSetup:
    """The setup of `tables`."""
    return TrainingSetup.from_scenario(load_scenario(tables(family=family, width=width, **training)))


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
