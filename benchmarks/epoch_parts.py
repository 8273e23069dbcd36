"""A run of many short epochs: the seconds of an epoch that are not training, by part.

    python benchmarks/epoch_parts.py [--epochs 2000] [--family cnn] [--width 1] [--samples 160] [--unknown]

The run is a real one, planned anew and recorded durably after every epoch. Clocks stand at the doors of the rooms, set
up here and not in the product; a part counts without the parts inside it. What no door leads to is the loop's own.

    law       the estimator's law of the epochs to come       plan      the planner, and what a plan is written down as
    store     checkpoints, events, their trail, the lease     bytes     a checkpoint as bytes
    evaluate  the loss on the target's set                    check     updates held against what was sent, the average
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from machine import calibrated

from relaytrain.executors import epoch as federated
from relaytrain.executors import inprocess
from relaytrain.relay import event_bodies, loop, steering
from relaytrain.relay.assembly import job_of
from relaytrain.relay.runner import TorchRunner
from relaytrain.scenario import load_scenario
from relaytrain.store import RunStore, RunWriter
from relaytrain.testing.small_training import tables
from relaytrain.training.setup import TrainingSetup

DOORS: tuple[tuple[str, Any, str], ...] = (
    ("training", inprocess, "train_node"),
    ("law", steering.Steering, "_law"),
    ("plan", steering, "plan_over"),
    ("plan", event_bodies, "planned_body"),
    ("store", RunWriter, "append"),
    ("store", RunWriter, "put_blob"),
    ("store", RunWriter, "thin"),
    ("store", RunWriter, "stop_requested"),
    ("bytes", TorchRunner, "to_bytes"),
    ("evaluate", federated.FederatedEpoch, "evaluate"),
    ("check", federated, "open_update"),
    ("check", federated.FederatedEpoch, "_averaged"),
)
PARTS = tuple(dict.fromkeys(part for part, _, _ in DOORS))


class Doors:
    """CPU and wall seconds by part, each without those inside it."""

    def __init__(self) -> None:
        self.cpu_s: dict[str, float] = defaultdict(float)
        self.wall_s: dict[str, float] = defaultdict(float)
        self._inside = [[0.0, 0.0]]

    def through(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call` with a clock at its door."""

        def timed(*arguments: Any, **words: Any) -> Any:
            began = time.process_time(), time.perf_counter()
            self._inside.append([0.0, 0.0])
            try:
                return call(*arguments, **words)
            finally:
                taken = time.process_time() - began[0], time.perf_counter() - began[1]
                inner = self._inside.pop()
                self.cpu_s[part] += taken[0] - inner[0]
                self.wall_s[part] += taken[1] - inner[1]
                self._inside[-1][0] += taken[0]
                self._inside[-1][1] += taken[1]

        return timed

    def clear(self) -> None:
        """Begin anew."""
        self.cpu_s.clear()
        self.wall_s.clear()

    def open(self) -> None:
        """A clock at every door."""
        for part, room, name in DOORS:
            setattr(room, name, self.through(part, getattr(room, name)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--family", default="cnn")
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--samples", type=int, default=160, help="of the one node")
    parser.add_argument("--unknown", action="store_true", help="nothing is known of losses: all versions, over worlds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    made = tables(family=options.family, width=options.width)
    made["nodes"] = [{**node, "samples": options.samples} for node in made["nodes"]]
    made["target"] = {"loss": 1e-9, "max_epochs": options.epochs}  # out of reach: every epoch is planned and run
    if options.unknown:
        del made["law"]
    else:
        made["pairs"] = [{"version": "full", "nodes": "gold"}]
        made["law"]["curves"][0]["floor"] = 0.0
    scenario = load_scenario(made)
    job = job_of(scenario, setup=TrainingSetup.from_scenario(scenario))
    doors = Doors()
    doors.open()
    marks: list[tuple[float, float]] = []

    def told(_: Any) -> None:
        if not marks:  # the first epoch pays for imports and is left out
            doors.clear()
        marks.append((time.process_time(), time.perf_counter()))

    with calibrated(), tempfile.TemporaryDirectory() as folder:
        store = RunStore.open(folder)
        loop.start(job, store, run="epoch-parts", told=told)
    report(doors, np.array(marks[: options.epochs]))


def report(doors: Doors, marks: np.ndarray) -> None:
    """Milliseconds an epoch by part; and the whole epoch early and late, since what grows with a run shows there."""
    epochs = len(marks) - 1
    whole = (marks[-1] - marks[0]) / epochs
    print(f"{epochs} epochs: {1e3 * whole[0]:.2f} ms CPU, {1e3 * whole[1]:.2f} ms wall each; of it, in ms:")
    print(f"  {'':<10} {'CPU':>8} {'wall':>8}")
    rest = whole.copy()
    for part in PARTS:
        own = np.array([doors.cpu_s[part], doors.wall_s[part]]) / epochs
        rest -= own
        print(f"  {part:<10} {1e3 * own[0]:8.3f} {1e3 * own[1]:8.3f}")
    print(f"  {'the loop':<10} {1e3 * rest[0]:8.3f} {1e3 * rest[1]:8.3f}")
    training = np.array([doors.cpu_s["training"], doors.wall_s["training"]]) / epochs
    beside = whole - training
    print(f"  not training: {beside[0]:.5f} s CPU, {beside[1]:.5f} s wall an epoch")
    tenth = max(1, len(marks) // 10)
    first, last = ((marks[at + tenth] - marks[at]) / tenth for at in (0, len(marks) - tenth - 1))
    print(f"  the first tenth {1e3 * first[0]:.2f} ms CPU an epoch, the last {1e3 * last[0]:.2f}")


if __name__ == "__main__":
    main()
