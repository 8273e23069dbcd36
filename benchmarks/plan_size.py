"""What a plan takes, beside what `planners/plan_size` says before it is made: peak memory and seconds, by size.

    python benchmarks/plan_size.py

Each plan is made in a process of its own, forked from one that has compiled the searches.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from relaytrain import api
from relaytrain.planners import plan_size
from relaytrain.planners.registry import planner_for

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "hostile"))

from hostile_files import many_pairs, random_pairs

GRIDDED = (
    ("fig5", "literal", 2e-4, 2e-3), ("fig5", "literal", 1e-4, 2e-3), ("fig5", "clamped", 5e-5, 2e-3),
    ("smart_factory", "literal", 1e-3, 1.0), ("smart_factory", "literal", 3e-4, 0.3),
    ("worlds", "literal", 5e-4, 0.25), ("worlds", "opportunity", 2e-4, 0.1),
    ("quickstart", "literal", 2e-3, 1.0), ("quickstart", "adaptive", 5e-4, 1.0),
    ("epoch_example", "literal", 1e-3, 1.0), ("epoch_example", "adaptive", 1e-3, 1.0),
)  # fmt: skip
PAIRS = (64, 128, 192, 256)
RANDOM = (64, 256)


def measured(source: str, rule: str, overrides: list[str]) -> dict[str, float]:
    """In a forked process: the estimate, then the plan."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        loaded = api.scenario(source, overrides=overrides)
        planner = planner_for(loaded, None, rule)
        began = time.perf_counter()
        size = plan_size.plan_size(planner, loaded.problem, loaded.costs, loaded.law, api.first_state(loaded))
        thought = time.perf_counter() - began
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
        held = peak_now()
        began = time.perf_counter()
        planner.plan(loaded.problem, loaded.costs, loaded.law, api.first_state(loaded))
        took = time.perf_counter() - began
        facts = {
            "said": size.bytes,
            "said_s": size.seconds,
            "used": peak_now() - held,
            "used_s": took,
            "thought": thought,
        }
        os.write(write, json.dumps(facts).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def grid(loss_step: float, time_step: float) -> list[str]:
    """As `--set` has it."""
    return [f"planner.grid.loss_step={loss_step}", f"planner.grid.time_step={time_step}"]


def peak_now() -> int:
    """VmHWM, which `clear_refs` resets."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def main() -> None:
    """Print the table."""
    api.plan("fig5")
    api.plan("fig5", rule="literal")
    api.plan("quickstart", rule="literal", overrides=["planner.grid.loss_step=0.05", "planner.grid.time_step=5"])
    print(f"{'plan':44} {'said MB':>8} {'used MB':>8} {'ratio':>6} {'said s':>7} {'used s':>7} {'to say ms':>9}")
    cases = [(f"{name} {rule} {loss:g} {step:g}", name, rule, grid(loss, step)) for name, rule, loss, step in GRIDDED]
    with tempfile.TemporaryDirectory() as folder:
        for count in PAIRS:
            path = Path(folder) / f"{count}.toml"
            path.write_text(many_pairs(count))
            cases.append((f"{count} pairs", str(path), "adaptive", []))
        for count in RANDOM:
            path = Path(folder) / f"r{count}.toml"
            path.write_text(random_pairs(count))
            cases.append((f"{count} pairs, drawn", str(path), "adaptive", []))
        for words, source, rule, overrides in cases:
            facts = measured(source, rule, overrides)
            ratio = facts["said"] / max(facts["used"], 1)
            print(
                f"{words:44} {facts['said'] / 1e6:8.0f} {facts['used'] / 1e6:8.0f} {ratio:6.2f} {facts['said_s']:7.2f} "
                f"{facts['used_s']:7.2f} {facts['thought'] * 1e3:9.1f}"
            )


if __name__ == "__main__":
    main()
