"""What two runs of the same job must have in common, however often one of them was disturbed."""

from __future__ import annotations

import json
from typing import Any

from relaytrain.store import RunStore

MEASURED = ("cpu_s", "wall_s", "wasted_s", "wasted_j")


def trace(store: RunStore, run: str) -> dict[str, Any]:
    """Plans, losses, costs and checkpoints of the epochs that stand, and the verdict; nothing measured or wasted."""
    planned: dict[int, Any] = {}
    done: dict[int, Any] = {}
    verdict = None
    for event in store.events(run):
        body = {key: value for key, value in event.body.items() if key not in MEASURED and key != "nodes"}
        if event.kind == "planned":
            planned[event.epoch] = _unspent(body)
        elif event.kind == "epoch_done":
            done[event.epoch] = body
        elif event.kind == "rolled_back":
            done = {epoch: b for epoch, b in done.items() if epoch <= event.epoch}
        elif event.kind == "verdict":
            verdict = {
                key: body[key]
                for key in ("verdict", "loss", "epochs", "test_loss", "test_accuracy", "useful_j", "useful_s")
            }
    plans = {epoch: planned[epoch] for epoch in done}
    return json.loads(json.dumps({"planned": plans, "done": done, "verdict": verdict}))


def _unspent(body: dict[str, Any]) -> dict[str, Any]:
    """Joules of lost work are part of what was spent, but of no decision."""
    return {**body, "state": {key: value for key, value in body["state"].items() if key != "energy_j"}}
