"""Loss laws: what one epoch does to the loss, at `expected` or at any path-wise level.

    l' = run(epoch, mid, now),   mid = l + c0[before, now] + c1[before, now] * l        (PACT eq. 3, in two steps)

A law is frozen, Markov in (epoch, pair, loss) and vectorised over losses. A *level* is path-wise: following the
q-curve from the present observation, the loss after h epochs is the q-quantile of the loss after h epochs, so
per-epoch quantiles are never summed. What scatters an epoch and is gone the next does not add up either: a path of a
level begins at `begin`, beside the observed loss by the level's share of that scatter. Two laws are written here and
`simulate`, estimators and tests bring others:

* `EpochLaw`: gains in tables by epoch index, as the paper writes them;
* `LevelLaw`: the present loss is a position on the version's own curve (`core.curve`); no epoch index.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from .curve import Array, position, step
from .errors import ScenarioError

Level = float | Literal["expected"]

ROBUST_LEVEL = 0.95
"""The level at which a scenario's `robust` figures are given (PACT section IV)."""

Z_ROBUST = 1.6448536269514722
"""The standard normal's quantile at the robust level."""

ADDITIVE, CURVE, TABLE = 0, 1, 2
"""Kinds of `LawForm`: gains by epoch; position on a curve; a table over a grid of losses."""


class LawForm(NamedTuple):
    """A law at one level as plain arrays: what compiled searches read.

    `kind` says which part is used; unused parts are empty. With P pairs and tables over epochs of length K (the last
    row holds for every later epoch; K = 1 means no dependence on the epoch):

    * ADDITIVE: run (K, P); l' = max(0, mid + run)
    * CURVE: curves (P, 4) rows a, b, s, alpha; mult (K, P); l' = mid + mult (curve(x + 1) - mid)
    * TABLE: table (K, P, P, G) over losses 0, step, 2 step, ...: linear in between; `integer` keeps losses whole
    """

    kind: int
    run: Array
    curves: Array
    mult: Array
    c0: Array  # (K, P, P)
    c1: Array  # (P, P)
    table: Array  # (K, P, P, G)
    step: float
    integer: bool

    @property
    def pairs(self) -> int:
        """How many pairs the law covers."""
        return int(self.table.shape[1] if self.kind == TABLE else self.c1.shape[0])

    @property
    def epochs(self) -> int:
        """Rows of the longest table over epochs; 1 when the law does not depend on the epoch."""
        return int(max(self.run.shape[0], self.mult.shape[0], self.c0.shape[0], self.table.shape[0]))


@runtime_checkable
class LossLaw(Protocol):
    """lambda of PACT (3) as one function of the state; `before` and `now` are indexes of pairs."""

    @property
    def autonomous(self) -> bool:
        """No dependence on the epoch index, so planners may drop it from the state."""
        ...

    @property
    def monotone(self) -> bool:
        """Non-decreasing in the loss at every level in use, so that dominance is exact; each law says how it looked."""
        ...

    def next_loss(self, epoch: int, loss: Array, before: int, now: int, level: Level = "expected") -> Array:
        """The loss after epoch number `epoch` (the first is 1) from `loss`, at `level`."""
        ...

    def form(self, level: Level = "expected") -> LawForm:
        """The law at `level` as arrays for the compiled searches."""
        ...


def begin(law: LossLaw, loss: float, pair: int, level: Level = "expected") -> float:
    """Where a path of `level` begins when `loss` was observed last, on `pair`; beside it only by `LevelLaw.scatter`."""
    return law.begin(loss, pair, level) if isinstance(law, LevelLaw) else loss


def at_levels(law: LossLaw, levels: Iterable[Level], loss: float, pair: int) -> list[tuple[float, LawForm]]:
    """For each level where its path begins (`begin`) and the law it follows (`form`)."""
    return [(begin(law, loss, pair, level), law.form(level)) for level in levels]


def after(law: LossLaw, epoch: int, loss: float, before: int, now: int, level: Level = "expected") -> float:
    """The loss after epoch `epoch` on `now`, at `level`, when `loss` was observed last, on `before`."""
    return float(law.next_loss(epoch, np.array(begin(law, loss, before, level)), before, now, level))


MOST_FORMS = 128
"""Levels of which a law remembers its arrays."""


@lru_cache(maxsize=1024)
def shading(level: Level) -> float:
    """How far a level lies between expected (0) and robust (1): z_q / z_0.95."""
    if level == "expected":
        return 0.0
    q = float(level)
    if not 0.0 < q < 1.0:
        raise ScenarioError(f"level: got {q}, expected a probability strictly between 0 and 1")
    from statistics import NormalDist  # `validate` asks for no level

    normal = NormalDist()
    return normal.inv_cdf(q) / normal.inv_cdf(ROBUST_LEVEL)


def between(expected: Array, robust: Array, level: Level) -> Array:
    """Parameters at `level`; what only the robust side forbids is forbidden at every level above expected."""
    share = shading(level)
    if share == 0.0 or robust is expected:
        return expected
    with np.errstate(invalid="ignore"):
        apart = robust - expected
        mixed = expected + share * apart
    if np.isfinite(apart).all():  # nothing is forbidden
        return mixed
    mixed = np.where(np.isfinite(expected) & np.isfinite(robust), mixed, expected)
    return np.where(np.isinf(robust), robust, mixed) if share > 0 else mixed


def evaluate(form: LawForm, epoch: int, loss: Array, before: int, now: int) -> Array:
    """One step of `form`, vectorised over `loss` (numpy twin of the compiled `planners.search.kernels.next_loss`)."""
    loss = np.asarray(loss, dtype=np.float64)
    if form.kind == TABLE:
        row = form.table[min(epoch, len(form.table)) - 1, before, now]
        last = len(row) - 1
        position = np.clip(loss / form.step, 0.0, last)
        left = np.minimum((position + 1e-9).astype(np.int64), last)
        share = np.where(left < last, position - left, 0.0)
        low, high = row[left], row[np.minimum(left + 1, last)]
        with np.errstate(invalid="ignore"):
            inside = np.where(np.isfinite(low) & np.isfinite(high), low + share * (high - low), np.inf)
        values = np.where(share <= 1e-9, low, inside)
        return np.asarray(np.where(loss / form.step > last + 1e-9, np.inf, values))
    mid = loss
    if before != now:
        mid = loss + form.c0[min(epoch, len(form.c0)) - 1, before, now] + form.c1[before, now] * loss
    if form.kind == ADDITIVE:
        return np.asarray(np.maximum(mid + form.run[min(epoch, len(form.run)) - 1, now], 0.0))
    return step(form.curves[now], mid, form.mult[min(epoch, len(form.mult)) - 1, now])


def _empty(*shape: int) -> Array:
    return np.zeros(shape)


@dataclass(frozen=True)
class EpochLaw:
    """Gains by epoch index, exactly as PACT writes lambda(k, ...): ignores where the loss stands.

    `run`, `run_robust`: (K, P). `change`, `change_robust`: (K or 1, P, P), zero on the diagonal; infinity forbids.
    """

    run: Array
    change: Array
    run_robust: Array | None = None
    change_robust: Array | None = None

    @property
    def autonomous(self) -> bool:
        """True only when every table has a single row."""
        return len(self.run) == 1 and len(self.change) == 1

    @property
    def monotone(self) -> bool:
        """Always: the loss enters with slope one."""
        return True

    def form(self, level: Level = "expected") -> LawForm:
        """The tables at `level`."""
        run = between(self.run, self.run if self.run_robust is None else self.run_robust, level)
        change = between(self.change, self.change if self.change_robust is None else self.change_robust, level)
        pairs = run.shape[1]
        return LawForm(
            ADDITIVE, run, _empty(0, 4), _empty(1, 0), change, _empty(pairs, pairs), _empty(0, 0, 0, 0), 1.0, False
        )

    def next_loss(self, epoch: int, loss: Array, before: int, now: int, level: Level = "expected") -> Array:
        """Equation (3) with the tables' rows for `epoch`."""
        return evaluate(self.form(level), epoch, loss, before, now)


@dataclass(frozen=True)
class LevelLaw:
    """The present loss is a position on the pair's own curve; a switch moves the position.

    `curves`: (P, 4) rows a, b, s, alpha. `mult` scales an epoch's progress (bias, robustness, noise): (K or 1, P).
    `jump0`, `jump1`: (P, P), the jump jump0 + jump1 * l of a handover. Robust twins give the 0.95 level.

    Observed losses scatter round the curve without adding up: `scatter` (P,) is the standard deviation of the logarithm
    of an observed loss over the curve's. `standing` (P,) is the logarithm of where the curve stands now over the loss
    observed last. At level q all losses are the curve's times exp(z_q scatter), so a path of that level does not begin
    at the observed loss but at `begin(loss, pair, level)`; from there on it is a curve like any other.

    `notes`: what a reader of the run should know about this law, in the estimator's words.
    """

    curves: Array
    jump0: Array
    jump1: Array
    mult: Array
    mult_robust: Array | None = None
    jump0_robust: Array | None = None
    jump1_robust: Array | None = None
    curves_robust: Array | None = None
    loss_top: float = math.inf
    scatter: Array | None = None
    standing: Array | None = None
    notes: tuple[str, ...] = ()

    @property
    def autonomous(self) -> bool:
        """True unless `mult` varies with the epoch."""
        return len(self.mult) == 1

    @cached_property
    def monotone(self) -> bool:
        """Whether a lower loss leads to a lower one, looked at for `expected` and 0.99.

        The slope of one epoch is 1 - mult (1 - (1 + 1/(s u))^-(alpha+1)), smallest at the highest loss it may meet.
        Levels between these two are taken to be as they are. Better ones than expected are not looked at: searches know
        of steps longer than the curve's.
        """
        return all(self._monotone_at(self.form(level)) for level in ("expected", 0.99))

    def _monotone_at(self, form: LawForm) -> bool:
        finite = np.isfinite(form.c0[0])
        if (form.c1[finite] < -1.0).any():
            return False
        a, b, s, alpha = form.curves.T
        top = self.loss_top if math.isfinite(self.loss_top) else float((a + b).max()) * 2.0
        above = top > a  # at or below its floor a curve leaves losses as they are
        u = position(form.curves.T, np.where(above, top, a + b))
        slope = 1.0 - form.mult.max(axis=0) * (1.0 - (1.0 + 1.0 / (s * u)) ** -(alpha + 1.0))
        return bool((slope >= 0.0)[above].all())

    def form(self, level: Level = "expected") -> LawForm:
        """Curves, multipliers and jumps at `level`; progress is never negative.

        With scatter the losses of a level are the curve's times a factor of the pair's own: floor and drop grow by it,
        and a handover goes from one pair's factor to the other's. That is again a curve and a jump, exactly.
        """
        known = self._forms.get(level)
        if known is None:
            known = self._form(level)
            if len(self._forms) < MOST_FORMS:
                self._forms[level] = known
        return known

    @cached_property
    def _forms(self) -> dict[Level, LawForm]:
        """Forms asked for before: a plan asks for the same levels again and again."""
        return {}

    def _form(self, level: Level) -> LawForm:
        def at(expected: Array, robust: Array | None) -> Array:
            return expected if robust is None else between(expected, robust, level)

        pairs = len(self.curves)
        mult = np.maximum(at(self.mult, self.mult_robust), 0.0)
        c0 = at(self.jump0, self.jump0_robust)[None]
        c1 = at(self.jump1, self.jump1_robust)
        curves = at(self.curves, self.curves_robust)
        factor = self.raised(level)
        if factor is not None:
            curves = curves * np.column_stack([factor, factor, np.ones((pairs, 2))])
            c0 = c0 * factor[None, None, :]
            c1 = (1.0 + c1) * (factor[None, :] / factor[:, None]) - 1.0
        return LawForm(CURVE, _empty(1, pairs), curves, mult, c0, c1, _empty(0, 0, 0, 0), 1.0, False)

    def raised(self, level: Level) -> Array | None:
        """The factor (P,) between losses of `level` and the curve's, exp(z_q scatter); None for none."""
        share = shading(level)
        if self.scatter is None or share == 0.0 or not self.scatter.any():
            return None
        return np.asarray(np.exp(share * Z_ROBUST * self.scatter))

    def begin(self, loss: float, pair: int, level: Level = "expected") -> float:
        """Where a path of `level` begins when `loss` was observed last, on `pair`."""
        factor = self.raised(level)
        stands = loss if self.standing is None else loss * math.exp(float(self.standing[pair]))
        return stands if factor is None else stands * float(factor[pair])

    def next_loss(self, epoch: int, loss: Array, before: int, now: int, level: Level = "expected") -> Array:
        """One epoch along the curve of `now`, after the jump from `before`."""
        return evaluate(self.form(level), epoch, loss, before, now)

    def biased(self, progress: Array) -> LevelLaw:
        """The same law with every pair's progress scaled by `progress` (P,)."""
        scale = np.asarray(progress, dtype=np.float64)[None, :]
        robust = self.mult if self.mult_robust is None else self.mult_robust
        return replace(self, mult=self.mult * scale, mult_robust=robust * scale)

    def topped(self, start: float) -> LevelLaw:
        """The same law, with the highest loss it may meet: `start` after the largest jump from there."""
        jumps = [self.jump0 + self.jump1 * start]
        if self.jump0_robust is not None and self.jump1_robust is not None:
            jumps.append(self.jump0_robust + self.jump1_robust * start)
        return replace(self, loss_top=start + max(0.0, *(float(j[np.isfinite(j)].max(initial=0.0)) for j in jumps)))

    def noisy(self, factors: Array) -> LevelLaw:
        """The law of one world whose epoch k makes factors[k-1, pair] times the progress: noise drawn beforehand."""
        rows = np.minimum(np.arange(len(factors)), len(self.mult) - 1)  # the last row of `mult` holds on
        return replace(self, mult=self.mult[rows] * np.maximum(factors, 0.0), mult_robust=None)


@dataclass(frozen=True)
class TableLaw:
    """Any law tabulated on a grid of losses at one level; how foreign laws and the papers' grids reach the searches."""

    table: Array
    step: float
    integer: bool = False

    @property
    def autonomous(self) -> bool:
        """True when there is one table for all epochs."""
        return len(self.table) == 1

    @cached_property
    def monotone(self) -> bool:
        """Checked on the table itself."""
        with np.errstate(invalid="ignore"):
            rises = np.diff(self.table, axis=-1)
        return bool((np.nan_to_num(rises, nan=0.0, posinf=1.0) >= -1e-12).all())

    def form(self, level: Level = "expected") -> LawForm:
        """The table, whatever the level."""
        pairs = self.table.shape[1]
        blank = _empty(pairs, pairs)
        return LawForm(
            TABLE, _empty(1, pairs), _empty(0, 4), _empty(1, 0), blank[None], blank, self.table, self.step, self.integer
        )

    def next_loss(self, epoch: int, loss: Array, before: int, now: int, level: Level = "expected") -> Array:
        """Linear between the grid's losses; infinite above the last one."""
        return evaluate(self.form(), epoch, loss, before, now)


def tabulate(law: LossLaw, level: Level, *, pairs: int, top: float, cells: int = 2048) -> TableLaw:
    """The first epoch of `law` at `level` on `cells` cells of loss from 0 to `top`."""
    losses = np.linspace(0.0, top, cells + 1)
    table = np.empty((1, pairs, pairs, cells + 1))
    for before in range(pairs):
        for now in range(pairs):
            table[0, before, now] = law.next_loss(1, losses, before, now, level)
    return TableLaw(table, top / cells)
