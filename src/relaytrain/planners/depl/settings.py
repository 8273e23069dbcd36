"""What a scenario tells DepL's planners: the problem, how far to search, and how epochs hang together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...core.dependence import Belief
from ...core.errors import UsageError
from ...core.problem import Pair
from .instance import Instance

MOST_EPOCHS = 200
"""Epochs a schedule may have when the target does not say."""


@dataclass(frozen=True)
class DeplSettings:
    """The instance before epoch 1, S, whether the first version is free, and the belief about dependence."""

    instance: Instance
    switches: int = 3
    free_start: bool = True
    belief: Belief = field(default_factory=Belief)

    def version(self, name: str) -> int:
        """Index of a version."""
        return _index([m.name for m in self.instance.models], name, "version")

    def cluster(self, name: str) -> int:
        """Index of a cluster."""
        return _index([c.name for c in self.instance.clusters], name, "node set")

    def chosen(self, names: Sequence[str]) -> tuple[int, ...]:
        """Indexes of data sets; no name at all means all of them."""
        known = [d.name for d in self.instance.datasets]
        return tuple(_index(known, name, "data set") for name in names) or tuple(range(len(known)))

    def epoch_cost(self, pair: Pair, chosen: Sequence[int], resources: float) -> tuple[float, float]:
        """Seconds (1) and price (2) of an epoch on the chosen data, with a share of the cluster's resources."""
        instance = self.instance
        model, cluster = instance.models[self.version(pair.version)], instance.clusters[self.cluster(pair.nodes)]
        x = resources * cluster.capability
        link_s = 0.0 if math.isinf(cluster.bandwidth) else model.size / cluster.bandwidth
        compute_s = model.work * instance.volume(chosen) / x
        if instance.objective == "rate":
            return compute_s + link_s, cluster.price * x
        held_s = compute_s + cluster.waiting * link_s
        return compute_s + link_s, cluster.price * x * held_s + cluster.link_power * link_s


def _index(known: Sequence[str], name: str, what: str) -> int:
    try:
        return known.index(name)
    except ValueError:
        raise UsageError(f"depl: got {what} '{name}', expected one of {', '.join(known)}") from None
