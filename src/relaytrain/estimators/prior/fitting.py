"""The `[prior]` that recorded relays teach: curves at the level of seeds, what they have in common, how losses scatter.

A pair's floor and pace depend on the seed and on the experience with which a leg begins: a network that has seen little
learns more slowly and ends higher, and stays so along the leg (`leg_fits`). Experience counts samples, in epochs of the
start pair. Of the seeds' own figures the spreads and correlations between pairs follow; of where the curve before stood
and where the new one begins, the handovers. What is left round the curves is scatter, by epoch of a leg.

`[law]` knows no experience: it is told the pace by epoch of the run (`progress`), the start pair training till then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.curve import Array
from ...core.law import Z_ROBUST
from ...core.problem import Pair
from ...scenario.model import Scenario
from ...scenario.wide import JUMP, PACE_SPREAD, epoch_worth, floor_spread, wide_law
from ...traces.atlas import Atlas, LegKey
from .belief import WIDE_SCATTER
from .leg_fits import POWER, FittedLeg, PairFit, fit_legs

KNOTS = 8
"""At so many points of experience, as far apart as they can be, a pair's floor and pace are fitted."""
MOST_PROGRESS = 64
"""Epochs of a run by which `[law]` is told the pace."""
MOST_SCATTER, NEAR, LEAST_SCATTER = 32, 0.2, 1e-3
"""Epochs of a leg by which scatter is told, and how near ones are taken together, in logarithms."""
EARLY = 4
"""First epochs of a leg that may lie off its curve."""


def legs_by_pair(atlas: Atlas, worth: Array, least: int = 4) -> dict[int, list[FittedLeg]]:
    """All legs of an atlas of at least so many epochs, of relays that begin where the scenario does.

    A first leg on another pair is one of them: the network was handed over before it had learned anything.
    """
    by_pair: dict[int, list[FittedLeg]] = {}
    for seed, legs in atlas.seeds.items():
        for key, leg in legs.items():
            if len(leg.losses) >= least and (not key.before or key.before[0][0] == atlas.start):
                experience = float(sum(worth[pair] * count for pair, count in key.before))
                by_pair.setdefault(key.pair, []).append(FittedLeg(seed, key, np.array(leg.losses), experience))
    return by_pair


@dataclass(frozen=True)
class FittedBelief:
    """All that goes into `[law]` and `[prior]`, by index of pair; `floors` and `paces` at every one of `knots`, which
    are figures of experience."""

    pairs: dict[int, PairFit]
    drop: float
    knots: Array
    floors: dict[int, Array]
    paces: dict[int, Array]
    floor_spread: dict[int, float]
    pace_spread: dict[int, float]
    scatter: dict[int, Array]
    early: dict[int, Array]
    begins: float
    handovers: dict[tuple[int, int], tuple[float, float, float]]
    common: float
    floor_common: float
    seeds: int
    worth: Array


def fit_belief(atlas: Atlas, worth: Array | None = None) -> FittedBelief:
    """What an atlas teaches of its scenario; `worth` (P,): the experience of an epoch."""
    worth = np.ones(len(atlas.pairs)) if worth is None else worth
    initial = [legs[LegKey((), atlas.start)].start for legs in atlas.seeds.values()]
    drop, legs = float(np.mean(initial)), legs_by_pair(atlas, worth)
    latest = max((leg.experience for each in legs.values() for leg in each), default=0.0)
    knots = np.linspace(0.0, max(latest, 1.0), KNOTS)
    pairs = {
        pair: fit_legs(each, drop, knots if pair != atlas.start else knots[:1], lambda legs: _by_epoch_of(legs))
        for pair, each in sorted(legs.items())
    }
    floors = {pair: _as_far_as_seen(fit.floor.at, knots, fit.legs) for pair, fit in pairs.items()}
    return FittedBelief(
        pairs,
        drop,
        knots,
        floors,
        {pair: _as_far_as_seen(fit.pace.at, knots, fit.legs) for pair, fit in pairs.items()},
        {pair: float(floors[pair][-1]) * fit.floor.spread for pair, fit in pairs.items()},
        {pair: max(fit.pace.spread, 0.05) for pair, fit in pairs.items()},
        {pair: _scatter(fit.legs) for pair, fit in pairs.items()},
        {pair: _early(fit.legs) for pair, fit in pairs.items()},
        float(np.mean([leg.start for leg in pairs[atlas.start].legs])) / drop if atlas.start in pairs else 1.0,
        _handovers(pairs, atlas.start, initial),
        _correlation([fit.pace.seeds for fit in pairs.values()], 0.0),
        _correlation([fit.floor.seeds for fit in pairs.values()], USUAL_COMMON),
        len(atlas.seeds),
        worth,
    )


def _as_far_as_seen(logs: Array, knots: Array, legs: Sequence[FittedLeg]) -> Array:
    """A figure at every knot; beyond the latest beginning of a leg what was seen there, for a trend that is drawn on
    has runs wait for what no leg showed."""
    whole = np.broadcast_to(logs, len(knots))
    return np.asarray(np.exp(np.interp(np.minimum(knots, max(leg.experience for leg in legs)), knots, whole)))


def _by_epoch_of(legs: Sequence[FittedLeg]) -> Array:
    """Scatter by epoch of a leg, as far as the longest."""
    scatter = _scatter(legs)
    return np.asarray(scatter[np.minimum(np.arange(max(len(leg.losses) for leg in legs)), len(scatter) - 1)])


def _usual_legs(legs: Sequence[FittedLeg]) -> list[Array]:
    """Logarithms of losses over curves, of legs that begin as legs of a run do: where a pair is handed over to, after
    another one has trained."""
    later = [leg for leg in legs if leg.key.before] or legs
    return [np.log(leg.losses / leg.curve) for leg in later if len(leg.losses) > 1]


def _scatter(legs: Sequence[FittedLeg]) -> Array:
    """Of an observed loss round its curve by epoch of a leg, from neighbours' differences, smooth over epochs.

    What all legs do alike, as where the first epoch falls deep and the second rises again, is no luck.
    """
    rows = [np.diff(row) for row in _usual_legs(legs)]
    longest = max(len(row) for row in rows)
    heaps = [np.array([row[j] for row in rows if len(row) > j]) for j in range(longest)]
    squares = np.array([np.var(heap, ddof=1) if len(heap) > 3 else np.mean(heap**2) for heap in heaps]) / 2.0
    weight = np.array([len(heap) for heap in heaps], dtype=np.float64)
    between, epochs = np.arange(longest) + 1.5, np.arange(min(longest + 1, MOST_SCATTER)) + 1.0
    near = weight * np.exp(-0.5 * (np.log(between / epochs[:, None]) / NEAR) ** 2)
    return np.asarray(np.maximum(np.sqrt(near @ squares / near.sum(axis=1)), LEAST_SCATTER))


def _early(legs: Sequence[FittedLeg]) -> Array:
    """By what all legs deviate from their curves in their first epochs, drawn towards nothing where legs are few."""
    rows = _usual_legs(legs)
    heaps = [np.array([row[j] for row in rows if len(row) > j]) for j in range(EARLY)]
    return np.array([float(heap.mean()) * len(heap) / (len(heap) + 4.0) if len(heap) else 0.0 for heap in heaps])


def _handovers(
    pairs: Mapping[int, PairFit], start: int, initial: Sequence[float]
) -> dict[tuple[int, int], tuple[float, float, float]]:
    """By (before, now): jump0, jump1 and the spread of where the curve goes on.

    A network that has learned nothing has nothing to lose: at the `initial` losses a handover changes nothing, which
    first legs show where they were recorded. Without that, one that throws every loss up to the same height seems to
    cost nothing as long as nothing is learned.
    """
    shown = {pair for pair, fit in pairs.items() if any(not leg.key.before for leg in fit.legs)}
    stood = {(leg.seed, leg.key): np.append(leg.start, leg.curve) for fit in pairs.values() for leg in fit.legs}
    seen: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for pair, fit in pairs.items():
        for leg in fit.legs:
            if not leg.key.before and pair == start:
                continue
            (before, epochs), way = leg.key.before[-1] if leg.key.before else (start, 0), leg.key.before[:-1]
            curve = stood.get((leg.seed, LegKey(way, before)))
            if curve is not None and len(curve) > epochs:
                seen.setdefault((before, pair), []).append((float(curve[epochs]), leg.start))
    handovers = {}
    for key, points in seen.items():
        if key[0] == start and key[1] not in shown:
            points = [*points, *((loss, loss) for loss in initial)]
        before, after = np.array(points).T
        slope = 1.0
        if len(points) > 3 and before.std() > 1e-3:
            slope = float(np.clip(np.cov(before, after)[0, 1] / before.var(ddof=1), 0.0, 1.5))
        shift = float(np.mean(after - slope * before))
        handovers[key] = shift, slope - 1.0, float(np.std(after - slope * before - shift, ddof=min(2, len(points) - 1)))
    return handovers


USUAL_COMMON = 0.5
"""Correlation of floors between pairs, as atlases with many seeds show it."""


def _correlation(by_pair: Sequence[Mapping[int, float]], usual: float) -> float:
    """The mean correlation between two pairs over the seeds that both have, drawn to the usual one where few do."""
    correlations = []
    for i, one in enumerate(by_pair):
        for other in by_pair[i + 1 :]:
            both = sorted(set(one) & set(other))
            if len(both) >= 3:
                table = np.corrcoef([one[seed] for seed in both], [other[seed] for seed in both])
                correlations.append((float(np.nan_to_num(table[0, 1])) * len(both) + 4.0 * usual) / (len(both) + 4.0))
    return float(np.clip(np.mean(correlations), 0.0, 0.9)) if correlations else usual


def tables_of(belief: FittedBelief, pairs: Sequence[Pair], source: str) -> dict[str, dict[str, Any]]:
    """`[law]` and `[prior]` of a scenario, as its file would have them."""
    curves, doubts = [], []
    epochs = np.arange(min(int(np.ceil(belief.knots[-1])), MOST_PROGRESS) + 1.0)
    for pair in belief.pairs:
        floors, paces = belief.floors[pair], belief.paces[pair]
        floor, spread, pace = float(floors[-1]), belief.floor_spread[pair], belief.pace_spread[pair]
        rows = np.interp(epochs, belief.knots, paces / paces[-1])
        named = {"version": pairs[pair].version, "nodes": pairs[pair].nodes}
        curve = {
            "floor": _short(floor),
            "drop": _short(belief.drop),
            "scale": _short(1.0 / float(paces[-1])),
            "power": POWER,
        }
        curves.append(
            {
                **named,
                **curve,
                "progress": _by_epoch(rows),
                "robust_progress": _by_epoch(rows * float(np.exp(-Z_ROBUST * pace))),
                "robust_floor": _short(floor + Z_ROBUST * spread),
            }
        )
        doubts.append(
            {
                **named,
                **curve,
                "spread": _short(pace),
                "floor_spread": _short(spread),
                "noise": _short(float(np.sqrt(np.mean(belief.scatter[pair] ** 2)))),
                "scatter": [_short(figure, 3) for figure in belief.scatter[pair]],
                "early": [_short(figure, 3) for figure in belief.early[pair]],
                "begins": _short(belief.begins),
                "epoch_worth": _short(float(belief.worth[pair])),
                "entered_floor": [_short(round(float(figure) - floor, 6)) for figure in floors],
                "entered_pace": [_short(float(figure / paces[-1])) for figure in paces],
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
        "seeds": belief.seeds,
        "entered": [_short(float(knot)) for knot in belief.knots],
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
    belief = fit_belief(atlas, epoch_worth(scenario.problem))
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


def _short(figure: float, digits: int = 4) -> float:
    return float(f"{figure:.{digits}g}")
