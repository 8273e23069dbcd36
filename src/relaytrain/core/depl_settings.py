"""What a scenario tells DepL's planners: the problem, how far to search, and how epochs hang together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from .dependence import NoiseBelief
from .depl import DeplProblem, DeplVersion
from .distribution import Normal
from .errors import UsageError
from .outcome import EpochOutcome
from .plan import Decision
from .problem import Pair

StepReading = Literal["epoch", "level"]
MOST_EPOCHS = 200
"""Epochs a schedule may have when the target does not say."""


@dataclass(frozen=True)
class DeplSettings:
    """The instance before epoch 1, S, whether the first version is free, the belief about dependence, the grid's eta.

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
    reading: StepReading = "epoch"
    within: float = 0.0
    conformal: bool = False

    def widened(self, factor: float) -> DeplSettings:
        """The settings with deviations of (normal) noises so many times larger."""
        if factor == 1.0:
            return self
        versions = tuple(
            replace(version, noise=Normal(version.noise.mean, factor * math.sqrt(version.noise.variance)))
            for version in self.instance.versions
        )
        return replace(self, instance=replace(self.instance, versions=versions))

    def version(self, name: str) -> int:
        """Index of a version."""
        return _index([m.name for m in self.instance.versions], name, "version")

    def nodes(self, name: str) -> int:
        """Index of a node set."""
        return _index([c.name for c in self.instance.node_sets], name, "node set")

    def chosen(self, names: Sequence[str]) -> tuple[int, ...]:
        """Indexes of data sets; no name at all means all of them."""
        known = [d.name for d in self.instance.datasets]
        return tuple(_index(known, name, "data set") for name in names) or tuple(range(len(known)))

    def position(self, m: int, loss: float) -> int:
        """Epochs after which version `m`, trained alone on all data, is expected to have come down to `loss`."""
        instance, version = self.instance, self.instance.versions[m]
        k = np.arange(1, instance.max_epochs + 1)
        gain = instance.data_gain(instance.all_data)
        lowered = np.concatenate([[0.0], np.cumsum(gain * version.progress(k) * version.noise.mean)])
        return int(np.abs(instance.initial_loss - lowered - loss).argmin())

    def index(self, m: int, epoch: int, loss: float) -> int:
        """k of (8) for the epoch after `epoch` done ones, at `loss`, by this reading."""
        return epoch + 1 if self.reading == "epoch" else self.position(m, loss) + 1

    def placed(self, epoch: int, loss: float, before: int | None) -> tuple[DeplVersion, ...]:
        """The versions with their progress placed so that index epoch + 1 is the one to come, by this reading."""
        if self.reading == "epoch":
            return self.instance.versions
        versions = []
        for m, version in enumerate(self.instance.versions):
            jump = self.instance.mean_jump(before, m)
            done = self.position(m, loss + jump if math.isfinite(jump) else loss)
            if version.steps:
                rest = version.steps[min(done, len(version.steps) - 1) :]
                versions.append(replace(version, steps=(rest[0],) * epoch + rest))
            else:
                versions.append(replace(version, offset=version.offset + done - epoch))
        return tuple(versions)

    def epoch_cost(self, pair: Pair, chosen: Sequence[int], resources: float, epoch: int = 1) -> tuple[float, float]:
        """Seconds (1) and price (2) of an epoch on the chosen data, with a share of the node set's resources.

        Data charges are in it where they are paid every epoch.
        """
        instance = self.instance
        version, nodes = instance.versions[self.version(pair.version)], instance.node_sets[self.nodes(pair.nodes)]
        x = resources * nodes.capability
        link_s = version.size / nodes.bandwidth
        compute_s = instance.kind_at(epoch, chosen, self.version(pair.version))[0] / x
        each = float(instance.epoch_charge(chosen)[self.nodes(pair.nodes)])
        if instance.objective == "rate":
            return compute_s + link_s, nodes.price * x + each
        held_s = compute_s + nodes.waiting * link_s
        return compute_s + link_s, nodes.price * x * held_s + nodes.link_power * link_s + each

    def run(self, decision: Decision, history: Sequence[EpochOutcome] = ()) -> tuple[float, float]:
        """Seconds and joules of an epoch, after `history`: a data set is paid for when it first comes to a node set."""
        chosen = self.chosen(decision.datasets)
        seconds, joules = self.epoch_cost(decision.pair, chosen, decision.resources, decision.epoch)
        there = {d for o in history if o.decision.nodes == decision.nodes for d in self.chosen(o.decision.datasets)}
        n = self.nodes(decision.nodes)
        return seconds, joules + sum(float(self.instance.paid_once[d, n]) for d in chosen if d not in there)


def left_out(settings: DeplSettings, decisions: Sequence[Decision]) -> float:
    """What bringing the data costs, which planners without data sets do not count."""
    places = {(settings.nodes(d.nodes), data) for d in decisions for data in settings.chosen(d.datasets)}
    return float(sum(settings.instance.paid_once[data, n] for n, data in places))


def _index(known: Sequence[str], name: str, what: str) -> int:
    try:
        return known.index(name)
    except ValueError:
        raise UsageError(f"depl: got {what} '{name}', expected one of {', '.join(known)}") from None
