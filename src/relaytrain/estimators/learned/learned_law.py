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
from dataclasses import dataclass

import numpy as np

from ...core.law import Z_ROBUST, Array, LevelLaw, LossLaw
from ...core.outcome import EpochOutcome
from ...core.problem import Pair, Problem
from ..judging.metrics import Bands
from ..legs import SeenLeg, legs_of
from .bounds import Bound
from .calibration import Adaptive, grown, scores
from .curves import Kind, LegSwitch
from .curves_through import curve_through, on_curve, robust_twin
from .facts import Facts, facts_of, ratio_between
from .features import Seen, rows_of
from .fitted import Fitted
from .late_handovers import LATER, Entered, entered_from, shared_curve, shared_twin
from .tail import HORIZONS

ALONG = (0, 4, 7, 8)
"""Places of `HORIZONS` (0: the present) at which jumps are predicted; a line through them gives the jump by loss."""

SLOPES = (-0.95, 1.0)
ROOM = 4.0
"""An epoch after a handover divides the height above the floor by this at most."""

TINY = 1e-3

PACE_DOUBT, FORGETTING = 0.5, 0.9
"""How far from 1 a leg's own pace may be, and the weight of an epoch beside the one after it."""


@dataclass(frozen=True)
class Learned:
    """`Estimator` from fitted models. `start` holds the network before epoch 1, with `initial_loss`.

    `jumps`: mean, slope and 0.95 figures of handovers from the scenario, for fits that learned none. `by_epoch`: progress
    depends on when a handover is made (`later`); without, laws do not depend on the epoch, as fine grids of losses need.
    """

    fitted: Fitted
    facts: Mapping[Pair, Facts]
    start: Pair
    initial_loss: float
    jumps: LevelLaw | None = None
    bound: Bound | None = None
    by_epoch: bool = True

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
        """The law for the epochs to come; a pure function of `history`."""
        return self._explained(history, pairs)[0]

    def notes(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair]) -> tuple[str, ...]:
        """What a reader of the run should know about the law: robust figures that a bound has raised."""
        return self._explained(history, pairs)[1]

    def _explained(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair]) -> tuple[LevelLaw, tuple[str, ...]]:
        legs = legs_of(history, pairs, pairs.index(self.start), self.initial_loss)
        facts = [self.facts[pair] for pair in pairs]
        now = legs[-1] if legs else SeenLeg(pairs.index(self.start), 0, self.initial_loss)
        present = self._history(now)
        trained = _images(legs, facts)
        first = int(self.fitted.change is not None)  # paths of pairs not entered yet begin after their first epoch
        others = self._entered([present], now.pair, facts, [sum(trained)])
        histories = [present if i == now.pair else others[i] for i in range(len(pairs))]
        stage = max(len(legs) - 1, 0)
        seen = self._seen(
            histories,
            [len(now.losses) if i == now.pair else first for i in range(len(pairs))],
            facts,
            [sum(trained[:-1]) if i == now.pair else sum(trained) for i in range(len(pairs))],
            [stage if i == now.pair else stage + 1 for i in range(len(pairs))],
        )
        ahead, notes = self._paths(seen, legs, now.pair, facts)
        room = ROOM if first else math.inf
        curves = np.stack(
            [
                curve_through(float(seen.loss[i]), ahead.mean[i], room=room, exact=i == now.pair)
                for i in range(len(pairs))
            ]
        )
        twins = [robust_twin(curves[i], float(seen.loss[i]), ahead.high[i]) for i in range(len(pairs))]
        pace, onward = (
            np.ones((1, len(pairs))),
            [on_curve(curve, np.array(HORIZONS, dtype=np.float64)) for curve in curves],
        )
        if first and self.by_epoch and self.fitted.run.reads_before:
            again = self._later(present, curves[now.pair], now.pair, facts, sum(trained), stage)
            pace = np.ones((LATER[-1] + 1, len(pairs)))
            for i in range(len(pairs)):
                if i != now.pair:
                    asked = [
                        Entered(0, float(seen.loss[i]), ahead.mean[i], ahead.high[i]),
                        *(each[i] for each in again),
                    ]
                    curves[i], paces = shared_curve(asked, room)
                    twins[i], onward[i] = shared_twin(curves[i], paces, asked), ahead.mean[i]
                    pace[:, i] = np.interp(np.arange(len(pace)), LATER, paces)
        done = [sum(trained) + (0 if i == now.pair else first * facts[i][1]) for i in range(len(pairs))]
        jump0, jump1, robust0 = self._jump_lines(histories, onward, (curves, pace), facts, done)
        rows = (
            np.maximum(np.arange(len(history) + len(pace)) - len(history), 0)
            if len(pace) > 1
            else np.zeros(1, np.int64)
        )
        mult = pace[rows]
        slow = np.array([twin[1] for twin in twins])[None, :]
        tops = seen.loss[np.isfinite(seen.loss)]
        law = LevelLaw(
            curves=curves,
            jump0=jump0,
            jump1=jump1,
            mult=mult,
            mult_robust=mult * slow,
            jump0_robust=robust0,
            jump1_robust=jump1,
            curves_robust=np.stack([twin[0] for twin in twins]),
            loss_top=float(max(self.initial_loss, present[-1], tops.max(initial=0.0))) * 1.5,
            scatter=np.array([twin[2] for twin in twins]),
        )
        return law, notes

    def _entered(
        self, befores: Sequence[Array], now: int, facts: Sequence[Facts], images: Sequence[int]
    ) -> list[Array]:
        """Histories of every pair, entered from the present one after each of `befores`: up to the end of the first epoch.

        Where no handover was learned: up to where the scenario's own jumps lead.
        """
        count, found = len(facts), []
        landings = self._landings(befores, [now] * len(befores), facts)
        lands = [np.maximum(h[-1] + part.mean, TINY) for h, part in zip(befores, landings, strict=True)]
        if self.fitted.change is None:
            return [np.array([landed[i]]) for landed in lands for i in range(count)]
        lead = self.fitted.run.with_start and self._jump_learned
        for history, landed, change in zip(
            befores, lands, self._changes(befores, [now] * len(befores), facts, images), strict=True
        ):
            entered = np.maximum(history[-1] + change.mean, TINY)
            found += [np.array([landed[i], entered[i]] if lead else [entered[i]]) for i in range(count)]
        return found

    def _later(
        self, present: Array, curve: Array, now: int, facts: Sequence[Facts], images: int, stage: int
    ) -> list[list[Entered]]:
        """Every pair's leg when it is entered at each of `LATER` but the first, along the present pair's expected curve."""
        count, times = len(facts), LATER[1:]
        befores = [np.concatenate([present, on_curve(curve, np.arange(1.0, h + 1.0))]) for h in times]
        until = [images + h * facts[now][1] for h in times]
        histories = self._entered(befores, now, facts, until)
        many = len(histories)
        seen = self._seen(
            histories, [1] * many, list(facts) * len(times), [n for n in until for _ in facts], [stage + 1] * many
        )
        model = self.fitted.run
        ahead = model.ahead(seen, (self.bound or Bound()).correct(seen, model.bands(seen))[0])
        legs = [Entered(times[i // count], float(seen.loss[i]), ahead.mean[i], ahead.high[i]) for i in range(many)]
        return [legs[i : i + count] for i in range(0, many, count)]

    def _history(self, leg: SeenLeg) -> Array:
        """Losses of a leg as the models read them: with the loss before its first epoch where they learned from it."""
        lead = [leg.start] if self.fitted.run.with_start or not leg.losses else []
        return np.array([*lead, *leg.losses])

    def _seen(
        self,
        histories: Sequence[Array],
        done: Sequence[int],
        facts: Sequence[Facts],
        images: Sequence[int],
        stage: Sequence[int],
    ) -> Seen:
        fixed = np.array([(*f, n) for f, n in zip(facts, images, strict=True)], dtype=np.float64)
        return Seen(rows_of(histories), np.array(done, dtype=np.float64), fixed, np.array(stage, dtype=np.int64))

    def _paths(
        self, seen: Seen, legs: Sequence[SeenLeg], now: int, facts: Sequence[Facts]
    ) -> tuple[Bands, tuple[str, ...]]:
        """Losses ahead of every pair; the first epoch of the present one has the width that this run has taught."""
        model = self.fitted.run
        plain = model.bands(seen)
        factor, pace = self._adapted(legs, facts)
        if factor is not None:
            wide = grown(plain, factor)
            plain.low[now, 0], plain.high[now, 0] = wide.low[now, 0], wide.high[now, 0]
            if factor > 0.0:  # a run less predictable than the traces is so further ahead, too
                plain.low[now], plain.high[now] = wide.low[now], wide.high[now]
        plain, notes = (self.bound or Bound()).correct(seen, plain)
        return _slowed(model.ahead(seen, plain), now, float(seen.loss[now]), pace), notes

    def _adapted(self, legs: Sequence[SeenLeg], facts: Sequence[Facts]) -> tuple[float | None, float]:
        """Widths to add one epoch ahead after what the run has shown, and the present leg's own pace; first None and 1."""
        model = self.fitted.run
        rows, done, fixed, images, stages, truth = [], [], [], [], [], []
        trained = _images(legs, facts)
        for stage, leg in enumerate(legs):
            whole = self._history(leg)
            lead = len(whole) - len(leg.losses)
            for k in range(1 - lead, len(leg.losses)):
                rows.append(whole[: k + lead])
                done.append(k)
                fixed.append(facts[leg.pair])
                images.append(sum(trained[:stage]))
                stages.append(stage)
                truth.append(leg.losses[k] - whole[k + lead - 1])
        if not rows:
            return None, 1.0
        bands = model.bands(self._seen(rows, done, fixed, images, stages))
        found = scores(np.array(truth), Bands(bands.mean[:, 0], bands.low[:, 0], bands.high[:, 0]))
        adaptive = Adaptive(model.warm)
        for score in found:
            adaptive.tell(float(score))
        here = np.array(stages) == len(legs) - 1
        deviations = (bands.high[here, 0] - bands.low[here, 0]) / (2.0 * Z_ROBUST)
        return adaptive.factor(), own_pace(bands.mean[here, 0], np.array(truth)[here], deviations)

    @property
    def _jump_learned(self) -> bool:
        """The change model learned the jump alone, to which the first epoch's own change is added (PACT (3))."""
        return self.fitted.change is not None and self.fitted.change.target == "jump"

    def _changes(
        self, histories: Sequence[Array], before: Sequence[int], facts: Sequence[Facts], images: Sequence[int]
    ) -> list[Bands]:
        """The change to the end of the first epoch of every pair, from every history: for each `Bands` of (P,); none to itself.

        `images`: trained on until the end of each history.
        """
        landings = self._landings(histories, before, facts)
        if not self._jump_learned:
            return landings
        count = len(facts)
        landed = np.concatenate(
            [np.maximum(h[-1] + part.mean, TINY) for h, part in zip(histories, landings, strict=True)]
        )
        none, once = [0] * len(landed), [1] * len(landed)  # epochs of a leg behind one handover at least
        until = [n for n in images for _ in facts]
        seen = self._seen([np.array([v]) for v in landed], none, list(facts) * len(histories), until, once)
        first = self.fitted.run.bands(seen)
        found = []
        for i, (b, part) in enumerate(zip(before, landings, strict=True)):
            mean, low, high = (getattr(first, name)[i * count : (i + 1) * count, 0] for name in ("mean", "low", "high"))
            whole = part.mean + mean
            spread = [np.hypot(part.mean - part.low, mean - low), np.hypot(part.high - part.mean, high - mean)]
            still = np.arange(count) == b
            found.append(Bands(*(np.where(still, 0.0, v) for v in (whole, whole - spread[0], whole + spread[1]))))
        return found

    def _landings(self, histories: Sequence[Array], before: Sequence[int], facts: Sequence[Facts]) -> list[Bands]:
        """The change on the way to every pair from every history, as learned: for each `Bands` of (P,); none to itself."""
        model, count = self.fitted.change, len(facts)
        found = []
        for history, b in zip(histories, before, strict=True):
            if model is None:
                found.append(self._stated(float(history[-1]), b, count))
                continue
            switches = [_switch(history, facts[b], facts[j], j == b) for j in range(count)]
            bands = model.bands(model.rows(switches))
            still = np.arange(count) == b
            found.append(Bands(*(np.where(still, 0.0, part) for part in (bands.mean, bands.low, bands.high))))
        return found

    def _jumps(self, changes: Bands, last: float, curves: Array, pace: Array) -> Bands:
        """Where a curve must be entered to be there after the first epoch: that epoch is taken back on each curve.

        Jumps that the scenario states lead to where the curve is entered already.
        """
        if self.fitted.change is None:
            return changes
        first = np.maximum(last + changes.mean, TINY)
        began = entered_from(curves, first, pace, ROOM)
        return Bands(began - last, began - first + changes.low, began - first + changes.high)

    def _stated(self, loss: float, before: int, count: int) -> Bands:
        """The scenario's own jumps, where nothing was learned about any."""
        law = self.jumps
        if law is None:
            zero = np.zeros(count)
            return Bands(zero, zero, zero)
        mean = law.jump0[before] + law.jump1[before] * loss
        robust0 = law.jump0 if law.jump0_robust is None else law.jump0_robust
        robust1 = law.jump1 if law.jump1_robust is None else law.jump1_robust
        high = np.maximum(robust0[before] + robust1[before] * loss, mean)
        finite = np.isfinite(mean)
        mean = np.where(finite, mean, 0.0)
        return Bands(mean, mean, np.where(np.isfinite(high), high, mean))

    def _jump_lines(
        self,
        histories: Sequence[Array],
        onward: Sequence[Array],
        law: tuple[Array, Array],
        facts: Sequence[Facts],
        images: Sequence[int],
    ) -> tuple[Array, Array, Array]:
        """c0, c1 and the robust c0 (P, P) of handovers: lines through the jumps along each pair's expected path.

        Args:
            histories: of every pair.
            onward: expected losses at `HORIZONS` behind each.
            law: curves, and the factors on progress by epoch from now on.
            facts: of every pair.
            images: trained on until the end of each history.
        """
        curves, pace = law
        count = len(facts)
        c0, c1, robust = np.zeros((count, count)), np.zeros((count, count)), np.zeros((count, count))
        every = [
            [np.concatenate([history, path[:at]]) for at in ALONG]
            for history, path in zip(histories, onward, strict=True)
        ]
        before = [b for b in range(count) for _ in ALONG]
        until = [images[b] + (HORIZONS[at - 1] if at else 0) * facts[b][1] for b in range(count) for at in ALONG]
        found = self._changes([h for rolled in every for h in rolled], before, facts, until)
        for b, rolled in enumerate(every):
            losses = np.array([h[-1] for h in rolled])
            each = zip(found[b * len(ALONG) : (b + 1) * len(ALONG)], losses, strict=True)
            after = [min(HORIZONS[at - 1] if at else 0, len(pace) - 1) for at in ALONG]
            jumps = [
                self._jumps(changes, float(last), curves, pace[h])
                for (changes, last), h in zip(each, after, strict=True)
            ]
            mean = np.stack([j.mean for j in jumps])
            above = np.stack([j.high - j.mean for j in jumps]).max(axis=0)
            away = losses - losses[0]
            spread = float((away**2).sum())
            slope = (away[:, None] * (mean - mean[0])).sum(axis=0) / spread if spread > 1e-9 else np.zeros(count)
            c1[b] = np.clip(slope, *SLOPES)
            c0[b] = mean[0] - c1[b] * losses[0]
            robust[b] = c0[b] + above
        np.fill_diagonal(c0, 0.0)
        np.fill_diagonal(c1, 0.0)
        np.fill_diagonal(robust, 0.0)
        return c0, c1, robust


def own_pace(expected: Array, seen: Array, deviations: Array) -> float:
    """The share of the changes expected of a leg that it has shown lately, between 0 and 1.

    A leg that has come to rest, longer than any that was learned from, is promised the same fall again and again. So its
    progress is weighed against what was expected of it: normal about 1 with standard deviation `PACE_DOUBT` beforehand, each
    epoch a measurement of it, older ones counting less.

    Args:
        expected: changes of the loss one epoch ahead, oldest first.
        seen: what they were.
        deviations: standard deviations of these, as the bands have them.
    """
    if not len(expected):
        return 1.0
    weight = FORGETTING ** np.arange(len(expected) - 1.0, -1.0, -1.0) / np.maximum(deviations, TINY) ** 2
    doubt = PACE_DOUBT**-2
    found = (doubt + (weight * expected * seen).sum()) / (doubt + (weight * expected**2).sum())
    return float(np.clip(found, 0.0, 1.0))


def _slowed(ahead: Bands, now: int, loss: float, pace: float) -> Bands:
    """The paths with the present pair's changes times `pace`, as wide as they were."""
    if pace >= 1.0:
        return ahead
    shift = (pace - 1.0) * (ahead.mean[now] - loss)
    parts = [part.copy() for part in (ahead.mean, ahead.low, ahead.high)]
    for part in parts:
        part[now] = np.maximum(part[now] + shift, 0.0)
    return Bands(*parts)


def _images(legs: Sequence[SeenLeg], facts: Sequence[Facts]) -> list[int]:
    """Images that each leg was trained on, each as often as it was."""
    return [len(leg.losses) * facts[leg.pair][1] for leg in legs]


def _switch(history: Array, before: Facts, after: Facts, same: bool) -> LegSwitch:
    """A handover that was not made, as the change models read it."""
    ratio = ratio_between(before, after)
    moved = before[:2] != after[:2]
    kind: Kind = "nodes" if ratio == 0.0 else ("both" if moved else "version")
    if after[2] < before[2] - 1e-9:
        kind = "restore"
    return LegSwitch(0, 0, 0, "nodes" if same else kind, ratio, history, before, after, float("nan"))
