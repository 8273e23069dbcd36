"""The weight versions of one layer, behind one small interface, and the policies that keep them.

    greedy      the newest only; a backward uses whatever is there (inexact: the paper's GreedyUpdates)
    stash       every version that a minibatch in flight needs (PipeDream)
    on-demand   the oldest needed version, and the (input, error) pairs of the updates since (mcPipe)

On-demand is exact for any rule because the pairs do not depend on the weights: weights *and* optimizer state stay at
the oldest version, the newest is replayed from there and thrown away. Backwards come in the order of the forwards, so
they always use the oldest version, which is at hand; only forwards pay.

Paper: mcPipe section IV-C. Deviations: any update rule; `fused` forms all pending gradients in one product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterator
from enum import StrEnum

from torch import Tensor, nn

from ..core.errors import UsageError
from .factors import Factors, Tensors, gradients, weighted
from .updates import SGD, Rule, State


class Policy(StrEnum):
    """How one layer keeps its versions."""

    greedy = "greedy"
    stash = "stash"
    on_demand = "on-demand"
    fused = "fused"


Update = Factors | Tensors
"""What a backward leaves behind: factors, or the gradients by name where a layer has no rule."""


class LayerWeights(ABC):
    """The versions of one layer's parameters. `version` counts the updates pushed."""

    def __init__(self, layer: nn.Module, weights: Tensors, rule: Rule) -> None:
        self.layer = layer
        self.rule = rule
        self.version = 0
        self.transient_bytes = 0
        self._weights = weights
        self._states = {name: State() for name in weights}

    @abstractmethod
    def newest(self) -> Tensors:
        """What the next forward uses."""

    @abstractmethod
    def at(self, version: int) -> Tensors:
        """What a forward used when `version` was the newest; only while it is needed."""

    @abstractmethod
    def push(self, update: Update, needed: Collection[int]) -> None:
        """One more update; `needed` are the versions of the minibatches still in flight."""

    def live(self) -> Iterator[Tensor]:
        """One set of weights."""
        yield from self._weights.values()

    def versions(self) -> Iterator[Tensor]:
        """All that is kept beyond it for the sake of older or newer versions."""
        yield from ()

    def optimizer(self) -> Iterator[Tensor]:
        """The optimizer's tensors."""
        for state in self._states.values():
            yield from state.tensors

    def _gradients(self, update: Update) -> Tensors:
        if isinstance(update, Factors):
            return gradients(self.layer, update, self._weights)
        return update

    def _step(self, weights: Tensors, states: dict[str, State], update: Update) -> tuple[Tensors, dict[str, State]]:
        new_weights, new_states = dict(weights), dict(states)
        for name, gradient in self._gradients(update).items():
            new_weights[name], new_states[name] = self.rule.step(weights[name], gradient, states[name])
        return new_weights, new_states


class Greedy(LayerWeights):
    """The newest weights only."""

    def newest(self) -> Tensors:
        """The only ones."""
        return self._weights

    def at(self, version: int) -> Tensors:
        """The newest, whatever was asked for: the backward is inconsistent with its forward."""
        return self._weights

    def push(self, update: Update, needed: Collection[int]) -> None:
        """Update at once; what was there is gone."""
        self._weights, self._states = self._step(self._weights, self._states, update)
        self.version += 1


class Stash(LayerWeights):
    """Whole weights of every needed version."""

    def __init__(self, layer: nn.Module, weights: Tensors, rule: Rule) -> None:
        super().__init__(layer, weights, rule)
        self._kept: dict[int, Tensors] = {}

    def newest(self) -> Tensors:
        """The live weights."""
        return self._weights

    def at(self, version: int) -> Tensors:
        """Live or stashed."""
        return self._weights if version == self.version else self._kept[version]

    def push(self, update: Update, needed: Collection[int]) -> None:
        """Stash the live weights if someone needs them, and update."""
        if self.version in needed:
            self._kept[self.version] = self._weights
        self._weights, self._states = self._step(self._weights, self._states, update)
        self.version += 1
        self._kept = {version: kept for version, kept in self._kept.items() if version in needed}

    def versions(self) -> Iterator[Tensor]:
        """The stash."""
        for kept in self._kept.values():
            yield from kept.values()


class OnDemand(LayerWeights):
    """The oldest needed weights and the pending updates as pairs."""

    def __init__(self, layer: nn.Module, weights: Tensors, rule: Rule, *, fused: bool = False) -> None:
        super().__init__(layer, weights, rule)
        if fused and not isinstance(rule, SGD):
            raise UsageError(f"policy fused: got the rule {type(rule).__name__}, expected SGD; use on-demand, which is exact")
        self._pending: deque[Update] = deque()
        self._fused = fused

    @property
    def base(self) -> int:
        """The version of the stored weights."""
        return self.version - len(self._pending)

    def newest(self) -> Tensors:
        """The stored weights with all pending updates, made anew each time."""
        if not self._pending:
            return self._weights
        if self._fused and isinstance(self.rule, SGD):
            return self._unrolled(self.rule)
        weights, states = self._weights, self._states
        for update in self._pending:
            weights, states = self._step(weights, states, update)
        self.transient_bytes = sum(w.nbytes for w in weights.values())
        return weights

    def at(self, version: int) -> Tensors:
        """The stored weights; backwards never ask for others."""
        if version != self.base:
            raise RuntimeError(f"on-demand weights: got version {version}, expected the oldest, {self.base}")
        return self._weights

    def push(self, update: Update, needed: Collection[int]) -> None:
        """Keep the update for later, and move the stored weights up to the oldest needed version."""
        self._pending.append(update)
        self.version += 1
        oldest = min(needed, default=self.version)
        while self.base < oldest:
            self._weights, self._states = self._step(self._weights, self._states, self._pending.popleft())

    def versions(self) -> Iterator[Tensor]:
        """The pairs."""
        for update in self._pending:
            yield from (update.inputs, update.errors) if isinstance(update, Factors) else update.values()

    def _unrolled(self, rule: SGD) -> Tensors:
        pending = [update for update in self._pending if isinstance(update, Factors)]
        of_weight, of_buffer, of_gradients = rule.unrolled(len(pending))
        summed = self._gradients(weighted(list(zip(of_gradients, pending, strict=True))))
        made: Tensors = {}
        for name, weight in self._weights.items():
            made[name] = summed[name].add(weight, alpha=of_weight)
            if self._states[name].tensors:
                made[name].add_(self._states[name].tensors[0], alpha=of_buffer)
            made[name] = made[name].contiguous()
        self.transient_bytes = sum(w.nbytes for w in made.values())
        return made


def versions_of(policy: Policy, layer: nn.Module, weights: Tensors, rule: Rule, *, factors: bool) -> LayerWeights:
    """The store of one layer; without a factor rule on-demand would save nothing, so such layers stash."""
    if policy is Policy.greedy:
        return Greedy(layer, weights, rule)
    if policy is Policy.stash or not factors:
        return Stash(layer, weights, rule)
    return OnDemand(layer, weights, rule, fused=policy is Policy.fused)
