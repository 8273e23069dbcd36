"""Where the figures in the quickstart's `[law]` and `[prior]` come from: traces of real training, fitted.

    python benchmarks/fit_quickstart_prior.py                    # trains about two minutes, prints the tables
    python benchmarks/fit_quickstart_prior.py --check 6          # and how well they foresee six fresh runs

Trained on seeds from 1000 on, checked on seeds from 2000 on; demo and benchmarks use neither.

Legs start after 0 to 6 epochs on gold. A curve is fitted to those after three or more; `progress` of the first six
epochs of a run is what all legs show there: a network that has learned nothing yet learns little from few images, which
no curve of the loss alone can say. Every leg gets its own floor and
scale; the pair's are their means, `floor_spread` and `spread` their standard deviations (of the scale's
logarithm), `noise` what is left, `common` the mean correlation of two pairs' log scale in one run.
"""

from __future__ import annotations

import argparse
import json
import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from relaytrain.core.law import LossLaw
from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.core.problem import Pair
from relaytrain.estimators import Prior
from relaytrain.scenario import Scenario, load_scenario

Array = NDArray[np.float64]
FIRST_SEED, FIRST_CHECK = 1000, 2000
GOLD, SILVER, BRONZE = Pair("full", "gold"), Pair("medium", "silver"), Pair("small", "bronze")
INITIAL_LOSS = 2.3
LEARNED = 3
"""Epochs on gold after which a network has learned what digits look like; before, few images teach it little."""
EARLY = 6
"""Epochs of a run that are still those of a network that has learned little, in the middle of all legs."""
POWER = 4.0
"""Of 1, 2, 4 and 8 the one that leaves least, or next to least, for every pair."""
Z_95 = 1.645


@dataclass(frozen=True)
class Leg:
    """A leg of a trace: epochs on gold before it, its own first epoch, where it came from, the loss before and after
    the handover, the losses of its epochs."""

    seed: int
    gold: int
    first_epoch: int
    before: str
    pair: str
    loss_before: float
    start: float
    losses: tuple[float, ...]
    handed_over: bool


def scenario_of(seed: int) -> Scenario:
    """The quickstart with another draw of data and weights."""
    return load_scenario("quickstart", overrides=[f"training.seed={seed}", f"data.seed={seed}"])


def schedules() -> list[tuple[tuple[Pair, int], ...]]:
    """The traced schedules, as (pair, epochs); they share their prefixes."""
    found: list[tuple[tuple[Pair, int], ...]] = [((GOLD, 9),)]
    for k in (0, 1, 2, 3, 4, 6):
        gold = ((GOLD, k),) if k else ()
        found += [(*gold, (SILVER, 12)), (*gold, (BRONZE, 14))]
        found += [(*gold, (SILVER, j), (BRONZE, 14)) for j in (3, 6)]
    return found


def traces(seed: int) -> list[Leg]:
    """The last leg of every schedule, trained with one seed."""
    import torch
    from branches import Branches

    torch.set_num_threads(1)
    trainer = Branches(scenario_of(seed))
    legs = []
    for schedule in schedules():
        path = [pair for pair, count in schedule for _ in range(count)]
        last = list(trainer.follow(path))[-schedule[-1][1] :]
        first = last[0]
        start = first.loss_before if first.handover_loss is None else first.handover_loss
        losses = tuple(done.loss for done in last)
        gold = sum(count for pair, count in schedule[:-1] if pair == GOLD)
        pairs = str(first.before), str(first.now)
        handed = first.handover_loss is not None
        legs.append(Leg(seed, gold, len(path) - len(last) + 1, *pairs, first.loss_before, start, losses, handed))
    return legs


@dataclass(frozen=True)
class Curve:
    """floor + drop (1 + x/scale)^-POWER; `spread` is that of the logarithm of the scale, between legs."""

    floor: float
    scale: float
    spread: float = 0.0
    floor_spread: float = 0.0
    early: tuple[float, ...] = ()

    def after(self, loss: float) -> float:
        """The loss one epoch on."""
        if loss <= self.floor:
            return loss
        drop = INITIAL_LOSS - self.floor
        position = ((loss - self.floor) / drop) ** (-1.0 / POWER)
        return self.floor + drop * (position + 1.0 / self.scale) ** -POWER

    def residuals(self, leg: Leg) -> Array:
        """Logarithms of seen over foreseen from the leg's start on."""
        epochs = len(leg.losses)
        if leg.start <= self.floor:
            return np.asarray(np.log(np.array(leg.losses) / leg.start))
        drop = INITIAL_LOSS - self.floor
        position = ((leg.start - self.floor) / drop) ** (-1.0 / POWER)
        path = self.floor + drop * (position + np.arange(1, epochs + 1) / self.scale) ** -POWER
        return np.asarray(np.log(np.array(leg.losses) / path))


def fit_leg(leg: Leg) -> Curve:
    """The leg's own floor and scale, each held back a little towards what is usual: legs are short."""

    def curve(x: Array) -> Curve:
        return Curve(float(np.clip(math.exp(x[0]), 0.03, 2.0)), math.exp(x[1]))

    def cost(x: Array) -> float:
        held = 0.002 * (x[0] - math.log(0.4)) ** 2 + 0.0005 * (x[1] - math.log(20.0)) ** 2
        return float(np.mean(curve(x).residuals(leg) ** 2)) + float(held)

    starts = [np.log([floor, scale]) for floor in (0.3, 0.7) for scale in (8.0, 32.0)]
    found = min((minimize(cost, s, method="Nelder-Mead", options={"maxiter": 400}) for s in starts), key=lambda r: r.fun)
    return curve(found.x)


def early_progress(curve: Curve, legs: list[Leg]) -> tuple[float, ...]:
    """The median share of the curve's step that epochs 1, 2 ... of a run make, while the network has learned little."""
    shares: list[float] = []
    for epoch in range(1, EARLY + 1):
        seen = []
        for leg in legs:
            k = epoch - leg.first_epoch
            if 0 <= k < len(leg.losses):
                before = leg.start if k == 0 else leg.losses[k - 1]
                if before > curve.floor + 0.05:
                    seen.append((before - leg.losses[k]) / (before - curve.after(before)))
        shares.append(max([float(np.clip(np.median(seen), 0.0, 1.0)), *shares]))
    return tuple(shares)


@dataclass(frozen=True)
class Fit:
    """All that goes into the preset; jumps are (mean, mean per loss, spread) by (before, after)."""

    curves: dict[str, Curve]
    jumps: dict[tuple[str, str], tuple[float, float, float]]
    noise: float
    correlation: float
    common: float


def fit(legs: list[Leg]) -> Fit:
    """Curves, jumps and scatter of the traces."""
    curves: dict[str, Curve] = {}
    paces = []
    left: list[Array] = []
    for pair in dict.fromkeys(leg.pair for leg in legs):
        every = [leg for leg in legs if leg.pair == pair]
        mine = {leg: fit_leg(leg) for leg in every if pair == str(GOLD) or leg.gold >= LEARNED}
        floors, logs = np.array([c.floor for c in mine.values()]), np.log([c.scale for c in mine.values()])
        curve = Curve(float(floors.mean()), math.exp(float(logs.mean())), float(logs.std()), float(floors.std()))
        curves[pair] = curve if pair == str(GOLD) else replace(curve, early=early_progress(curve, every))
        seeds = np.array([leg.seed for leg in mine])
        paces.append([float(logs[seeds == seed].mean()) for seed in sorted(set(seeds))])
        left += [curve.residuals(leg) for leg, curve in mine.items()]
    jumps = {}
    for key in dict.fromkeys((leg.before, leg.pair) for leg in legs if leg.handed_over and leg.gold):
        seen = [leg for leg in legs if (leg.before, leg.pair) == key and leg.handed_over and leg.gold]
        loss = np.array([leg.loss_before for leg in seen])
        jump = np.array([leg.start - leg.loss_before for leg in seen])
        design = np.column_stack([np.ones(len(seen)), loss])
        mean, slope = np.linalg.lstsq(design, jump, rcond=None)[0]
        slope = float(np.clip(slope, -0.9, 2.0))
        mean = float(np.mean(jump - slope * loss))
        jumps[key] = (mean, slope, float(np.std(jump - mean - slope * loss)))
    between = np.corrcoef(paces)[np.triu_indices(len(paces), 1)]
    lags = [float(np.corrcoef(r[:-1], r[1:])[0, 1]) for r in left if len(r) > 5]
    noise = math.sqrt(float(np.mean([np.mean(r**2) for r in left])))
    return Fit(curves, jumps, noise, float(np.clip(np.mean(lags), 0.0, 0.9)), float(np.clip(np.mean(between), 0.0, 0.9)))


def toml(found: Fit, seeds: int) -> str:
    """The tables as they stand in the preset."""
    lines = ["[law]", 'kind = "level"', ""]
    for name, curve in found.curves.items():
        version, nodes = name.split(" on ")
        slow = math.exp(-Z_95 * curve.spread)
        lines += ["[[law.curves]]", f'version = "{version}"', f'nodes = "{nodes}"', f"floor = {curve.floor:.3f}"]
        lines += [f"drop = {INITIAL_LOSS - curve.floor:.3f}", f"scale = {curve.scale:.2f}", f"power = {POWER:g}"]
        if curve.early:
            lines += [f"progress = [{', '.join(f'{share:.2f}' for share in (*curve.early, 1.0))}]"]
            lines += [f"robust_progress = [{', '.join(f'{share * slow:.2f}' for share in (*curve.early, 1.0))}]"]
        else:
            lines += [f"robust_progress = {slow:.2f}"]
        lines += [f"robust_floor = {curve.floor + Z_95 * curve.floor_spread:.3f}"]
    lines += [""]
    for (before, after), (mean, slope, spread) in found.jumps.items():
        lines += ["[[law.jumps]]", *_sides(before, after), f"jump = {mean:.3f}", f"jump_per_loss = {slope:.3f}"]
        lines += [f"robust_jump = {mean + Z_95 * spread:.3f}", f"robust_jump_per_loss = {slope:.3f}"]
    lines += ["", "[prior]", f'source = "benchmarks/fit_quickstart_prior.py, {seeds} runs, seeds from {FIRST_SEED} on"']
    lines += [f"noise = {found.noise:.3f}", f"correlation = {found.correlation:.2f}", f"common = {found.common:.2f}", ""]
    for name, curve in found.curves.items():
        version, nodes = name.split(" on ")
        lines += ["[[prior.curves]]", f'version = "{version}"', f'nodes = "{nodes}"']
        lines += [f"spread = {curve.spread:.2f}", f"floor_spread = {curve.floor_spread:.3f}"]
    for (before, after), (_, _, spread) in found.jumps.items():
        lines += ["[[prior.handovers]]", *_sides(before, after), f"spread = {spread:.3f}"]
    return "\n".join(lines)


def _sides(before: str, after: str) -> list[str]:
    return [f'from = "{before}"', f'to = "{after}"']


def check(seed: int) -> list[tuple[int, float, float, float]]:
    """A fresh run along 4/4/10: (epochs ahead, loss seen, expected, at level 0.95), from every epoch on."""
    import torch
    from branches import Branches

    torch.set_num_threads(1)
    scenario = scenario_of(seed)
    pairs = scenario.problem.pairs
    trainer = Branches(scenario)
    done = list(trainer.follow([GOLD] * 4 + [SILVER] * 4 + [BRONZE] * 10))
    estimator = Prior.of(scenario, done[0].loss_before)
    history = [
        EpochOutcome(Decision(k, d.now.version, d.now.nodes), d.loss, 0.0, 0.0, handover_loss=d.handover_loss)
        for k, d in enumerate(done, 1)
    ]
    rows = []
    for k in range(len(done)):
        law: LossLaw = estimator.law(history[:k], pairs)
        for ahead in (1, 3, 6):
            if k + ahead > len(done):
                continue
            ends = []
            for level in ("expected", 0.95):
                loss = np.array(done[k].loss_before)
                for step in done[k : k + ahead]:
                    loss = law.next_loss(k + 1, loss, pairs.index(step.before), pairs.index(step.now), level)  # type: ignore[arg-type]
                ends.append(float(loss))
            rows.append((ahead, done[k + ahead - 1].loss, ends[0], ends[1]))
    return rows


def main() -> None:
    """Trace, fit, print, check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--check", type=int, default=0, metavar="RUNS", help="fresh runs to foresee with the preset as it stands")
    parser.add_argument("--traces", type=Path, help="keep the traces here, or take them from here")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        if given.traces is not None and given.traces.exists():
            legs = [Leg(**{**row, "losses": tuple(row["losses"])}) for row in json.loads(given.traces.read_text())]
        else:
            legs = [leg for run in pool.map(traces, range(FIRST_SEED, FIRST_SEED + given.seeds)) for leg in run]
            if given.traces is not None:
                given.traces.write_text(json.dumps([asdict(leg) for leg in legs]))
        print(toml(fit(legs), len({leg.seed for leg in legs})))
        if given.check:
            rows = [row for run in pool.map(check, range(FIRST_CHECK, FIRST_CHECK + given.check)) for row in run]
            for ahead in sorted({row[0] for row in rows}):
                mine = np.array([row[1:] for row in rows if row[0] == ahead])
                below = np.mean(mine[:, 0] <= mine[:, 2])
                error = np.median(np.abs(np.log(mine[:, 0] / mine[:, 1])))
                print(f"# {ahead} epochs ahead: {below:.0%} of {len(mine)} losses at or below level 0.95; median error {error:.0%}")


if __name__ == "__main__":
    main()
