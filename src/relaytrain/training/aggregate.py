"""FedAvg: one average of the nodes' weights and optimizer state, weighted by samples, ordered by node id.

Updates are checked before they count: names, shapes, kinds, finite values, a step that training can make, and an
optimizer state whose next step is one too. The bounds are wide: they are there for what no training does, such as
weights times 900; training that merely goes badly passes them and is judged by its loss.

Paper: PACT section II (an epoch ends with one average); McMahan et al. 2017, FedAvg.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..compression.low_rank import mean_of_products
from ..core.errors import RelayTrainError
from ..models.adapter import as_matrices, factor_pairs
from ..models.spec import adapter_of
from .checkpoint import Checkpoint
from .precision import least_scale
from .settings import TrainingSettings
from .task import NodeResult

MOST_GROWTH = 1e3
"""An update with a value beyond so many times the largest one before (plus one) is refused."""
NOT_FINITE, EXPLODED = "non-finite", "weights grew"
"""Beginnings of the reasons that speak of training gone wild rather than of a node that cannot be trusted."""
MOST_STEP, STEP_FLOOR = 100.0, 0.1
"""A pass moves the weights by at most so many times their own size, root mean square, to which the floor is added:
weights may begin at zero. Statistics of batch norm, which follow the data and not the weights, are left out."""
MOST_DRIFT = 100.0
"""Of Adam's moments: |first| beyond so many times the square root of the second. By construction it stays below 8."""
STATISTICS = ("running_mean", "running_var")
_AVERAGED = {
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
}  # fmt: skip
"""Kinds of optimizer state of which a mean can be made, or of whole numbers the largest."""
_ADAM = {"step", "exp_avg", "exp_avg_sq"}
_BUFFERS = {"sgd": {"momentum_buffer"}, "adam": _ADAM, "adamw": _ADAM}

Updates = dict[str, tuple[int, Checkpoint]]
"""By node: its samples and its weights."""


def average(updates: Updates, global_checkpoint: Checkpoint) -> Checkpoint:
    """The sample-weighted mean of checked updates; of an adapter's factors, of their products (`low_rank`).

    Sums are made in float64 in the order of node names, so the bits do not depend on who answered first; whole
    numbers (such as batch norm's counter of batches) take the largest. Of a weight whose optimizer state is not of one
    form everywhere none is kept: its optimizer begins anew.
    """
    ordered = [updates[node] for node in sorted(updates)]
    kept = _kept_by_all([update.optimizer for _, update in ordered])
    weights = _mean([(samples, update.weights) for samples, update in ordered])
    if adapter_of(global_checkpoint.spec) is not None and len(ordered) > 1:
        weights |= _mean_factors([(samples, update.weights) for samples, update in ordered])
    optimizer = _mean([(samples, {key: update.optimizer[key] for key in kept}) for samples, update in ordered])
    scaler = least_scale([update.scaler for _, update in ordered])
    before = global_checkpoint
    return Checkpoint(before.spec, weights, optimizer, before.version, scaler=scaler, whole=before.whole)


def open_update(
    result: NodeResult, global_checkpoint: Checkpoint, settings: TrainingSettings | None = None
) -> Checkpoint | str:
    """The update in a result, or why it does not count; `settings` say which optimizer state it may have."""
    if result.error is not None or result.checkpoint is None:
        return result.error or "no weights"
    if result.samples < 1:
        return f"{result.samples} samples, expected at least one"
    where, lr = f"update of {result.node}", 0.0 if settings is None else settings.lr_at(result.epoch)
    try:
        update = Checkpoint.opened(result.checkpoint, where=where)
        wrong = check_update(update, global_checkpoint, lr=lr)
        if wrong is None and settings is not None and settings.optimizer in _BUFFERS:
            wrong = _odd_state(update, _BUFFERS[settings.optimizer])
        return wrong or update
    except RelayTrainError as error:
        return str(error)
    except (RuntimeError, TypeError, ValueError) as error:  # torch has not every operation for every kind of tensor
        return f"{where}: its tensors are none that training leaves behind ({str(error).strip()[:120]})"


def check_update(update: Checkpoint, before: Checkpoint, *, lr: float = 0.0) -> str | None:
    """Why `update` cannot be a step from `before`, or None when it can. `lr`: of the next step that momentum makes."""
    if update.spec != before.spec:
        return "weights of another version"
    for name, tensor in update.weights.items():
        old = before.weights[name]
        if tensor.dtype != old.dtype or tensor.shape != old.shape:
            return f"{name} is {_form(tensor)}, expected {_form(old)}"
    for key, tensor in update.optimizer.items():
        if tensor.dtype not in _AVERAGED and tensor.dtype != update.weights[key.partition("/")[2]].dtype:
            return f"the optimizer's {key} is {tensor.dtype}, of which no mean can be made"
    largest = {name: _largest(tensor) for name, tensor in update.weights.items()}
    state = {f"the optimizer's {name}": _largest(tensor) for name, tensor in update.optimizer.items()}
    for name, value in {**largest, **state}.items():
        if not math.isfinite(value):
            return f"{NOT_FINITE} values in {name}"
    highest = max((_largest(tensor) for tensor in before.weights.values()), default=0.0)
    name, value = max(largest.items(), key=lambda item: item[1])
    if value > MOST_GROWTH * (highest + 1.0):
        return f"{EXPLODED} to {value:.3g} in {name}, more than {MOST_GROWTH:g} times the largest before"
    if highest + value <= MOST_STEP * STEP_FLOOR and lr * max(state.values(), default=0.0) <= MOST_STEP * STEP_FLOOR:
        return None  # no mean is above the largest value: no step can be too long
    return _too_long(update, before, lr)


def _too_long(update: Checkpoint, before: Checkpoint, lr: float) -> str | None:
    """Whether the step made, or the one that the optimizer's state makes next, is longer than any of training."""
    old = {name: t for name, t in before.weights.items() if t.is_floating_point() and not name.endswith(STATISTICS)}
    allowed = MOST_STEP * (_size(list(old.values())) + STEP_FLOOR)
    step = _size([update.weights[name] - tensor for name, tensor in old.items()])
    if step > allowed:
        return f"a step of {step:.3g} (root mean square), expected at most {allowed:.3g} from weights like these"
    moved = [t for key, t in update.optimizer.items() if key.startswith("momentum_buffer/")]
    if lr * _size(moved) > allowed:
        return f"a momentum of {_size(moved):.3g}, whose next step would be longer than {allowed:.3g}"
    return None


def _odd_state(update: Checkpoint, buffers: set[str]) -> str | None:
    """What is wrong with an optimizer's state that should have these buffers for each weight it knows."""
    by_weight: dict[str, dict[str, Tensor]] = {}
    for key, tensor in update.optimizer.items():
        buffer, _, name = key.partition("/")
        by_weight.setdefault(name, {})[buffer] = tensor
    for name, state in by_weight.items():
        if set(state) != buffers:
            return f"optimizer state {', '.join(sorted(state))[:80]} of {name}, expected {', '.join(sorted(buffers))}"
        weight = update.weights[name]
        for buffer in sorted(buffers - {"step"}):
            form = _form(state[buffer])
            if form != _form(weight):
                return f"the optimizer's {buffer}/{name} is {form}, expected its weight's {_form(weight)}"
        if "step" not in state:
            continue
        step, first, second = state["step"], _largest(state["exp_avg"]), _largest(state["exp_avg_sq"])
        if step.ndim or step.dtype not in (torch.float32, torch.float64):
            return f"the optimizer's step/{name} is {_form(step)}, expected a single float"
        if float(step) < 1.0 or bool((state["exp_avg_sq"] < 0.0).any()):
            return f"optimizer state of {name} that no step leaves behind"
        if first > MOST_DRIFT * math.sqrt(second) + 1e-12:
            return f"an exp_avg of {first:.3g} beside an exp_avg_sq of {second:.3g} in {name}"
    return None


def _form(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"


def _size(tensors: Sequence[Tensor]) -> float:
    """Root mean square of all values."""
    count = sum(tensor.numel() for tensor in tensors)
    if count == 0:
        return 0.0
    return math.sqrt(sum(float(torch.linalg.vector_norm(t, dtype=torch.float64)) ** 2 for t in tensors) / count)


def _largest(tensor: Tensor) -> float:
    """The largest absolute value, NaN or infinity when there is one; one pass, nothing allocated. Counters are 0."""
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return 0.0
    low, high = (float(end) for end in torch.aminmax(tensor))
    return low if math.isnan(low) else max(abs(low), abs(high))


def _mean_factors(parts: list[tuple[int, dict[str, Tensor]]]) -> dict[str, Tensor]:
    """Every pair of factors whose product is the mean of the nodes' products, as near as its rank allows."""
    first, count = parts[0][1], sum(samples for samples, _ in parts)
    mean: dict[str, Tensor] = {}
    for b, a in factor_pairs(first):
        new = mean_of_products([(samples / count, as_matrices(tensors, b, a)) for samples, tensors in parts])
        mean |= {b: new[0].reshape(first[b].shape), a: new[1].reshape(first[a].shape)}
    return mean


def _kept_by_all(states: Sequence[Mapping[str, Tensor]]) -> list[str]:
    """Keys of the state of those weights of which every node keeps the same buffers, each of one shape and kind."""
    known: list[dict[str, set[tuple[str, torch.Size, torch.dtype]]]] = [{} for _ in states]
    for forms, state in zip(known, states, strict=True):
        for key, tensor in state.items():
            forms.setdefault(key.partition("/")[2], set()).add((key, tensor.shape, tensor.dtype))
    agreed = {name for name, forms in known[0].items() if all(other.get(name) == forms for other in known)}
    return [key for key in states[0] if key.partition("/")[2] in agreed]


def _mean(parts: list[tuple[int, dict[str, Tensor]]]) -> dict[str, Tensor]:
    if len(parts) == 1:
        return dict(parts[0][1])
    count = sum(samples for samples, _ in parts)
    mean: dict[str, Tensor] = {}
    for name in sorted(parts[0][1]):
        first = parts[0][1][name]
        if not first.is_floating_point():
            mean[name] = torch.stack([tensors[name] for _, tensors in parts]).amax(dim=0)
            continue
        total = torch.zeros(first.shape, dtype=torch.float64)
        for samples, tensors in parts:
            total.add_(tensors[name], alpha=samples / count)
        mean[name] = total.to(first.dtype)
    return mean
