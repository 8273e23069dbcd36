"""What the units of a network weigh: weights, factors, saved activations, multiplications. Counted on shapes alone.

The network runs once on torch's meta device through the very stage that trains it, so the counts are those of a run.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ..core.errors import UsageError
from ..core.problem import Chain
from ..planners.pipeline.chain import Layer, Policy, Saved, Unit, chain_of, unit_of
from ..training.soundness import ONE_VALUE
from .factors import column_bytes, has_rule
from .networks import chain, network
from .stage import Loss, Stage, narrow
from .update_rules import SGD

if TYPE_CHECKING:
    from ..training.setup import TrainingSetup


def measure(units: Sequence[nn.Module], inputs: Tensor, loss: Loss, target: Tensor) -> tuple[Unit, ...]:
    """Count `units`, a chain, on a minibatch shaped like `inputs`; `target` is what `loss` compares with.

    `Unit.end` is what the last stage keeps for its loss, and empty but for the last unit.
    """
    twin = copy.deepcopy(nn.Sequential(*units)).to("meta")
    stage = Stage(twin, SGD(1.0), Policy.greedy)
    if not isinstance(stage.module, nn.Sequential):
        raise UsageError("units: got one bare layer, expected modules in a chain; wrap it: nn.Sequential(layer)")
    probes = [_Probe() for _ in units]
    for index, probe in enumerate(probes):
        probe.attach(stage, index)
    with FlopCounterMode(display=False) as counter:
        for probe in probes:
            probe.counter = counter
        try:
            output = stage.forward(0, torch.empty(inputs.shape, dtype=inputs.dtype, device="meta"))
        except ValueError as error:
            if ONE_VALUE not in str(error):
                raise
            raise UsageError(
                f"batch: got {len(inputs)}, and batch norm has one value a channel to take a mean over "
                f"({str(error)[:120]}); expected at least 2"
            ) from None
    flight = stage.flight(0)
    numbers: dict[int, int] = {}

    def number(tensor: Tensor) -> tuple[int, int]:
        return numbers.setdefault(tensor.untyped_storage()._cdata, len(numbers)), tensor.nbytes

    counted: list[Unit] = []
    for index, probe in enumerate(probes):
        names = [name for name in stage.layers if unit_of(name) == index]
        kept = [*flight.saved[probe.begin : probe.finish], *(flight.calls[name].inputs for name in names)]
        layers = tuple(_layer(name, stage, flight.calls[name].inputs, probe.outputs[name]) for name in names)
        gradients = sum(layer.gradient_flops for layer in layers)
        errors = probe.flops if index else probe.flops - (layers[0].gradient_flops if layers else 0)
        buffers = sum(b.nbytes for n, b in stage.buffers().items() if unit_of(n) == index)
        title = type(units[index]).__name__ if not names else type(stage.layers[names[0]].layer).__name__
        entry_bytes = counted[-1].output[1] if counted else inputs.nbytes
        saved, output_size = _saved(map(number, kept)), number(probe.output)
        backward = gradients + errors
        counted.append(
            Unit(
                f"{index}:{title}", layers, buffers, probe.flops, backward, saved, output_size, frozenset(), entry_bytes
            )
        )
    # the loss belongs to whatever stage is the last
    extra: list[Tensor] = []
    logits = output.detach().requires_grad_()

    def note(tensor: Tensor) -> Tensor:
        extra.append(narrow(tensor).detach())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        value = loss(logits, torch.empty(target.shape, dtype=target.dtype, device="meta"))
    extra = [t for t in extra if t.untyped_storage()._cdata != logits.untyped_storage()._cdata]
    ending = _saved(map(number, [*extra, value]))
    return (*counted[:-1], replace(counted[-1], end=ending))


def measure_shapes(
    model: nn.Module, input: Sequence[int], batch: int, loss: Loss = F.cross_entropy
) -> tuple[Unit, ...]:
    """Count a network on minibatches of `batch` images of this shape; no data are needed."""
    labels = torch.empty(batch, dtype=torch.long, device="meta")
    return measure(chain(model), torch.empty((batch, *input), device="meta"), loss, labels)


def measure_named(
    name: str, *, width: float = 1.0, input: tuple[int, int, int] = (3, 32, 32), classes: int = 10, batch: int = 8
) -> tuple[Unit, ...]:
    """Count a network by its name; see `network`."""
    if batch < 1:
        raise UsageError(f"batch: got {batch}, expected at least 1")
    return measure_shapes(network(name, width=width, input=input, classes=classes), input, batch)


def counted_chain(setup: TrainingSetup, version: str) -> Chain:
    """The chain of an untrained `version` for the minibatches that the setup trains with, as `[versions.chain]` has it.

    Raises:
        UsageError: its network is neither an `nn.Sequential` nor one of the built-in families.
    """
    model, batch = setup.initial(version).model(resolve=setup.resolve), setup.settings.batch
    from ..training.datasets import in_memory

    data = in_memory(setup.validation, "counting the chain of a pipeline")
    return chain_of(measure_shapes(model, data.input, batch, setup.loss()), batch)


def _saved(pairs: Any) -> Saved:
    largest: dict[int, int] = {}
    for key, size in pairs:
        largest[key] = max(size, largest.get(key, 0))
    return frozenset(largest.items())


class _Probe:
    """Listens to one unit of a stage while it runs."""

    def __init__(self) -> None:
        self.begin = self.finish = self.flops = 0
        self.output = torch.empty(0)
        self.outputs: dict[str, Tensor] = {}
        self.counter: Any = None

    def attach(self, stage: Stage, index: int) -> None:
        """Hook the unit and its layers."""
        unit = stage.module.get_submodule(str(index))

        def before(*_: Any) -> None:
            self.begin, self.flops = len(stage.current.saved), -self.counter.get_total_flops()

        def after(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            self.finish, self.output = len(stage.current.saved), output.detach()
            self.flops += self.counter.get_total_flops()

        unit.register_forward_pre_hook(before)
        unit.register_forward_hook(after)
        for name, module in stage.module.named_modules():
            if name in stage.layers and unit_of(name) == index:
                module.register_forward_hook(self._layer_hook(name))

    def _layer_hook(self, name: str) -> Any:
        def after(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            self.outputs[name] = output.detach()

        return after


def _layer(name: str, stage: Stage, inputs: Tensor, outputs: Tensor) -> Layer:
    store = stage.layers[name]
    size = sum(w.nbytes for w in store.live())
    if not has_rule(store.layer):
        return Layer(name, size, None, 0, size)
    weight = store.newest()["weight"]
    positions = outputs.numel() // weight.shape[0]
    rows = store.blocks[0].stop
    part = 0 if len(store.blocks) == 1 else outputs.nbytes * rows // weight.shape[0]
    part = max(part, column_bytes(store.layer, inputs, outputs))
    block = size * rows // weight.shape[0]
    return Layer(name, size, inputs.nbytes + outputs.nbytes, 2 * positions * weight.numel(), block, part)
