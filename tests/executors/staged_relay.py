"""A relay whose second leg is a pipeline of two nodes, small enough for tests."""

from __future__ import annotations

from typing import Any

from relaytrain.testing.small_training import three_legs


def staged_legs(*, epochs: int = 3, **training: Any) -> dict[str, Any]:
    """`three_legs` with silver as a pipeline: edge-2 has the first stage, edge-1 the second; their data are pooled."""
    made = three_legs(epochs=epochs, **training)
    staged = {"mode": "pipeline", "share_data": True}
    sets = [{**group, **(staged if group["name"] == "silver" else {})} for group in made["node_sets"]]
    return {**made, "node_sets": sets}
