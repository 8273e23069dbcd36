"""A part of a network on one device: forward, backward and update of minibatches, each with its own weight version.

Any `nn.Module` will do. Every module that owns parameters is wrapped by a `Versioned`, which

    forward    runs the module with the newest weights, through `functional_call` where need be, and notes the version
    backward   catches the error at the module's output; with the input that is all its gradient needs

Weights that autograd would save for its backward are replaced by a note (layer, name, version) and looked up when
needed: or else the graph of every minibatch in flight would keep a version of its own alive. 64-bit positions that it
saves (those of max-pools) are kept in 32 bits.

With `checkpoint` a minibatch in flight keeps the stage's input only; its backward first runs the forward once more,
with the same weight version and the same random numbers, which gives the same activations to the last bit.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..core.errors import UsageError
from ..planners.pipeline.chain import Policy
from ..planners.pipeline.stage_memory import StageBytes
from .factors import Factors, Tensors, has_rule, input_errors, outputs
from .update_rules import OptimizerState, Rule
from .weight_versions import LayerWeights, OnDemand, Update, versions_of


@dataclass
class _Call:
    """One layer's part in one minibatch."""

    inputs: Tensor
    inputs_version: int
    leaves: Tensors
    errors: Tensor | None = None


@dataclass
class _Flight:
    """A minibatch between its forward and its backward. `again`: what a checkpointed one is computed from once more."""

    version: int
    entry: Tensor | None = None
    again: tuple[Tensor, Tensor | None, Tensor] | None = None
    recomputed: bool = False
    output: Tensor | None = None
    calls: dict[str, _Call] = field(default_factory=dict)
    saved: list[Tensor] = field(default_factory=list)
    weights: dict[int, tuple[str, str]] = field(default_factory=dict)


class _Start(torch.autograd.Function):
    """Begins a graph at a tensor that needs none: the first layer's weights are no part of autograd's business."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, anchor: Tensor) -> Tensor:
        ctx.mark_dirty(output)
        return output

    @staticmethod
    def backward(ctx: Any, *errors: Any) -> tuple[None, None]:
        return None, None


class _Seed(torch.autograd.Function):
    """Ends a graph in a number whose backward begins with given errors.

    `torch.autograd.backward` takes errors too, but imports sympy to look at their shapes: 30 MB in every worker.
    """

    @staticmethod
    def forward(ctx: Any, output: Tensor, errors: Tensor) -> Tensor:
        ctx.errors = errors
        return output.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *errors: Any) -> tuple[Tensor, None]:
        return ctx.errors, None


class _Rows(torch.autograd.Function):
    """A layer whose newest weights are replayed block by block: each block's output, then the block is gone."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, anchor: Tensor, layer: nn.Module, store: OnDemand) -> Tensor:
        ctx.layer, ctx.store, ctx.version, ctx.inputs = layer, store, store.version, inputs.detach()
        axis = -1 if isinstance(layer, nn.Linear) else -3
        replayed, whole = store.replay(), None
        for rows in store.blocks:
            part = outputs(layer, inputs, replayed(rows))
            if whole is None:
                shape = list(part.shape)
                shape[axis] = store.blocks[-1].stop
                whole = part.new_empty(shape)
            whole.narrow(axis, rows.start, rows.stop - rows.start).copy_(part)
            del part
        assert whole is not None
        return whole

    @staticmethod
    def backward(ctx: Any, *errors: Any) -> tuple[Tensor | None, None, None, None]:
        if not ctx.needs_input_grad[0]:
            return None, None, None, None
        back = input_errors(ctx.layer, Factors(ctx.inputs, errors[0].contiguous()), ctx.store.at(ctx.version))
        return back, None, None, None


class Versioned(nn.Module):
    """Stands in a module's place and feeds it the version of the minibatch under way."""

    def __init__(self, name: str, layer: nn.Module, store: LayerWeights, stage: Stage) -> None:
        super().__init__()
        self.name, self.store, self.factors = name, store, has_rule(layer)
        self._layer = (layer,)  # in a tuple: its parameters are the store's, not this module's
        self._stage = (stage,)

    def forward(self, *inputs: Tensor) -> Any:
        """The layer's output with its newest weights; with those of the minibatch when it is computed once more."""
        flight, store = self._stage[0].current, self.store
        if self.name in flight.calls:
            raise UsageError(
                f"layer {self.name}: used twice in one forward, expected once; give each use its own layer"
            )
        if isinstance(store, OnDemand) and store.pending and not flight.recomputed and len(store.blocks) > 1:
            call = flight.calls[self.name] = _Call(inputs[0].detach(), inputs[0]._version, {})
            output = _Rows.apply(inputs[0], self._stage[0].anchor, self._layer[0], store)  # type: ignore[no-untyped-call]
        else:
            weights = store.at(flight.version) if flight.recomputed else store.newest()
            leaves = {} if self.factors else {name: w.detach().requires_grad_() for name, w in weights.items()}
            call = flight.calls[self.name] = _Call(inputs[0].detach(), inputs[0]._version, leaves)
            flight.weights.update({w.untyped_storage()._cdata: (self.name, name) for name, w in weights.items()})
            layer = self._layer[0]
            output = outputs(layer, inputs[0], weights) if self.factors else functional_call(layer, leaves, inputs)
            for weight in weights.values():
                flight.weights.pop(weight.untyped_storage()._cdata)
        if not self.factors or not torch.is_grad_enabled():
            return output
        if not output.requires_grad:
            output = _Start.apply(output, self._stage[0].anchor)  # type: ignore[no-untyped-call]

        def catch(errors: Tensor) -> None:
            call.errors = errors.detach().contiguous()

        output.register_hook(catch)
        return output


Policies = Policy | Mapping[str, Policy]
"""One policy for all layers, or one for each by name (best-of)."""
Loss = Callable[[Tensor, Tensor], Tensor]


class Stage:
    """One stage. `loss` belongs to the last one; `policies` says how each layer keeps its versions.

    `flush` is the number of minibatches of a synchronous step; `checkpoint` recomputes activations in the backward.
    With `owned` the module itself is taken apart instead of a copy of it.
    """

    def __init__(
        self,
        module: nn.Module,
        rule: Rule,
        policies: Policies = Policy.stash,
        *,
        loss: Loss | None = None,
        flush: int | None = None,
        checkpoint: bool = False,
        owned: bool = False,
    ) -> None:
        self.module = module if owned else copy.deepcopy(module)
        self.layers: dict[str, LayerWeights] = {}
        self.anchor = torch.zeros((), requires_grad=True)
        self.current = _Flight(0)
        self._loss, self._flush, self._version = loss, flush, 0
        self._flights: dict[int, _Flight] = {}
        self._sums: dict[str, Tensors] = {}
        self._made: dict[str, Update] = {}  # by a backward, not yet pushed
        self._checkpoint = checkpoint
        self._wrap(rule, policies)

    def _wrap(self, rule: Rule, policies: Policies) -> None:
        for name, layer in self._owners():
            if any(True for _ in layer.children()):
                raise UsageError(
                    f"layer {name or 'module'}: has parameters and layers of its own, expected one or the other"
                )
            weights = {n: p.detach() for n, p in layer.named_parameters(recurse=False)}
            policy = policies if isinstance(policies, Policy) else policies.get(name, Policy.stash)
            self.layers[name] = versions_of(policy, layer, weights, rule, factors=has_rule(layer))
            wrapped = Versioned(name, layer, self.layers[name], self)
            for key in weights:
                layer._parameters[key] = None  # the store is the only owner from here on
            if not name:
                self.module = wrapped
            else:
                parent, _, last = name.rpartition(".")
                setattr(self.module.get_submodule(parent), last, wrapped)

    def _owners(self) -> list[tuple[str, nn.Module]]:
        """Every module with parameters of its own, by name; refuses those that share one."""
        seen: dict[int, str] = {}
        owners = []
        for name, layer in self.module.named_modules(remove_duplicate=False):
            own = list(layer.parameters(recurse=False))
            for parameter in own:
                if id(parameter) in seen:
                    raise UsageError(
                        f"layer {name}: shares a parameter with {seen[id(parameter)]}, expected none shared"
                    )
                seen[id(parameter)] = name
            if own:
                owners.append((name, layer))
        return owners

    def forward(self, index: int, inputs: Tensor, target: Tensor | None = None) -> Tensor:
        """Minibatch `index` with the newest weights: activations for the next stage, at the last one the loss."""
        flight = _Flight(self._version)
        entry = inputs.detach()
        if entry.is_floating_point() and inputs.requires_grad:
            flight.entry = entry.requires_grad_()
        if self._checkpoint:
            flight.again = (entry, target, torch.get_rng_state())
            with torch.no_grad():
                output = self._run(flight, entry, target)
            flight.calls.clear()
        else:
            output = flight.output = self._run(flight, entry, target)
        self._flights[index] = flight
        sent: Tensor = output.detach().requires_grad_()
        return sent

    def _run(self, flight: _Flight, entry: Tensor, target: Tensor | None) -> Tensor:
        self.current = flight
        with torch.autograd.graph.saved_tensors_hooks(self._pack(flight), self._unpack(flight)):
            output: Tensor = self.module(entry)
            if self._loss is not None:
                if target is None:
                    raise UsageError("target: got none, expected the labels: this is the last stage")
                output = self._loss(output, target) / (self._flush or 1)
        self.current = _Flight(self._version)  # or the last minibatch would outlive its backward
        return output

    def _run_again(self, flight: _Flight) -> None:
        """The forward of a checkpointed minibatch; running statistics have seen it already."""
        assert flight.again is not None
        entry, target, dice = flight.again
        flight.recomputed, flight.again = True, None
        kept = {name: buffer.clone() for name, buffer in self.buffers().items()}
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(dice)
            flight.output = self._run(flight, entry, target)
        for name, buffer in self.buffers().items():
            buffer.copy_(kept[name])

    def backward(self, index: int, errors: Tensor | None = None) -> Tensor | None:
        """The backward of minibatch `index` and, asynchronously, its update; the error for the stage before."""
        back = self.errors(index, errors)
        self.push()
        return back

    def errors(self, index: int, errors: Tensor | None = None) -> Tensor | None:
        """The first half of a backward: the error for the stage before, which need not wait for the update."""
        flight = self._flights.pop(index)
        if flight.again is not None:
            self._run_again(flight)
        assert flight.output is not None
        flight.saved.clear()  # from here autograd frees what it has used
        end = flight.output if errors is None else _Seed.apply(flight.output, errors)  # type: ignore[no-untyped-call]
        torch.autograd.backward(end)
        flight.output = end = None
        self._made = {name: self._update(name, call) for name, call in flight.calls.items()}
        flight.calls.clear()
        return None if flight.entry is None else flight.entry.grad

    def push(self) -> None:
        """The second half: what the minibatch changes."""
        updates, self._made = self._made, {}
        if self._flush is None:
            self._push(updates)
        else:
            self._add(updates)

    def flight(self, index: int) -> _Flight:
        """A minibatch under way, for those who count."""
        return self._flights[index]

    def update(self) -> None:
        """The update of a synchronous schedule: the sum over the step's minibatches."""
        self._push(dict(self._sums))
        self._sums = {}

    def resume(self, version: int, states: Mapping[str, OptimizerState]) -> None:
        """Go on as after `version` updates, which left `states` (by the weights' names) behind."""
        self._version = version
        for layer, store in self.layers.items():
            prefix = f"{layer}." if layer else ""
            store.resume(version, {n.removeprefix(prefix): states[n] for n in states if n.rpartition(".")[0] == layer})

    def states(self) -> dict[str, OptimizerState]:
        """The optimizer's states by the weights' names; those of the newest weights, when nothing is in flight."""
        return {f"{layer}.{name}".lstrip("."): s for layer, x in self.layers.items() for name, s in x.states().items()}

    def watch(self, told: Callable[[str, int, Tensors, dict[str, OptimizerState]], None]) -> None:
        """Have `told` (layer, version, weights, states) of every version that a layer reaches."""
        for name, store in self.layers.items():
            store.watch = functools.partial(told, name)

    def weights(self) -> Tensors:
        """The newest weights by their names in the module, and its buffers; live tensors: copy what is to be kept."""
        newest = {f"{layer}.{n}".lstrip("."): w for layer, s in self.layers.items() for n, w in s.newest().items()}
        return newest | self.buffers()

    def buffers(self) -> Tensors:
        """Running statistics and the like; they have no versions."""
        buffers = dict(self.module.named_buffers())
        for name, wrapped in self.module.named_modules():
            if isinstance(wrapped, Versioned):
                buffers |= {f"{name}.{n}".lstrip("."): b for n, b in wrapped._layer[0].named_buffers(recurse=False)}
        return buffers

    def held(self) -> StageBytes:
        """What the stage holds now, each storage once; what an action needs only while it runs is not here."""
        stores = self.layers.values()
        seen: set[tuple[int, int]] = set()
        weights = _count((t for s in stores for t in s.live()), seen) + _count(self.buffers().values(), seen)
        versions = _count((t for s in stores for t in s.versions()), seen)
        optimizer = _count((t for s in stores for t in s.optimizer()), seen)
        return StageBytes(weights, versions, optimizer, _count(self._in_flight(), seen))

    def _in_flight(self) -> Iterable[Tensor]:
        for flight in self._flights.values():
            yield from flight.saved
            yield from (call.inputs for call in flight.calls.values())
            if flight.output is not None:
                yield flight.output
            if flight.again is not None:
                yield flight.again[0]

    def _update(self, name: str, call: _Call) -> Update:
        if call.leaves:
            return {n: leaf.grad for n, leaf in call.leaves.items() if leaf.grad is not None}
        if call.errors is None:
            return {}  # the layer's output was not used
        if call.inputs._version != call.inputs_version:
            raise UsageError(f"layer {name}: its input was changed in place after use, expected it untouched")
        return Factors(call.inputs, call.errors)

    def _push(self, updates: Mapping[str, Update]) -> None:
        needed = {flight.version for flight in self._flights.values()}
        for name, update in updates.items():
            self.layers[name].push(update, needed)
        self._version += 1

    def _add(self, updates: Mapping[str, Update]) -> None:
        for name, update in updates.items():
            formed = self.layers[name].gradients(update)
            sums = self._sums.get(name)
            self._sums[name] = formed if sums is None else {n: sums[n] + g for n, g in formed.items()}

    def _pack(self, flight: _Flight) -> Callable[[Tensor], Any]:
        def pack(tensor: Tensor) -> Any:
            owner = flight.weights.get(tensor.untyped_storage()._cdata)
            if owner is not None:
                return (*owner, tensor.shape, tensor.stride(), tensor.storage_offset())
            kept = narrow(tensor)
            flight.saved.append(kept.detach())
            return kept

        return pack

    def _unpack(self, flight: _Flight) -> Callable[[Any], Tensor]:
        def unpack(packed: Any) -> Tensor:
            if isinstance(packed, Tensor):
                return packed.long() if packed.dtype is torch.int32 else packed
            layer, name, shape, stride, offset = packed
            return self.layers[layer].at(flight.version)[name].as_strided(shape, stride, offset)

        return unpack


def narrow(tensor: Tensor) -> Tensor:
    """Positions that a max-pool remembers, and labels, in four bytes instead of eight where they fit."""
    if tensor.dtype is not torch.int64:
        return tensor
    if tensor.numel() and not tensor.is_meta:
        least, most = torch.aminmax(tensor)
        if int(least) < -(2**31) or int(most) >= 2**31:
            return tensor
    return tensor.to(torch.int32)


def _count(tensors: Iterable[Tensor], seen: set[tuple[int, int]]) -> int:
    """Bytes of tensors not in `seen`; views of one storage that cover the same bytes count once."""
    total = 0
    for tensor in tensors:
        key = (tensor.untyped_storage()._cdata, int(tensor.storage_offset()))
        if key not in seen:
            seen.add(key)
            total += tensor.nbytes
    return total
