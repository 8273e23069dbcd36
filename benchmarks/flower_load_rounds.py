"""Epochs of many light nodes, run inside a ServerApp by `flower_load.py`."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from relaytrain.core.plan import Decision
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.flower.inside import the_grid
from relaytrain.executors.flower.transport import FlowerTransport
from relaytrain.scenario import load_scenario
from relaytrain.training.setup import TrainingSetup

if __name__ == "__main__":
    tables, epochs, out = json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2]), Path(sys.argv[3])
    setup = TrainingSetup.from_scenario(load_scenario(tables))
    transport = FlowerTransport(setup, the_grid(), first_wait_s=600.0)
    epoch = FederatedEpoch(setup, transport)
    checkpoint = setup.first_checkpoint()
    began = time.monotonic()
    transport.roster.wait_for(sorted(setup.datasets), 600.0)
    row = {"roster_s": time.monotonic() - began, "bytes": len(checkpoint.to_bytes()), "epochs": []}
    for number in range(1, epochs + 1):
        before, wall, cpu = (
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            time.monotonic(),
            time.process_time(),
        )
        done = epoch.run_epoch(Decision(number, "full", "gold"), checkpoint)
        row["epochs"].append(
            {
                "answers": len(done.nodes),
                "wall_s": time.monotonic() - wall,
                "cpu_s": time.process_time() - cpu,
                "grown_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
                "most_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    out.write_text(json.dumps(row))
