"""What planning knows of a network in a pipeline, as plain values: its layers and units, and the policies.

`pipeline.unit_counter` counts them on a module; a scenario may write them out (`of_chain`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ...core.problem import Chain


class Policy(StrEnum):
    """How one layer keeps its versions."""

    greedy = "greedy"
    stash = "stash"
    on_demand = "on-demand"
    fused = "fused"


Saved = frozenset[tuple[int, int]]
"""Storages as (number, bytes): what several units save counts once."""


@dataclass(frozen=True)
class Layer:
    """One layer of a unit. `factor_bytes` is of one minibatch, None without a factor rule.

    `block_bytes` is of the largest block of rows in which it is updated, `slice_bytes` what its gradient needs beyond
    that.
    """

    name: str
    weight_bytes: int
    factor_bytes: int | None
    gradient_flops: int
    block_bytes: int = 0
    slice_bytes: int = 0


@dataclass(frozen=True)
class Unit:
    """One unit for a given minibatch: FLOPs of forward and backward, bytes kept between, sent on and taken in."""

    name: str
    layers: tuple[Layer, ...]
    buffer_bytes: int
    forward_flops: int
    backward_flops: int
    saved: Saved
    output: tuple[int, int]
    end: Saved
    entry_bytes: int = 0

    @property
    def weight_bytes(self) -> int:
        """Bytes of all parameters."""
        return sum(layer.weight_bytes for layer in self.layers)

    @property
    def train_flops(self) -> int:
        """FLOPs of one minibatch: forward, error and gradient."""
        return self.forward_flops + self.backward_flops


def layers_of(units: Iterable[Unit]) -> list[Layer]:
    """All layers of some units, in order."""
    return [layer for unit in units for layer in unit.layers]


def unit_of(name: str) -> int:
    """The unit that a name in a chain, such as `3.0.weight`, belongs to."""
    return int(name.partition(".")[0])


def renumbered(name: str, by: int) -> str:
    """A name in a chain where units are counted from elsewhere: in a stage's own module from its first unit."""
    unit, dot, rest = name.partition(".")
    return f"{int(unit) + by}{dot}{rest}"


def of_chain(chain: Chain) -> tuple[Unit, ...]:
    """The units of a chain whose figures are written out: one layer with a factor rule a unit, and what has none."""
    units = []
    before, before_bytes = (-1, chain.input_bytes), chain.input_bytes
    for i, weights in enumerate(chain.weight_bytes):
        layers = [
            Layer(
                f"{i}.0",
                weights,
                chain.factor_bytes[i],
                chain.forward_flops[i],
                chain.block_bytes[i],
                chain.slice_bytes[i],
            )
        ]
        if chain.plain_bytes[i]:
            layers.append(Layer(f"{i}.1", chain.plain_bytes[i], None, 0, chain.plain_bytes[i]))
        output = (2 * i + 1, chain.output_bytes[i])
        saved = frozenset({before, (2 * i, chain.saved_bytes[i])})
        last = i == len(chain.weight_bytes) - 1
        end: Saved = frozenset({(2 * i + 2, chain.end_bytes)}) if last else frozenset()
        forward = chain.forward_flops[i]
        backward = 2 * forward if i else forward
        units.append(
            Unit(f"{i}", tuple(layers), chain.buffer_bytes[i], forward, backward, saved, output, end, before_bytes)
        )
        before, before_bytes = output, output[1]
    return tuple(units)


def chain_of(units: Sequence[Unit], batch: int) -> Chain:
    """Counted units as figures that a scenario can write out; layers of a unit with a factor rule are added up."""

    def ruled(unit: Unit) -> list[Layer]:
        return [layer for layer in unit.layers if layer.factor_bytes is not None]

    saved = []
    before = -1
    for unit in units:
        saved.append(sum(size for number, size in unit.saved if number not in (before, unit.output[0])))
        before = unit.output[0]
    entry = units[0].entry_bytes
    first = {number for number, size in units[0].saved if size == entry}
    if first:  # the data themselves, which `of_chain` counts as the first unit's input
        saved[0] -= entry
    return Chain(
        batch=batch,
        input_bytes=entry,
        weight_bytes=tuple(sum(x.weight_bytes for x in ruled(u)) for u in units),
        plain_bytes=tuple(u.weight_bytes - sum(x.weight_bytes for x in ruled(u)) for u in units),
        buffer_bytes=tuple(u.buffer_bytes for u in units),
        factor_bytes=tuple(sum(x.factor_bytes or 0 for x in ruled(u)) for u in units),
        forward_flops=tuple(u.forward_flops for u in units),
        saved_bytes=tuple(saved),
        output_bytes=tuple(u.output[1] for u in units),
        block_bytes=tuple(max((x.block_bytes for x in ruled(u)), default=0) for u in units),
        slice_bytes=tuple(max((x.slice_bytes for x in ruled(u)), default=0) for u in units),
        end_bytes=sum(size for _, size in units[-1].end),
    )
