"""Worlds of a learned estimator: curves drawn round its expected ones, joint over pairs.

A forecast misses by two things that a decision must tell apart: how losses scatter from epoch to epoch, which is luck
and does not last, and that the curve itself is another, which does. Both are known from the traces that the models
learned from (`misses`). A world draws one deviate for each pair, in part the same for all, and its curve has the floor
and the pace that lead nearest to the paths that lie so many deviations from the expected ones: of the present leg, and
of every other pair's leg were it entered now or later. Where a handover lands goes with it in part. Models that know
nothing of their misses (`zero-trace`) have the width of their bands instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...core.curve import Array, onward
from ...core.law import Z_ROBUST, LevelLaw
from ...core.worlds import Worlds
from ..bands import Bands
from .misses import Misses
from .tail import HORIZONS

POWERS, CLEARLY = (4.0, 2.0, 1.0), 0.5
"""Of curves floor + (u + pace x)^-power: the first, unless another misses its paths by less than this share of it."""
NEAR, FAR = HORIZONS.index(5), tuple(HORIZONS.index(h) for h in (13, 21, 34))
"""Curves meet their paths at the first place of `HORIZONS` and come nearest to them at the others."""
FLOORS = np.append(np.linspace(0.0, 0.9, 13), (0.95, 0.99))
"""Floors that are tried, as shares of the lowest loss of the paths."""
AWAY = np.linspace(-3.0, 3.0, 13)
"""Deviates that curves are fitted for; those of worlds lie between."""
SLOWEST = 1e-6
"""The least progress of an epoch, in units of a curve's position."""
CLOSE, ODDEST = 3, 0.2
"""Epochs ahead that say where the present curve stands, and how far from the last loss that may be."""
LEAST_DOUBT = 0.01
LANDING = 0.7
"""Correlation of where a handover lands with how the leg goes on, as legs of `quickstart` have it."""
MOST_LANDING = 0.5
LEAST_REST = 8
"""Epochs that say, with as many before them, whether a leg still moves."""
TINY = 1e-3


@dataclass(frozen=True)
class Outlook:
    """What a law was made of: the law, losses ahead of every pair (P, H) from `starts` (P,), and where the run is.

    `legs`: when they are entered (epochs from now), starts (P,) and expected losses (P, H) of pairs entered then.
    `lines`: c0, c1 of handovers (P, P) for curves and their pace by epoch from now on. `first`: starts of pairs not
    entered yet are losses after so many epochs there. `losses`: of the present leg; `epoch`: epochs of the run;
    `stages` (P,): of every pair's leg.
    """

    law: LevelLaw
    ahead: Bands
    starts: Array
    legs: tuple[tuple[int, Array, Array], ...]
    lines: Callable[[Array, Array], tuple[Array, Array]]
    first: int
    pair: int
    losses: Array
    epoch: int
    stages: tuple[int, ...]

    @property
    def done(self) -> int:
        """Epochs of the present leg."""
        return len(self.losses)


def draw_learned(misses: Misses, outlook: Outlook, count: int, seed: int) -> Worlds:
    """`count` worlds; the same seed gives the same deviates whatever the run has seen."""
    here, pairs = outlook.pair, len(outlook.starts)
    random = np.random.default_rng([seed, 0x1EA4])
    shared, own, fresh = (random.standard_normal((count, wide)) for wide in (1, pairs, pairs))
    away = np.sqrt(misses.common) * shared + np.sqrt(1.0 - misses.common) * own
    landing = LANDING * away + np.sqrt(1.0 - LANDING**2) * fresh
    scatter = _scatter(misses, outlook)
    doubt, landed = _doubt(misses, outlook, scatter)
    power = _powers(outlook)
    floors, paces, _ = _fitted(outlook, doubt, landed, AWAY, power)  # (A, L, P) each
    middle = len(AWAY) // 2
    later = [leg[0] for leg in outlook.legs]
    pace, lift = (_by_epoch(values[middle], later) for values in (paces, floors - floors[:, -1:]))
    unit = pace[-1]
    faster = np.log(paces / paces[middle]).mean(axis=1)  # (A, P)
    curves = np.empty((count, pairs, 4))
    curves[:, :, 1], curves[:, :, 3] = 1.0, power
    for p in range(pairs):
        curves[:, p, 0] = np.interp(away[:, p], AWAY, floors[:, -1, p])
        curves[:, p, 2] = np.exp(-np.interp(away[:, p], AWAY, faster[:, p])) / unit[p]
    expected = np.column_stack([floors[middle, -1], np.ones(pairs), 1.0 / unit, power])
    jump0, jump1 = outlook.lines(expected, pace / unit)
    level = np.maximum(outlook.legs[0][1], TINY)
    stands = _standing(outlook, expected) * np.exp(landing[:, here] * landed[here])
    curves[:, here, 0] = np.minimum(curves[:, here, 0], stands)
    moved = level * np.exp(landing * landed) - np.maximum(outlook.starts, TINY)  # put right, and as the world has it
    jumps = np.where(np.isfinite(jump0), jump0 + moved[:, None, :], jump0)
    jumps[:, range(pairs), range(pairs)] = 0.0
    entered = np.stack([lift, pace / unit], axis=2)
    entered = np.concatenate([np.repeat(entered[:1], outlook.epoch, axis=0), entered])
    even = np.ones((1, pairs))
    return Worlds(curves, even, jumps, jump1, stands, scatter, np.ones((count, pairs)), outlook.done, entered=entered)


def _by_epoch(values: Array, later: list[int]) -> Array:
    """Values (L, P) of legs entered `later` epochs from now, by epoch from now on, (K, P)."""
    return np.stack([np.interp(np.arange(later[-1] + 1), later, column) for column in values.T], axis=1)


def _powers(outlook: Outlook) -> Array:
    """Of every pair's curves, (P,): from how they bend."""
    none = np.zeros((len(outlook.starts), len(HORIZONS)))
    wrong = []
    for power in POWERS:
        flat = np.full(len(outlook.starts), power)
        wrong.append(_fitted(outlook, none, none[:, 0], np.zeros(1), flat)[2][0])
    errors = np.stack(wrong)
    best = errors.argmin(axis=0)
    clear = errors.min(axis=0) < CLEARLY**2 * errors[0]
    return np.where(clear, np.array(POWERS)[best], POWERS[0])


def _fitted(outlook: Outlook, doubt: Array, landed: Array, away: Array, power: Array) -> tuple[Array, Array, Array]:
    """Floors and progress of an epoch (A, L, P) of curves that lie `away` deviations from the expected ones.

    A leg has the progress that leads to its loss five epochs on, and the floor that then comes nearest further on.
    Third, squares (A, P) of what they miss all of their paths by.
    """
    starts = np.stack([leg[1] for leg in outlook.legs])[None] * np.exp(LANDING * away[:, None, None] * landed)
    starts = np.maximum(starts, TINY)
    paths = np.maximum(np.stack([leg[2] for leg in outlook.legs]), TINY)
    wanted = paths[None] * np.exp(away[:, None, None, None] * doubt)  # (A, L, P, H)
    top = np.minimum(wanted[..., (NEAR, *FAR)].min(axis=3), starts)
    floor = FLOORS * top[..., None]  # (A, L, P, F)
    inverse = -1.0 / power[:, None]
    begun = (starts[..., None] - floor) ** inverse
    moved = (wanted[..., NEAR, None] - floor) ** inverse - begun
    pace = np.maximum(moved / HORIZONS[NEAR], SLOWEST)

    def missed(at: int) -> Array:
        reached = floor + (begun + pace * HORIZONS[at]) ** -power[:, None]
        return np.asarray(np.log(reached / wanted[..., at, None]) ** 2)

    far = sum(missed(at) for at in FAR)
    best = np.asarray(far).argmin(axis=3)[..., None]
    near = sum(missed(at) for at in range(NEAR)) if len(away) == 1 else 0.0
    chosen = [np.take_along_axis(np.asarray(part), best, axis=3)[..., 0] for part in (floor, pace, far + near)]
    return chosen[0], chosen[1], chosen[2].sum(axis=1)


def _standing(outlook: Outlook, curves: Array) -> float:
    """Where the present curve stands: an odd loss moves the forecast by less than it is odd."""
    here = outlook.pair
    start = max(float(outlook.starts[here]), TINY)
    if not outlook.done:
        return start
    path = onward(curves[here], start, np.arange(1.0, CLOSE + 1.0))
    odd = float(np.mean(np.log(np.maximum(outlook.ahead.mean[here, :CLOSE], TINY) / path)))
    return start * float(np.exp(np.clip(odd, -ODDEST, ODDEST)))


def _scatter(misses: Misses, outlook: Outlook) -> Array:
    """Of losses by epoch of a leg, (P, J); of models that know nothing of it, what their laws say."""
    if misses.scatter.size:
        return np.ascontiguousarray(_rows(misses.scatter, outlook))
    known = outlook.law.scatter
    return np.zeros((len(outlook.starts), 1)) if known is None else known[:, None].copy()


def _rows(by_stage: Array, outlook: Outlook) -> Array:
    return np.asarray(by_stage[np.minimum(outlook.stages, len(by_stage) - 1)])


def _doubt(misses: Misses, outlook: Outlook, scatter: Array) -> tuple[Array, Array]:
    """Standard deviations of the logarithm of every pair's curve at `HORIZONS` (P, H), and of a landing (P,)."""
    here = np.arange(len(outlook.starts)) == outlook.pair
    mean, low, high = (np.log(np.maximum(part, TINY)) for part in outlook.ahead.parts)
    whole = np.maximum(high - mean, 0.5 * (high - low)) / Z_ROBUST
    law = outlook.law
    robust = law.jump0 if law.jump0_robust is None else law.jump0_robust
    with np.errstate(invalid="ignore"):
        away = np.nan_to_num(robust - law.jump0, nan=0.0, posinf=0.0)[outlook.pair]
    landed = np.minimum(away / Z_ROBUST / np.maximum(outlook.starts, TINY), MOST_LANDING)
    if misses.stayed.size:
        whole[here] = np.maximum(whole, _rows(misses.stayed, outlook))[here]
    if misses.entered.size:
        known = _rows(misses.entered, outlook)
        whole[~here], landed = known[~here, 1:], _less(known[:, 0], scatter[:, 0])
    done = np.where(here, outlook.done, outlook.first)
    at = np.minimum(done[:, None] + np.array(HORIZONS), scatter.shape[1]) - 1
    luck = np.take_along_axis(scatter, at, axis=1)
    left = _less(whole, luck)
    left[here] = np.minimum(left[here], _moves(outlook.losses, luck[here][0]))
    landed[here] = left[here, 0] if outlook.done else 0.0
    return left, landed


def _moves(losses: Array, luck: Array) -> Array:
    """By how much a leg may yet move within `HORIZONS`, in logarithms (H,): as its last epochs did, so many against as
    many before them; no bound for a leg that is short. One that has come to rest is at rest."""
    logs = np.log(np.maximum(losses, TINY))
    most = np.full(len(HORIZONS), np.inf)
    for at, ahead in enumerate(HORIZONS):
        wide = min(max(ahead, LEAST_REST), len(logs) // 2)
        if wide >= LEAST_REST:
            moved = logs[-wide:].mean() - logs[-2 * wide : -wide].mean()
            most[at] = max(float(np.hypot(moved, luck[at] * np.sqrt(2.0 / wide))), LEAST_DOUBT)
    return most


def _less(whole: Array, luck: Array) -> Array:
    return np.sqrt(np.maximum(whole**2 - luck**2, LEAST_DOUBT**2))
