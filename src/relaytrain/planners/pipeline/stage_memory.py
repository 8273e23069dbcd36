"""The bytes of a stage in closed form, equal to what a run of the simulator holds.

With in_flight, versions and pending as the schedule's counts at a stage (see `version_lifetimes`), and for layer l W_l
bytes of weights and f_l = bytes of its input and error for one minibatch:

    weights    sum W_l + buffers            versions   sum (versions - 1) W_l   where stashed
    optimizer  state tensors * sum W_l                 sum pending f_l          where on demand
    in flight  in_flight * saved bytes      transient  what an action needs beyond that while it runs, below

Layers are updated and replayed in blocks of rows, b_l bytes the largest, c_l what its gradient needs beyond that: its
share of the output, or the input as columns. An update writes weights and state in place and holds a block's gradient
alone; a replay, with s state tensors, holds weights and state of a block of its own, and beside them the gradient of
each update after the first; gradients of layers without a factor rule come all at once:

    update     sum W_l (no factor rule) + max of b_l + c_l
    replay     max over layers on demand of max((1 + s) b_l, b_l + c_l), (2 + s) b_l + c_l when pending > 1
    fused      pending (f_l + c_l) + 2 b_l

With activation checkpointing a minibatch in flight keeps the stage's input only, and the saved bytes of the one that
is computed again are transient.

Paper: Theorem 1 bounds weights and versions by Omega/N + 2 (m - 1) sqrt(Omega/N). Deviation: that holds for one square
dense layer a stage and one sample at a time; in general f_l / sqrt(W_l) has no bound (a minibatch multiplies it, and
fan-in + fan-out >= 2 sqrt(W_l) always), so the bound that holds everywhere is another, W + pending * sum f_l.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .chain import Layer, Policy, Unit, layers_of
from .version_lifetimes import Alive


@dataclass(frozen=True)
class StageBytes:
    """The bytes of a stage part by part: by the closed form, or as a run holds them between two actions."""

    weights: int
    versions: int
    optimizer: int
    in_flight: int
    transient: int = 0

    @property
    def stored(self) -> int:
        """Weights with their versions."""
        return self.weights + self.versions

    @property
    def total(self) -> int:
        """What the device must have room for."""
        return self.stored + self.optimizer + self.in_flight + self.transient


def stage_bytes(
    units: Sequence[Unit],
    choice: Mapping[str, Policy],
    alive: Alive,
    *,
    state_tensors: int,
    last: bool,
    checkpoint: bool = False,
) -> StageBytes:
    """The bytes of a stage made of `units`; `choice` is a policy for each layer by name."""
    layers = layers_of(units)
    weights = sum(layer.weight_bytes for layer in layers)
    saved = saved_bytes(units, last=last)
    replays = [replay_bytes(layer, choice[layer.name], alive, state_tensors) for layer in layers]
    again = saved if checkpoint else 0
    return StageBytes(
        weights=weights + sum(unit.buffer_bytes for unit in units),
        versions=sum(version_bytes(layer, choice[layer.name], alive) for layer in layers),
        optimizer=state_tensors * weights,
        in_flight=alive.in_flight * (units[0].entry_bytes if checkpoint else saved),
        transient=max([again, update_bytes(layers), *replays]),
    )


def saved_bytes(units: Sequence[Unit], *, last: bool) -> int:
    """What one minibatch in flight keeps at a stage; a tensor that two units save counts once."""
    ends = units[-1].end if last else frozenset([units[-1].output])
    largest: dict[int, int] = {}
    for number, size in [pair for unit in units for pair in unit.saved] + list(ends):
        largest[number] = max(size, largest.get(number, 0))
    return sum(largest.values())


def update_bytes(layers: Sequence[Layer]) -> int:
    """Bytes that an update of the stage needs while it runs."""
    rows = [layer.block_bytes + layer.slice_bytes for layer in layers if layer.factor_bytes is not None]
    return sum(layer.weight_bytes for layer in layers if layer.factor_bytes is None) + max(rows, default=0)


def replay_bytes(layer: Layer, policy: Policy, alive: Alive, state_tensors: int) -> int:
    """Bytes that a forward of the layer needs for its newest weights."""
    if not on_demand(layer, policy) or not alive.pending:
        return 0
    if policy is Policy.fused:
        return alive.pending * ((layer.factor_bytes or 0) + layer.slice_bytes) + 2 * layer.block_bytes
    own, gradient = (1 + state_tensors) * layer.block_bytes, layer.block_bytes + layer.slice_bytes
    return own + gradient if alive.pending > 1 else max(own, gradient)


def on_demand(layer: Layer, policy: Policy) -> bool:
    """Whether the layer really stores pairs."""
    return policy in {Policy.on_demand, Policy.fused} and layer.factor_bytes is not None


def version_bytes(layer: Layer, policy: Policy, alive: Alive) -> int:
    """What one layer keeps beyond its weights."""
    if policy is Policy.greedy:
        return 0
    if on_demand(layer, policy):
        return alive.pending * (layer.factor_bytes or 0)
    return (alive.versions - 1) * layer.weight_bytes


def replay_flops(layer: Layer, policy: Policy, alive: Alive) -> int:
    """FLOPs a minibatch that on-demand adds: every forward forms all pending gradients anew."""
    return alive.pending * layer.gradient_flops if on_demand(layer, policy) else 0


def all_by(policy: Policy, layers: Iterable[Layer]) -> dict[str, Policy]:
    """The same policy for every layer."""
    return {layer.name: policy for layer in layers}
