"""Relays of three legs, small enough for tests: one, and one whose second leg is a pipeline of two nodes."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from relaytrain.testing.small_training import tables


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


def staged_legs(*, epochs: int = 3, **training: Any) -> dict[str, Any]:
    """`three_legs` with silver as a pipeline: edge-2 has the first stage, edge-1 the second; their data are pooled."""
    made = three_legs(epochs=epochs, **training)
    staged = {"mode": "pipeline", "share_data": True}
    sets = [{**group, **(staged if group["name"] == "silver" else {})} for group in made["node_sets"]]
    return {**made, "node_sets": sets}
