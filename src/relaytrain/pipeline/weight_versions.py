"""The weight versions of one layer, behind one small interface, and the policies that keep them.

    greedy      the newest only; a backward uses whatever is there (inexact: the paper's GreedyUpdates)
    stash       every version that a minibatch in flight needs (PipeDream)
    on-demand   the oldest needed version, and the (input, error) pairs of the updates since (mcPipe)

On-demand is exact for any rule because the pairs do not depend on the weights: weights *and* optimizer state stay at
the oldest version, the newest is replayed from there and thrown away. Backwards come in the order of the forwards, so
they always use the oldest version, which is at hand; only forwards pay.

All of them update and replay in blocks of rows (see `factors`), in place where no minibatch needs the old version: the
temporaries are a few blocks, never a second copy of a large layer. Forwards take replayed weights block by block too.

Paper: mcPipe section IV-C. Deviations: any update rule; `fused` forms all pending gradients in one product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator
from types import EllipsisType

import torch
from torch import Tensor, nn

from ..core.errors import UsageError
from ..planners.pipeline.chain import Policy
from .factors import Factors, Rows, Tensors, blocks, gradients, weighted
from .update_rules import SGD, OptimizerState, Rule

Update = Factors | Tensors
"""What a backward leaves behind: factors, or the gradients by name where a layer has no rule."""
Watch = Callable[[int, Tensors, dict[str, OptimizerState]], None]
"""Told of every version that stored weights and optimizer state reach; the next update may write over both."""


class LayerWeights(ABC):
    """The versions of one layer's parameters. `version` counts the updates pushed."""

    def __init__(self, layer: nn.Module, weights: Tensors, rule: Rule) -> None:
        self.layer = layer
        self.rule = rule
        self.version = 0
        self.blocks = blocks(layer, weights)
        self.watch: Watch | None = None
        self._weights = weights
        self._states = {name: OptimizerState() for name in weights}

    @abstractmethod
    def newest(self) -> Tensors:
        """What the next forward uses; the live tensors where they are the newest, which later updates change."""

    @abstractmethod
    def at(self, version: int) -> Tensors:
        """What a forward used when `version` was the newest; only while it is needed."""

    @abstractmethod
    def push(self, update: Update, needed: Collection[int]) -> None:
        """One more update; `needed` are the versions of the minibatches still in flight."""

    def resume(self, version: int, states: dict[str, OptimizerState]) -> None:
        """Go on as after `version` updates, which left `states`; nothing may be in flight."""
        self.version = version
        self._states.update(states)

    def states(self) -> dict[str, OptimizerState]:
        """The optimizer's states that go with the stored weights."""
        return dict(self._states)

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

    def gradients(self, update: Update) -> Tensors:
        """Whole gradients, for synchronous schedules, which add them up."""
        return self._gradients(update, slice(None))

    def _gradients(self, update: Update, rows: Rows | EllipsisType) -> Tensors:
        if isinstance(update, Factors):
            assert isinstance(rows, slice)
            return gradients(self.layer, update, self._weights, rows)
        return {name: gradient[rows] for name, gradient in update.items()}

    def _tell(self, version: int) -> None:
        if self.watch is not None:
            self.watch(version, self._weights, self._states)

    def _advance(self, update: Update, into: Tensors) -> None:
        """The live weights after one more update, written `into` tensors of their shape, which may be themselves."""
        rooms: dict[str, tuple[Tensor, ...]] = {name: state.tensors for name, state in self._states.items()}
        changed: set[str] = set()
        for rows in self.blocks if isinstance(update, Factors) else (...,):
            changed |= self._advance_rows(update, into, rooms, rows)
        for name in into.keys() - changed if into is not self._weights else ():
            into[name].copy_(self._weights[name])
        steps = {name: state.steps + (name in changed) for name, state in self._states.items()}
        self._weights = into
        self._states = {name: OptimizerState(steps[name], rooms[name]) for name in into}

    def _advance_rows(
        self, update: Update, into: Tensors, rooms: dict[str, tuple[Tensor, ...]], rows: Rows | EllipsisType
    ) -> set[str]:
        formed = self._gradients(update, rows)
        names = set(formed)
        for name in sorted(names):
            weight = self._weights[name]
            if not rooms[name]:
                rooms[name] = tuple(torch.empty_like(weight) for _ in range(self.rule.state_tensors))
            parts = OptimizerState(self._states[name].steps, tuple(tensor[rows] for tensor in rooms[name]))
            self.rule.step(weight[rows], formed.pop(name), parts, into=into[name][rows])
        return names


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
        self._advance(update, self._weights)
        self.version += 1
        self._tell(self.version)


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
        """Stash the live weights if someone needs them, and update; the new ones go where nobody needs the old."""
        free = [self._kept.pop(version) for version in [v for v in self._kept if v not in needed]]
        if self.version in needed:
            self._kept[self.version] = self._weights
            self._advance(update, free.pop() if free else {n: torch.empty_like(w) for n, w in self._weights.items()})
        else:
            self._advance(update, self._weights)
        self.version += 1
        self._tell(self.version)

    def versions(self) -> Iterator[Tensor]:
        """The stash."""
        for kept in self._kept.values():
            yield from kept.values()


class OnDemand(LayerWeights):
    """The oldest needed weights and the pending updates as pairs."""

    def __init__(self, layer: nn.Module, weights: Tensors, rule: Rule, *, fused: bool = False) -> None:
        super().__init__(layer, weights, rule)
        if fused and not isinstance(rule, SGD):
            raise UsageError(
                f"policy fused: got the rule {type(rule).__name__}, expected SGD; use on-demand, which is exact"
            )
        self._pending: deque[Update] = deque()
        self._fused = fused

    @property
    def pending(self) -> int:
        """Updates between the stored weights and the newest."""
        return len(self._pending)

    @property
    def base(self) -> int:
        """The version of the stored weights."""
        return self.version - len(self._pending)

    def newest(self) -> Tensors:
        """The stored weights with all pending updates, made anew each time."""
        if not self._pending:
            return self._weights
        if len(self.blocks) == 1:
            return self.replay()(self.blocks[0])
        replayed = self.replay()
        whole = {name: torch.empty_like(weight) for name, weight in self._weights.items()}
        for rows in self.blocks:
            for name, weight in replayed(rows).items():
                whole[name][rows].copy_(weight)
        return whole

    def replay(self) -> Callable[[Rows], Tensors]:
        """The newest weights by rows."""
        return self._unrolled(self.rule) if self._fused and isinstance(self.rule, SGD) else self._replayed

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
            self._advance(self._pending.popleft(), self._weights)
            self._tell(self.base)

    def versions(self) -> Iterator[Tensor]:
        """The pairs."""
        for update in self._pending:
            yield from (update.inputs, update.errors) if isinstance(update, Factors) else update.values()

    def _replayed(self, rows: Rows) -> Tensors:
        weights = {name: weight[rows] for name, weight in self._weights.items()}
        states = {
            n: OptimizerState(s.steps, tuple(tensor[rows] for tensor in s.tensors)) for n, s in self._states.items()
        }
        own: set[str] = set()
        for update in self._pending:
            formed = self._gradients(update, rows)
            # the first update leaves the stored ones alone, those after it write over its result
            for name in sorted(formed):
                into = weights[name] if name in own else None
                weights[name], states[name] = self.rule.step(weights[name], formed.pop(name), states[name], into=into)
                own.add(name)
        return weights

    def _unrolled(self, rule: SGD) -> Callable[[Rows], Tensors]:
        pending = [update for update in self._pending if isinstance(update, Factors)]
        of_weight, of_buffer, of_gradients = rule.unrolled(len(pending))
        joined = weighted(list(zip(of_gradients, pending, strict=True)))

        def replayed(rows: Rows) -> Tensors:
            weights = self._gradients(joined, rows)
            for name, total in weights.items():
                total.add_(self._weights[name][rows], alpha=of_weight)
                if self._states[name].tensors:
                    total.add_(self._states[name].tensors[0][rows], alpha=of_buffer)
                weights[name] = total.contiguous()
            return weights

        return replayed


def versions_of(policy: Policy, layer: nn.Module, weights: Tensors, rule: Rule, *, factors: bool) -> LayerWeights:
    """The store of one layer; without a factor rule on-demand would save nothing, so such layers stash."""
    if policy is Policy.greedy:
        return Greedy(layer, weights, rule)
    if policy is Policy.stash or not factors:
        return Stash(layer, weights, rule)
    return OnDemand(layer, weights, rule, fused=policy is Policy.fused)
