"""What a plan takes, beside what `planners/plan_size` counts of it: peak memory and CPU seconds.

    python benchmarks/plan_size.py [FIRST_SEED [PROBLEMS_A_FAMILY]]

Problems are drawn (`drawn_plans.py`); seeds below 200 were looked at when bytes and
nanoseconds were given to what is counted. Each plan is made in a
process of its own, forked from one that has compiled the searches. Ratios are said / used; a plan below `FLOOR` counts
as that much, for less is the allocator's business.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from drawn_plans import FAMILIES, PRESETS, grid_of, scenario_text

from relaytrain import api
from relaytrain.planners import plan_size
from relaytrain.planners.registry import planner_for

FLOOR, FLOOR_S = 4e6, 0.05


def measured(source: str, rule: str, overrides: list[str]) -> dict[str, float] | None:
    """In a forked process: a plan, what was counted of it and what was measured; None where there is none."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        loaded = api.scenario(source, overrides=overrides)
        planner, start = planner_for(loaded, None, rule), loaded.problem.first_state
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
        held = peak_now()
        began = time.process_time()
        size = plan_size.plan_size(planner, loaded.problem, loaded.costs, loaded.law, start)
        took = time.process_time() - began
        facts = {"said": size.bytes, "said_s": size.seconds, "used": peak_now() - held, "used_s": took}
        os.write(write, json.dumps(facts).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else None


def peak_now() -> int:
    """VmHWM, which `clear_refs` resets."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def compile_all(folder: Path) -> None:
    """Plan something of every kind, without a deadline, with one that binds and with one that nothing meets."""
    for name, rule in zip(PRESETS, ("literal", "clamped", "opportunity", "adaptive"), strict=True):
        api.plan(name, rule=rule)
    path = folder / "first.toml"
    for family in FAMILIES:
        path.write_text(scenario_text(family, 1))
        for deadline in ("inf", "150", "60", "20") if family != "epoch" else ("100", "20"):
            loaded = api.scenario(path, overrides=[f"target.deadline={deadline}"])
            planner, start = planner_for(loaded, None, "adaptive"), loaded.problem.first_state
            planner.plan(loaded.problem, loaded.costs, loaded.law, start)


def main(first: int = 200, count: int = 16) -> None:
    """Print the table, and how many are within a factor of two."""
    seeds = range(first, first + count)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compile_all(folder)
        cases = []
        for family in FAMILIES:
            for seed in seeds:
                path = folder / f"{family}{seed}.toml"
                path.write_text(scenario_text(family, seed))
                cases.append((family, f"{family} {seed}", str(path), "adaptive", []))
        for seed in seeds:
            preset, rule, steps = grid_of(seed)
            cases.append(
                ("grid", f"{preset} {rule} {' '.join(step.split('=')[1] for step in steps)}", preset, rule, steps)
            )
        heads = f"{'said MB':>8} {'used MB':>8} {'ratio':>6} {'said s':>7} {'used s':>7} {'ratio':>6}"
        print(f"{'plan':40} {heads}")
        kept: dict[str, list[tuple[float, float, bool]]] = {}
        for family, words, source, rule, overrides in cases:
            facts = measured(source, rule, overrides)
            if facts is None:
                print(f"{words:40} no plan")
                continue
            ratio = max(facts["said"], FLOOR) / max(facts["used"], FLOOR)
            ratio_s = max(facts["said_s"], FLOOR_S) / max(facts["used_s"], FLOOR_S)
            large = max(facts["said"], facts["used"]) > FLOOR
            kept.setdefault(family, []).append((ratio, ratio_s, large))
            print(
                f"{words:40} {facts['said'] / 1e6:8.1f} {facts['used'] / 1e6:8.1f} {ratio:6.2f} {facts['said_s']:7.2f} "
                f"{facts['used_s']:7.2f} {ratio_s:6.2f}",
                flush=True,
            )
    every = [row for rows in kept.values() for row in rows]
    for family, rows in {**kept, "above the floor": [row for row in every if row[2]], "all": every}.items():
        figures = (_spread(name, [row[at] for row in rows]) for at, name in enumerate(("bytes", "seconds")))
        print(f"{family:16} {len(rows):3}: {', '.join(figures)}")


def _spread(name: str, ratios: list[float]) -> str:
    within = sum(0.5 <= ratio <= 2.0 for ratio in ratios)
    return f"{name} within 2x {within} ({min(ratios):.2f} - {max(ratios):.2f}, median {statistics.median(ratios):.2f})"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
