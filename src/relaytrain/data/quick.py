"""Data divided so that a relay pays: pictures of which the target's camera has seen few.

The target's camera shifts images and adds noise; elsewhere most pictures look as they always do. `quick` has digits,
`quick-fashion` pictures of clothes (Fashion-MNIST, from disk):

| set | digits | clothes | seen by the target's camera |
|---|---|---|---|
| gold | 800 | 1,600 | 4 % |
| silver | 220 | 400 | 25 % |
| bronze | 120 | 200 | all |
| validation, test | 500, 157 | 600, 600 | all |

So the largest set learns fast and then stays far from the target, the nearest one is too small to learn from nothing,
and a relay gets there. Where a leg is given up for the next one is a matter of what its epochs cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from .dataset import Dataset
from .digits import digits
from .domain import Domain, shifted
from .source import read


@dataclass(frozen=True)
class QuickRecipe:
    """Where pictures come from, how many a set has, what share of them the target's camera saw, and how it sees."""

    whole: Callable[[], Dataset]
    sizes: Mapping[str, int]
    shares: Mapping[str, float]
    camera: Domain


SHARES = {"gold": 0.04, "silver": 0.25, "bronze": 1.0, "validation": 1.0, "test": 1.0}
RECIPES = {
    "quick": QuickRecipe(
        digits,
        {"gold": 800, "silver": 220, "bronze": 120, "validation": 500, "test": 157},
        SHARES,
        Domain(inverted=0.0, shift=1, noise=0.1),
    ),
    "quick-fashion": QuickRecipe(
        lambda: read("fashion-mnist"),
        {"gold": 1600, "silver": 400, "bronze": 200, "validation": 600, "test": 600},
        SHARES,
        Domain(inverted=0.0, shift=4, noise=0.2),
    ),
}
"""Sources of `[data]` that come already divided, by name."""


def quick_data(seed: int = 0, name: str = "quick") -> dict[str, Dataset]:
    """The five sets of a recipe by name, disjoint images, each seed another draw."""
    recipe = RECIPES[name]
    whole = recipe.whole()
    order = np.random.default_rng([seed, 0]).permutation(len(whole))
    sets: dict[str, Dataset] = {}
    start = 0
    for number, (part_name, size) in enumerate(recipe.sizes.items()):
        part = whole.part(np.sort(order[start : start + size]), part_name)
        start += size
        camera, noise = np.random.SeedSequence([seed, number]).generate_state(2)
        chosen = np.random.default_rng(int(camera)).permutation(size)[: round(recipe.shares[part_name] * size)]
        images = part.images.copy()
        images[chosen] = shifted(part, recipe.camera, seed=int(noise)).images[chosen]
        sets[part_name] = Dataset(images, part.labels, part.classes, part_name)
    return sets
