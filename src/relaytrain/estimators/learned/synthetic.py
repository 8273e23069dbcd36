"""Learning curves drawn from a prior: power laws and exponentials towards an asymptote, with scatter that has a memory.

What the zero-trace estimator is trained on: it has seen no network train, only curves as learning curves are known to
look. Ranges are wide on purpose. The exponentials came in after power laws alone were seen to cover too little on a
trial campaign, whose small data sets are learned by heart; the bundled traces were not looked at.
"""

from __future__ import annotations

import numpy as np

from .curves import LegCurve


def synthetic_curves(count: int, rng: np.random.Generator, *, epochs: int = 35) -> list[LegCurve]:
    """`count` curves, each a seed of its own; classes, samples and pruned share are drawn and mean nothing."""
    made = []
    for seed in range(count):
        start = float(np.exp(rng.uniform(np.log(0.3), np.log(7.0))))
        floor = start * rng.beta(1.2, 3.0)
        power = float(np.exp(rng.normal(np.log(0.9), 0.5)))
        scale = float(np.exp(rng.uniform(np.log(0.3), np.log(30.0))))
        k = np.arange(0, epochs + 1, dtype=np.float64)
        if rng.uniform() < 0.5:
            mean = floor + (start - floor) * (1.0 + k / scale) ** -power
        else:  # a network that can learn its data by heart: a constant share an epoch, for long
            mean = 0.3 * floor + (start - 0.3 * floor) * np.exp(-k / np.exp(rng.uniform(np.log(4.0), np.log(60.0))))
        if rng.uniform() < 0.25:  # a loss on other data than trained on may rise again
            mean = mean * (1.0 + np.exp(rng.uniform(np.log(1e-3), np.log(0.02))) * k)
        spread = float(np.exp(rng.uniform(np.log(0.005), np.log(0.12))))
        memory = rng.uniform(0.0, 0.6)
        noise = rng.standard_normal(epochs + 1)
        for i in range(1, epochs + 1):
            noise[i] = memory * noise[i - 1] + np.sqrt(1.0 - memory**2) * noise[i]
        losses = np.maximum(mean * np.exp(spread * noise), 1e-3)
        begin = int(rng.integers(0, 6))
        facts = (int(rng.integers(2, 20)), int(np.exp(rng.uniform(4.0, 11.0))), float(rng.uniform(0.0, 0.9)))
        made.append(LegCurve(seed, 0, 0, "", *facts, losses[begin + 1 :], start=float(losses[begin])))
    return made
