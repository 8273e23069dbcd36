"""Algorithm 3 on the paper's grid: the shortest path to every feasible vertex, one layer of time after the other.

Every epoch takes at least one step of time, so a layer is final once the earlier ones are done, and only as many are
kept as the longest epoch has steps. A vertex is (k, pair, loss) in its layer. Scores are formed where paths arrive: the
paths themselves are never held.

Paper: Algs. 1-3. Deviations: on grids whose layers would take more than `MOST_BYTES` the epoch k is left out of the
vertex, and the cheapest path to the rest of it stands for all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.law import ADDITIVE, LawForm
from ...core.state import TOLERANCE
from ..search.allowance import MOST_WORK, WORK, charge, check
from ..search.instance import SearchInstance, Start
from ..search.kernels import jit, next_loss
from ..search.togo import ToGo, lookup, nothing

MOST_BYTES = 192 << 20
_CELL_BYTES = 36
TURN_NS = 300
"""Of a look at where a vertex may lead."""
TOUCHED = 0.3
"""What is ever written to of layers that are not large."""
LITERAL, CLAMPED, OPPORTUNITY = 0, 1, 2
"""Scores: as printed, with both factors at least one, without the risk."""


class _Grid(NamedTuple):
    robust: LawForm  # on the grid
    plain_robust: LawForm
    plain_expected: LawForm
    loss_step: float
    seconds: NDArray[np.float64]
    joules: NDArray[np.float64]
    goal: int
    deadline: int
    last: int  # epoch
    losses: int
    time_to_go: ToGo


@jit
def _change(form: Any, epoch: int, loss: float, before: int, now: int) -> float:
    """lambda of lines 7 and 8, not rounded."""
    if form.kind == ADDITIVE:
        jump = 0.0 if before == now else form.c0[min(epoch, form.c0.shape[0]) - 1, before, now]
        return jump + form.run[min(epoch, form.run.shape[0]) - 1, now]  # type: ignore[no-any-return]
    return next_loss(form, epoch, loss, before, now) - loss  # type: ignore[no-any-return]


@jit
def _score(how: int, energy: float, expected: float, robust: float, restored: float) -> float:
    opportunity = expected / robust if robust != 0.0 else 1.0  # line 9
    if how == OPPORTUNITY:
        return energy / opportunity
    risk = restored / energy  # line 12
    if how == CLAMPED:
        opportunity, risk = max(opportunity, 1.0), max(risk, 1.0)
    return energy * risk / opportunity  # line 13


@jit
def _scan(grid: Any, where: Any, layers: int, by_epoch: bool, restored: Any, how: int, taken: Any) -> Any:
    """The first action of the path with the least score, of equal ones the cheapest (-1: no path), and that score."""
    done, pair, loss, time = where
    pairs, losses = grid.joules.shape[0], grid.losses
    cells = pairs * losses * (grid.last - done + 1 if by_epoch else 1)
    energy, expected = np.full((layers, cells), np.inf), np.empty((layers, cells))
    robust, first = np.empty((layers, cells)), np.empty((layers, cells), np.int16)
    epochs, active = np.empty((layers, cells), np.int32), np.empty((layers, cells), np.int64)
    counts = np.zeros(layers, np.int64)
    start = pair * losses + loss
    energy[time % layers, start], expected[time % layers, start], robust[time % layers, start] = 0.0, 0.0, 0.0
    first[time % layers, start], epochs[time % layers, start] = -1, done
    active[time % layers, 0], counts[time % layers] = start, 1
    chosen, best, cheapest, any_action, any_energy = -1, np.inf, np.inf, -1, np.inf
    work = taken[WORK]
    for now_t in range(time, grid.deadline + 1):
        here = now_t % layers
        for number in range(counts[here]):
            cell = active[here, number]
            spent, gain, sure = energy[here, cell], expected[here, cell], robust[here, cell]
            energy[here, cell] = np.inf
            begun, epoch = first[here, cell], epochs[here, cell]
            before, index = (cell // losses) % pairs, cell % losses
            if index <= grid.goal and begun >= 0:
                score = _score(how, spent, gain, sure, restored[begun])
                if spent < any_energy:
                    any_action, any_energy = begun, spent
                if score < best - TOLERANCE or (score <= best + TOLERANCE and spent < cheapest):
                    chosen, best, cheapest = begun, min(score, best), spent
            if epoch >= grid.last or work > taken[MOST_WORK]:
                continue
            work += TURN_NS * pairs
            for now in range(pairs):
                step_s, step_j = grid.seconds[before, now], grid.joules[before, now]
                if not (np.isfinite(step_j) and np.isfinite(step_s)) or now_t + step_s > grid.deadline:
                    continue
                landed = next_loss(grid.robust, epoch + 1, float(index), before, now)
                if not (np.isfinite(landed) and landed < losses):
                    continue
                if now_t + step_s + lookup(grid.time_to_go, epoch + 1, now, landed) > grid.deadline:
                    continue
                there = (now_t + int(step_s)) % layers
                row = now if not by_epoch else (epoch + 1 - done) * pairs + now
                target = row * losses + int(landed)
                if spent + step_j >= energy[there, target]:
                    continue
                if energy[there, target] == np.inf:
                    active[there, counts[there]] = target
                    counts[there] += 1
                at = index * grid.loss_step
                energy[there, target], epochs[there, target] = spent + step_j, epoch + 1
                expected[there, target] = gain + _change(grid.plain_expected, epoch + 1, at, before, now)
                robust[there, target] = sure + _change(grid.plain_robust, epoch + 1, at, before, now)
                first[there, target] = now if begun < 0 else begun
        counts[here] = 0
    taken[WORK] = work
    return (chosen, best) if np.isfinite(best) else (any_action, best)


def layered(instance: SearchInstance) -> bool:
    """Whether the instance is one of a grid with a deadline, on which every epoch takes a step of time."""
    steps = instance.seconds[instance.allowed]
    return instance.form.integer and bool(np.isfinite(instance.deadline)) and float(steps.min(initial=np.inf)) >= 1.0


def layer_bytes(steps: float, pairs: int, losses: int, epochs: int) -> tuple[int, bool]:
    """Bytes of the layers where epochs take so many steps of time at most, and whether vertices have their epoch."""
    merged = (int(steps) + 1) * pairs * losses * _CELL_BYTES
    by_epoch = merged * (epochs + 1) <= MOST_BYTES
    return merged * (epochs + 1) if by_epoch else merged, by_epoch


def touched_bytes(asked_for: int) -> float:
    """What is taken of bytes that were asked for; of large layers a machine may have to give all."""
    return asked_for * (TOUCHED if asked_for <= 2 * MOST_BYTES else 1.0)


def next_action(
    instance: SearchInstance,
    start: Start,
    laws: tuple[LawForm, LawForm],
    loss_step: float,
    restored: NDArray[np.float64],
    how: int,
) -> int:
    """The action that Algorithm 3 returns, -1 without a feasible path.

    Args:
        instance: the robust law on the grid.
        start: the present state, in steps.
        laws: expected and robust, as they were before they were rounded to the grid.
        loss_step: gamma_l.
        restored: Wr by first action.
        how: which score.
    """
    steps = instance.seconds[instance.allowed]
    layers, losses = int(steps.max(initial=1.0)) + 1, int(instance.loss_top) + 1
    last = min(instance.cap(start), start.epoch + int(instance.deadline))
    asked_for, by_epoch = layer_bytes(steps.max(initial=1.0), len(instance.joules), losses, last - start.epoch)
    charge(instance.counts, 0, touched_bytes(asked_for))
    grid = _Grid(
        instance.form,
        laws[1],
        laws[0],
        loss_step,
        instance.seconds,
        instance.joules,
        int(instance.goal),
        int(instance.deadline),
        last,
        losses,
        nothing(instance.goal) if instance.by_epoch else instance.time_to_go(),
    )
    where = (start.epoch, start.pair, int(start.loss), int(start.elapsed_s))
    action = int(_scan(grid, where, layers, by_epoch, restored, how, instance.counts)[0])
    check(instance.counts)
    return action
