"""Traces as the estimators see them: one curve for every leg, one switch for every handover, all knowing their origin.

A curve is the losses of one version on one node set. Its *configuration* is the way that led there (at which epoch and
how much was pruned, where it went), without the seed: curves of one configuration differ by luck alone, so honest
splits keep whole configurations, or whole seeds, on one side (`splits`), never single windows of a curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...core.curve import Array

if TYPE_CHECKING:
    from ...traces.trace import TraceSet, TraceSwitch

Metric = Literal["train", "test"]
"""Which loss a curve holds; fits of one are never used for the other."""

Kind = Literal["version", "nodes", "both", "distill", "restore"]
"""What a handover changes; distillation is a kind of its own, for a fresh student starts from nothing."""


@dataclass(frozen=True)
class LegCurve:
    """The losses of one leg, first epoch first.

    `start` is the loss of a forward pass before the first epoch, where one was made; `pruned` the share of the full
    network's parameters that this version lacks; `configuration` what led here, the seed left out.
    """

    seed: int
    run: int
    stage: int
    node_set: str
    classes: int
    samples: int
    pruned: float
    losses: Array
    configuration: tuple[str, ...] = ()
    start: float | None = None
    parent: int | None = None
    epoch: int = 0
    """Epochs of the whole relay before this leg."""
    images: int = 0
    """Images that the network had been trained on before this leg, each as often as it was; a distilled one, none."""

    @property
    def fixed(self) -> tuple[float, float, float, float]:
        """What the models know of a leg besides its losses: classes, samples, pruned share, images before it."""
        return self.classes, self.samples, self.pruned, self.images

    def history(self, *, with_start: bool) -> tuple[Array, int]:
        """The losses, after the loss before the first epoch where that is wanted and known; and how many that adds."""
        lead = [self.start] if with_start and self.start is not None else []
        return np.array([*lead, *self.losses]), len(lead)

    @property
    def group(self) -> str:
        """The first switch on the way here: (K1, F1) of the papers; "" for a trajectory that never switched."""
        return self.configuration[0] if self.configuration else ""


@dataclass(frozen=True)
class LegSwitch:
    """A handover that was made: what was known before it and the loss after it.

    `history` are the losses of the leg before it; `probe_before`, `probe_after` the forward losses on the *new* nodes'
    data before and after the version changed; `landed` the loss after the first epoch of the new leg.
    """

    seed: int
    run: int
    stage: int
    kind: Kind
    ratio: float
    history: Array
    before: tuple[int, int, float]
    """Classes, samples and pruned share before."""
    after: tuple[int, int, float]
    landed: float
    probe_before: float | None = None
    probe_after: float | None = None
    configuration: tuple[str, ...] = ()
    epoch: int = 0

    @property
    def group(self) -> str:
        """As `LegCurve.group`."""
        return self.configuration[0] if self.configuration else ""


@dataclass(frozen=True)
class Bundle:
    """All curves and switches of some traces, of one metric."""

    metric: Metric
    curves: tuple[LegCurve, ...]
    switches: tuple[LegSwitch, ...]
    source: str = ""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, ascending."""
        return tuple(sorted({curve.seed for curve in self.curves}))

    def only(self, curves: Sequence[bool], switches: Sequence[bool]) -> Bundle:
        """The part that both masks keep."""
        return Bundle(
            self.metric,
            tuple(curve for curve, keep in zip(self.curves, curves, strict=True) if keep),
            tuple(switch for switch, keep in zip(self.switches, switches, strict=True) if keep),
            self.source,
        )

    def of_seeds(self, seeds: Sequence[int]) -> Bundle:
        """The part of some seeds."""
        keep = set(seeds)
        return self.only([c.seed in keep for c in self.curves], [s.seed in keep for s in self.switches])


def bundle_of(traces: TraceSet, metric: Metric = "train") -> Bundle:
    """The curves and switches of traces, by one of their two losses.

    Format v1 has no loss before the very first epoch: a trajectory starts at chance, the logarithm of the most classes.
    """
    curves, switches = [], []
    chance = float(np.log(max(segment.classes for segment in traces.segments)))
    for path in traces.paths():
        leg = path.segments[-1]
        way = tuple(_words(switch) for switch in path.switches)
        fixed = (leg.classes, leg.samples, leg.pruned_fraction)
        curves.append(
            LegCurve(
                leg.seed,
                leg.run,
                leg.stage,
                leg.node_set,
                *fixed,
                np.asarray(leg.loss(metric), dtype=np.float64),
                way,
                chance if leg.switch is None else leg.switch.after(metric),
                leg.parent,
                leg.first - 1,
                path.images_before,
            )
        )
        if leg.switch is None or leg.parent is None:
            continue
        before, switch = traces.segment(leg.seed, leg.parent), leg.switch
        switches.append(
            LegSwitch(
                leg.seed,
                leg.run,
                leg.stage,
                switch.change,
                switch.ratio_of_current,
                np.asarray(before.loss(metric)[: switch.k - before.first + 1], dtype=np.float64),
                (before.classes, before.samples, before.pruned_fraction),
                fixed,
                float(leg.loss(metric)[0]),
                switch.before(metric),
                switch.after(metric),
                way,
                switch.k,
            )
        )
    return Bundle(metric, tuple(curves), tuple(switches), str(traces.meta.get("preset", "")))


def _words(switch: TraceSwitch) -> str:
    return f"{switch.k} {switch.kind} {switch.ratio_of_current:g}"
