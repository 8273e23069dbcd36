"""The `[prior]` that recorded relays teach: curves at the level of seeds, what they have in common, how losses scatter.

Every seed has a floor and a pace on every pair; every leg begins somewhere. All are found together by least squares on
the logarithm of the losses, on grids that close in, so nothing depends on a start. From the seeds' own figures follow
the pair's mean curve and its spreads, the correlation of floors and of paces between pairs, and the handovers: from
where the curve before stood to where the new one begins. What is left round the curves is scatter, by epoch of a leg.

`progress` by epoch of the run is what a network that has learned little yet learns from an epoch, as a share of what it
learns later; it is the same for all seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...core.law import Z_ROBUST, Array
from ...core.problem import Pair
from ...scenario.model import Scenario
from ...scenario.wide import JUMP, PACE_SPREAD, floor_spread, wide_law
from ...traces.atlas import Atlas, LegKey
from .belief import WIDE_SCATTER

POWER = 4.0
KNOTS = (1, 5, 9, 13, 17, 21)
"""Epochs of a run from which on another progress holds."""
STARTS, FLOORS, PACES = 15, 11, 11
ROUNDS, SHRINK = 5, 0.5
"""Of closing in, and what is left of the range in each."""
SETTLED = 21
"""Legs that begin at this epoch of a run or later (at the latest recorded, if none do) show a pair's own curve; earlier
ones, how progress begins."""
WIDTHS = (2.0, 2.0, 1.4, 1.4, 1.2, 1.1)
"""Steps in which progress is sought."""
PULL, ODD = 0.02, 0.3
"""Weight of a log pace beside the squares of residuals; the residual beyond which a loss is odd."""


@dataclass
class FittedLeg:
    """A leg with where its curve begins (`begins`, if that is known), and the residuals of its losses."""

    seed: int
    key: LegKey
    losses: Array
    first_epoch: int
    begins: float | None = None
    start: float = 0.0
    floor: float = 0.0
    pace: float = 0.0
    curve: Array = field(default_factory=lambda: np.empty(0))


@dataclass
class FittedPair:
    """What the seeds showed of one pair: floor and log pace by seed, progress by knot, the legs."""

    pair: int
    scale: float
    drop: float
    progress: Array
    floors: dict[int, float]
    paces: dict[int, float]
    legs: list[FittedLeg]


def progress_rows(progress: Array) -> Array:
    """Progress by epoch of the run, the last one holding on."""
    rows = np.repeat(progress[:-1], np.diff(KNOTS))
    return np.append(rows, progress[-1])


def legs_by_pair(atlas: Atlas, least: int = 4) -> dict[int, list[FittedLeg]]:
    """All legs of an atlas of at least so many epochs, of relays that begin where the scenario does.

    A first leg on another pair is one of them: the network was handed over before it had learned anything, so its curve
    begins where that of the start does.
    """
    found: dict[int, list[FittedLeg]] = {}
    for seed, legs in atlas.seeds.items():
        for key, leg in legs.items():
            if len(leg.losses) >= least and (not key.before or key.before[0][0] == atlas.start):
                first = 1 + sum(count for _, count in key.before)
                found.setdefault(key.pair, []).append(FittedLeg(seed, key, np.array(leg.losses), first))
                if not key.before and key.pair != atlas.start:
                    found[key.pair][-1].begins = legs[LegKey((), atlas.start)].start
    return found


def fit_pair(pair: int, legs: Sequence[FittedLeg], initial_loss: float) -> FittedPair:
    """Floors, paces and progress of one pair: from legs that begin late, then early progress from those that do not.

    Every late leg gets a floor and a pace of its own, a seed their means: what legs of one seed differ by, having come
    other ways, is doubt about the floor and not scatter.
    """
    scale, drop = 9.0, initial_loss
    latest = {seed: max(leg.first_epoch for leg in legs if leg.seed == seed) for seed in {leg.seed for leg in legs}}
    since = min(SETTLED, *latest.values())
    settled = [leg for leg in legs if leg.first_epoch >= since]
    progress = np.ones(len(KNOTS))
    rows = progress_rows(progress)
    for leg in settled:
        _, leg.floor, leg.pace, (leg.start,) = _fit_seed([leg], rows, scale, drop, None)
    seeds = sorted({leg.seed for leg in settled})
    floors, paces = (
        {seed: float(np.mean([getattr(leg, name) for leg in settled if leg.seed == seed])) for seed in seeds}
        for name in ("floor", "pace")
    )
    early = [leg for leg in legs if all(leg is not other for other in settled)]
    if early:

        def again(tried: Array) -> Fit:
            return _fit_seeds(early, tried, scale, drop, (floors, paces))

        progress, best = _progress(progress, again(progress), again, early)
        for leg, start in zip(early, best[3], strict=True):
            leg.floor, leg.pace, leg.start = floors[leg.seed], paces[leg.seed], start
        rows = progress_rows(progress)
    middle = float(np.mean(list(paces.values())))
    for leg in legs:
        leg.curve = curve_of(leg, rows, leg.floor, drop, scale / np.exp(leg.pace), leg.start)
    centred = {seed: pace - middle for seed, pace in paces.items()}
    return FittedPair(pair, scale / np.exp(middle), drop, progress, floors, centred, list(legs))


Fit = tuple[float, dict[int, float], dict[int, float], list[float]]
"""Error, floor and log pace by seed, start by leg."""


def _progress(
    progress: Array, best: Fit, fitted: Callable[[Array], Fit], legs: Sequence[FittedLeg]
) -> tuple[Array, Fit]:
    """Progress before `SETTLED`, one knot after the other, by steps that become smaller."""
    for width in WIDTHS:
        for knot in (knot for knot in range(len(KNOTS)) if KNOTS[knot] < SETTLED and _passes(legs, knot)):
            for factor in (1.0 / width, width):
                tried = progress.copy()
                tried[knot] = np.clip(tried[knot] * factor, 0.02, 1.5)
                other = fitted(tried)
                if other[0] < best[0]:
                    best, progress = other, tried
    seen = [knot for knot in range(len(KNOTS)) if _passes(legs, knot)]
    progress[: seen[0]] = progress[seen[0]]  # of epochs before all legs the next ones speak
    return progress, best


def _passes(legs: Sequence[FittedLeg], knot: int) -> bool:
    until = KNOTS[knot + 1] if knot + 1 < len(KNOTS) else np.inf
    return any(leg.first_epoch < until and leg.first_epoch + len(leg.losses) > KNOTS[knot] for leg in legs)


def curve_of(leg: FittedLeg, rows: Array, floor: Any, drop: float, scale: Any, start: Any) -> Array:
    """Losses (..., epochs) of a leg's curve from `start`; floor, scale and start of shapes that go together."""
    at = np.minimum(np.arange(len(leg.losses)) + leg.first_epoch, len(rows)) - 1
    gone = np.cumsum(rows[at])
    floor, scale, start = (np.asarray(value)[..., None] for value in (floor, scale, start))
    above = np.maximum(start - floor, 1e-6)
    return np.asarray(floor + drop * ((above / drop) ** (-1.0 / POWER) + gone / scale) ** -POWER)


def _fit_seeds(
    legs: Sequence[FittedLeg],
    progress: Array,
    scale: float,
    drop: float,
    known: tuple[Mapping[int, float], Mapping[int, float]] | None = None,
) -> Fit:
    rows = progress_rows(progress)
    total, floors, paces = 0.0, {}, {}
    starts: dict[int, float] = {}
    for seed in sorted({leg.seed for leg in legs}):
        mine = [leg for leg in legs if leg.seed == seed]
        given = None if known is None else (known[0][seed], known[1][seed])
        error, floors[seed], paces[seed], found = _fit_seed(mine, rows, scale, drop, given)
        total += error
        starts |= {id(leg): start for leg, start in zip(mine, found, strict=True)}
    return total, floors, paces, [starts[id(leg)] for leg in legs]


def _fit_seed(
    mine: Sequence[FittedLeg], rows: Array, scale: float, drop: float, known: tuple[float, float] | None
) -> tuple[float, float, float, list[float]]:
    """One seed: floor and log pace for all its legs, unless they are known, and a start for each."""
    low = min(float(leg.losses.min()) for leg in mine)
    floor_at, floor_wide = (0.6 * low, 0.4 * low) if known is None else (known[0], 0.0)
    pace_at, pace_wide = (0.0, 2.0) if known is None else (known[1], 0.0)
    floor_count, pace_count = (FLOORS, PACES) if known is None else (1, 1)
    start_at = np.array([np.log(leg.begins or max(leg.losses[0], 0.05)) for leg in mine])
    start_wide, best = 0.5, np.inf
    for _ in range(ROUNDS):
        floors = np.clip(floor_at + floor_wide * np.linspace(-1, 1, floor_count), 0.0, None)
        paces = pace_at + pace_wide * np.linspace(-1, 1, pace_count)
        if known is not None:
            floors, paces = np.array([known[0]]), np.array([known[1]])
        grid_floor, grid_pace = (part.ravel() for part in np.meshgrid(floors, paces, indexing="ij"))
        errors = PULL * grid_pace**2  # a floor is only known as far as its curve comes near it
        chosen = np.empty((len(mine), len(grid_floor)))
        for i, leg in enumerate(mine):
            wide = start_wide if leg.begins is None else 0.0
            starts = np.exp(start_at[i] + wide * np.linspace(-1, 1, STARTS))
            tried = np.maximum(starts[None, :], grid_floor[:, None] + 1e-3)
            curve = curve_of(leg, rows, grid_floor[:, None], drop, scale / np.exp(grid_pace)[:, None], tried)
            error = np.minimum((np.log(leg.losses) - np.log(curve)) ** 2, ODD**2).sum(axis=-1)
            pick = error.argmin(axis=1)
            errors = errors + error[np.arange(len(pick)), pick]
            chosen[i] = starts[pick]
        index = int(errors.argmin())
        best = float(errors[index])
        floor_at, pace_at, start_at = float(grid_floor[index]), float(grid_pace[index]), np.log(chosen[:, index])
        floor_wide, pace_wide, start_wide = (wide * SHRINK for wide in (floor_wide, pace_wide, start_wide))
    return best, floor_at, pace_at, np.exp(start_at).tolist()


@dataclass(frozen=True)
class FittedBelief:
    """All that goes into `[law]` and `[prior]`, by index of pair."""

    pairs: dict[int, FittedPair]
    floor_spread: dict[int, float]
    pace_spread: dict[int, float]
    noise: dict[int, tuple[float, float, float]]
    handovers: dict[tuple[int, int], tuple[float, float, float]]
    common: float
    floor_common: float
    seeds: int


def fit_belief(atlas: Atlas) -> FittedBelief:
    """What an atlas teaches of its scenario."""
    initial = [legs[LegKey((), atlas.start)].start for legs in atlas.seeds.values()]
    pairs = {pair: fit_pair(pair, legs, float(np.mean(initial))) for pair, legs in sorted(legs_by_pair(atlas).items())}
    middle = {pair: float(np.mean([leg.pace for leg in fit.legs])) for pair, fit in pairs.items()}
    floors = {pair: _spread(fit, "floor", fit.floors) for pair, fit in pairs.items()}
    paces = {
        pair: max(_spread(fit, "pace", {seed: pace + middle[pair] for seed, pace in fit.paces.items()}), 0.05)
        for pair, fit in pairs.items()
    }
    noise = {pair: _scatter(fit) for pair, fit in pairs.items()}
    return FittedBelief(
        pairs,
        floors,
        paces,
        noise,
        _handovers(pairs, atlas.start, initial),
        _correlation([fit.paces for fit in pairs.values()]),
        _correlation([fit.floors for fit in pairs.values()]),
        len(atlas.seeds),
    )


def _spread(fit: FittedPair, name: str, by_seed: Mapping[int, float]) -> float:
    """Between seeds, and between legs of one seed."""
    between = float(np.std(list(by_seed.values()), ddof=min(1, len(by_seed) - 1)))
    own = [getattr(leg, name) for leg in fit.legs if leg.first_epoch >= SETTLED]
    mean = [by_seed[leg.seed] for leg in fit.legs if leg.first_epoch >= SETTLED]
    within = float(np.std(np.array(own) - np.array(mean))) if own else 0.0
    return float(np.hypot(between, within))


def _scatter(fit: FittedPair) -> tuple[float, float, float]:
    """Of an observed loss round its curve, from neighbours' differences: at a leg's beginning, later, and how fast."""
    rows = [np.diff(np.log(leg.losses / leg.curve)) for leg in fit.legs if len(leg.losses) > 1]
    longest = max(len(row) for row in rows)
    by_epoch = np.array([np.sqrt(np.mean([row[j] ** 2 for row in rows if len(row) > j]) / 2.0) for j in range(longest)])
    weight = np.array([sum(len(row) > j for row in rows) for j in range(longest)], dtype=np.float64)
    epochs = np.arange(longest) + 0.5
    best = (np.inf, 0.0, 0.0, 8.0)
    for fall in (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0):
        columns = np.stack([np.exp(-epochs / fall), np.ones(longest)], axis=1) * np.sqrt(weight)[:, None]
        (more, late), *_ = np.linalg.lstsq(columns, by_epoch * np.sqrt(weight), rcond=None)
        late = max(float(late), 0.3 * float(by_epoch.min()), 1e-3)
        first = max(late + float(more), late)
        error = float((weight * (late + (first - late) * np.exp(-epochs / fall) - by_epoch) ** 2).sum())
        best = min(best, (error, first, late, fall))
    return best[1], best[2], best[3]


def _handovers(
    pairs: Mapping[int, FittedPair], start: int, initial: Sequence[float]
) -> dict[tuple[int, int], tuple[float, float, float]]:
    """By (before, now): jump0, jump1 and the spread of where the curve goes on.

    A network that has learned nothing has nothing to lose: at the `initial` losses a handover changes nothing, which
    first legs show where they were recorded. Without that, one that throws every loss up to the same height seems to
    cost nothing as long as nothing is learned.
    """
    shown = {fit.pair for fit in pairs.values() if any(not leg.key.before for leg in fit.legs)}
    stood = {(leg.seed, leg.key): np.append(leg.start, leg.curve) for fit in pairs.values() for leg in fit.legs}
    seen: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for fit in pairs.values():
        for leg in fit.legs:
            if not leg.key.before and fit.pair == start:
                continue
            (before, epochs), way = leg.key.before[-1] if leg.key.before else (start, 0), leg.key.before[:-1]
            curve = stood.get((leg.seed, LegKey(way, before)))
            if curve is not None and len(curve) > epochs:
                seen.setdefault((before, fit.pair), []).append((float(curve[epochs]), leg.start))
    found = {}
    for key, points in seen.items():
        if key[0] == start and key[1] not in shown:
            points = [*points, *((loss, loss) for loss in initial)]
        before, after = np.array(points).T
        slope = 1.0
        if len(points) > 3 and before.std() > 1e-3:
            slope = float(np.clip(np.cov(before, after)[0, 1] / before.var(ddof=1), 0.0, 1.5))
        shift = float(np.mean(after - slope * before))
        found[key] = shift, slope - 1.0, float(np.std(after - slope * before - shift, ddof=min(2, len(points) - 1)))
    return found


def _correlation(by_pair: Sequence[Mapping[int, float]]) -> float:
    """The mean correlation between two pairs over the seeds that both have; drawn towards none where seeds are few."""
    found = []
    for i, one in enumerate(by_pair):
        for other in by_pair[i + 1 :]:
            both = sorted(set(one) & set(other))
            if len(both) >= 3:
                table = np.corrcoef([one[seed] for seed in both], [other[seed] for seed in both])
                found.append(float(np.nan_to_num(table[0, 1])) * len(both) / (len(both) + 4.0))
    return float(np.clip(np.mean(found), 0.0, 0.9)) if found else 0.0


def tables_of(belief: FittedBelief, pairs: Sequence[Pair], source: str) -> dict[str, dict[str, Any]]:
    """`[law]` and `[prior]` of a scenario, as its file would have them."""
    curves, doubts = [], []
    for pair, fit in belief.pairs.items():
        floor, spread = float(np.mean(list(fit.floors.values()))), belief.floor_spread[pair]
        pace = belief.pace_spread[pair]
        first, late, fall = belief.noise[pair]
        rows = progress_rows(fit.progress)
        named = {"version": pairs[pair].version, "nodes": pairs[pair].nodes}
        slow = float(np.exp(-Z_ROBUST * pace))
        curves.append(
            {
                **named,
                "floor": _short(floor),
                "drop": _short(fit.drop),
                "scale": _short(fit.scale),
                "power": POWER,
                "progress": _by_epoch(rows),
                "robust_progress": _by_epoch(rows * slow),
                "robust_floor": _short(floor + Z_ROBUST * spread),
            }
        )
        doubts.append(
            {
                **named,
                "spread": _short(pace),
                "floor_spread": _short(spread),
                "noise": _short(first),
                "late_noise": _short(late),
                "noise_fall": fall,
            }
        )
    jumps = [
        {
            "from": str(pairs[before]),
            "to": str(pairs[now]),
            "jump": _short(jump0),
            "jump_per_loss": _short(jump1),
            "robust_jump": _short(jump0 + Z_ROBUST * spread),
            "robust_jump_per_loss": _short(jump1),
        }
        for (before, now), (jump0, jump1, spread) in belief.handovers.items()
    ]
    handovers = [
        {"from": str(pairs[before]), "to": str(pairs[now]), "spread": _short(spread)}
        for (before, now), (_, _, spread) in belief.handovers.items()
    ]
    prior = {
        "source": source,
        "correlation": 0.0,
        "common": _short(belief.common),
        "floor_common": _short(belief.floor_common),
        "recovers": True,
        "curves": doubts,
        "handovers": handovers,
    }
    return {"law": {"kind": "level", "curves": curves, "jumps": jumps}, "prior": prior}


def taught(scenario: Scenario, atlas: Atlas) -> dict[str, Any]:
    """The scenario as a file would have it, with the `[law]` and `[prior]` that `atlas` teaches.

    Pairs that the atlas says nothing of keep the curves they had; so do handovers. Where nothing was known these stay
    wide, and few seeds leave doubt about what others would have shown.
    """
    many = f"{len(atlas.seeds)} seeds from {min(atlas.seeds)} to {max(atlas.seeds)}"
    belief = fit_belief(atlas)
    if scenario.guessed:
        return _over_wide(scenario, doubted(belief, scenario), f"an atlas of {atlas.scenario}, {many}")
    tables = tables_of(belief, atlas.pairs, f"an atlas of {atlas.scenario}, {many}")
    resolved, law = dict(scenario.resolved), tables["law"]
    if resolved["law"]["kind"] == "level":
        law = {**law, **{key: [*resolved["law"].get(key, ()), *law[key]] for key in ("curves", "jumps")}}
    return {**resolved, "law": law, "prior": tables["prior"]}


def _by_epoch(figures: Array) -> float | list[float]:
    """Figures by epoch of the run as a file has them: one, where all are alike."""
    short = [_short(figure) for figure in figures]
    return short if min(short) < max(short) else short[0]


BELIEVED, AS_WIDE = 2.0, 0.5
"""Seeds that the doubt between seeds counts as, and that doubt over what is thought where nothing is known."""


def doubted(belief: FittedBelief, scenario: Scenario) -> FittedBelief:
    """The same with spreads that few seeds do not make narrow: those between seeds are pooled with what is usual."""
    seeds, wide = belief.seeds, floor_spread(scenario.problem)

    def pooled(spread: float, usual: float) -> float:
        return float(np.sqrt((BELIEVED * (AS_WIDE * usual) ** 2 + seeds * spread**2) / (BELIEVED + seeds)))

    few = seeds < 3
    return replace(
        belief,
        floor_spread={pair: pooled(spread, wide) for pair, spread in belief.floor_spread.items()},
        pace_spread={pair: pooled(spread, PACE_SPREAD) for pair, spread in belief.pace_spread.items()},
        handovers={
            key: (jump0, jump1, pooled(spread, JUMP * wide)) for key, (jump0, jump1, spread) in belief.handovers.items()
        },
        common=0.5 if few else belief.common,
        floor_common=0.3 if few else belief.floor_common,
    )


def _over_wide(scenario: Scenario, belief: FittedBelief, source: str) -> dict[str, Any]:
    """The scenario with what is fitted, over figures of its own for what was never seen."""
    problem, law = scenario.problem, wide_law(scenario.problem)
    robust_mult, robust, jump = law.mult_robust, law.curves_robust, law.jump0_robust
    assert robust_mult is not None and robust is not None and jump is not None
    tables = tables_of(belief, problem.pairs, source)
    curves, doubts = [], []
    for index, pair in enumerate(problem.pairs):
        if index not in belief.pairs:
            named: dict[str, Any] = {"version": pair.version, "nodes": pair.nodes}
            figures = dict(zip(("floor", "drop", "scale", "power"), map(float, law.curves[index]), strict=True))
            progress = {"progress": float(law.mult[0, index]), "robust_progress": float(robust_mult[0, index])}
            curves.append({**named, **figures, **progress, "robust_floor": float(robust[index, 0])})
            scatter = dict(zip(("noise", "late_noise", "noise_fall"), WIDE_SCATTER, strict=True))
            doubts.append({**named, "spread": PACE_SPREAD, "floor_spread": floor_spread(problem), **scatter})
    taught_law, prior = tables["law"], tables["prior"]
    jumps = [{"jump": 0.0, "robust_jump": float(jump.max(initial=0.0))}, *taught_law["jumps"]]
    handovers = [{"spread": JUMP * floor_spread(problem)}, *prior["handovers"]]
    return {
        **scenario.resolved,
        "law": {**taught_law, "curves": [*curves, *taught_law["curves"]], "jumps": jumps},
        "prior": {**prior, "curves": [*doubts, *prior["curves"]], "handovers": handovers},
    }


def _short(figure: float) -> float:
    return float(f"{figure:.4g}")
