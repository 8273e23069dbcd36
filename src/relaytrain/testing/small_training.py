"""A small scenario that trains in a second, for tests: two node sets, three versions, digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..scenario import load_scenario

if TYPE_CHECKING:
    from ..training.setup import TrainingSetup

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


def small_setup(*, family: str = "cnn", width: float = 1.0, **training: Any) -> TrainingSetup:
    """The setup of `tables`; needs torch, which they do not."""
    from ..training.setup import TrainingSetup

    return TrainingSetup.from_scenario(load_scenario(tables(family=family, width=width, **training)))
