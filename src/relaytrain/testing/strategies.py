"""Random planning problems for tests: small enough to be walked in full, odd enough to find mistakes.

`draw` takes a numpy generator, so that a seed names a problem; `problems` is the same as a hypothesis strategy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core.cost import CostTable
from ..core.curve import Array
from ..core.law import EpochLaw, LevelLaw
from ..core.problem import Pair, Problem, Target
from ..core.state import State
from .brute_force import plain_step

Kind = Literal["epoch", "level"]


@dataclass(frozen=True)
class Drawn:
    """One random problem with its costs, its law and where it starts."""

    problem: Problem
    costs: CostTable
    law: EpochLaw | LevelLaw
    state: State

    def with_target(self, *, loss: float | None = None, deadline_s: float | None = None) -> Drawn:
        """The same with another target."""
        old = self.problem.target
        target = replace(
            old,
            loss=old.loss if loss is None else loss,
            deadline_s=old.deadline_s if deadline_s is None else deadline_s,
        )
        return replace(self, problem=replace(self.problem, target=target))

    def permuted(self, order: NDArray[np.int64]) -> Drawn:
        """The same with pair number order[i] in place i."""
        back = np.argsort(order)
        costs = CostTable(
            self.costs.run_s[order],
            self.costs.change_s[np.ix_(order, order)],
            self.costs.run_j[order],
            self.costs.change_j[np.ix_(order, order)],
        )
        problem = replace(
            self.problem,
            pairs=tuple(self.problem.pairs[i] for i in order),
            start=int(back[self.problem.start]),
        )
        return Drawn(problem, costs, _law_of(self.law, order), replace(self.state, pair=int(back[self.state.pair])))

    def first_pairs(self, count: int) -> Drawn:
        """The same with only the first `count` pairs; start and present pair must be among them."""
        return self.permuted(np.arange(count))


def _law_of(law: EpochLaw | LevelLaw, keep: NDArray[np.int64]) -> EpochLaw | LevelLaw:
    square = np.ix_(keep, keep)
    if isinstance(law, EpochLaw):
        return EpochLaw(law.run[:, keep], np.stack([table[square] for table in law.change]))
    return LevelLaw(law.curves[keep], law.jump0[square], law.jump1[square], law.mult[:, keep], loss_top=law.loss_top)


def draw(
    rng: np.random.Generator,
    kind: Kind,
    *,
    pairs: tuple[int, int] = (2, 4),
    epochs: int = 7,
    oddities: bool = True,
    capped: bool | None = None,
) -> Drawn:
    """A random problem none of whose paths is longer than `epochs` + 1.

    With `oddities` some costs are infinite or zero, tables change by epoch, progress may exceed the curve, runs are
    under way, targets sit at the clamp. `capped` fixes whether `max_epochs` or the deadline alone ends the paths.
    """
    count = int(rng.integers(pairs[0], pairs[1] + 1))
    odd = rng.random(8) < 0.2 if oddities else np.zeros(8, bool)
    costs = _costs(rng, count, free=bool(odd[0]), holes=oddities)
    law = _epoch_law(rng, count, epochs, odd) if kind == "epoch" else _level_law(rng, count, epochs, odd)
    start = int(rng.integers(count))
    cap = rng.random() < 0.5 if capped is None else capped
    quickest = float(costs.epoch_s[np.isfinite(costs.epoch_s)].min(initial=math.inf))
    if quickest == 0.0 or not math.isfinite(quickest):
        cap = True
    pair_names = tuple(Pair(f"v{i // 2}", f"n{i}") for i in range(count))
    first = State(0, 1.0, 0.0, start)
    if oddities and odd[1]:
        first = State(int(rng.integers(0, 3)), float(rng.uniform(0.8, 1.2)), float(rng.uniform(0.0, 0.5)), start)
    loss, seconds = _target(rng, costs, law, first, epochs)
    if oddities and odd[2]:
        loss = 0.0
    deadline = first.elapsed_s + seconds * rng.choice([0.7, 1.0, 1.2, 2.0])
    if not cap:
        deadline = min(deadline, first.elapsed_s + (epochs - first.epoch + 0.5) * quickest)
    elif oddities and odd[3]:
        deadline = math.inf
    problem = Problem(
        "drawn", pair_names, start, first.loss, Target(loss, float(deadline)), max_epochs=epochs if cap else None
    )
    return Drawn(problem, costs, law, first)


def _costs(rng: np.random.Generator, count: int, *, free: bool, holes: bool) -> CostTable:
    """Costs with two decimals, so that equal sums happen."""
    off = 1.0 - np.eye(count)
    run_s, run_j = rng.uniform(0.2, 1.0, count).round(2), rng.uniform(0.05, 1.0, count).round(2)
    change_s = (rng.uniform(0.0, 0.4, (count, count)) * off).round(2)
    change_j = (rng.uniform(0.0, 0.5, (count, count)) * off).round(2)
    if free:
        zeroed = [run_s, run_j, change_s, change_j]
        for table in zeroed:
            if rng.random() < 0.5:
                table[rng.random(table.shape) < 0.5] = 0.0
    if holes:
        change_s[(rng.random((count, count)) < 0.1) & (off > 0)] = np.inf
        change_j[(rng.random((count, count)) < 0.1) & (off > 0)] = np.inf
        if rng.random() < 0.15:
            (run_s if rng.random() < 0.5 else run_j)[rng.integers(count)] = np.inf
    return CostTable(run_s, change_s, run_j, change_j)


def _jumps(rng: np.random.Generator, count: int, high: float, *, holes: bool) -> Array:
    jumps = rng.uniform(-0.1 * high, high, (count, count))
    if holes:
        jumps[rng.random((count, count)) < 0.1] = np.inf
    jumps[np.arange(count), np.arange(count)] = 0.0
    return jumps


def _epoch_law(rng: np.random.Generator, count: int, epochs: int, odd: NDArray[np.bool_]) -> EpochLaw:
    rows = 1 if odd[4] else int(rng.integers(2, epochs + 2))
    run = rng.uniform(-0.35, 0.05, (rows, count))
    changes = int(rng.integers(2, epochs + 1)) if odd[5] else 1
    change = np.stack([_jumps(rng, count, 0.25, holes=bool(odd[6])) for _ in range(changes)])
    if odd[7]:  # whole multiples, as in the paper's toy: many ties
        run = -0.1 * rng.integers(0, 5, (rows, count)).astype(float)
        change = np.where(np.isfinite(change), 0.1 * np.round(change / 0.1), change)
    return EpochLaw(run, change)


def _level_law(rng: np.random.Generator, count: int, epochs: int, odd: NDArray[np.bool_]) -> LevelLaw:
    curves = np.column_stack(
        [
            rng.uniform(0.0, 0.35, count),
            rng.uniform(0.5, 1.0, count),
            rng.uniform(0.8, 6.0, count),
            rng.uniform(0.7, 2.0, count),
        ]
    )
    if odd[7]:
        curves[:, 0] = 0.0
    rows = int(rng.integers(2, epochs + 1)) if odd[4] else 1
    mult = np.ones((rows, count)) if rng.random() < 0.4 else rng.uniform(0.5, 1.0, (rows, count))
    if odd[5]:
        mult = rng.uniform(0.7, 1.25, (rows, count))
    jump0 = _jumps(rng, count, 0.15, holes=bool(odd[6]))
    jump1 = rng.uniform(-0.05, 0.1, (count, count)) * (1.0 - np.eye(count))
    return LevelLaw(curves, jump0, jump1, mult, loss_top=2.5)


def _target(
    rng: np.random.Generator, costs: CostTable, law: EpochLaw | LevelLaw, state: State, epochs: int
) -> tuple[float, float]:
    """Loss and seconds of a random walk, so that targets lie where the problem is interesting."""
    loss, pair, seconds, steps = state.loss, state.pair, 0.0, int(rng.integers(1, epochs))
    for epoch in range(state.epoch, min(state.epoch + steps, epochs)):
        open_ = [
            q
            for q in range(len(costs.run_s))
            if np.isfinite(costs.epoch_s[pair, q] + costs.epoch_j[pair, q])
            and math.isfinite(plain_step(law, epoch + 1, loss, pair, q))
        ]
        if not open_:
            break
        now = int(rng.choice(open_))
        loss, seconds, pair = (
            plain_step(law, epoch + 1, loss, pair, now),
            seconds + float(costs.epoch_s[pair, now]),
            now,
        )
    return max(0.0, min(loss, 0.98 * state.loss)), max(seconds, 0.3)


def problems(kind: Kind | None = None, **options: Any) -> Any:
    """A hypothesis strategy of `Drawn` problems; options as for `draw`."""
    from hypothesis import strategies as st

    def build(seed: int, which: Kind) -> Drawn:
        return draw(np.random.default_rng(seed), which, **options)

    kinds = st.sampled_from(["epoch", "level"]) if kind is None else st.just(kind)
    return st.builds(build, st.integers(0, 2**32 - 1), kinds)
