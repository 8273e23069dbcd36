"""What is to be decided: versions, nodes, node sets, the admissible pairs of them, and the target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from .errors import ScenarioError
from .state import State

Mode = Literal["federated", "pipeline"]
Metric = str
"""What a target is read on: loss, error, perplexity, rmse, or the name of a sum of the user's own that falls."""
Clock = Literal["emulated", "measured"]


@dataclass(frozen=True)
class Chain:
    """A version as a chain of units, between which a pipeline may cut it; figures of one minibatch of `batch`, by unit.

    `weight_bytes` are of layers whose gradients follow from their inputs and errors (`factor_bytes` of both),
    `plain_bytes` of the others; `block_bytes` of the largest block of rows in which they are updated, `slice_bytes`
    what its gradient needs beyond that; `saved_bytes` what the unit keeps for its backward beside its input and output.
    """

    batch: int
    input_bytes: int
    weight_bytes: tuple[int, ...]
    plain_bytes: tuple[int, ...]
    buffer_bytes: tuple[int, ...]
    factor_bytes: tuple[int, ...]
    forward_flops: tuple[int, ...]
    saved_bytes: tuple[int, ...]
    output_bytes: tuple[int, ...]
    block_bytes: tuple[int, ...]
    slice_bytes: tuple[int, ...]
    end_bytes: int = 0


@dataclass(frozen=True)
class Version:
    """The network, full or compressed (paper: m).

    `flops_per_sample` counts one forward and one backward pass. Unknown figures are None. `chain`: how a pipeline may
    split it. `fixed_bytes`: of a frozen base, held once by each node, never trained or sent. `slices`: nested versions
    inside it, which a share `slice_share` of its batches trains; handovers between them go both ways and move nothing
    but bytes. `rank`: of an adapter; handovers between ranks go both ways.
    """

    name: str
    parameters: int | None = None
    flops_per_sample: float | None = None
    weight_bytes: int | None = None
    activation_bytes_per_sample: int | None = None
    chain: Chain | None = None
    slices: tuple[str, ...] = ()
    slice_share: float = 0.0
    fixed_bytes: int = 0
    rank: int = 0

    def trained(self, figure: Callable[[str], float]) -> float:
        """The mean over the batches of an epoch of what `figure` says of each version: its own, or that of a slice."""
        own = figure(self.name)
        if not self.slices:
            return own
        inner = sum(figure(name) for name in self.slices) / len(self.slices)
        return (1.0 - self.slice_share) * own + self.slice_share * inner

    def is_around(self, other: Version) -> bool:
        """Whether one of the two is a slice of the other."""
        return other.name in self.slices or self.name in other.slices


@dataclass(frozen=True)
class Node:
    """One device with its own data; `device` names a profile of `costs/devices.toml` or of the scenario."""

    name: str
    device: str | None = None
    samples: int | None = None
    classes: int | None = None


@dataclass(frozen=True)
class PipelineWay:
    """How a node set trains as a pipeline (mcPipe); stages in the order of its nodes.

    `in_flight`: minibatches under way (m), as many as nodes by default. `keep`: how weight versions are kept.
    `checkpoint`: activations may be computed twice to save memory. `share_data`: the private data of all its nodes
    are pooled; otherwise the first node's train.
    """

    in_flight: int | None = None
    keep: Literal["best-of", "stash", "on-demand"] = "best-of"
    checkpoint: bool = False
    share_data: bool = False


@dataclass(frozen=True)
class NodeSet:
    """Nodes that train together (paper: n, a cluster). Sets may overlap.

    `sample_share`: the share of the nodes that trains in an epoch, drawn anew for each.
    """

    name: str
    nodes: tuple[str, ...] = ()
    mode: Mode = "federated"
    pipeline: PipelineWay = PipelineWay()
    sample_share: float = 1.0

    @property
    def sampled(self) -> int:
        """How many of the nodes train in an epoch: at least the share, at least one."""
        return max(1, math.ceil(self.sample_share * len(self.nodes) - 1e-9)) if self.nodes else 0

    @property
    def owners(self) -> tuple[str, ...]:
        """The nodes whose data train."""
        return self.nodes if self.mode == "federated" or self.pipeline.share_data else self.nodes[:1]


@dataclass(frozen=True)
class DataSource:
    """A data set that may be staged to nodes (DepL: d)."""

    name: str
    samples: int | None = None


class Pair(NamedTuple):
    """A version and the node set that trains it: what an epoch is decided about (paper: a = (m', n'))."""

    version: str
    nodes: str

    def __str__(self) -> str:
        return f"{self.version} on {self.nodes}"


@dataclass(frozen=True)
class Target:
    """Reach `loss` within `deadline_s` with `probability` (paper: l_max, T_max; DepL: omega).

    `loss` is a figure of `metric`: with "error" it is 1 - accuracy. An infinite deadline means none.
    """

    loss: float
    deadline_s: float = math.inf
    probability: float = 0.95
    metric: Metric = "loss"
    on: Literal["validation", "train", "test"] = "validation"


@dataclass(frozen=True)
class Units:
    """How seconds and joules are written for people; scenarios of the papers use plain `units` and `cost`."""

    time: str = "s"
    energy: str = "J"


@dataclass(frozen=True)
class Problem:
    """Everything a planner must know apart from costs and the loss law.

    `start` is the index in `pairs` of the pair that holds the network before epoch 1; staying there is free. `clock`
    says what seconds are: on the measured one an epoch's seconds scatter, and the deadline is met with a probability.
    """

    name: str
    pairs: tuple[Pair, ...]
    start: int
    initial_loss: float
    target: Target
    versions: tuple[Version, ...] = ()
    nodes: tuple[Node, ...] = ()
    node_sets: tuple[NodeSet, ...] = ()
    data: tuple[DataSource, ...] = ()
    max_epochs: int | None = None
    units: Units = field(default_factory=Units)
    clock: Clock = "emulated"

    def __post_init__(self) -> None:
        if not self.pairs:
            raise ScenarioError(f"{self.name}: no pair of version and node set is admissible; declare at least one")
        if len(set(self.pairs)) != len(self.pairs):
            raise ScenarioError(f"{self.name}: a pair of version and node set is listed twice")
        if not 0 <= self.start < len(self.pairs):
            raise ScenarioError(f"{self.name}: start is {self.start}, expected an index below {len(self.pairs)}")

    @property
    def first_state(self) -> State:
        """Where a run begins."""
        return State(0, self.initial_loss, 0.0, self.start)

    def index(self, pair: Pair) -> int:
        """The position of `pair` in `pairs`."""
        try:
            return self.pairs.index(pair)
        except ValueError:
            known = ", ".join(map(str, self.pairs))
            raise ScenarioError(f"{self.name}: no pair '{pair}'; the admissible pairs are: {known}") from None

    def mode_of(self, nodes: str) -> Mode:
        """How a node set trains."""
        return next((s.mode for s in self.node_sets if s.name == nodes), "federated")
