"""The seam of learned estimators: a run's history and fitted models -> the loss law of the epochs to come.

    history -> legs -> windows -> lambda_run, lambda_change -> paths of every pair -> `LevelLaw`

The present pair's path starts from its own losses; another pair's from where a handover made now would land. Every
handover's jump is predicted along the expected path of the pair it leaves, so that a later handover has its own. Once a
run has shown epochs, adaptive conformal inference replays them and sets the width one epoch ahead. All of it is a pure
function of the history: a resumed run meets the same laws.

Paper: PACT section IV; rolled out by the law itself, for planners ask about states that nobody has seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...core.curve import Array, along
from ...core.law import LevelLaw, LossLaw
from ...core.outcome import EpochOutcome
from ...core.problem import Pair, Problem
from ...core.worlds import Worlds
from ..bands import Bands
from ..legs import SeenLeg, legs_of
from .bounds import Bound
from .curve_through import curve_through, robust_twin
from .features import Seen, seen_of
from .fitted import Fitted
from .handovers import ROOM, Handovers
from .late_handovers import LATER, Entered, shared_curve, shared_twin
from .learned_worlds import Outlook, draw_learned
from .misses import leg_inputs
from .own_epochs import adapted, history_of, images_of, slowed_at, widened_at
from .pair_facts import Facts, facts_of
from .tail import HORIZONS

Asked = tuple[tuple[EpochOutcome, ...], tuple[Pair, ...]]
MOST_BIAS = 0.7
"""No forecast is put right by more, in logarithms."""


@dataclass(frozen=True)
class Learned:
    """`Estimator` from fitted models. `start` holds the network before epoch 1, with `initial_loss`.

    `jumps`: mean, slope and 0.95 figures of handovers from the scenario, for fits that learned none. `by_epoch`:
    progress depends on when a handover is made (`late_handovers`); without, laws do not depend on the epoch, as fine
    grids of losses need.
    """

    fitted: Fitted
    facts: Mapping[Pair, Facts]
    start: Pair
    initial_loss: float
    jumps: LevelLaw | None = None
    bound: Bound | None = None
    by_epoch: bool = True
    _last: list[tuple[Asked, Outlook]] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, fitted: Fitted, problem: Problem, law: LossLaw | None = None, bound: Bound | None = None) -> Learned:
        """The estimator of a problem; its probed l(0) counts. Refuses fits of another loss than the target's.

        `bound` corrects robust figures; by default the shape bound with the fit's own calibration.
        """
        fitted.check_target(problem.target)
        stated = law if isinstance(law, LevelLaw) else None
        bound = bound or Bound("shape", fitted.run.bound_offset)
        return cls(fitted, facts_of(problem), problem.pairs[problem.start], problem.initial_loss, stated, bound)

    def law(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair]) -> LossLaw:
        """The law for the epochs to come, a pure function of `history`; its notes say what a bound has raised."""
        return self._outlook(history, pairs).law

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def sample(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair], count: int, seed: int) -> Worlds:
        """Worlds round the same law; a pure function of what it is given."""
        return draw_learned(self.fitted.misses, self._outlook(history, pairs), count, seed)

    def _outlook(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair]) -> Outlook:
        """The law with what it was made of; a plan asks for it twice, so the last one is remembered."""
        asked = tuple(history), tuple(pairs)
        if not self._last or self._last[0][0] != asked:
            self._last[:] = [(asked, self._look(*asked))]
        return self._last[0][1]

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # who asks looks whether they are numbers at all
    def _look(self, history: tuple[EpochOutcome, ...], pairs: tuple[Pair, ...]) -> Outlook:
        now = self._present(history, pairs)
        handovers = Handovers(self.fitted, now.facts, self.jumps)
        first = int(handovers.learned)  # paths of pairs not entered yet begin after their first epoch
        histories = handovers.entered([now.history], now.pair, [now.images])
        histories[now.pair] = now.history
        seen = now.seen(histories, first)
        ahead, notes = self._paths(seen, now)
        later = self._later(seen, ahead, now, handovers)
        curves, twins, pace, onward = self._curves(seen, ahead, now, handovers, later)
        done = [now.images + (0 if i == now.pair else first * facts[1]) for i, facts in enumerate(now.facts)]
        jump0, jump1, robust0 = handovers.jump_lines(histories, onward, (curves, pace), done)
        rows = np.maximum(np.arange(len(history) + len(pace)) - len(history), 0) if len(pace) > 1 else np.array([0])
        mult = pace[rows]
        tops = seen.loss[np.isfinite(seen.loss)]
        law = LevelLaw(
            curves=curves,
            jump0=jump0,
            jump1=jump1,
            mult=mult,
            mult_robust=mult * np.array([slow for _, slow, _ in twins])[None, :],
            jump0_robust=robust0,
            jump1_robust=jump1,
            curves_robust=np.stack([curve for curve, _, _ in twins]),
            loss_top=float(max(self.initial_loss, now.history[-1], tops.max(initial=0.0))) * 1.5,
            scatter=np.array([scatter for _, _, scatter in twins]),
            notes=notes,
        )
        stages = tuple(now.stage + (i != now.pair) for i in range(len(pairs)))
        legs = ((0, seen.loss, ahead.mean), *(_legs(each, now.pair, seen, ahead) for each in later))
        legs = tuple(self._put_right(leg, now) for leg in legs)

        def lines(curves: Array, pace: Array) -> tuple[Array, Array]:
            return handovers.jump_lines(histories, onward, (curves, pace), done)[:2]

        return Outlook(
            law, ahead, seen.loss, legs, lines, first, now.pair, np.array(now.leg.losses), len(history), stages
        )

    def _put_right(self, leg: tuple[int, Array, Array], now: _Present) -> tuple[int, Array, Array]:
        """Pairs entered some epochs from now with what such legs of the traces were missed by."""
        later, starts, means = leg
        images = now.images + later * now.facts[now.pair][1]
        known = [leg_inputs(images, samples, pruned, now.stage + 1) for _, samples, pruned in now.facts]
        factors = np.exp(np.clip(self.fitted.misses.corrected(np.array(known)), -MOST_BIAS, MOST_BIAS))
        factors[now.pair] = 1.0
        return later, starts * factors[:, 0], means * factors[:, 1:]

    def _present(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair]) -> _Present:
        start = pairs.index(self.start)
        legs = legs_of(history, pairs, start, self.initial_loss)
        leg = legs[-1] if legs else SeenLeg(start, 0, self.initial_loss)
        losses = history_of(leg, with_start=self.fitted.run.with_start)
        return _Present(tuple(legs), leg, losses, tuple(self.facts[pair] for pair in pairs))

    def _paths(self, seen: Seen, now: _Present) -> tuple[Bands, tuple[str, ...]]:
        """Losses ahead of every pair; the first epoch of the present one has the width that this run has taught."""
        model = self.fitted.run
        factor, pace = adapted(model, now.legs, now.facts)
        changes, notes = self._bounded(seen, widened_at(model.bands(seen), now.pair, factor))
        return slowed_at(model.ahead(seen, changes), now.pair, float(seen.loss[now.pair]), pace), notes

    def _bounded(self, seen: Seen, changes: Bands) -> tuple[Bands, tuple[str, ...]]:
        return (self.bound or Bound()).correct(seen, changes)

    def _curves(
        self, seen: Seen, ahead: Bands, now: _Present, handovers: Handovers, later: list[list[Entered]]
    ) -> tuple[Array, list[tuple[Array, float, float]], Array, list[Array]]:
        """Curves (P, 4) and robust twins of all paths, progress by epoch from now on (K, P), losses at `HORIZONS`."""
        room, count = ROOM if handovers.learned else math.inf, len(now.facts)
        starts = [float(loss) for loss in seen.loss]
        curves = np.stack(
            [curve_through(starts[i], ahead.mean[i], room=room, exact=i == now.pair) for i in range(count)]
        )
        twins = [robust_twin(curves[i], starts[i], ahead.high[i]) for i in range(count)]
        onward = [along(curve, np.array(HORIZONS, dtype=np.float64)) for curve in curves]
        if not later:
            return curves, twins, np.ones((1, count)), onward
        pace = np.ones((LATER[-1] + 1, count))
        for i in range(count):
            if i != now.pair:
                legs = [Entered(0, starts[i], ahead.mean[i], ahead.high[i]), *(each[i] for each in later)]
                curves[i], paces = shared_curve(legs, room)
                twins[i], onward[i] = shared_twin(curves[i], paces, legs), ahead.mean[i]
                pace[:, i] = np.interp(np.arange(len(pace)), LATER, paces)
        return curves, twins, pace, onward

    def _later(self, seen: Seen, ahead: Bands, now: _Present, handovers: Handovers) -> list[list[Entered]]:
        """Every pair's leg when it is entered at each of `LATER` but the first, along the present pair's curve.

        None of models to which it is all the same.
        """
        count, times, model = len(now.facts), LATER[1:], self.fitted.run
        if not (handovers.learned and self.by_epoch and model.reads_before):
            return []
        curve = curve_through(float(seen.loss[now.pair]), ahead.mean[now.pair], room=ROOM)
        befores = [np.concatenate([now.history, along(curve, np.arange(1.0, h + 1.0))]) for h in times]
        until = [now.images + h * now.facts[now.pair][1] for h in times]
        histories = handovers.entered(befores, now.pair, until)
        fixed = [(*f, n) for n in until for f in now.facts]
        seen = seen_of(histories, [1] * len(histories), fixed, [now.stage + 1] * len(histories))
        ahead = model.ahead(seen, self._bounded(seen, model.bands(seen))[0])
        legs = [Entered(times[i // count], float(seen.loss[i]), ahead.mean[i], ahead.high[i]) for i in range(len(seen))]
        return [legs[i : i + count] for i in range(0, len(seen), count)]


def _legs(entered: list[Entered], here: int, seen: Seen, ahead: Bands) -> tuple[int, Array, Array]:
    """When pairs are entered, their starts (P,) and losses (P, H); the present one goes on as it does."""
    starts, means = np.array([leg.start for leg in entered]), np.stack([leg.mean for leg in entered])
    starts[here], means[here] = seen.loss[here], ahead.mean[here]
    return entered[0].later, starts, means


@dataclass(frozen=True)
class _Present:
    """Where a run stands: its legs, the present one with its losses as models read them, every pair's facts."""

    legs: tuple[SeenLeg, ...]
    leg: SeenLeg
    history: Array
    facts: tuple[Facts, ...]

    @property
    def pair(self) -> int:
        return self.leg.pair

    @property
    def stage(self) -> int:
        return max(len(self.legs) - 1, 0)

    @property
    def images(self) -> int:
        """Trained on until now."""
        return sum(images_of(self.legs, self.facts))

    def seen(self, histories: Sequence[Array], first: int) -> Seen:
        """What models read of every pair: the present leg as it is, others as entered now, after `first` epochs."""
        before = sum(images_of(self.legs[:-1], self.facts))
        here = [i == self.pair for i in range(len(self.facts))]
        return seen_of(
            histories,
            [len(self.leg.losses) if present else first for present in here],
            [(*f, before if present else self.images) for f, present in zip(self.facts, here, strict=True)],
            [self.stage if present else self.stage + 1 for present in here],
        )
