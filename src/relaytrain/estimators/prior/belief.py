"""What is believed before a run: a curve with its spread for every pair, a jump with its spread for every handover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array
from ...core.law import Z_ROBUST, EpochLaw, LevelLaw
from ...core.problem import Pair, Problem, Version
from ...scenario.build import ChangeRules
from ...scenario.model import Scenario
from ...scenario.wide import wide_law

NOISE_KEYS = ("noise", "correlation", "common", "floor_common")
LEAST_SPREAD = 0.02
"""No prior is surer than this about a pair's pace, or no observation could move it."""
BY_RATIO = 0.5
"""A floor's spread over the floor up to which floors vary by ratios."""


@dataclass(frozen=True)
class Noise:
    """How observed losses scatter round a curve, and what runs have in common.

    `noise`: relative standard deviation of a loss. `correlation`: of the scatter of neighbouring epochs (real curves:
    0.4 to 0.8). `common`: the share of a pair's deviation in pace from its prior that all pairs of a run have in
    common; `floor_common`: the same of floors.
    """

    noise: float = 0.05
    correlation: float = 0.6
    common: float = 0.5
    floor_common: float = 0.0


@dataclass(frozen=True)
class Lattice:
    """The hypotheses about a pair: deviations of its log pace and of its floor, in units of their spreads, and factors
    on the scatter of its losses, with the spread of their logarithm; a single factor where the scatter is known.

    `powers`: what the curve's power may be; without any it is the belief's. A curve of another power needs as many
    epochs to halve what is left as the belief's does. `closes`: where a run has shown a pair, its hypotheses close in
    on those that explain what was seen.
    """

    paces: Array = field(default_factory=lambda: np.linspace(-8.0, 4.0, 37))
    floors: Array = field(default_factory=lambda: np.linspace(-4.0, 4.0, 13))
    luck: Array = field(default_factory=lambda: np.ones(1))
    luck_spread: float = 1.0
    powers: tuple[float, ...] = ()
    closes: bool = False

    @property
    def axes(self) -> tuple[Array, Array]:
        """Deviations of pace and of floor."""
        return self.paces, self.floors

    @property
    def luck_chance(self) -> Array:
        """The logarithm of how likely every factor is beforehand."""
        chance = np.exp(-0.5 * (np.log(self.luck) / self.luck_spread) ** 2)
        return np.asarray(np.log(chance / chance.sum()))


USUAL = Lattice()
"""Paces reach far on the slow side, for a pair may hardly move at all."""
DOUBTFUL, CLOSING = 0.7, Lattice(np.linspace(-4.0, 3.0, 29), np.linspace(-3.0, 4.0, 22), closes=True)
"""From this spread of a pace on a pair's hypotheses lie too far apart, unless they close in."""
WIDE = Lattice(
    np.linspace(-3.0, 3.0, 19), np.linspace(-1.5, 4.0, 23), np.exp(np.linspace(-2.0, 2.0, 7)), 1.0, (1.0, 4.0), True
)
"""Narrower in units of spreads that are wide. How much a pair's losses scatter is one more unknown, and so is how long
its tail is: losses that fall ever more slowly are easily taken for losses at rest."""
WIDE_SCATTER = (0.08, 0.02, 6.0)
"""At a leg's beginning, late, and over how many epochs it falls, before the run has shown how large it is."""


@dataclass(frozen=True)
class Hope:
    """Somebody who names a target has reason to think that it can be met: worlds in which one of the pairs that can be
    run (`can`, (P,)) has a floor below `loss` come before others."""

    loss: float
    can: NDArray[np.bool_]

    def kept(self, floors: Array, count: int) -> NDArray[np.int64]:
        """Which `count` of more worlds to keep, by their floors (N, P)."""
        met = ((floors < self.loss) & self.can).any(axis=1)
        return np.sort(np.argsort(~met, kind="stable")[:count])


@dataclass(frozen=True)
class ByExperience:
    """How legs differ by the experience of the network that begins them: `figures` (K, P, 2), what is added to a floor
    and a pace is multiplied by, at experience 0, 1, 2 ..., the last row holding on; `worth` (P,): of an epoch."""

    figures: Array
    worth: Array

    def at(self, experience: float) -> Array:
        """Both figures (P, 2) of a leg that begins with it."""
        last = len(self.figures) - 1
        row = int(min(experience, last))
        more = min(experience, last) - row
        return np.asarray((1.0 - more) * self.figures[row] + more * self.figures[min(row + 1, last)])


@dataclass(frozen=True)
class CurveBelief:
    """The prior as arrays over P pairs.

    `curves` (P, 4) rows a, b, s, alpha; `mult` (K or 1, P) as in `LevelLaw`; `pace_spread` (P,): standard deviation of
    the logarithm of a pair's pace; `floor_spread` (P,): of its asymptote, in loss; `jump0`, `jump1` (P, P): the mean
    jump jump0 + jump1 * l of a handover; `jump_spread` (P, P): its standard deviation; `scatter` (P,): `noise` where a
    pair has its own, else that of all; `late` (P,): what it falls to along a leg, over `fall` (P,) epochs. `recovers`:
    a handover's jump is not the probed one but whence the curve goes on. `hope`: where nothing was ever measured, the
    loss that one of the pairs is taken to reach. `entered`: how a leg's floor and pace depend on when it begins.
    `scatter_table` (P, J): the scatter by epoch of a leg where it was measured so; `early` (P, J'): what all legs
    deviate by in their first epochs, in logarithms; `begins` (P,): where a curve begins over the loss of an untrained
    network. `seeds`: how many of training it was fitted to, where it was.
    """

    pairs: tuple[Pair, ...]
    curves: Array
    mult: Array
    pace_spread: Array
    floor_spread: Array
    jump0: Array
    jump1: Array
    jump_spread: Array
    noise: Noise = Noise()
    scatter: Array | None = None
    late: Array | None = None
    fall: Array | None = None
    recovers: bool = False
    lattice: Lattice = USUAL
    hope: Hope | None = None
    entered: ByExperience | None = None
    scatter_table: Array | None = None
    early: Array | None = None
    begins: Array | None = None
    seeds: int | None = None

    @property
    def guessed(self) -> bool:
        """Nothing of it was ever measured."""
        return self.hope is not None

    @property
    def scatters(self) -> Array:
        """The relative scatter (P,) of every pair's losses."""
        return np.full(len(self.pairs), self.noise.noise) if self.scatter is None else self.scatter

    def floor_at(self, away: Array, of: Array) -> Array:
        """Floors (..., P) that many spreads `away` from `of`: losses are positive and vary by ratios, so floors do as
        far as the spread is small against the floor."""
        ratios = np.exp(away * np.where(self.by_ratio, self.floor_spread / np.maximum(self.curves[:, 0], 1e-9), 0.0))
        return np.asarray(np.where(self.by_ratio, of * ratios, np.maximum(of + away * self.floor_spread, 0.0)))

    @property
    def by_ratio(self) -> NDArray[np.bool_]:
        """Whose floors (P,) vary by ratios."""
        return (self.floor_spread <= BY_RATIO * self.curves[:, 0]) & (self.hope is None)

    def scatter_by_epoch(self, epochs: int) -> Array:
        """The relative scatter (P, epochs) by epoch of a leg: late + (first - late) exp(-(j - 1) / fall)."""
        if self.scatter_table is not None:
            return np.asarray(
                self.scatter_table[:, np.minimum(np.arange(max(epochs, 1)), self.scatter_table.shape[1] - 1)]
            )
        first = self.scatters[:, None]
        if self.late is None or self.fall is None:
            return np.repeat(first, max(epochs, 1), axis=1)
        late = self.late[:, None]
        return np.asarray(late + (first - late) * np.exp(-np.arange(max(epochs, 1)) / self.fall[:, None]))

    @classmethod
    def from_law(
        cls, pairs: tuple[Pair, ...], law: LevelLaw, initial_loss: float, noise: Noise | None = None
    ) -> CurveBelief:
        """A scenario's own law as prior: the distance between its robust and expected figures is the spread."""
        tiny = np.full(len(pairs), LEAST_SPREAD)
        mult, robust = law.mult, law.mult if law.mult_robust is None else law.mult_robust
        with np.errstate(divide="ignore", invalid="ignore"):
            shade = np.where((mult > 0) & (robust > 0), -np.log(robust / mult), np.where(mult > 0, 1.0, 0.0))
        pace = np.maximum(shade.max(axis=0) / Z_ROBUST, tiny)
        floor = np.zeros(len(pairs))
        if law.curves_robust is not None:
            floor = np.maximum(law.curves_robust[:, 0] - law.curves[:, 0], 0.0) / Z_ROBUST
        jump_spread = np.zeros_like(law.jump0)
        for plain, twin, at in ((law.jump0, law.jump0_robust, 1.0), (law.jump1, law.jump1_robust, initial_loss)):
            if twin is not None:
                with np.errstate(invalid="ignore"):
                    away = np.nan_to_num((twin - plain) * at, nan=0.0, posinf=0.0, neginf=0.0)
                jump_spread += np.maximum(away, 0.0) / Z_ROBUST
        return cls(pairs, law.curves, mult, pace, floor, law.jump0, law.jump1, jump_spread, noise or Noise())

    @classmethod
    def wide(cls, problem: Problem, can: NDArray[np.bool_]) -> CurveBelief:
        """What may be thought where nothing is known but the problem and which pairs can be run (`scenario.wide`)."""
        plain = cls.from_law(problem.pairs, wide_law(problem), problem.initial_loss)
        scatter, late, fall = (np.full(len(problem.pairs), figure) for figure in WIDE_SCATTER)
        noise = Noise(WIDE_SCATTER[0], correlation=0.0, common=0.5, floor_common=0.3)
        hope = Hope(problem.target.loss, can)
        return replace(
            plain, noise=noise, scatter=scatter, late=late, fall=fall, recovers=True, lattice=WIDE, hope=hope
        )

    @classmethod
    def from_scenario(cls, scenario: Scenario, problem: Problem) -> CurveBelief | None:
        """The scenario's `[prior]` over its `[law]`, for a problem that may have another target or a probed l(0); None
        when neither has curves (kind "epoch")."""
        table, law, pairs, initial_loss = scenario.prior, scenario.law, scenario.problem.pairs, problem.initial_loss
        if scenario.guessed:
            return cls.wide(problem, np.isfinite(scenario.costs.run_s + scenario.costs.run_j))
        if isinstance(law, EpochLaw):
            if not table.get("curves"):
                return None
            count = len(pairs)
            start = LevelLaw(
                np.tile([0.0, initial_loss, 10.0, 1.0], (count, 1)),
                law.change[0],
                np.zeros((count, count)),
                np.ones((1, count)),
            )
        else:
            start = law
        plain = cls.from_law(pairs, start, initial_loss)
        return plain if not table else _overlaid(plain, table, scenario.problem.versions)


def _overlaid(plain: CurveBelief, table: Mapping[str, Any], versions: tuple[Version, ...]) -> CurveBelief:
    """`plain` with what `[prior]` says instead, entry by entry; later entries win, key by key."""
    curves, mult = plain.curves.copy(), plain.mult.copy()
    pace, floor = plain.pace_spread.copy(), plain.floor_spread.copy()
    covering = [
        (rule, [i for i, pair in enumerate(plain.pairs) if _covers(rule, pair)]) for rule in table.get("curves", ())
    ]
    for rule, covered in covering:
        for index in covered:
            for column, key in enumerate(("floor", "drop", "scale", "power")):
                if rule.get(key) is not None:
                    curves[index, column] = rule[key]
                    mult[:, index] = 1.0  # the prior's curve is the whole truth about the pair's pace
            if rule.get("spread") is not None:
                pace[index] = max(rule["spread"], LEAST_SPREAD)
            if rule.get("floor_spread") is not None:
                floor[index] = rule["floor_spread"]
    jump0, jump1, jump_spread = plain.jump0.copy(), plain.jump1.copy(), plain.jump_spread.copy()
    rules = ChangeRules(plain.pairs, versions)
    for rule in table.get("handovers", ()):
        mask = rules.mask(rule.get("from", "*"), rule.get("to", "*"), rule.get("kind", "any"))
        for target, key in ((jump0, "mean"), (jump1, "mean_per_loss"), (jump_spread, "spread")):
            if rule.get(key) is not None:
                target[mask] = rule[key]
    noise = Noise(**{key: table[key] for key in NOISE_KEYS if table.get(key) is not None})
    scatter, late, fall, begins = (np.full(len(plain.pairs), figure) for figure in (noise.noise, np.nan, 8.0, 1.0))
    for rule, covered in covering:
        for figures, key in ((scatter, "noise"), (late, "late_noise"), (fall, "noise_fall"), (begins, "begins")):
            if rule.get(key) is not None:
                figures[covered] = rule[key]
    late = np.where(np.isnan(late), scatter, late)
    recovers = bool(table.get("recovers", False))
    told = pace, floor, jump0, jump1, jump_spread, noise, scatter, late, fall, recovers
    lattice = USUAL if pace.max() < DOUBTFUL else CLOSING
    measured = CurveBelief(
        plain.pairs, curves, mult, *told, lattice=lattice, entered=_entered(table, covering, plain), begins=begins
    )
    falling = measured.scatter_by_epoch(_longest(covering, "scatter"))
    return replace(
        measured,
        seeds=table.get("seeds"),
        scatter_table=_listed(covering, "scatter", falling),
        early=_listed(covering, "early", np.zeros((len(plain.pairs), _longest(covering, "early"))), 0.0),
    )


Covering = Sequence[tuple[Mapping[str, Any], list[int]]]


def _longest(covering: Covering, key: str) -> int:
    return max((len(rule.get(key) or ()) for rule, _ in covering), default=0)


def _listed(covering: Covering, key: str, otherwise: Array, beyond: float | None = None) -> Array | None:
    """Figures (P, J) by epoch of a leg as entries list them; beyond a list its last one, or `beyond`."""
    if not (longest := _longest(covering, key)):
        return None
    table = otherwise.copy()
    for rule, covered in covering:
        if figures := rule.get(key):
            last = figures[-1] if beyond is None else beyond
            table[covered] = [*figures, *[last] * (longest - len(figures))]
    return table


def _entered(table: Mapping[str, Any], covering: Covering, plain: CurveBelief) -> ByExperience | None:
    """How legs differ by experience, between the figures of the file in proportion."""
    if not (known := table.get("entered")):
        return None
    rows = np.arange(np.ceil(known[-1]) + 1.0)
    figures = np.tile([0.0, 1.0], (len(rows), len(plain.pairs), 1))
    worth = np.ones(len(plain.pairs))
    for rule, covered in covering:
        for column, key in enumerate(("entered_floor", "entered_pace")):
            if rule.get(key):
                figures[:, covered, column] = np.interp(rows, known, rule[key])[:, None]
        if rule.get("epoch_worth") is not None:
            worth[covered] = rule["epoch_worth"]
    return ByExperience(figures, worth)


def _covers(rule: Mapping[str, Any], pair: Pair) -> bool:
    return rule.get("version", "*") in ("*", pair.version) and rule.get("nodes", "*") in ("*", pair.nodes)
