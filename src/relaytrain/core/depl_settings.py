"""What a scenario tells DepL's planners: the problem, how far to search, and how epochs hang together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from .dependence import NoiseBelief
from .depl import DeplProblem, Model
from .distribution import Normal
from .errors import UsageError
from .outcome import EpochOutcome
from .plan import Decision
from .problem import Pair

Reading = Literal["epoch", "level"]
MOST_EPOCHS = 200
"""Epochs a schedule may have when the target does not say."""


@dataclass(frozen=True)
class DeplSettings:
    """The instance before epoch 1, S, whether the first version is free, the belief about dependence, and the grid's eta.

    `within`: resources may cost 1 + within times their bound, the paper's 1 + epsilon.

    `reading`: k of (8) counts epochs ("epoch", the paper's), or is where a version's own expected curve passes the
    present loss ("level"), taken anew with every plan.

    `conformal`: the versions' noises are normal with the mean and variance given, and a run widens them as it sees fit.
    """

    instance: DeplProblem
    switches: int = 3
    free_start: bool = True
    belief: NoiseBelief = field(default_factory=NoiseBelief)
    eta: int = 200
    reading: Reading = "epoch"
    within: float = 0.0
    conformal: bool = False

    def widened(self, factor: float) -> DeplSettings:
        """The settings with deviations of (normal) noises so many times larger."""
        if factor == 1.0:
            return self
        models = tuple(
            replace(model, noise=Normal(model.noise.mean, factor * math.sqrt(model.noise.variance)))
            for model in self.instance.models
        )
        return replace(self, instance=replace(self.instance, models=models))

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

    def position(self, m: int, loss: float) -> int:
        """Epochs after which version `m`, trained alone on all data, is expected to have come down to `loss`."""
        instance, model = self.instance, self.instance.models[m]
        k = np.arange(1, instance.target.max_epochs + 1)
        gain = instance.data_gain(range(len(instance.datasets)))
        curve = instance.initial_loss - np.concatenate([[0.0], np.cumsum(gain * model.progress(k) * model.noise.mean)])
        return int(np.abs(curve - loss).argmin())

    def index(self, m: int, epoch: int, loss: float) -> int:
        """k of (8) for the epoch after `epoch` done ones, at `loss`, by this reading."""
        return epoch + 1 if self.reading == "epoch" else self.position(m, loss) + 1

    def placed(self, epoch: int, loss: float, before: int | None) -> tuple[Model, ...]:
        """The versions with their progress placed so that index epoch + 1 is the one to come, by this reading."""
        if self.reading == "epoch":
            return self.instance.models
        models = []
        for m, model in enumerate(self.instance.models):
            jump = None if before is None or before == m else self.instance.switches[before][m]
            done = self.position(m, loss if jump is None else loss + jump.mean)
            if model.steps:
                rest = model.steps[min(done, len(model.steps) - 1) :]
                models.append(replace(model, steps=(rest[0],) * epoch + rest))
            else:
                models.append(replace(model, offset=model.offset + done - epoch))
        return tuple(models)

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

    def run(self, decision: Decision, history: Sequence[EpochOutcome] = ()) -> tuple[float, float]:
        """Seconds and joules of an epoch, after `history`: a data set is paid for when it first comes to a node set."""
        chosen = self.chosen(decision.datasets)
        seconds, joules = self.epoch_cost(decision.pair, chosen, decision.resources)
        there = {d for o in history if o.decision.nodes == decision.nodes for d in self.chosen(o.decision.datasets)}
        n = self.cluster(decision.nodes)
        return seconds, joules + sum(float(self.instance.charges[d, n]) for d in chosen if d not in there)


def left_out(settings: DeplSettings, decisions: Sequence[Decision]) -> float:
    """What bringing the data costs, which planners without data sets do not count."""
    places = {(settings.cluster(d.nodes), data) for d in decisions for data in settings.chosen(d.datasets)}
    return float(sum(settings.instance.charges[data, n] for n, data in places))


def _index(known: Sequence[str], name: str, what: str) -> int:
    try:
        return known.index(name)
    except ValueError:
        raise UsageError(f"depl: got {what} '{name}', expected one of {', '.join(known)}") from None
