"""A small campaign of known shape, and the problem its relays solve."""

from __future__ import annotations

import numpy as np

from relaytrain.core.problem import Node, NodeSet, Pair, Problem, Target, Version
from relaytrain.estimators.learned.bundle import Bundle, LegCurve, LegSwitch

FACTS = {"gold": (7, 2700, 0.0), "silver": (9, 300, 0.5), "bronze": (10, 90, 0.75)}


def falling(start: float, rate: float, epochs: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    k = np.arange(1, epochs + 1)
    return start / np.sqrt(1 + rate * k * start**2) * np.exp(noise * rng.standard_normal(epochs))


def drawn_bundle(seeds: int = 6, *, metric: str = "train", noise: float = 0.03) -> Bundle:
    """A small campaign of known shape: inverse square roots with scatter; jumps that depend on the loss and the
    nodes."""
    curves, switches = [], []
    for seed in range(seeds):
        rng = np.random.default_rng([5, seed])

        rate = 0.2 + 0.02 * rng.standard_normal()
        gold = LegCurve(seed, 0, 0, "gold", *FACTS["gold"], falling(2.3, rate, 20, noise, rng), (), 2.3)
        curves.append(gold)
        run = 0
        for k1 in (5, 10, 15, 20):
            for nodes in ("silver", "bronze"):
                run += 1
                way = (f"{k1} prune {FACTS[nodes][2]:g}",)
                before = gold.losses[:k1]
                jump = (1.5 if nodes == "bronze" else 0.8) - 0.4 * before[-1] + 0.05 * rng.standard_normal()
                landed = float(max(before[-1] + jump, 0.1))
                losses, images = falling(landed, 0.5, 14, noise, rng), k1 * FACTS["gold"][1]
                child = LegCurve(seed, run, 1, nodes, *FACTS[nodes], losses, way, landed, 0, k1, images)
                curves.append(child)
                switches.append(
                    LegSwitch(seed, run, 1, "both", FACTS[nodes][2], before, FACTS["gold"], FACTS[nodes],
                           float(child.losses[0]), landed - 0.1, landed, way, k1)
                )  # fmt: skip
    return Bundle(metric, tuple(curves), tuple(switches), "drawn")


PAIRS = (Pair("L", "gold"), Pair("M", "silver"), Pair("S", "bronze"))


def problem(on: str = "train", initial: float = 2.3) -> Problem:
    nodes = tuple(Node(name, None, samples, classes) for name, (classes, samples, _) in FACTS.items())
    sizes = {"L": 100_000, "M": 50_000, "S": 25_000}
    return Problem(
        "drawn", PAIRS, 0, initial, Target(0.4, on=on), tuple(Version(n, p) for n, p in sizes.items()), nodes,
        tuple(NodeSet(name, (name,)) for name in FACTS),
    )  # fmt: skip
