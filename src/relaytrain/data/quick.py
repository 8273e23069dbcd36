"""The quickstart's data: digits, of which the target's camera sees few.

The target's camera shifts images by a pixel and adds noise; elsewhere most digits look as they always do.

| set | images | seen by the target's camera |
|---|---|---|
| gold | 1,000 | 2 % |
| silver | 250 | 15 % |
| bronze | 120 | all |
| validation, test | 213, 214 | all |

So the largest set learns digits fast and then stays far from the target, the nearest one is too small to learn them
from nothing, and a relay gets there. Small CNN, medium and small with 25 and 50 % of its parameters removed, Adam 0.002,
batch 16, standardised images, FedAvg over two nodes of silver and of bronze; epochs of the last leg until a validation
loss of 0.42, eight seeds:

| schedule | epochs of the last leg |
|---|---|
| full on gold | never within 9 |
| medium on silver, small on bronze | never within 12 and 14 |
| full on gold 4, medium on silver | 9, 10, 5, never within 12 for five |
| full on gold 4, small on bronze | 5, 10, 9, 11, 5, 4, 6, 7 |
| full on gold 4, medium on silver 3, small on bronze | 3, 7, 7, 7, 4, 3, 5, 4 |
| full on gold 6, medium on silver 6, small on bronze | 1, 3, 3, 5, 2, 1, 3, 3 |
"""

from __future__ import annotations

import numpy as np

from .dataset import Dataset
from .digits import digits
from .domain import Domain, shifted

SIZES = {"gold": 1000, "silver": 250, "bronze": 120, "validation": 213, "test": 214}
SHARES = {"gold": 0.02, "silver": 0.15, "bronze": 1.0, "validation": 1.0, "test": 1.0}
TARGET = Domain(inverted=0.0, shift=1, noise=0.1)


def quick_data(seed: int = 0) -> dict[str, Dataset]:
    """The five sets by name, disjoint images, each seed another draw."""
    whole = digits()
    order = np.random.default_rng([seed, 0]).permutation(len(whole))
    sets: dict[str, Dataset] = {}
    start = 0
    for number, (name, size) in enumerate(SIZES.items()):
        part = whole.part(np.sort(order[start : start + size]), name)
        start += size
        camera, noise = np.random.SeedSequence([seed, number]).generate_state(2)
        chosen = np.random.default_rng(int(camera)).permutation(size)[: round(SHARES[name] * size)]
        images = part.images.copy()
        images[chosen] = shifted(part, TARGET, seed=int(noise)).images[chosen]
        sets[name] = Dataset(images, part.labels, part.classes, name)
    return sets
