"""What a handover does to the loss, asked of the fitted models for handovers that nobody has made.

    landing: to the forward loss after the switch     change: to the end of the new leg's first epoch
    jump: to where the new pair's curve is entered, so that its first epoch leads to where the change does

All of it from N histories to all of P pairs at once: `Bands` of (N, P), none from a pair to itself. Where no handover
was learned, the scenario's own jumps stand for landing, change and jump.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.curve import Array
from ...core.law import LevelLaw
from ..bands import Bands, stacked
from .bundle import Kind, LegSwitch
from .curve_through import TINY
from .features import seen_of
from .fitted import Fitted
from .late_handovers import entered_from
from .pair_facts import Facts, ratio_between
from .tail import HORIZONS

ALONG = (0, 4, 7, 8)
"""Places of `HORIZONS` (0: the present) at which jumps are predicted; a line through them gives the jump by loss."""

SLOPES = (-0.95, 1.0)
ROOM = 4.0
"""An epoch after a handover divides the height above the floor by this at most."""


@dataclass(frozen=True)
class Handovers:
    """Models, the pairs' facts, and the scenario's own jumps (`stated`) for fits that learned none."""

    fitted: Fitted
    facts: Sequence[Facts]
    stated: LevelLaw | None = None

    @property
    def learned(self) -> bool:
        """Whether the fit knows handovers."""
        return self.fitted.change is not None

    @property
    def _jump_learned(self) -> bool:
        """The change model learned the jump alone, to which the first epoch's own change is added (PACT (3))."""
        return self.fitted.change is not None and self.fitted.change.target == "jump"

    def landings(self, histories: Sequence[Array], before: Sequence[int]) -> Bands:
        """The change on the way to every pair, as learned; `before` is the pair of each history."""
        model, rows = self.fitted.change, []
        for history, b in zip(histories, before, strict=True):
            if model is None:
                rows.append(_stated(self.stated, float(history[-1]), b, len(self.facts)))
            else:
                switches = [_switch(history, self.facts[b], after, same=j == b) for j, after in enumerate(self.facts)]
                rows.append(_moving(model.bands(model.rows(switches)), b))
        return stacked([row.each(lambda part: part[None, :]) for row in rows])

    def changes(self, histories: Sequence[Array], before: Sequence[int], images: Sequence[int]) -> Bands:
        """The change to the end of the first epoch of every pair; `images`: trained on until then."""
        landing = self.landings(histories, before)
        if not self._jump_learned:
            return landing
        landed = np.maximum(_last(histories) + landing.mean, TINY)
        fixed = [(*f, n) for n in images for f in self.facts]
        once = [1] * landed.size  # legs behind one handover at least
        first = self.fitted.run.bands(seen_of(list(landed.reshape(-1, 1)), [0] * landed.size, fixed, once))
        first = first.each(lambda part: part[:, 0].reshape(landed.shape))
        mean = landing.mean + first.mean
        below = np.hypot(landing.mean - landing.low, first.mean - first.low)
        above = np.hypot(landing.high - landing.mean, first.high - first.mean)
        return _moving(Bands(mean, mean - below, mean + above), np.array(before)[:, None])

    def entered(self, befores: Sequence[Array], now: int, images: Sequence[int]) -> list[Array]:
        """Histories of every pair, entered from `now` after each of `befores`: up to the end of the first epoch.

        Where no handover was learned: up to where the scenario's own jumps lead.
        """
        before, last = [now] * len(befores), _last(befores)
        landed = np.maximum(last + self.landings(befores, before).mean, TINY).reshape(-1, 1)
        if not self.learned:
            return list(landed)
        after = np.maximum(last + self.changes(befores, before, images).mean, TINY).reshape(-1, 1)
        lead = self.fitted.run.with_start and self._jump_learned
        return list(np.concatenate([landed, after], axis=1) if lead else after)

    def jump_lines(
        self, histories: Sequence[Array], onward: Sequence[Array], law: tuple[Array, Array], images: Sequence[int]
    ) -> tuple[Array, Array, Array]:
        """c0, c1 and the robust c0 (P, P) of handovers: lines through the jumps along each pair's expected path.

        Args:
            histories: of every pair.
            onward: expected losses at `HORIZONS` behind each.
            law: curves, and the factors on progress by epoch from now on.
            images: trained on until the end of each history.
        """
        curves, pace = law
        count, epochs = len(self.facts), [(0, *HORIZONS)[at] for at in ALONG]
        rolled = [np.concatenate([h, path[:at]]) for h, path in zip(histories, onward, strict=True) for at in ALONG]
        before = [b for b in range(count) for _ in ALONG]
        until = [images[b] + h * self.facts[b][1] for b in range(count) for h in epochs]
        last, jumps = _last(rolled), self.changes(rolled, before, until)
        if self.learned:  # the first epoch is taken back on each curve; stated jumps lead to its beginning already
            first = np.maximum(last + jumps.mean, TINY)
            paces = np.tile(pace[np.minimum(epochs, len(pace) - 1)], (count, 1))
            began = entered_from(curves, first, paces, ROOM)
            jumps = Bands(began - last, began - first + jumps.low, began - first + jumps.high)
        shape = (count, len(ALONG), count)
        losses, mean = last.reshape(shape[:2]), jumps.mean.reshape(shape)
        above = (jumps.high - jumps.mean).reshape(shape).max(axis=1)
        away = losses - losses[:, :1]
        spread = (away**2).sum(axis=1)[:, None]
        slope = (away[:, :, None] * (mean - mean[:, :1])).sum(axis=1) / np.maximum(spread, 1e-9)
        c1 = np.where(spread > 1e-9, np.clip(slope, *SLOPES), 0.0)
        c0 = mean[:, 0] - c1 * losses[:, :1]
        lines = c0, c1, c0 + above
        for line in lines:
            np.fill_diagonal(line, 0.0)
        return lines


def _last(histories: Sequence[Array]) -> Array:
    return np.array([history[-1] for history in histories])[:, None]


def _moving(bands: Bands, before: Array | int) -> Bands:
    """None from a pair to itself; the last axis are the pairs."""
    still = np.arange(bands.mean.shape[-1]) == before
    return bands.each(lambda part: np.where(still, 0.0, part))


def _stated(law: LevelLaw | None, loss: float, before: int, count: int) -> Bands:
    """The scenario's own jumps, where nothing was learned about any."""
    if law is None:
        zero = np.zeros(count)
        return Bands(zero, zero, zero)
    mean = law.jump0[before] + law.jump1[before] * loss
    robust0 = law.jump0 if law.jump0_robust is None else law.jump0_robust
    robust1 = law.jump1 if law.jump1_robust is None else law.jump1_robust
    high = np.maximum(robust0[before] + robust1[before] * loss, mean)
    mean = np.where(np.isfinite(mean), mean, 0.0)
    return Bands(mean, mean, np.where(np.isfinite(high), high, mean))


def _switch(history: Array, before: Facts, after: Facts, *, same: bool) -> LegSwitch:
    """A handover that was not made, as the change models read it."""
    ratio = ratio_between(before, after)
    moved = before[:2] != after[:2]
    kind: Kind = "nodes" if ratio == 0.0 else ("both" if moved else "version")
    if after[2] < before[2] - 1e-9:
        kind = "restore"
    return LegSwitch(0, 0, 0, "nodes" if same else kind, ratio, history, before, after, float("nan"))
