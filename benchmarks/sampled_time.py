"""How long a decision over worlds takes, and how that grows with pairs, worlds and epochs.

    python benchmarks/sampled_time.py                  # warm plans of the presets, then growth; about a minute

A decision is what a run does after each epoch: worlds drawn from the belief, a schedule chosen, the plan composed
without its explanations. Times are CPU time of one thread, medians of `--repeats`; drawing and planning apart. Growth
is on random curves: P pairs that may all follow each other, N worlds, and a target that needs about E epochs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from machine import calibrated

from relaytrain import api
from relaytrain.core.state import State
from relaytrain.core.worlds import Worlds
from relaytrain.estimators.choose import estimator_for
from relaytrain.planners.pact.sampled import WORLDS, Sampled
from relaytrain.planners.registry import planner_for
from relaytrain.scenario import Scenario, load_scenario

PRESETS = ("quickstart", "fashion", "deeper", "worlds", "smart_factory")


def median_ms(work: Callable[[], object], repeats: int) -> float:
    """CPU time, in the middle of so many."""
    work()
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return 1e3 * float(np.median(taken))


def of_preset(name: str, repeats: int) -> str:
    """One preset's line."""
    scenario = api.scenario(name)
    problem, estimator = scenario.problem, estimator_for(scenario)
    planner = replace(planner_for(scenario, "pact", "sampled"), explained=False)  # type: ignore[type-var]
    state = problem.first_state
    law = estimator.law((), problem.pairs)
    sample = getattr(estimator, "sample", None)
    worlds = sample((), problem.pairs, WORLDS, 0) if sample is not None else None
    draw_ms = median_ms(lambda: sample((), problem.pairs, WORLDS, 0), repeats) if sample is not None else 0.0
    plan_ms = median_ms(lambda: planner.plan(problem, scenario.costs, law, state, worlds), repeats)
    return f"{name:14} {len(problem.pairs):3} pairs   {draw_ms:6.1f} + {plan_ms:6.1f} = {draw_ms + plan_ms:6.1f} ms"


def made(pairs: int) -> Scenario:
    """A scenario of so many pairs, each a node set of its own."""
    return load_scenario(
        {
            "schema": 1,
            "target": {"loss": 0.3, "deadline": 1e6, "probability": 0.9},
            "start": {"loss": 2.3},
            "versions": [{"name": "only"}],
            "node_sets": [{"name": f"n{i}"} for i in range(pairs)],
            "pairs": [
                {"version": "only", "nodes": f"n{i}", "seconds": 1.0 + 0.1 * i, "energy": 1.0 + i} for i in range(pairs)
            ],
            "changes": [{"seconds": 0.1, "energy": 0.1}],
            "law": {"kind": "level", "curves": [{"floor": 0.1, "drop": 2.2, "scale": 10.0, "power": 2.0}]},
        }
    )


def random_worlds(pairs: int, count: int, epochs: int) -> Worlds:
    """Curves that are at 0.3 after about so many epochs."""
    rng = np.random.default_rng([pairs, count, epochs])
    curves = np.empty((count, pairs, 4))
    curves[:, :, 0] = rng.uniform(0.05, 0.29, (count, pairs))
    curves[:, :, 1], curves[:, :, 3] = 2.2, 2.0
    curves[:, :, 2] = epochs / 3.0 * rng.uniform(0.7, 1.4, (count, pairs))
    jumps = rng.uniform(0.0, 0.1, (count, pairs, pairs))
    scatter = np.tile(np.linspace(0.1, 0.02, 16), (pairs, 1))
    flat = np.zeros((pairs, pairs))
    return Worlds(curves, np.ones((1, pairs)), jumps, flat, np.full(count, 2.3), scatter, np.ones((count, pairs)))


def grown(pairs: int, count: int, epochs: int, repeats: int) -> str:
    """One line of growth."""
    scenario = made(pairs)
    problem, worlds = scenario.problem, random_worlds(pairs, count, epochs)
    state, planner = State(0, 2.3, 0.0, 0), Sampled(explained=False, way_out=False)
    took = median_ms(lambda: planner.plan(problem, scenario.costs, scenario.law, state, worlds), repeats)
    return f"{pairs:3} pairs {count:5} worlds {epochs:5} epochs   {took:8.1f} ms"


def report(repeats: int) -> None:
    """All lines."""
    print(f"presets, {WORLDS} worlds: drawn + planned, CPU time of a warm decision")
    for name in PRESETS:
        print(of_preset(name, repeats), flush=True)
    print("growth of the plan alone")
    for pairs in (2, 3, 6, 12, 24):
        print(grown(pairs, WORLDS, 40, max(repeats // 3, 3)), flush=True)
    for count in (64, 1024, 4096):
        print(grown(3, count, 40, max(repeats // 3, 3)), flush=True)
    for epochs in (10, 160, 640):
        print(grown(3, WORLDS, epochs, max(repeats // 3, 3)), flush=True)


def main() -> None:
    """Time and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    with calibrated():
        report(repeats)


if __name__ == "__main__":
    main()
