"""What many worlds come to: misses and energies by mode and rule, with intervals, paired with the rule `true`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .clairvoyant import Clairvoyant
from .closed_loop import TRUE, Outcome

RESAMPLES = 2000
Z95 = 1.959963984540054


class MeanInterval(NamedTuple):
    """A figure and its 95 % interval; NaN where nothing is there to be averaged."""

    value: float
    low: float
    high: float


NOTHING = MeanInterval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class WorldResult:
    """All rules in one world of one mode."""

    index: int
    mode: str
    reversible: bool
    best: Clairvoyant
    outcomes: Mapping[str, Outcome]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without actions."""
        rules = {
            name: {key: _plain(value) for key, value in vars(o).items() if key not in ("actions", "rule")}
            for name, o in self.outcomes.items()
        }
        place = {"index": self.index, "mode": self.mode, "reversible": self.reversible}
        return {**place, "clairvoyant_j": _plain(self.best.energy_j), "rules": rules}


@dataclass(frozen=True)
class Row:
    """One rule in one mode.

    `over_clairvoyant` is the mean energy over the clairvoyant optimum's, over worlds where the rule met the target;
    `over_true` the same against the rule that knows the true curves, where both met it; `misses_over_true` is the
    difference of miss rates. Intervals: Wilson for `miss_rate`, paired bootstrap for the others. `decision_ms` is
    processor time.
    """

    mode: str
    rule: str
    worlds: int
    misses: int
    miss_rate: MeanInterval
    misses_over_true: MeanInterval
    over_clairvoyant: MeanInterval
    over_true: MeanInterval
    both_met: int
    switches: float
    epochs: float
    decision_ms: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; intervals are [value, low, high]."""
        return {key: _plain(value) for key, value in vars(self).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, MeanInterval):
        return [_plain(figure) for figure in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class SimulationResult:
    """The rows of a simulation and every single outcome behind them.

    `inexact` counts the clairvoyant optima that could not be proven (laws that are not monotone).
    """

    scenario: str
    worlds: int
    seed: int
    modes: tuple[str, ...]
    rules: tuple[str, ...]
    elapsed_s: float
    inexact: int
    rows: tuple[Row, ...]
    results: tuple[WorldResult, ...]

    def table(self) -> list[Row]:
        """One row for each mode and rule."""
        return list(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; single outcomes without their actions."""
        return {
            "schema": "relaytrain.simulation/1",
            **vars(self),
            "modes": list(self.modes),
            "rules": list(self.rules),
            "rows": [row.to_dict() for row in self.rows],
            "results": [result.to_dict() for result in self.results],
        }


def wilson(misses: int, worlds: int) -> MeanInterval:
    """A share and its Wilson score interval, which stays sensible at no misses at all."""
    if worlds == 0:
        return NOTHING
    share = misses / worlds
    spread = Z95 * math.sqrt(share * (1 - share) / worlds + Z95**2 / (4 * worlds**2))
    centre, scale = share + Z95**2 / (2 * worlds), 1 + Z95**2 / worlds
    return MeanInterval(share, max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale))


def bootstrap(values: Sequence[float] | NDArray[np.float64], seed: int) -> MeanInterval:
    """The mean and its percentile bootstrap interval over worlds."""
    data = np.asarray(values, dtype=np.float64)
    if len(data) == 0:
        return NOTHING
    picks = np.random.default_rng(seed).integers(len(data), size=(RESAMPLES, len(data)))
    low, high = np.quantile(data[picks].mean(axis=1), [0.025, 0.975])
    return MeanInterval(float(data.mean()), float(low), float(high))


def summarise(results: Sequence[WorldResult], modes: Sequence[str], rules: Sequence[str], seed: int) -> tuple[Row, ...]:
    """Rows in order of mode, then rule."""
    rows = []
    for mode in modes:
        here = [result for result in results if result.mode == mode]
        rows += [_row(here, mode, rule, seed) for rule in rules]
    return tuple(rows)


def _row(here: Sequence[WorldResult], mode: str, rule: str, seed: int) -> Row:
    mine = [result.outcomes[rule] for result in here]
    paired = [(r.outcomes[rule], r.outcomes[TRUE]) for r in here if TRUE in r.outcomes]
    both = [(a, b) for a, b in paired if a.met and b.met]
    met = [(o, r.best) for o, r in zip(mine, here, strict=True) if o.met and r.best.met]
    decisions = sum(len(o.actions) for o in mine)
    return Row(
        mode=mode,
        rule=rule,
        worlds=len(mine),
        misses=sum(not o.met for o in mine),
        miss_rate=wilson(sum(not o.met for o in mine), len(mine)),
        misses_over_true=bootstrap([float(b.met) - float(a.met) for a, b in paired], seed),
        over_clairvoyant=bootstrap([_ratio(o.energy_j, best.energy_j) for o, best in met], seed),
        over_true=bootstrap([_ratio(a.energy_j, b.energy_j) for a, b in both], seed),
        both_met=len(both),
        switches=_mean(mine, lambda o: o.switches),
        epochs=_mean(mine, lambda o: len(o.actions)),
        decision_ms=sum(o.decision_ms for o in mine) / decisions if decisions else 0.0,
    )


def _ratio(energy_j: float, other_j: float) -> float:
    """Nothing over nothing is one: a start that meets the target already costs no one anything."""
    return energy_j / other_j if other_j > 0 else (1.0 if energy_j == 0 else math.inf)


def _mean(outcomes: Sequence[Outcome], of: Callable[[Outcome], float]) -> float:
    return sum(of(o) for o in outcomes) / len(outcomes) if outcomes else math.nan
