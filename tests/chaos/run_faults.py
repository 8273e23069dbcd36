"""Jobs for the crash tests of whole runs: one of numpy alone, one that trains a small network for real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import stub
from compare import trace

from relaytrain.relay import loop as orchestrator
from relaytrain.relay.job import Job
from relaytrain.store import RunStore

__all__ = ["STRAIGHT", "go_on", "small_relay", "stub", "trace"]

STRAIGHT = "straight-run"


def go_on(job: Job, folder: Path, run: str, say: Any) -> int:
    """Start the run or resume it; 0 when it came to its verdict. `say` hears every epoch that is safe."""
    store = RunStore.open(folder)

    def told(line: Any) -> None:
        say("done", line.epoch)

    if store.events(run):
        orchestrator.resume(job, store, run, told=told)
    else:
        orchestrator.start(job, store, run=run, told=told)
    return 0


def small_relay(**training: Any) -> dict[str, Any]:
    """Nine epochs: the full version on gold for some, then pruned to the small one and handed over to two other
    nodes."""
    from relaytrain.testing.small_training import tables

    made = tables(width=0.5, clock="emulated", **{"lr": 0.05, "batch": 8, **training})
    pairs = {("full", "gold"): (2.0, 20.0), ("half", "gold"): (2.0, 15.0), ("small", "silver"): (3.0, 2.0)}
    return {
        **made,
        "name": "chaos",
        "target": {"loss": 0.4, "deadline": 60.0, "max_epochs": 9, "probability": 0.9},
        "pairs": [{"version": v, "nodes": n, "seconds": s, "energy": e} for (v, n), (s, e) in pairs.items()],
        "changes": [{"seconds": 1.0, "energy": 1.0}],
        "law": {
            "kind": "level",
            "robust_progress": 0.7,
            "curves": [
                {"floor": 1.6, "drop": 1.0, "scale": 0.5, "power": 1.3},
                {"version": "half", "floor": 1.7, "drop": 1.0, "scale": 1.5},
                {"version": "small", "floor": 0.05, "drop": 2.2, "scale": 6.0},
            ],
        },
    }
