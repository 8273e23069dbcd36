"""Figures of the preset `depl_digits`, fitted to real training with seeds that nothing else uses.

Every version is trained alone on all data, the full one also on one and on two data sets, and handed over to smaller
ones after some epochs. Printed are mean progress by epoch, mean and variance of x, the gain of more data, the loss
changes of switches, and the dependence of epochs, ready to be written into the preset.

    nice -n 10 python benchmarks/fit_depl_digits.py [--seeds 8] [--epochs 16]
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from relaytrain.core.dependence import NoisePast, estimate, to_normal
from relaytrain.core.distribution import LogNormal
from relaytrain.core.plan import Decision
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.inprocess import InProcess
from relaytrain.scenario import load_scenario
from relaytrain.training.handover import hand_over
from relaytrain.training.setup import TrainingSetup

VERSIONS = ("full", "half", "quarter")
SMALLER = {"full": ("half", "quarter"), "half": ("quarter",), "quarter": ()}
FIRST_SEED = 1000


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--seeds", type=int, default=8)
    asked.add_argument("--epochs", type=int, default=16)
    given = asked.parse_args()
    curves: dict[str, list[list[float]]] = {}
    jumps: dict[str, list[float]] = {}
    for seed in range(FIRST_SEED, FIRST_SEED + given.seeds):
        for name in VERSIONS:
            curves.setdefault(name, []).append(trained(seed, name, (), given.epochs, jumps))
        for data in (("day",), ("day", "night")):
            if seed < FIRST_SEED + 4:
                curves.setdefault("+".join(data), []).append(trained(seed, "full", data, given.epochs, None))
        print(f"seed {seed} done", flush=True)
    report(curves, jumps)


def trained(
    seed: int, version: str, data: tuple[str, ...], epochs: int, jumps: dict[str, list[float]] | None
) -> list[float]:
    """Losses of one version trained alone; `jumps` collects what handovers to smaller versions would do on the way."""
    scenario = load_scenario("depl_digits", overrides=[f"training.seed={seed}"])
    setup = TrainingSetup.from_scenario(scenario)
    runner = FederatedEpoch(setup, InProcess(setup))
    checkpoint = setup.initial(version)
    losses = [runner.evaluate(checkpoint).loss]
    for k in range(1, epochs + 1):
        done = runner.run_epoch(Decision(k, version, "A", data), checkpoint)
        checkpoint = done.checkpoint
        losses.append(done.outcome.loss)
        if jumps is not None and k in (2, 4, 7):
            for other in SMALLER[version]:
                handed = hand_over(setup, checkpoint, other, "A", last=None).checkpoint
                jumps.setdefault(f"{version} -> {other}", []).append(runner.evaluate(handed).loss - losses[-1])
    return losses


def report(curves: dict[str, list[list[float]]], jumps: dict[str, list[float]]) -> None:
    runs = []
    for name in VERSIONS:
        steps = -np.diff(np.array(curves[name]), axis=1)
        mean = np.maximum(np.minimum.accumulate(np.maximum(steps.mean(axis=0), 1e-3)[::-1])[::-1], 1e-3)
        mean = np.maximum(steps.mean(axis=0), 1e-3)
        variance = float(steps.var(axis=0, ddof=1).sum() / (mean**2).sum())
        print(f"{name}: gain = {json.dumps([round(float(v), 4) for v in mean])}, variance = {variance:.3f}")
        print(f"   mean losses {np.array(curves[name]).mean(axis=0).round(3).tolist()}")
        noise = LogNormal(1.0, variance)
        for row in steps:
            z = np.clip(to_normal(noise, row / mean), -3.5, 3.5)
            runs.append(NoisePast(tuple(range(1, len(row) + 1)), (VERSIONS.index(name),) * len(row), tuple(z.tolist())))
    print(f"dependence: {estimate(runs)}")
    for name in ("day", "day+night"):
        if name in curves:
            print(f"{name}: mean losses {np.array(curves[name]).mean(axis=0).round(3).tolist()}")
    for name, values in jumps.items():
        print(f"{name}: location {np.mean(values):.3f}, scale {np.std(values, ddof=1):.3f} over {len(values)}")


if __name__ == "__main__":
    main()
