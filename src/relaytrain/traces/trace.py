"""Traces: what many trainings showed, as a tree of segments; a shared beginning is kept once.

    seed 0, run 0   gold    1 2 3 4 5 6 7 8 9 10 ...        the trajectory
              |             \\       switch at k = 5
              +- run 1      silver  6 7 8 9 10 ...           a branch stores only its own epochs
                   |                \\     switch at k = 8
                   +- run 2         bronze 9 10 ...

A segment is a run of epochs with one version on one node set. Following `parent` from any segment to the root, and
cutting every ancestor at its switch, gives one training as it would have gone from the first epoch: a `TracePath`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Metric = Literal["train", "test"]
ChangeTarget = Literal["jump", "first-epoch"]
"""What a model of the change learns: the jump seen by a forward pass right after the switch, to which the epoch's own
change is added as in PACT (3); or the whole difference to the end of the first epoch, to which it is not."""

ChangeKind = Literal["both", "nodes", "version", "distill", "restore"]
KINDS = ("same", "prune", "slice", "distill", "restore", "rank")
"""Ways of a handover: same version on other nodes, pruning, a slice of nested versions, distillation, back to an
earlier checkpoint, another rank of an adapter."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TraceSwitch:
    """One handover: `run` leaves `parent` after epoch `k`.

    Losses are forward losses on the *new* node set's data: before, of the network as it was; after, of the network
    that the handover made, batch norm re-estimated. `ratio_of_current` is the share of the current version's
    parameters asked to be removed.
    """

    seed: int
    run: int
    parent: int
    k: int
    kind: str
    ratio_of_current: float
    from_node_set: str
    to_node_set: str
    train_loss_before: float
    test_loss_before: float
    train_loss_after: float
    test_loss_after: float
    parameters_before: int
    parameters_after: int

    @property
    def change(self) -> ChangeKind:
        """What changed: the nodes alone, the version alone, both, or the way is one of its own (distill, restore)."""
        if self.kind == "distill":
            return "distill"
        if self.kind == "restore":
            return "restore"
        if self.kind == "same":
            return "nodes"
        return "version" if self.from_node_set == self.to_node_set else "both"

    def before(self, metric: Metric) -> float:
        """Forward loss of the old network on the new node set."""
        return self.train_loss_before if metric == "train" else self.test_loss_before

    def after(self, metric: Metric) -> float:
        """Forward loss of the new network on the new node set: the probe."""
        return self.train_loss_after if metric == "train" else self.test_loss_after


@dataclass(frozen=True, eq=False)
class Segment:
    """Epochs of one version on one node set; arrays have one entry an epoch. A root has neither parent nor switch."""

    seed: int
    run: int
    parent: int | None
    stage: int
    node_set: str
    classes: int
    samples: int
    pruned_fraction: float
    k: Ints = field(repr=False)
    train_loss: Floats = field(repr=False)
    test_loss: Floats = field(repr=False)
    test_accuracy: Floats = field(repr=False)
    switch: TraceSwitch | None = None

    def __len__(self) -> int:
        return len(self.k)

    @property
    def first(self) -> int:
        """Its first epoch."""
        return int(self.k[0])

    @property
    def last(self) -> int:
        """Its last epoch."""
        return int(self.k[-1])

    @property
    def images(self) -> int:
        """Training images it took."""
        return len(self) * self.samples

    def loss(self, metric: Metric) -> Floats:
        """The loss after each epoch (training loss: running mean over the epoch)."""
        return self.train_loss if metric == "train" else self.test_loss


@dataclass(frozen=True)
class TracePath:
    """One training from epoch 1 to the end of `segments[-1]`, ancestors cut at their switches."""

    segments: tuple[Segment, ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Epochs of each segment that belong to it."""
        pairs = zip(self.segments, self.segments[1:], strict=False)
        ends = [child.switch.k - parent.first + 1 for parent, child in pairs if child.switch is not None]
        return (*ends, len(self.segments[-1]))

    @property
    def switches(self) -> tuple[TraceSwitch, ...]:
        """Its handovers in order."""
        return tuple(segment.switch for segment in self.segments if segment.switch is not None)

    @property
    def images(self) -> int:
        """Training images it takes from the first epoch."""
        return sum(n * s.samples for n, s in zip(self.lengths, self.segments, strict=True))

    @property
    def images_before(self) -> int:
        """Images that the last leg's network had been trained on when it began: a distilled student has seen none."""
        images = 0
        for n, parent, child in zip(self.lengths, self.segments, self.segments[1:], strict=False):
            fresh = child.switch is not None and child.switch.kind == "distill"
            images = 0 if fresh else images + n * parent.samples
        return images


@dataclass(frozen=True, eq=False)
class TraceSet:
    """A campaign's segments by (seed, run), and its `meta`: how they were made."""

    meta: Mapping[str, Any]
    segments: tuple[Segment, ...] = field(repr=False)

    @cached_property
    def _by_run(self) -> dict[tuple[int, int], Segment]:
        return {(segment.seed, segment.run): segment for segment in self.segments}

    @property
    def change_target(self) -> ChangeTarget:
        """The target that a model of the change learns from these traces unless told otherwise."""
        return "first-epoch" if self.meta.get("change_target") == "first-epoch" else "jump"

    @property
    def seeds(self) -> tuple[int, ...]:
        """All seeds, in order."""
        return tuple(sorted({segment.seed for segment in self.segments}))

    @property
    def switches(self) -> tuple[TraceSwitch, ...]:
        """All handovers, by (seed, run)."""
        return tuple(segment.switch for segment in self.segments if segment.switch is not None)

    def segment(self, seed: int, run: int) -> Segment:
        """One segment."""
        return self._by_run[seed, run]

    def path(self, segment: Segment) -> TracePath:
        """The training that ends with `segment`."""
        chain = [segment]
        while chain[-1].parent is not None:
            chain.append(self._by_run[chain[-1].seed, chain[-1].parent])
        return TracePath(tuple(reversed(chain)))

    def paths(self) -> Iterator[TracePath]:
        """One path for every segment: the training that is not switched any more after entering it."""
        return (self.path(segment) for segment in self.segments)

    @property
    def images(self) -> int:
        """Training images of all segments, beginnings shared."""
        return sum(segment.images for segment in self.segments)

    @property
    def naive_images(self) -> int:
        """Training images if every configuration were trained from its first epoch."""
        parents = {(segment.seed, segment.parent) for segment in self.segments}
        alone = (s for s in self.segments if s.parent is not None or (s.seed, s.run) not in parents)
        return sum(self.path(segment).images for segment in alone)
