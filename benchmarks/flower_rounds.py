"""Our rounds, run inside a ServerApp by `flower.py`: three nodes, small tasks, what each round took."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from relaytrain.executors.flower.inside import the_grid
from relaytrain.executors.flower.transport import FlowerTransport
from relaytrain.models.rebuild import build
from relaytrain.models.spec import family_spec
from relaytrain.scenario import load_scenario
from relaytrain.testing.small_training import tables
from relaytrain.training.checkpoint import Checkpoint
from relaytrain.training.setup import TrainingSetup
from relaytrain.training.task import NodeTask

if __name__ == "__main__":
    rounds, out = int(sys.argv[1]), Path(sys.argv[2])
    setup = TrainingSetup.from_scenario(load_scenario(tables()))
    transport = FlowerTransport(setup, the_grid())
    spec = family_spec("cnn", input=(1, 8, 8), classes=10, width=1.0)
    data, taken = Checkpoint.of_model(build(spec, seed=3), spec, "full").data, []
    for epoch in range(1, rounds + 1):
        began = time.monotonic()
        tasks = [NodeTask("bench", epoch, 0, node, data, setup.settings, 1.0, None) for node in setup.datasets]
        results = list(transport.send(tasks))
        assert all(result.error is None for result in results), [result.error for result in results]
        figures = [{**transport.metrics[result.node], "wall_s": result.wall_s} for result in results]
        taken.append({"wall_s": time.monotonic() - began, "nodes": figures})
        data = results[0].data or b""
    out.write_text(json.dumps(taken))
