"""PACT's estimators as the paper describes them, trained with torch: lambda_run (Fig. 3a) and lambda_change (Fig. 3b).

lambda_run: a fully connected branch on classes, samples and pruning ratio, an LSTM branch on the losses so far, 15
outputs = expected value, 0.05 and 0.95 quantiles for 5 epochs. lambda_change: pruning ratio and the 5 losses before the
switch, 3 outputs. Adam with learning rate 1e-3, batches of 16, mean square error plus the tilted (pinball) loss.

Paper: section IV, Fig. 3, section VI-A.
Deviations: layer widths stand in the paper's drawing alone; ours are `WIDTHS` and `CHANGE_WIDTHS`. Inputs and targets are
brought to unit size first, and training stops when held-out windows get no better, on neither of which the paper says
anything. Histories end after `features.LONGEST` losses.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ..core.law import Array
from .change_net import ChangeNet, unit_inputs
from .features import AHEAD, LONGEST, Windows, per_epoch
from .lstm import Recurrent, Scales, fixed_figures, fixed_inputs, sequences
from .metrics import LEVELS

WIDTHS = (16, 32, 32)
"""Ours: of the branch of fixed inputs, the LSTM's state and the joined layer (6.6 thousand weights)."""

CHANGE_WIDTHS = (32, 16)


@dataclass(frozen=True)
class Recipe:
    """How a network is trained; the defaults are the paper's where it says anything."""

    lr: float = 1e-3
    batch: int = 16
    epochs: int = 60
    patience: int = 8
    widths: tuple[int, ...] = WIDTHS
    relative: bool = False
    cumulative: bool = True
    seed: int = 0


CHANGE_RECIPE = Recipe(epochs=400, patience=40, widths=CHANGE_WIDTHS)


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
        last = states[torch.arange(len(values)), length - 1]
        joined = torch.cat([torch.relu(self.fixed(fixed)), last], dim=1)
        found: Tensor = self.out(torch.relu(self.head(joined)))
        return found.reshape(len(values), 3, AHEAD)


def tilted(error: Tensor, level: float) -> Tensor:
    """The pinball loss of a quantile, elementwise; `error` = truth - prediction."""
    return torch.maximum(level * error, (level - 1.0) * error)


def joint_loss(found: Tensor, truth: Tensor) -> Tensor:
    """Mean square error of the expected value plus the tilted losses of both quantiles."""
    loss = ((truth - found[:, 0]) ** 2).mean()
    for i, level in enumerate(LEVELS, start=1):
        loss = loss + tilted(truth - found[:, i], level).mean()
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


def fit_run(train: Windows, held_out: Windows, recipe: Recipe | None = None) -> Recurrent:
    """lambda_run from windows; training stops by the loss on `held_out` windows (those of other runs)."""
    recipe = recipe or Recipe()
    targets = [w.target if recipe.cumulative else per_epoch(w.target) for w in (train, held_out)]
    scales = run_scales(train, targets[0], relative=recipe.relative)
    parts = [_tensors(w, t, scales) for w, t in zip((train, held_out), targets, strict=True)]
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        net = RunNet(recipe.widths, 2 if recipe.relative else 1)
        _train(net, parts[0], parts[1], recipe)
    return Recurrent(_arrays(net), scales, recipe.cumulative)


def fit_change(inputs: Array, target: Array, held_out: tuple[Array, Array], recipe: Recipe | None = None) -> ChangeNet:
    """lambda_change from rows of inputs; the same network serves with the paper's inputs and with more of them."""
    recipe = recipe or CHANGE_RECIPE
    mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
    scale = np.where(scale > 1e-6, scale, 1.0)  # constant in training: nothing was learned about it
    middle, spread = float(target.mean()), max(float(target.std()), 1e-6)

    def tensors(rows: Array, truth: Array) -> list[Tensor]:
        return [torch.tensor(unit_inputs(rows, mean, scale), dtype=torch.float32),
                torch.tensor((truth - middle) / spread, dtype=torch.float32)[:, None]]  # fmt: skip

    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        sizes = (inputs.shape[1], *recipe.widths, 3)
        layers: list[nn.Module] = []
        for i, (a, b) in enumerate(itertools.pairwise(sizes)):
            layers += [nn.Linear(a, b)] if i == len(sizes) - 2 else [nn.Linear(a, b), nn.ReLU()]
        net = nn.Sequential(*layers, nn.Unflatten(1, (3, 1)))
        _train(net, tensors(inputs, target), tensors(*held_out), recipe)
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    return ChangeNet(
        tuple(layer.weight.detach().numpy().astype(np.float64) for layer in linear),
        tuple(layer.bias.detach().numpy().astype(np.float64) for layer in linear),
        mean, scale, middle, spread,
    )  # fmt: skip


def _train(net: nn.Module, train: list[Tensor], held_out: list[Tensor], recipe: Recipe) -> None:
    """Adam on shuffled batches; the weights of the best epoch on `held_out` are kept."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    optimizer = torch.optim.Adam(net.parameters(), lr=recipe.lr)
    best, best_state, waited = float("inf"), copy.deepcopy(net.state_dict()), 0
    count = len(train[0])
    for _ in range(recipe.epochs):
        net.train()
        for at in torch.split(torch.randperm(count), recipe.batch):
            optimizer.zero_grad(set_to_none=True)
            loss = joint_loss(net(*(part[at] for part in train[:-1])), train[-1][at])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        net.eval()
        with torch.no_grad():
            seen = float(joint_loss(net(*held_out[:-1]), held_out[-1])) if len(held_out[0]) else 0.0
        if seen < best or not len(held_out[0]):
            best, best_state, waited = seen, copy.deepcopy(net.state_dict()), 0
        else:
            waited += 1
            if waited >= recipe.patience:
                break
    net.load_state_dict(best_state)
    torch.set_num_threads(threads)


def _tensors(windows: Windows, target: Array, scales: Scales) -> list[Tensor]:
    """Left-aligned sequences, lengths, fixed inputs, targets of unit size."""
    seen = windows.seen
    values, length = sequences(seen, scales), seen.length
    left = np.zeros_like(values)
    for n in np.unique(length):
        rows = length == n
        left[rows, :n] = values[rows, LONGEST - n :]
    shares = target / np.maximum(seen.loss, 1e-3)[:, None] if scales.relative else target
    unit = shares / np.asarray(scales.target_sd)
    made = [torch.tensor(a, dtype=torch.float32) for a in (left, fixed_inputs(seen, scales), unit)]
    return [made[0], torch.tensor(length, dtype=torch.int64), made[1], made[2]]


def _arrays(net: nn.Module) -> dict[str, Array]:
    return {name: value.detach().numpy().astype(np.float64) for name, value in net.state_dict().items()}
