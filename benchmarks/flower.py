"""What a round on Flower costs beyond training: ours, Flower's own FedAvg, and the floor, on one SuperLink.

    python benchmarks/flower.py [--rounds 4] [--repeats 2]

One SuperLink and three SuperNodes on loopback: ours for our rounds, then plain `flower-supernode`s for FedAvg and the
floor, a client that does nothing, answered to by a loop of our period. Runs are interleaved; the first round of a run,
in which nodes are asked who they are, is left out. Seconds depend on what else the machine does, ratios and CPU seconds
much less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from machine import calibrated

from relaytrain.executors.flower.environment import environment, free_ports, program
from relaytrain.executors.flower.local import LocalFlower
from relaytrain.executors.flower.nodes_here import NodeHere, Tethered
from relaytrain.executors.flower.security import Link
from relaytrain.executors.flower.submission import submit
from relaytrain.executors.flower.trainer_link import TrainerPlace
from relaytrain.scenario import Scenario, load_scenario
from relaytrain.testing.small_training import tables

APPS = Path(__file__).parent / "flower_apps"
WAIT_S = 900.0
NODES = ("cloud", "edge-1", "edge-2")


@contextmanager
def ours_there(scenario: Scenario, superlink: str, room: Path) -> Iterator[list[NodeHere]]:
    """Our nodes, all joined."""
    tables_ = room / "scenario.json"
    tables_.write_text(json.dumps(scenario.resolved))
    nodes = []
    for i, (name, port) in enumerate(zip(NODES, free_ports(len(NODES)), strict=True)):
        home = room / f"n{i}"
        home.mkdir(exist_ok=True)
        place = TrainerPlace((name,), str(tables_), str(home / "trainer"))
        nodes.append(NodeHere(name, place, superlink=superlink, port=port, room=home))
    try:
        yield nodes
    finally:
        for node in nodes:
            node.ask_to_end()
        for node in nodes:
            node.end()


@contextmanager
def stock_there(superlink: str, room: Path) -> Iterator[None]:
    """Flower's own nodes: a new interpreter for every message."""
    command = [program("flower-supernode"), "--insecure", "--superlink", superlink, "--host", "127.0.0.1"]
    ports = free_ports(len(NODES))
    home = environment(room / "stock")
    nodes = [Tethered("SuperNode", [*command, "--port", str(port)], room / f"stock{port}.log", home) for port in ports]
    try:
        yield
    finally:
        for node in nodes:
            node.ask_to_end()
        for node in nodes:
            node.end()


def others(app: str, rounds: int, here: LocalFlower, room: Path) -> list[dict[str, Any]]:
    """Rounds of one of the apps beside us."""
    out, home = room / f"{app}.json", room / "flwr"
    out.unlink(missing_ok=True)
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{here.address}"\ninsecure = true\n'
    )
    config = f'rounds={rounds} nodes={len(NODES)} out="{out}"'
    command = [program("flwr"), "run", str(APPS / app), "here", "--run-config", config]
    done = subprocess.run(command, env=environment(home), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    until = time.monotonic() + WAIT_S
    while not out.exists() or not out.read_text():
        if time.monotonic() > until:
            raise TimeoutError(app)
        time.sleep(0.2)
    return json.loads(out.read_text())


def ours(rounds: int, here: LocalFlower, room: Path) -> list[dict[str, Any]]:
    """Rounds of a relay's transport."""
    out = room / "ours.json"
    (room / "channel").unlink(missing_ok=True)
    status = submit([str(rounds), str(out)], link=Link(here.address), room=room, lost=here.lost, module="flower_rounds")
    assert status == 0, status
    return json.loads(out.read_text())


def beyond(taken: list[dict[str, Any]]) -> list[float]:
    """Seconds of each warm round that no node was training in."""
    return [one["wall_s"] - max(node["wall_s"] for node in one["nodes"]) for one in taken]


def before(taken: list[dict[str, Any]]) -> list[float]:
    """CPU seconds of a client's process before it got to its task."""
    return [node["started_cpu_s"] for one in taken for node in one["nodes"]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=2)
    asked = parser.parse_args()
    seen: dict[str, list[dict[str, Any]]] = {"ours": [], "stock": [], "bare": []}
    with tempfile.TemporaryDirectory(prefix="rtb-") as folder, calibrated():
        room = Path(folder)
        os.chdir(Path(__file__).parent)
        scenario = load_scenario(tables())
        with LocalFlower(scenario, [], room) as here:
            for _ in range(asked.repeats):
                with ours_there(scenario, here.address, room):
                    seen["ours"] += ours(asked.rounds, here, room)[1:]
                with stock_there(here.address, room):
                    seen["stock"] += others("stock", asked.rounds, here, room)[1:]
                    seen["bare"] += others("bare", asked.rounds, here, room)[1:]
                loads = " ".join(f"{load:.1f}" for load in os.getloadavg())
                print(f"load {loads}", flush=True)
            imports = sum(log.read_text().count(" ready: ") for log in room.glob("n*/trainer.log"))
    rows = {name: (beyond(taken), before(taken)) for name, taken in seen.items()}
    print(
        f"{'':8}{'s a round beyond training':>28}{'CPU s before the handler':>28}   (medians, warm, {len(NODES)} nodes)"
    )
    for name, (walls, cpus) in rows.items():
        spread = f"{min(walls):.2f} to {max(walls):.2f}"
        print(f"{name:8}{statistics.median(walls):>12.2f} ({spread:>13}){statistics.median(cpus):>27.2f}")
    middle = {name: statistics.median(walls) for name, (walls, _) in rows.items()}
    cpu = {name: statistics.median(cpus) for name, (_, cpus) in rows.items()}
    torch = sum(node["torch"] for one in seen["ours"] for node in one["nodes"])
    print(f"ours / stock FedAvg: {middle['ours'] / middle['stock']:.2f} (wanted <= 0.6)")
    print(f"ours - floor: {middle['ours'] - middle['bare']:+.2f} s (wanted <= +1 s)")
    print(f"CPU before the handler, ours - bare: {cpu['ours'] - cpu['bare']:+.2f} s (wanted <= +0.3 s)")
    trainers = asked.repeats * len(NODES)
    print(f"torch imported: {imports} times by {trainers} trainers, {torch} times by clients")


if __name__ == "__main__":
    main()
