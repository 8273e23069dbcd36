"""PACT's estimators as the paper describes them, trained with torch: lambda_run (Fig. 3a) and lambda_change (Fig. 3b).

lambda_run: a fully connected branch on classes, samples and pruning ratio, an LSTM branch on the losses so far, 15
outputs = expected value, 0.05 and 0.95 quantiles for 5 epochs. lambda_change: pruning ratio and the 5 losses before the
switch, 3 outputs. Adam with learning rate 1e-3, batches of 16, mean square error plus the tilted (pinball) loss.

Paper: section IV, Fig. 3, section VI-A.
Deviations: layer widths stand in the paper's drawing alone; ours are `WIDTHS` and `CHANGE_WIDTHS`. Inputs and targets
are brought to unit size first, and training stops when held-out windows get no better, on neither of which the paper
says anything. Histories end after `features.LONGEST` losses.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from ...core.curve import Array
from ..bands import LEVELS
from .bundle import LegCurve
from .change_net import ChangeNet, unit_inputs
from .features import AHEAD, LONGEST, Seen, Windows, per_epoch, seen_of, windows
from .lstm import Recurrent, Scales, fixed_figures, fixed_inputs, sequences

WIDTHS = (16, 32, 32)
"""Ours: of the branch of fixed inputs, the LSTM's state and the joined layer (6.6 thousand weights)."""

CHANGE_WIDTHS = (32, 16)


@dataclass(frozen=True)
class LearningRecipe:
    """How a network is trained; the defaults are the paper's where it says anything."""

    lr: float = 1e-3
    batch: int = 16
    epochs: int = 60
    patience: int = 8
    widths: tuple[int, ...] = WIDTHS
    relative: bool = False
    cumulative: bool = True
    seed: int = 0


CHANGE_RECIPE = LearningRecipe(epochs=400, patience=40, widths=CHANGE_WIDTHS)


class RunNet(nn.Module):
    """lambda_run, Fig. 3(a); `Recurrent` is its twin without torch."""

    def __init__(self, widths: Sequence[int], inputs: int) -> None:
        super().__init__()
        branch, state, head = widths
        self.fixed = nn.Linear(3, branch)
        self.lstm = nn.LSTM(inputs, state, batch_first=True)
        self.head = nn.Linear(branch + state, head)
        self.out = nn.Linear(head, 3 * AHEAD)

    def forward(self, values: Tensor, length: Tensor, fixed: Tensor) -> Tensor:
        """(N, T, inputs) left-aligned, (N,), (N, 3) -> (N, 3, AHEAD)."""
        states, _ = self.lstm(values[:, : int(length.max())])
        return self.heads(states[torch.arange(len(values)), length - 1], fixed)

    def heads(self, states: Tensor, fixed: Tensor) -> Tensor:
        """States (..., state) and fixed inputs (..., 3) -> (..., 3, AHEAD)."""
        joined = torch.cat([torch.relu(self.fixed(fixed)), states], dim=-1)
        outputs: Tensor = self.out(torch.relu(self.head(joined)))
        return outputs.reshape(*outputs.shape[:-1], 3, AHEAD)


def tilted(error: Tensor, level: float) -> Tensor:
    """The pinball loss of a quantile, elementwise; `error` = truth - prediction."""
    return torch.maximum(level * error, (level - 1.0) * error)


def joint_loss(predicted: Tensor, truth: Tensor) -> Tensor:
    """Mean square error of the expected value plus the tilted losses of both quantiles."""
    loss = ((truth - predicted[:, 0]) ** 2).mean()
    for i, level in enumerate(LEVELS, start=1):
        loss = loss + tilted(truth - predicted[:, i], level).mean()
    return loss


def run_scales(windows: Windows, target: Array, *, relative: bool) -> Scales:
    """Unit sizes from the training windows."""
    seen = windows.seen
    losses = np.log(np.maximum(seen.history, 1e-3)) if relative else seen.history
    figures = fixed_figures(seen)
    scale = np.where(figures.std(axis=0) > 1e-6, figures.std(axis=0), np.maximum(np.abs(figures.mean(axis=0)), 1.0))
    shares = target / np.maximum(seen.loss, 1e-3)[:, None] if relative else target
    return Scales(
        float(np.nanmean(losses)),
        max(float(np.nanstd(losses)), 1e-6),
        tuple(float(v) for v in figures.mean(axis=0)),
        tuple(float(v) for v in scale),
        tuple(max(float(v), 1e-6) for v in shares.std(axis=0)),
        relative,
    )


def fit_run(train: Windows, held_out: Windows, recipe: LearningRecipe | None = None) -> Recurrent:
    """lambda_run from windows; training stops by the loss on `held_out` windows (those of other runs)."""
    recipe = recipe or LearningRecipe()
    targets = [w.target if recipe.cumulative else per_epoch(w.target) for w in (train, held_out)]
    scales = run_scales(train, targets[0], relative=recipe.relative)
    parts = [_tensors(w, t, scales) for w, t in zip((train, held_out), targets, strict=True)]
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        net = RunNet(recipe.widths, 2 if recipe.relative else 1)
        stop = (lambda: float(_joint(net, parts[1]))) if len(held_out) else None
        _train(net, lambda: _shuffled(len(train), recipe.batch), lambda at: _joint(net, parts[0], at), recipe, stop)
    return Recurrent(_arrays(net), scales, recipe.cumulative)


def fit_on_curves(
    curves: Sequence[LegCurve], recipe: LearningRecipe, *, steps: int, with_start: bool = False
) -> Recurrent:
    """The same network learned from whole curves: one pass over a leg gives the forecasts at all of its epochs.

    Many times quicker than window by window. Batches (`recipe.batch` curves) are of alike lengths; the rate falls to
    nothing over about `steps` of them, whatever `recipe.epochs` says, so no held-out runs are needed to know when to
    stop.
    """
    rows = windows(curves, least=0, with_start=with_start)
    scales = run_scales(rows, rows.target if recipe.cumulative else per_epoch(rows.target), relative=recipe.relative)
    values, length, fixed, target, known = _whole(curves, scales, cumulative=recipe.cumulative, with_start=with_start)

    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        net = RunNet(recipe.widths, 2 if recipe.relative else 1)

        def loss_of(at: Tensor) -> Tensor:
            longest = int(length[at].max())
            states, _ = net.lstm(values[at, :longest])
            predicted = net.heads(states, fixed[at, None].expand(-1, longest, -1))
            here = known[at, :longest]
            return joint_loss(predicted.transpose(2, 3)[here], target[at, :longest][here])

        epochs = max(round(steps / -(-len(values) // recipe.batch)), 1)
        _train(net, lambda: _alike(length, recipe.batch), loss_of, replace(recipe, epochs=epochs), None)
    return Recurrent(_arrays(net), scales, recipe.cumulative)


def _whole(curves: Sequence[LegCurve], scales: Scales, *, cumulative: bool, with_start: bool) -> list[Tensor]:
    """Curves in pieces of `LONGEST`: sequences, lengths, fixed inputs, targets at every epoch, and which of those are
    known.

    A curve that is longer comes in pieces that overlap by half; what the piece before it has taught is not taught
    twice. Every loss but a curve's last is taught once; a piece with nothing left to teach is left out.
    """
    pieces, targets, fixed = [], [], []
    for curve in curves:
        losses, _ = curve.history(with_start=with_start)
        ahead = np.full((len(losses), AHEAD), np.nan)
        for h in range(AHEAD):
            ahead[: max(len(losses) - h - 1, 0), h] = losses[h + 1 :] - losses[: max(len(losses) - h - 1, 0)]
        if not cumulative:
            ahead = np.diff(ahead, axis=1, prepend=0.0)
        for first in range(0, max(len(losses) - LONGEST // 2, 1), LONGEST // 2):
            part, wanted = losses[first : first + LONGEST], np.full((LONGEST, AHEAD), np.nan)
            wanted[: len(part)] = ahead[first : first + len(part)]
            if first:
                wanted[: LONGEST // 2] = np.nan
            if scales.relative:
                wanted[: len(part)] /= np.maximum(part, 1e-3)[:, None]
            here = len(part) - (first + len(part) == len(losses))  # nothing is known of what comes after a curve's last
            if not np.isfinite(wanted[:here]).any():
                continue
            pieces.append(part[:here])
            targets.append(wanted / np.asarray(scales.target_sd))
            fixed.append(curve.fixed)
    none = [0] * len(pieces)
    seen = seen_of(pieces, none, fixed, none)
    unit = np.stack(targets)
    unit[np.arange(LONGEST)[None, :] >= seen.length[:, None]] = np.nan
    return [*_inputs(seen, scales), _single(np.nan_to_num(unit)), torch.tensor(np.isfinite(unit))]


def fit_change(
    inputs: Array, target: Array, held_out: tuple[Array, Array] | None, recipe: LearningRecipe | None = None
) -> ChangeNet:
    """lambda_change from rows of inputs; the same network serves with the paper's inputs and with more of them.

    Training stops by the loss on `held_out` rows; without any it goes through all of its epochs.
    """
    recipe = recipe or CHANGE_RECIPE
    mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
    scale = np.where(scale > 1e-6, scale, 1.0)  # constant in training: nothing was learned about it
    middle, spread = float(target.mean()), max(float(target.std()), 1e-6)

    def tensors(rows: Array, truth: Array) -> list[Tensor]:
        return [_single(unit_inputs(rows, mean, scale)), _single((truth - middle) / spread)[:, None]]

    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        sizes = (inputs.shape[1], *recipe.widths, 3)
        layers: list[nn.Module] = []
        for i, (a, b) in enumerate(itertools.pairwise(sizes)):
            layers += [nn.Linear(a, b)] if i == len(sizes) - 2 else [nn.Linear(a, b), nn.ReLU()]
        net = nn.Sequential(*layers, nn.Unflatten(1, (3, 1)))
        rows = tensors(inputs, target)
        rest = None if held_out is None else tensors(*held_out)
        stop = None if rest is None else (lambda: float(_joint(net, rest)))
        _train(net, lambda: _shuffled(len(inputs), recipe.batch), lambda at: _joint(net, rows, at), recipe, stop)
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    return ChangeNet(
        tuple(layer.weight.detach().numpy().astype(np.float64) for layer in linear),
        tuple(layer.bias.detach().numpy().astype(np.float64) for layer in linear),
        mean,
        scale,
        middle,
        spread,
    )


def _shuffled(count: int, batch: int) -> Sequence[Tensor]:
    """One epoch's batches, at random."""
    return torch.split(torch.randperm(count), batch)


def _alike(length: Tensor, batch: int) -> Sequence[Tensor]:
    """One epoch's batches of curves, at random but with alike lengths together, so that little is padded."""
    batches: list[Tensor] = []
    for some in torch.split(torch.randperm(len(length)), 4 * batch):
        batches += torch.split(some[torch.argsort(length[some])], batch)
    return [batches[i] for i in torch.randperm(len(batches))]


def _train(
    net: nn.Module,
    batches: Callable[[], Sequence[Tensor]],
    loss_of: Callable[[Tensor], Tensor],
    recipe: LearningRecipe,
    judged: Callable[[], float] | None,
) -> None:
    """Adam on an epoch's batches after another's.

    With `judged`, a loss on held-out rows, the step stays and the weights of its best epoch are kept, for the sake of
    which training ends early. Without, the step rises and falls to nothing over all epochs.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    optimizer = torch.optim.Adam(net.parameters(), lr=recipe.lr, fused=True)
    steps = recipe.epochs * len(batches())
    schedule = (
        None
        if judged is not None
        else torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.lr, total_steps=steps, pct_start=0.15)
    )
    best, best_state, waited = float("inf"), copy.deepcopy(net.state_dict()), 0
    for _ in range(recipe.epochs):
        net.train()
        for at in batches():
            optimizer.zero_grad(set_to_none=True)
            loss_of(at).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if schedule is not None:
                schedule.step()
        if judged is None:
            continue
        net.eval()
        with torch.no_grad():
            seen = judged()
        if seen < best:
            best, best_state, waited = seen, copy.deepcopy(net.state_dict()), 0
        else:
            waited += 1
            if waited >= recipe.patience:
                break
    if judged is not None:
        net.load_state_dict(best_state)
    torch.set_num_threads(threads)


def _joint(net: nn.Module, parts: list[Tensor], at: Tensor | None = None) -> Tensor:
    """The joint loss of a network on rows of its inputs and targets."""
    rows = parts if at is None else [part[at] for part in parts]
    return joint_loss(net(*rows[:-1]), rows[-1])


def _tensors(windows: Windows, target: Array, scales: Scales) -> list[Tensor]:
    """Left-aligned sequences, lengths, fixed inputs, targets of unit size."""
    seen = windows.seen
    shares = target / np.maximum(seen.loss, 1e-3)[:, None] if scales.relative else target
    unit = shares / np.asarray(scales.target_sd)
    return [*_inputs(seen, scales), _single(unit)]


def _inputs(seen: Seen, scales: Scales) -> list[Tensor]:
    """Left-aligned sequences, lengths and fixed inputs."""
    return [_single(_left(seen, scales)), torch.tensor(seen.length), _single(fixed_inputs(seen, scales))]


def _single(values: Array) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def _left(seen: Seen, scales: Scales) -> Array:
    """The network's sequences, left-aligned."""
    values, length = sequences(seen, scales), seen.length
    left = np.zeros_like(values)
    for n in np.unique(length):
        rows = length == n
        left[rows, :n] = values[rows, LONGEST - n :]
    return left


def _arrays(net: nn.Module) -> dict[str, Array]:
    return {name: value.detach().numpy().astype(np.float64) for name, value in net.state_dict().items()}
