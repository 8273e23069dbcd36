"""Best-of under a memory cap: the cheapest choice of stash or on-demand for every layer of a stage that still fits.

A layer on demand saves bytes and costs multiplications. Which layers to take is a knapsack; it is solved exactly,
keeping the undominated pairs (bytes saved, FLOPs added) layer by layer. The one block that is replayed at a time needs
room too, so each possible size of the largest is tried in turn. Activation checkpointing, where allowed, saves the
activations of all minibatches in flight but one, for one more forward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from .chain import Layer, Policy, Unit, layers_of, renumbered
from .stage_memory import StageBytes, all_by, replay_bytes, replay_flops, stage_bytes, version_bytes
from .version_lifetimes import Alive


class Keeping(StrEnum):
    """Which policies the layers of a stage may choose from."""

    stash = "stash"
    on_demand = "on-demand"
    best_of = "best-of"


@dataclass(frozen=True)
class PolicyChoice:
    """A policy for each layer, the bytes of the stage and the FLOPs a minibatch that replays add."""

    policies: Mapping[str, Policy]
    size: StageBytes
    extra_flops: int
    checkpoint: bool = False


def choose(
    units: Sequence[Unit],
    alive: Alive,
    cap_bytes: float,
    keeping: Keeping,
    *,
    state_tensors: int,
    last: bool,
    checkpoint: bool = False,
) -> PolicyChoice | None:
    """The choice with the fewest added FLOPs that fits `cap_bytes`, or None when nothing fits.

    `checkpoint` allows to compute activations again; it is used only where the choice without does not fit or costs
    more.
    """
    once = _choose(units, alive, cap_bytes, keeping, state_tensors, last, checkpoint=False)
    if not checkpoint or (once is not None and once.extra_flops == 0):
        return once
    again = _choose(units, alive, cap_bytes, keeping, state_tensors, last, checkpoint=True)
    options = [option for option in (once, again) if option is not None]
    return min(options, key=lambda option: option.extra_flops, default=None)


def _choose(
    units: Sequence[Unit],
    alive: Alive,
    cap_bytes: float,
    keeping: Keeping,
    state_tensors: int,
    last: bool,
    *,
    checkpoint: bool,
) -> PolicyChoice | None:
    layers = layers_of(units)
    forward = sum(unit.forward_flops for unit in units) if checkpoint else 0

    def choice_of(policies: Mapping[str, Policy]) -> PolicyChoice:
        size = stage_bytes(units, policies, alive, state_tensors=state_tensors, last=last, checkpoint=checkpoint)
        return PolicyChoice(
            policies, size, forward + sum(replay_flops(x, policies[x.name], alive) for x in layers), checkpoint
        )

    if keeping is Keeping.on_demand:
        fixed = choice_of(all_by(Policy.on_demand, layers))
        return fixed if fixed.size.total <= cap_bytes else None
    stash = choice_of(all_by(Policy.stash, layers))
    if stash.size.total <= cap_bytes:
        return stash
    if keeping is Keeping.stash:
        return None
    able = [(x, _saved(x, alive), replay_flops(x, Policy.on_demand, alive)) for x in layers if _saved(x, alive) > 0]
    best: tuple[int, frozenset[str]] | None = None
    always = stash.size.transient
    needs = {x.name: max(always, replay_bytes(x, Policy.on_demand, alive, state_tensors)) for x, _, _ in able}
    for transient in sorted(set(needs.values())):
        wanted = stash.size.total - always + transient - cap_bytes
        small = [(x.name, saved, flops) for x, saved, flops in able if needs[x.name] <= transient]
        cheapest = _cheapest(small, wanted)
        if cheapest is not None and (best is None or cheapest[0] < best[0]):
            best = cheapest
    if best is None:
        return None
    return choice_of({x.name: Policy.on_demand if x.name in best[1] else Policy.stash for x in layers})


def within_stage(policies: Mapping[str, Policy], first: int) -> dict[str, Policy]:
    """`policies` under the names that layers have in the stage's own module, which begins at unit `first`."""
    return {renumbered(name, -first): policy for name, policy in policies.items()}


def _saved(layer: Layer, alive: Alive) -> int:
    return version_bytes(layer, Policy.stash, alive) - version_bytes(layer, Policy.on_demand, alive)


def _cheapest(items: Sequence[tuple[str, int, int]], wanted: float) -> tuple[int, frozenset[str]] | None:
    """The least cost of items (name, saved, cost) that together save `wanted`; exact."""
    if sum(saved for _, saved, _ in items) < wanted:
        return None
    front: list[tuple[int, int, frozenset[str]]] = [(0, 0, frozenset())]  # by cost; saved rises with it
    for name, saved, cost in items:
        both = sorted(
            [*front, *((c + cost, s + saved, names | {name}) for c, s, names in front)], key=lambda x: (x[0], -x[1])
        )
        front = []
        for entry in both:
            if not front or entry[1] > front[-1][1]:
                front.append(entry)
            if entry[1] >= wanted:
                break  # dearer ones save more than is asked for
    return next((cost, names) for cost, saved, names in front if saved >= wanted)
