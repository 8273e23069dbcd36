"""`relaytrain profile` against what epochs then take: predicted and measured CPU seconds, three families.

    python benchmarks/profiling.py [--rounds 5] [--batches 12]

A round profiles all versions, then trains each for an epoch; a version's error is the median over rounds, so that what
else the machine does meanwhile counts little. Wanted: within 10 % (median over versions and families). Beside it, what
FLOPs alone would say of the pruned versions.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from machine import calibrated

from relaytrain.core.plan import Decision
from relaytrain.costs.profiled import profile
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.inprocess import InProcess
from relaytrain.scenario import load_scenario
from relaytrain.testing.small_training import tables
from relaytrain.training.setup import TrainingSetup

FAMILIES = {"cnn": 2.0, "vgg11": 0.25, "mobilenet": 0.5}
WANTED = 0.10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=12)
    options = parser.parse_args()
    errors: list[float] = []
    flops_errors: list[float] = []
    with calibrated():
        print(f"{'family':<10} {'version':<8} {'predicted':>10} {'measured':>10} {'error':>7} {'by FLOPs':>9}")
        for family, width in FAMILIES.items():
            for row in compared(family, width, options.rounds, options.batches):
                errors.append(row["error"])
                if row["version"] != "full":
                    flops_errors.append(row["by_flops"])
                print(
                    f"{family:<10} {row['version']:<8} {row['predicted']:>9.3f}s {row['measured']:>9.3f}s "
                    f"{row['error']:>+7.1%} {row['by_flops']:>+9.1%}"
                )
    median = float(np.median(np.abs(errors)))
    print(f"median error {median:.1%}, wanted <= {WANTED:.0%}: {'met' if median <= WANTED else 'NOT met'}")
    print(f"pruned versions by FLOPs alone, scaled from the full one: median error {np.median(flops_errors):+.1%}")


def compared(family: str, width: float, rounds: int, batches: int) -> list[dict[str, Any]]:
    """Each version on the silver set: profiled, then trained, round by round."""
    made = tables(family=family, width=width, batch=32)
    made["nodes"] = [{**node, "samples": n} for node, n in zip(made["nodes"], (500, 430, 300), strict=True)]
    scenario = load_scenario(made)
    setup = TrainingSetup.from_scenario(scenario)
    runner = FederatedEpoch(setup, InProcess(setup))
    samples = [len(setup.datasets[node]) for node in setup.nodes_of("silver")]
    taken: dict[str, list[tuple[float, float]]] = {version: [] for version in setup.versions}
    checkpoints = {version: setup.initial(version) for version in setup.versions}
    for epoch in range(1, rounds + 1):
        predicted = profile(setup, batches=batches)
        for version, checkpoint in checkpoints.items():
            done = runner.run_epoch(Decision(epoch, version, "silver"), checkpoint)
            checkpoints[version] = done.checkpoint
            taken[version].append((predicted.cpu_s(version, samples), done.outcome.cpu_s or 0.0))
    rows, facts = [], setup.version_facts()
    full = np.array([measured for _, measured in taken["full"]])
    for version, pairs in taken.items():
        wanted, measured = np.array(pairs).T
        by_flops = full * facts[version].flops_per_sample / facts["full"].flops_per_sample
        rows.append({
            "version": version, "predicted": float(np.median(wanted)), "measured": float(np.median(measured)),
            "error": float(np.median(wanted / measured)) - 1.0, "by_flops": float(np.median(by_flops / measured)) - 1.0,
        })  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
