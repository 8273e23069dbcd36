"""What best-of can save of the bytes that versions take, and the cheapest way to save a share of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...planners.pipeline.chain import Layer, Policy, Unit, layers_of
from ...planners.pipeline.policy_choice import Keeping, PolicyChoice, choose
from ...planners.pipeline.stage_memory import all_by, stage_bytes, version_bytes
from ...planners.pipeline.version_lifetimes import Alive


def smallest(layers: Iterable[Layer], alive: Alive, demand: Policy = Policy.on_demand) -> dict[str, Policy]:
    """Best-of without a budget: for each layer whichever stores less; at a tie the stash, which costs nothing."""
    policies = {}
    for layer in layers:
        saves = version_bytes(layer, demand, alive) < version_bytes(layer, Policy.stash, alive)
        policies[layer.name] = demand if saves else Policy.stash
    return policies


def saving(units: Sequence[Unit], alive: Alive, share: float, *, state_tensors: int, last: bool) -> PolicyChoice:
    """The choice with the fewest added FLOPs that saves `share` (0 to 1) of the version bytes that best-of can save.

    Room for replays is not held against it; where nothing can be saved, everything is stashed.
    """
    layers = layers_of(units)
    most, least = (
        stage_bytes(units, policies, alive, state_tensors=state_tensors, last=last)
        for policies in (all_by(Policy.stash, layers), smallest(layers, alive))
    )
    cap = most.total - share * (most.versions - least.versions) + max(0, least.transient - most.transient)
    choice = choose(units, alive, cap, Keeping.best_of, state_tensors=state_tensors, last=last)
    assert choice is not None, "the smallest choice fits its own bytes"
    return choice
