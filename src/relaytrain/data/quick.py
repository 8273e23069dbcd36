"""The quickstart's data: digits whose target lives in another domain than most of the images.

| set | images | domain |
|---|---|---|
| gold | 1,000 | generic digits |
| silver | 250 | half of them as in the target's domain |
| bronze | 120 | the target's: contrast inverted, shifted by a pixel, noisy |
| validation, test | 213, 214 | the target's |

So the largest set alone never gets near the target, the nearest one is too small, and a relay gets there.
"""

from __future__ import annotations

import numpy as np

from .dataset import Dataset
from .digits import digits
from .domain import Domain, shifted

SIZES = {"gold": 1000, "silver": 250, "bronze": 120, "validation": 213, "test": 214}
TARGET = Domain(inverted=1.0, shift=1, noise=0.2)
HALF_WAY = Domain(inverted=0.5, shift=1, noise=0.1)
DOMAINS = {"silver": HALF_WAY, "bronze": TARGET, "validation": TARGET, "test": TARGET}


def quick_data(seed: int = 0) -> dict[str, Dataset]:
    """The five sets by name, disjoint images, each seed another draw."""
    whole = digits()
    order = np.random.default_rng([seed, 0]).permutation(len(whole))
    sets: dict[str, Dataset] = {}
    start = 0
    for number, (name, size) in enumerate(SIZES.items()):
        part = whole.part(np.sort(order[start : start + size]), name)
        start += size
        if name in DOMAINS:
            noise_seed = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
            part = shifted(part, DOMAINS[name], seed=noise_seed)
        sets[name] = Dataset(part.images, part.labels, part.classes, name)
    return sets
