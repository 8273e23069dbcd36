"""The `prior` estimator: curves known beforehand, re-weighted by how the run's own losses fall.

A pair's truth is one of a small set of hypotheses: its pace (how many epochs of the prior's curve an epoch of this run
is worth; log-normal round one) times its asymptote (normal round the prior's). From a loss l above the asymptote a,

    l(h) = a + b (u + m h / s)^-alpha,   u = ((l - a) / b)^(-1/alpha)                     (m: pace)

so a pair may be predicted never to arrive. Hypotheses are weighted by the likelihood of the losses of each leg; what
all pairs of a run have in common (a slower machine's smaller batches, harder data) is one more unknown, shared by all,
so an untried pair gets the prior shifted by the common residual. Handovers: the same with a normal jump, seen by the
forward pass after the switch; or, with `recovers`, one that is never seen: pruning throws the loss up and the next
epoch throws it down again, so the forward pass says little of the curve that goes on below.

The law that comes back is a `LevelLaw`. Its expected curve has the mean asymptote and the mean log pace, and stands
where the leg as a whole says it does: an observed loss is the curve's times scatter, so a lucky epoch does not move the
curve by all its luck. A level holds the scatter once, whatever the number of epochs; the robust twin is fitted so that
with it following the 0.95 curve for h epochs leads to the 0.95 quantile, over hypotheses and scatter, of the loss h
epochs ahead, from the next epoch on. Across legs the parts are taken to be bad together, which is the safe side.

Paper: stands in for lambda_run and lambda_change of PACT section IV when there are no traces to train its networks on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, cast

import numpy as np

from ...core.curve import Array, onward, whence
from ...core.law import Z_ROBUST, EpochLaw, LevelLaw, LossLaw
from ...core.outcome import EpochOutcome
from ...core.problem import Pair, Problem
from ...core.worlds import Worlds
from ...scenario.model import Scenario
from ..legs import SeenLeg, legs_of, past_of
from ..own_pairs import check_pairs
from .belief import CurveBelief
from .drawing import draw_worlds
from .epoch_tables import StepsPrior
from .finished_legs import FinishedEvidence, FinishedFigures
from .robust_twin import HORIZONS, robust_figures
from .shared_prior import Given, SharedPrior, shared_prior

OFFSETS = np.linspace(-2.0, 2.0, 5)
WINDOW = 30
"""Epochs of a leg that count: a curve fitted for hundreds of epochs need not hold for all of them."""

TAIL = 4.0
"""Degrees of freedom of the scatter: one odd epoch must not settle what the run is like."""

FARTHEST = 3.0
"""The curve stands at most so many deviations of the scatter from the loss observed last."""

REPEAT = 0.25
"""Variance of a handover's jump between two of the same kind in one run, as a share of the prior's."""

REMEMBERED = 4
"""Posteriors, or priors closed in with one each: about 100 MB each for 256 pairs of which nothing is known."""

MOST_ROWS = 512
"""Epochs for which a law says how much more is learned."""

TINY = 1e-3
"""Of the start loss, or of 1 if that is larger: losses are told apart down to it."""


Axes = tuple[tuple[Array, Array], ...]
Got = TypeVar("Got")
CLOSER = (0.05, 0.3)
"""Rounds of closing in: the share of the evidence that counts in each. With all of it a coarse grid would choose what
happens to lie next to a figure that explains the losses."""


@dataclass(frozen=True)
class Prior:
    """`Estimator` from a belief. `start` holds the network before epoch 1, with `initial_loss`. `axes`: every pair's
    own hypotheses of pace and floor, where they are not those of the belief.

    ``Prior.of(scenario, problem)`` takes the scenario's `[prior]`; without one its `[law]`, the distance between
    robust and expected figures being the spread; without either what may be thought of any network.
    """

    belief: CurveBelief
    start: int
    initial_loss: float
    axes: Axes | None = None

    @classmethod
    def of(cls, scenario: Scenario, problem: Problem | None = None) -> Prior | StepsPrior:
        """The estimator of a scenario; `problem` is the scenario's, with another target or with the probed l(0)."""
        problem = scenario.problem if problem is None else problem
        belief, first = CurveBelief.from_scenario(scenario, problem), problem.initial_loss
        if belief is not None:
            return cls(belief, scenario.problem.start, first)
        assert isinstance(scenario.law, EpochLaw)
        return StepsPrior(scenario.problem.pairs, scenario.law, scenario.problem.start, first)

    @property
    def tiny(self) -> float:
        """The least loss that counts."""
        return TINY * min(self.initial_loss, 1.0)

    @property
    def begins(self) -> float:
        """Where the curve of the untrained network begins, over its loss."""
        return 1.0 if self.belief.begins is None else float(self.belief.begins[self.start])

    @property
    def guessed(self) -> bool:
        """Its belief rests on no measured loss, but for those of the run."""
        return self.belief.guessed

    def law(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair]) -> LossLaw:
        """The law for the epochs to come; a pure function of `history`. `pairs` are the belief's."""
        check_pairs(pairs, self.belief.pairs)
        legs = self.anchored(legs_of(history, self.belief.pairs, self.start, self.initial_loss))
        return self.closed_in(legs)._law(legs, history)

    def _law(self, legs: Sequence[SeenLeg], history: Sequence[EpochOutcome]) -> LossLaw:
        belief, weights = self.belief, self.weights(legs)
        log_pace, floors = self.hypotheses
        curves, entered = belief.curves.copy(), self._entered_now(legs)
        curves[:, 2:], usual = self._usual_shape(weights)
        middle = np.exp((usual * np.log(np.maximum(floors, 1e-9))).sum(axis=1))
        middle = np.where(belief.by_ratio, middle, (usual * floors).sum(axis=1))
        curves[:, 0] = np.maximum(middle + entered[:, 0], 0.0)
        curves[:, 2] /= np.exp((usual * log_pace).sum(axis=1)) * entered[:, 1]
        jump0, jump_spread = self.jumps(legs)
        loss = history[-1].loss if history else self.initial_loss
        at = legs[-1].pair if legs else self.start
        memory = belief.noise.correlation
        scatter = belief.scatters * np.sqrt(1.0 - memory**2)
        standing = np.zeros(len(belief.pairs))
        if legs:
            standing[at] = self._standing(legs[-1], weights[at], curves[at], len(history), loss)
        else:
            standing[at] = np.log(self.begins)
        stands = loss * np.exp(standing[at])
        with np.errstate(invalid="ignore"):
            landed = stands + jump0[at] + belief.jump1[at] * stands
        landed = np.where(np.isfinite(landed), np.maximum(landed, self.tiny), stands)
        landed[at] = stands
        ahead = self._ahead(landed, entered)
        noise = np.repeat(belief.scatters[:, None], len(HORIZONS), axis=1)
        if legs:
            ahead[at] = self._ahead_of(legs[-1])
            noise[at] *= np.sqrt(1.0 - memory ** (2 * np.array(HORIZONS)))
        slow, floor = robust_figures(curves, landed, belief.mult[-1], (ahead, weights), noise, scatter)
        robust = curves.copy()
        robust[:, 0] = floor
        tops = landed[np.isfinite(landed)]
        mult = self._progress(legs, len(history), entered)
        return LevelLaw(
            curves=curves,
            jump0=jump0,
            jump1=belief.jump1,
            mult=mult,
            mult_robust=mult * slow,
            jump0_robust=np.where(np.isfinite(jump0), jump0 + Z_ROBUST * jump_spread, jump0),
            jump1_robust=belief.jump1,
            curves_robust=robust,
            loss_top=float(max(self.initial_loss, loss, tops.max(initial=0.0))) * 1.5,
            scatter=scatter,
            standing=standing,
        )

    def _entered_now(self, legs: Sequence[SeenLeg]) -> Array:
        """What is added to floors and paces are multiplied by, (P, 2): of the present leg, and of others begun now."""
        entered = self.belief.entered
        if entered is None:
            return np.tile([0.0, 1.0], (len(self.belief.pairs), 1))
        figures = entered.at(self.experience(legs))
        if legs:
            figures[legs[-1].pair] = self.entered(legs[-1])
        return figures

    def _progress(self, legs: Sequence[SeenLeg], done: int, now: Array) -> Array:
        """The law's progress (K, P) by epoch of the run: a pair begun later, the present one training on until then, is
        the faster by what is learned meanwhile."""
        entered, mult = self.belief.entered, self.belief.mult
        if entered is None:
            return mult
        at = legs[-1].pair if legs else self.start
        worth, has = float(entered.worth[at]), self.experience(legs)
        more = min(math.ceil(max(len(entered.figures) - 1 - has, 0.0) / worth), MOST_ROWS) if worth > 0.0 else 0
        paces = np.array([entered.at(has + worth * k)[:, 1] / now[:, 1] for k in range(more + 1)])
        paces[:, at] = 1.0
        rows = np.concatenate([np.ones((done, len(now))), paces])
        return np.asarray(rows * mult[np.minimum(np.arange(len(rows)), len(mult) - 1)])

    def experience(self, legs: Sequence[SeenLeg]) -> float:
        """Of the network after these legs."""
        entered = self.belief.entered
        return 0.0 if entered is None else float(sum(entered.worth[leg.pair] * len(leg.losses) for leg in legs))

    def entered(self, leg: SeenLeg) -> tuple[float, float]:
        """What is added to the floor, and the pace multiplied by, of a leg that began with its experience."""
        if self.belief.entered is None:
            return 0.0, 1.0
        lift, pace = self.belief.entered.at(leg.experience)[leg.pair]
        return float(lift), float(pace)

    def sample(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair], count: int, seed: int) -> Worlds:
        """Worlds drawn from the same belief; a pure function of what it is given. `pairs` are the belief's."""
        check_pairs(pairs, self.belief.pairs)
        return draw_worlds(self, history, count, seed)

    def weights(self, legs: Sequence[SeenLeg], share: float = 1.0) -> Array:
        """The posterior weight (P, H) of every pair's hypotheses, of a `share` of the evidence."""
        given, common = self.posterior(legs) if share == 1.0 else self._posterior(legs, share)
        mixed = np.empty_like(self.hypotheses[0])
        for pair, likelihood in enumerate(given.likelihood()):
            mixed[pair] = self.prior_of(pair).mixed(common, likelihood).ravel()
        return np.asarray(mixed / mixed.sum(axis=1, keepdims=True))

    def posterior(self, legs: Sequence[SeenLeg]) -> tuple[Given, Array]:
        """How likely what was seen is under every pair's hypotheses, and the posterior (C, D) of what pairs have in
        common, in pace and in floor."""
        return self._remembered(("posterior", *_key(legs)), lambda: self._posterior(legs))

    def _remembered(self, key: tuple[object, ...], make: Callable[[], Got]) -> Got:
        """What `make` makes, or has made of late: the law and the worlds of an epoch rest on the same posterior, and
        those of the next one on the same legs before the present."""
        known = self._memory
        if key not in known:
            while len(known) >= REMEMBERED:
                del known[next(iter(known))]
            known[key] = make()
        known[key] = known.pop(key)
        return cast(Got, known[key])

    @cached_property
    def _memory(self) -> dict[tuple[object, ...], object]:
        return {}

    def _posterior(self, legs: Sequence[SeenLeg], share: float = 1.0) -> tuple[Given, Array]:
        lattice = self.belief.lattice
        logs = np.zeros((len(lattice.luck), *self.hypotheses[0].shape)) + lattice.luck_chance[:, None, None]
        finished = FinishedEvidence(lattice.luck_chance[:, None])
        if self.axes is None:  # other axes are those of one epoch
            finished = self._finished.setdefault(share, finished)
        for pair, evidence in finished.of(legs[:-1], lambda leg: share * self._log_likelihood(leg)).items():
            logs[:, pair] = evidence
        for leg in legs[-1:]:
            logs[:, leg.pair] += share * self._log_likelihood(leg)
        given = Given(np.exp(logs - logs.max(axis=(0, 2), keepdims=True)), self._shape)
        common = np.log(self.prior_of(0).chance)
        for leg_pair in sorted({leg.pair for leg in legs}):  # a pair that was not tried says nothing of what is common
            evidence = self.prior_of(leg_pair).evidence(given.of(leg_pair))
            common = common + np.log(np.maximum(evidence, 1e-300))
        common = np.exp(common - common.max())
        return given, common / common.sum()

    @cached_property
    def _finished(self) -> dict[float, FinishedEvidence]:
        return {}

    @cached_property
    def _stood(self) -> FinishedFigures:
        return FinishedFigures()

    def prior_of(self, pair: int) -> SharedPrior:
        """The prior of one pair's hypotheses, with what it has in common with others."""
        return self._priors[pair if self.axes is not None else 0]

    @cached_property
    def _priors(self) -> list[SharedPrior]:
        axes = self.axes or (self.belief.lattice.axes,)
        return [shared_prior(self.belief.noise, paces, floors, self._offsets) for paces, floors in axes]

    @property
    def steps(self) -> tuple[Array, Array]:
        """From one hypothesis to the next, (P,) each: in pace and in floor, in units of their spreads."""
        axes = self.axes or (self.belief.lattice.axes,) * len(self.belief.pairs)
        pace, floor = (np.array([axis[part][1] - axis[part][0] for axis in axes]) for part in (0, 1))
        return pace, floor

    @property
    def _shape(self) -> tuple[int, int, int]:
        return len(self.belief.lattice.paces), len(self.belief.lattice.floors), len(self._offsets)

    def closed_in(self, legs: Sequence[SeenLeg]) -> Prior:
        """The same with the hypotheses of the pairs that were tried close round those that explain what was seen."""
        if not self.belief.lattice.closes or not legs:
            return self
        return self._remembered(("closer", *_key(legs)), lambda: self._closed_in(legs))

    def _closed_in(self, legs: Sequence[SeenLeg]) -> Prior:
        closer = self
        for share in CLOSER:
            weights = closer.weights(legs, share)
            axes = list(closer.axes or (self.belief.lattice.axes,) * len(self.belief.pairs))
            for pair in {leg.pair for leg in legs}:
                table = weights[pair].reshape(self._shape).sum(axis=2)
                paces, floors = axes[pair]
                axes[pair] = _round_mean(paces, table.sum(axis=1)), _round_mean(floors, table.sum(axis=0))
            closer = replace(self, axes=tuple(axes))
        return closer

    @cached_property
    def hypotheses(self) -> tuple[Array, Array]:
        """Log pace and asymptote of every hypothesis, (P, H) each."""
        belief, count = self.belief, len(self.belief.pairs)
        axes = self.axes or (belief.lattice.axes,) * count
        tables = [np.meshgrid(*axis, self._offsets, indexing="ij") for axis in axes]
        paces, floors = (np.array([table[part].ravel() for table in tables]) for part in (0, 1))
        return paces * belief.pace_spread[:, None], belief.floor_at(floors.T, belief.curves[:, 0]).T

    @property
    def _offsets(self) -> Array:
        """Where a leg's curve begins, in deviations of its handover; one figure where it begins at the probed loss. All
        of them again for every power."""
        offsets = OFFSETS if self.belief.recovers else OFFSETS[len(OFFSETS) // 2 :][:1]
        return np.tile(offsets, max(len(self.belief.lattice.powers), 1))

    @cached_property
    def shapes(self) -> tuple[Array, Array]:
        """Scale and power of every hypothesis's curve, (P, H) each, its pace apart."""
        scale, power = (self.belief.curves[:, column, None] for column in (2, 3))
        powers, rest = self.belief.lattice.powers, self._shape[2]
        tried = self._shape[0] * self._shape[1]
        if not powers:
            return np.repeat(scale, tried * rest, axis=1), np.repeat(power, tried * rest, axis=1)
        each = np.repeat(np.array(powers), rest // len(powers))[None, :]
        scales = scale * (2.0 ** (1.0 / power) - 1.0) / (2.0 ** (1.0 / each) - 1.0)
        return np.tile(scales, tried), np.tile(np.repeat(each, len(scale), axis=0), tried)

    def _usual_shape(self, weights: Array) -> tuple[Array, Array]:
        """Scale and power (P, 2) of the likeliest power, and the weights (P, H) of the hypotheses that have it."""
        scales, powers = self.shapes
        count, rows = max(len(self.belief.lattice.powers), 1), np.arange(len(weights))
        by_power = weights.reshape(len(weights), -1, count, self._shape[2] // count)
        best = by_power.sum(axis=(1, 3)).argmax(axis=1)
        at = best * (self._shape[2] // count)
        usual = np.where(powers == powers[rows, at][:, None], weights, 0.0)
        return np.stack([scales[rows, at], powers[rows, at]], axis=1), usual / usual.sum(axis=1, keepdims=True)

    def anchored(self, legs: list[SeenLeg]) -> list[SeenLeg]:
        """Where what a handover does to the loss is soon undone, legs begin where the belief has the curve go on."""
        belief = self.belief
        for position, leg in enumerate(legs):
            leg.experience = self.experience(legs[:position])
            leg.past = past_of(leg.losses) if self.guessed else 0
            if not position and leg.jumped_from is None:
                leg.start *= self.begins
            if not (belief.recovers and position):
                continue
            before, stood = legs[position - 1], self._stood.of(legs[:position], self._stood_after)
            if leg.jumped_from is not None:
                start = stood + belief.jump0[before.pair, leg.pair] + belief.jump1[before.pair, leg.pair] * stood
                leg.start = float(max(start, self.tiny)) if np.isfinite(start) else leg.start
                leg.doubt = float(belief.jump_spread[before.pair, leg.pair]) / leg.start
        return legs

    def _stood_after(self, legs: Sequence[SeenLeg]) -> float:
        """Where the last of these legs, all of them finished, left its curve."""
        closer, last = self.closed_in(legs), legs[-1]
        weights = closer.weights(legs)[last.pair]
        return float(np.exp(weights @ np.log(closer.along(last)[0][:, -1] + self.tiny)))

    def _path(self, pair: int | slice, loss: Array, advance: Array, lift: Array | float = 0.0) -> Array:
        """The loss after `advance` (..., T) epochs of the prior's curve from `loss` (..., H or 1, 1): (..., H, T);
        floors are lifted."""
        log_pace, floors = self.hypotheses
        drop = self.belief.curves[pair, 1][..., None, None]
        curve = (
            np.maximum(floors[pair][..., None] + lift, 0.0),
            drop,
            *(part[pair][..., None] for part in self.shapes),
        )
        return onward(curve, loss, np.exp(log_pace[pair])[..., None] * advance[..., None, :])

    def along(self, leg: SeenLeg, more: Sequence[int] = ()) -> tuple[Array, Array]:
        """The leg's own curve (H, epochs) under every hypothesis, and what it goes on to `more` epochs later."""
        skipped = _skipped(leg)
        first = np.array(leg.start if skipped == 0 else leg.losses[skipped - 1])
        if leg.past and skipped == leg.past:
            first = np.exp(np.mean(np.log(leg.losses[skipped:])))
        if leg.doubt and skipped == 0:
            offsets = np.tile(self._offsets, self._shape[0] * self._shape[1])
            first = first * np.exp(offsets * leg.doubt)[:, None]
        mult, last = self.belief.mult[:, leg.pair], len(self.belief.mult)
        rows = np.arange(skipped, len(leg.losses) + max(more, default=0)) + leg.first_epoch
        advance = np.cumsum(mult[np.minimum(rows, last) - 1])
        seen, (lift, pace) = len(leg.losses) - skipped, self.entered(leg)
        path = self._path(leg.pair, first, pace * advance, lift)
        return path[:, :seen], path[:, seen - 1 + np.array(more, dtype=np.int64)]

    def _residuals(self, leg: SeenLeg, curve: Array) -> Array:
        """Logarithms (H, epochs) of the losses seen over the leg's curve."""
        losses = np.array(leg.losses[_skipped(leg) :])
        residuals = np.log((losses[None, :] + self.tiny) / (curve + self.tiny))
        if self.belief.early is not None:
            early = self.belief.early[leg.pair, len(leg.losses) - len(losses) :][: len(losses)]
            residuals[:, : len(early)] -= early
        return np.asarray(residuals)

    def _log_likelihood(self, leg: SeenLeg) -> Array:
        """Of a leg's losses (L, H) under every hypothesis: scatter with memory (AR(1)) and heavy tails."""
        residual, memory = self._residuals(leg, self.along(leg)[0]), self.belief.noise.correlation
        fresh = residual.copy()
        fresh[:, 1:] = (residual[:, 1:] - memory * residual[:, :-1]) / np.sqrt(1.0 - memory**2)
        noise = self.belief.scatter_by_epoch(len(leg.losses))[leg.pair, -fresh.shape[1] :]
        squares = (fresh / noise) ** 2 / TAIL
        luck = self.belief.lattice.luck
        ways = [-0.5 * (TAIL + 1.0) * np.log1p(squares / factor**2).sum(axis=1) for factor in luck]
        return np.asarray(np.array(ways) - fresh.shape[1] * np.log(luck)[:, None])

    def _ahead_of(self, leg: SeenLeg) -> Array:
        """Losses (H, horizons) of the present leg under every hypothesis; what scatter has memory fades."""
        curve, later = self.along(leg, HORIZONS)
        memory = self.belief.noise.correlation
        return np.asarray(later * np.exp(self._residuals(leg, curve)[:, -1:] * memory ** np.array(HORIZONS)))

    def _standing(self, leg: SeenLeg, weights: Array, curve: Array, done: int, loss: float) -> float:
        """The logarithm of where the present curve stands over `loss`: whence `curve` leads to the loss expected."""
        curve_seen, later = self.along(leg, (1,))
        memory = self.belief.noise.correlation
        logs = np.log(later[:, 0] + self.tiny) + memory * self._residuals(leg, curve_seen)[:, -1]
        wanted = float(np.exp(weights @ logs))
        mult = float(self.belief.mult[min(done + 1, len(self.belief.mult)) - 1, leg.pair])
        farthest = FARTHEST * float(self.belief.scatters[leg.pair])
        seen = np.log(loss)
        return float(whence(curve, wanted, mult, seen - farthest, seen + farthest) - seen)

    def _ahead(self, landed: Array, entered: Array) -> Array:
        """Losses (P, H, horizons) from `landed` under every hypothesis."""
        advance = np.array(HORIZONS, dtype=np.float64) * (self.belief.mult[-1] * entered[:, 1])[:, None]
        return self._path(slice(None), landed[:, None, None], advance, entered[:, 0, None, None])

    def jumps(self, legs: Sequence[SeenLeg]) -> tuple[Array, Array]:
        """Mean and spread of every handover's jump after those seen in this run."""
        belief = self.belief
        shift, factor = np.zeros_like(belief.jump0), np.ones_like(belief.jump0)
        seen: dict[tuple[int, int], list[float]] = {}
        for leg in legs if not belief.recovers else ():
            if leg.jumped_from is not None:
                before, loss = leg.jumped_from
                spread = belief.jump_spread[before, leg.pair]
                mean = belief.jump0[before, leg.pair] + belief.jump1[before, leg.pair] * loss
                if spread > 0.0 and np.isfinite(mean):
                    seen.setdefault((before, leg.pair), []).append(float((leg.start - loss - mean) / spread))
        if seen:
            each = np.array([np.mean(values) for values in seen.values()])
            n, common = len(each), belief.noise.common
            # The normal's conditional mean and variance when every two jumps of a run correlate by `common`.
            shift += np.clip(common * each.sum() / (1.0 + (n - 1) * common), -3.0, 3.0)
            factor *= 1.0 - common**2 * n / (1.0 + (n - 1) * common)
            for (before, now), values in seen.items():
                share = len(values) / (len(values) + REPEAT)
                shift[before, now], factor[before, now] = share * np.clip(np.mean(values), -6.0, 6.0), 1.0 - share
        spread = belief.jump_spread * np.sqrt(factor)
        return np.where(np.isfinite(belief.jump0), belief.jump0 + shift * belief.jump_spread, belief.jump0), spread


def _key(legs: Sequence[SeenLeg]) -> tuple[object, ...]:
    """What a posterior depends on of legs; their experience follows from the legs before."""
    return tuple(leg.shown for leg in legs)


def _skipped(leg: SeenLeg) -> int:
    """Epochs at the leg's beginning that do not count any more."""
    return max(len(leg.losses) - WINDOW, leg.past, 0)


def _round_mean(axis: Array, shares: Array) -> Array:
    """As many figures as `axis` has, close round their mean by `shares`."""
    shares, step = shares / shares.sum(), float(axis[1] - axis[0])
    mean = float(shares @ axis)
    away = 3.0 * float(np.sqrt(shares @ (axis - mean) ** 2)) + step
    return np.linspace(max(mean - away, float(axis[0])), min(mean + away, float(axis[-1])), len(axis))
