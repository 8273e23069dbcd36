"""One epoch of many nodes: what the loop takes for each, with light nodes that answer without training.

    python benchmarks/flower_load.py [--nodes 25,50,100] [--epochs 3]

A real SuperLink on loopback and the loop in a real ServerApp; the nodes are threads of one process that speak Flower's
fleet interface. Seconds depend on what else the machine does; CPU seconds and memory hardly.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from machine import calibrated

from relaytrain.executors.flower.environment import environment
from relaytrain.executors.flower.local import LocalFlower
from relaytrain.executors.flower.security import Link
from relaytrain.executors.flower.submission import submit
from relaytrain.executors.flower.tether import descendants_of
from relaytrain.scenario import load_scenario
from relaytrain.testing.small_training import tables


def many(count: int) -> dict[str, Any]:
    """A scenario with one node set of so many nodes."""
    made = tables(momentum=0.0)
    names = [f"n{i}" for i in range(count)]
    return {
        **made,
        "nodes": [{"name": name, "device": "box", "samples": 10} for name in names],
        "node_sets": [{"name": "gold", "nodes": names}],
    }


def superlink_mb(here: LocalFlower) -> float:
    """Memory of the SuperLink's own process."""
    for pid in descendants_of(here.superlink.process.pid) if here.superlink else ():
        if "flower-superlink".startswith(Path(f"/proc/{pid}/comm").read_text().strip()):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    return float("nan")


def measured(count: int, epochs: int, room: Path) -> dict[str, Any]:
    """Epochs with so many nodes, on a SuperLink of their own."""
    scenario, out = room / "many.json", room / "row.json"
    scenario.write_text(json.dumps(many(count)))
    with LocalFlower(load_scenario(many(count)), [], room) as here:
        nodes = subprocess.Popen(
            [sys.executable, "light_nodes.py", here.address, str(count)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(room / "ln"),
        )  # fmt: skip
        try:
            words = [str(scenario), str(epochs), str(out)]
            status = submit(words, link=Link(here.address), room=room, lost=here.lost, module="flower_load_rounds")
            assert status == 0, status
            return {**json.loads(out.read_text()), "superlink_mb": superlink_mb(here)}
        finally:
            nodes.kill()
            nodes.wait()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="25,50,100")
    parser.add_argument("--epochs", type=int, default=3)
    asked = parser.parse_args()
    os.chdir(Path(__file__).parent)
    with calibrated():
        head = ("nodes", "answers", "s/epoch", "CPU s/epoch", "CPU ms/node", "loop MB", "grown MB", "SuperLink MB")
        print("".join(f"{word:>14}" for word in head))
        for count in map(int, asked.nodes.split(",")):
            with tempfile.TemporaryDirectory(prefix="rtl-") as folder:
                row = measured(count, asked.epochs, Path(folder))
            warm = row["epochs"][1:] or row["epochs"]
            wall, cpu = (sum(one[key] for one in warm) / len(warm) for key in ("wall_s", "cpu_s"))
            answers, most = warm[-1]["answers"], warm[-1]["most_mb"]
            grown = sum(one["grown_mb"] for one in row["epochs"])
            figures = (count, answers, f"{wall:.2f}", f"{cpu:.2f}", f"{1000 * cpu / count:.1f}", f"{most:.0f}")
            print(
                "".join(f"{word!s:>14}" for word in (*figures, f"{grown:.1f}", f"{row['superlink_mb']:.0f}")),
                flush=True,
            )


if __name__ == "__main__":
    main()
