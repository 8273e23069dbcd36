"""The estimator behind DepL: the increments of `[depl]`, conditioned on those that the run has shown.

Each epoch done gives x = (loss before - loss after) / (h gain / (k + offset)^power), the loss before being the one
probed after a handover. With the dependence believed, the x seen say how this run differs from the average one and how
the next epoch goes; the law carries them to the planner, which draws what is to come given them. Where distributions
are not trusted (`[depl] bands = "conformal"`), epochs that fall short widen those to come.

Paper: DepL section VI-A, equation (8); the paper takes the distributions as given once and for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core.curve import Array
from ...core.dependence import NoisePast, draw_latent, from_normal, to_normal
from ...core.depl_settings import DeplSettings
from ...core.errors import UsageError
from ...core.increments import IncrementLaw
from ...core.law import ROBUST_LEVEL, EpochLaw, LossLaw
from ...core.outcome import EpochOutcome
from ...core.problem import Pair
from ...core.worlds import Worlds
from ...scenario.depl_build import depl_law
from ...scenario.model import Scenario
from ..own_pairs import check_pairs
from .gain_worlds import gain_worlds
from .widening import widening

SAMPLES = 4000
WIDEST = 3.5
"""An epoch further out is taken for one at this distance: a single odd one must not settle what the run is like."""


@dataclass(frozen=True)
class Increments:
    """`Estimator` of increments. `law0`: the gains of `pairs` before anything was seen; `initial_loss` was probed."""

    settings: DeplSettings
    pairs: tuple[Pair, ...]
    law0: EpochLaw
    initial_loss: float
    seed: int = 0

    @classmethod
    def of(cls, scenario: Scenario, initial_loss: float | None = None) -> Increments:
        """The estimator of a scenario whose law is "depl"."""
        if scenario.depl is None or not isinstance(scenario.law, EpochLaw):
            raise UsageError("increments: the scenario has no table [depl], or a law of another kind")
        first = scenario.problem.initial_loss if initial_loss is None else initial_loss
        return cls(scenario.depl, scenario.problem.pairs, scenario.law, first, scenario.planner.seed)

    def law(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair]) -> LossLaw:
        """The law for the epochs to come; a pure function of `history`. `pairs` are its own."""
        check_pairs(pairs, self.pairs)
        past = self.past(history)
        staged = {(name, o.decision.nodes): None for o in history for name in self._names(o)}
        loss = history[-1].loss if history else self.initial_loss
        factor = widening(past.z) if self.settings.conformal else 1.0
        now = replace(self, settings=self.settings.widened(factor))
        law0 = now._placed(history, loss)
        run, robust = now._next_epoch(law0, past, loss, [self.settings.version(p.version) for p in self.pairs])
        return IncrementLaw(run, law0.change, robust, law0.change_robust, past, tuple(staged), factor)

    def sample(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair], count: int, seed: int) -> Worlds:
        """Worlds drawn from the same distributions; a pure function of what it is given. `pairs` are its own."""
        check_pairs(pairs, self.pairs)
        past = self.past(history)
        settings = self.settings.widened(widening(past.z) if self.settings.conformal else 1.0)
        loss = history[-1].loss if history else self.initial_loss
        return gain_worlds(settings, past, self.pairs, loss, count, seed)

    def _placed(self, history: Sequence[EpochOutcome], loss: float) -> EpochLaw:
        """The gains by epoch; with the level reading every version's are placed where the loss stands now."""
        if not history:
            return self.law0
        if self.settings.reading == "epoch":
            return depl_law(self.settings, self.pairs) if self.settings.conformal else self.law0
        before = self.settings.version(history[-1].decision.version)
        versions = self.settings.placed(len(history), loss, before)
        return depl_law(replace(self.settings, instance=replace(self.settings.instance, versions=versions)), self.pairs)

    def past(self, history: Sequence[EpochOutcome]) -> NoisePast:
        """z of every epoch done."""
        instance, before, rows = self.settings.instance, self.initial_loss, []
        for outcome in history:
            decision = outcome.decision
            m = self.settings.version(decision.version)
            start = before if outcome.handover_loss is None else outcome.handover_loss
            gain = instance.data_gain(self.settings.chosen(decision.datasets))
            step = float(instance.versions[m].progress(self.settings.index(m, decision.epoch - 1, start)))
            z = to_normal(instance.versions[m].noise, np.array((start - outcome.loss) / (gain * step)))
            rows.append((decision.epoch, m, float(np.clip(z, -WIDEST, WIDEST))))
            before = outcome.loss
        epochs, versions, z_all = zip(*rows, strict=True) if rows else ((), (), ())
        return NoisePast(tuple(epochs), tuple(versions), tuple(z_all))

    def _names(self, outcome: EpochOutcome) -> tuple[str, ...]:
        data = self.settings.instance.datasets
        return tuple(data[d].name for d in self.settings.chosen(outcome.decision.datasets))

    def _next_epoch(self, law0: EpochLaw, past: NoisePast, loss: float, versions: Sequence[int]) -> tuple[Array, Array]:
        """The tables with the row of the next epoch as the past has it: mean, and the robust level's quantile."""
        instance = self.settings.instance
        run, epoch = law0.run.copy(), len(past.z) + 1
        robust = run.copy() if law0.run_robust is None else law0.run_robust.copy()
        if not past.z or epoch > len(run):
            return run, robust
        z = draw_latent(self.settings.belief, past, (epoch,), len(instance.versions), samples=SAMPLES, seed=self.seed)
        gain = instance.data_gain(range(len(instance.datasets)))
        for at, m in enumerate(versions):
            version = instance.versions[m]
            step = float(version.progress(self.settings.index(m, epoch - 1, loss)))
            change = -gain * step * from_normal(version.noise, z[:, m, 0])
            run[epoch - 1, at], robust[epoch - 1, at] = change.mean(), np.quantile(change, ROBUST_LEVEL)
        return run, robust
