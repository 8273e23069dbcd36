"""Nested against pruned versions, trained for real: what a handover costs in loss, and a target in energy.

    python benchmarks/nested.py                            # digits, ratio 0.5 and 0.75, seeds 500 to 509
    python benchmarks/nested.py --data cifar10 --seeds 5   # a small CNN on 3,000 images of 8x8
    python benchmarks/nested.py --family resnet8           # batch norm and residual sums
    python benchmarks/nested.py --first 900 --seeds 3      # development seeds: 900 and on

For every seed (other weights, other order of data) and ratio two relays train from the same weights on the same data:
the full version until its held-out loss is at most `--hand-over`, then the smaller one until `--target`, five epochs
at least. `pruned` trains the full version alone and removes the channels of least L1 norm; `nested` trains it by
ordered widths and takes a slice. Both are charged on the emulated clock by the scenario's own cost table. By ratio:

* jump: held-out loss just after the handover minus just before, both with batch norm estimated again;
* after 5: loss of the smaller version five epochs after the handover;
* energy: joules until the target, handover included, or of 40 epochs where it was missed (said beside it); its ratio
  is a geometric mean over seeds;
* back up: the loss just after going back to the full version from where the small one arrived, minus just before.

Intervals are of 2,000 bootstrap samples of seeds (95 %), ratios being of the same seeds. Losses and counted joules do
not depend on the machine's load.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from machine import calibrated

from relaytrain.core.plan import Decision
from relaytrain.core.problem import Pair
from relaytrain.data.source import read
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.inprocess import InProcess
from relaytrain.scenario import load_scenario
from relaytrain.scenario.model import Scenario
from relaytrain.training.handover import hand_over
from relaytrain.training.setup import TrainingSetup

AFTER = 5
MOST_EPOCHS = 40
SIZES = {"digits": 1000, "cifar10": 3000}
LEVELS = {"digits": (0.25, 0.15), "cifar10": (1.8, 1.68)}
RATES = {"digits": 0.02, "cifar10": 0.01}


def tables(data: str, family: str, width: float, ratio: float, way: str, seed: int) -> dict[str, Any]:
    """One node that holds all images, the full version and one smaller one; figures are filled in once counted."""
    source: dict[str, Any] = {"source": data, "seed": seed}
    if data == "cifar10":
        source |= {"shrink": 4, "standardise": True}
    return {
        "name": f"{data}-{way}",
        "target": {"loss": 0.1, "deadline": math.inf, "on": "test" if data == "digits" else "validation"},
        "start": {"loss": 2.3, "version": "full", "nodes": "all"},
        "versions": [
            {"name": "full", "family": family, "width": width, "parameters": 1, "flops_per_sample": 1.0},
            {"name": "small", "ratio": ratio, "way": way, "parameters": 1, "flops_per_sample": 1.0},
        ],
        "nodes": [{"name": "box", "device": "box", "samples": SIZES[data]}],
        "node_sets": [{"name": "all", "nodes": ["box"]}],
        "devices": {"box": {"flops_per_s": 1e9, "busy_w": 5.0, "idle_w": 1.0, "bits_per_s": 1e7, "j_per_bit": 1e-7}},
        "law": {"kind": "level", "curves": [{"floor": 0.1, "drop": 2.0, "scale": 3.0, "power": 1.0}]},
        "training": {"lr": RATES[data], "batch": 32, "seed": seed},
        "data": source,
    }


images = lru_cache(read)
"""The data are read once for all relays."""


def counted(made: dict[str, Any]) -> tuple[Scenario, TrainingSetup]:
    """The scenario with parameters and FLOPs as they are."""
    setup = TrainingSetup.from_scenario(load_scenario(made), read=images)
    for version in made["versions"]:
        facts = setup.version_facts()[version["name"]]
        version |= {"parameters": facts.parameters, "flops_per_sample": float(facts.flops_per_sample)}
    return load_scenario(made), setup


def relay(made: dict[str, Any], hand: float, target: float) -> dict[str, Any]:
    """One relay, by the parts that every run is made of."""
    scenario, setup = counted(made)
    costs, pairs = scenario.costs, scenario.problem
    full, small = pairs.index(Pair("full", "all")), pairs.index(Pair("small", "all"))
    runner = FederatedEpoch(setup, InProcess(setup))
    checkpoint, energy, epoch = setup.first_checkpoint(), 0.0, 0
    reached: float | None = None

    def train(version: str, at: int) -> float:
        nonlocal checkpoint, energy, epoch, reached
        epoch += 1
        done = runner.run_epoch(Decision(epoch, version, "all"), checkpoint)
        checkpoint, energy = done.checkpoint, energy + float(costs.run_j[at])
        if done.outcome.loss <= target and reached is None:
            reached = energy
        return done.outcome.loss

    loss = math.inf
    while loss > hand and epoch < MOST_EPOCHS:
        loss = train("full", full)
    epochs_full, before = epoch, loss
    checkpoint = hand_over(setup, checkpoint, "small", "all").checkpoint
    energy += float(costs.change_j[full, small])
    jump = runner.evaluate(checkpoint).loss - before
    curve: list[float] = []
    while len(curve) < AFTER or (reached is None and epoch < MOST_EPOCHS):
        curve.append(train("small", small))
    up = None
    if made["versions"][1]["way"] == "nested":
        up = runner.evaluate(hand_over(setup, checkpoint, "full", "all").checkpoint).loss - curve[-1]
    return {
        "epochs_full": epochs_full, "before": before, "jump": jump, "first": curve[0], "after": curve[AFTER - 1],
        "energy_j": energy if reached is None else reached, "missed": reached is None, "up": up,
        "epoch_j": [float(costs.run_j[full]), float(costs.run_j[small])],
    }  # fmt: skip


def interval(rows: int, figure: Callable[[Any], float]) -> str:
    """`figure` of all seeds, and of bootstrap samples of them."""
    rng = np.random.default_rng(0)
    drawn = np.sort([figure(rng.integers(0, rows, rows)) for _ in range(2000)])
    return f"{figure(np.arange(rows)):.3f} [{drawn[50]:.3f}, {drawn[-51]:.3f}]"


def report(results: Sequence[dict[str, Any]]) -> None:
    """Both ways side by side, by ratio."""
    for ratio in sorted({row["ratio"] for row in results}):
        rows = {w: [r for r in results if r["ratio"] == ratio and r["way"] == w] for w in ("pruned", "nested")}
        print(f"\nratio {ratio:g}, {len(rows['nested'])} seeds")
        for key, name in (("jump", "jump"), ("first", "after 1"), ("after", "after 5"), ("energy_j", "energy")):
            versus(name, *(column(rows[way], key) for way in rows), log=key == "energy_j")
        versus("epochs full", *(column(rows[way], "epochs_full") for way in rows))
        up = column(rows["nested"], "up")
        print(f"  back up      nested {interval(len(up), lambda at, up=up: float(up[at].mean()))}")
        epochs = {way: rows[way][0]["epoch_j"] for way in rows}
        each = "; ".join(f"{way} {full:.3g} J full, {small:.3g} J small" for way, (full, small) in epochs.items())
        missed = {way: sum(row["missed"] for row in rows[way]) for way in rows}
        print(f"  an epoch     {each}; target missed: {missed}")


def column(rows: Sequence[dict[str, Any]], key: str) -> Any:
    """One figure of every seed."""
    return np.array([row[key] for row in rows], dtype=float)


def versus(name: str, old: Any, new: Any, *, log: bool = False) -> None:
    """A line: pruned, nested, and nested over pruned."""

    def over(at: Any) -> float:
        return float(np.exp(np.log(new[at] / old[at]).mean()) if log else new[at].mean() / old[at].mean())

    one, other = (interval(len(old), lambda at, v=v: float(v[at].mean())) for v in (old, new))
    print(f"  {name:12s} pruned {one:24s} nested {other:24s} ratio {interval(len(old), over)}")


def main() -> None:
    """Train, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=sorted(SIZES), default="digits")
    parser.add_argument("--family", default="cnn")
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.5, 0.75])
    parser.add_argument("--first", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--hand-over", type=float, help="loss of the full version at which it is handed over")
    parser.add_argument("--target", type=float)
    parser.add_argument("--share", type=float, default=0.5, help="share of batches that train a slice")
    parser.add_argument("--out", type=Path, help="rows as JSON")
    asked = parser.parse_args()
    hand = LEVELS[asked.data][0] if asked.hand_over is None else asked.hand_over
    target = LEVELS[asked.data][1] if asked.target is None else asked.target
    print(f"{asked.data}, {asked.family} x {asked.width:g}, handed over at {hand:g}, target {target:g}")
    results: list[dict[str, Any]] = []
    with calibrated():
        for seed in range(asked.first, asked.first + asked.seeds):
            for ratio in asked.ratios:
                for way in ("pruned", "nested"):
                    made = tables(asked.data, asked.family, asked.width, ratio, way, seed)
                    made["training"]["slice_share"] = asked.share
                    results.append({"seed": seed, "ratio": ratio, "way": way, **relay(made, hand, target)})
                    row = results[-1]
                    figures = (row["epochs_full"], row["before"], row["jump"], row["after"], row["energy_j"])
                    print(f"{seed} {ratio:g} {way:6s}", " ".join(f"{figure:.3f}" for figure in figures), flush=True)
    report(results)
    if asked.out is not None:
        asked.out.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
