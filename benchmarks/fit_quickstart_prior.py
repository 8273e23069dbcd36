"""Where the figures in `[law]` and `[prior]` of the quickstart, `fashion` and `deeper` come from: fitted traces.

    python benchmarks/fit_quickstart_prior.py                        # trains some minutes, prints the tables
    python benchmarks/fit_quickstart_prior.py --check 8              # and how well those of the preset foresee eight
    fresh runs python benchmarks/fit_quickstart_prior.py --check 8 --seeds 0    # this alone
    python benchmarks/fit_quickstart_prior.py --data fashion-mnist   # the same for the preset `fashion`
    python benchmarks/fit_quickstart_prior.py --data deeper          # the same for the preset `deeper`

Trained on seeds from 1000 on, checked on seeds from 2000 on; demo and benchmarks use neither.

Legs start after 0 to 20 epochs on gold. A curve is that of legs after twenty; `progress` of the first twenty
epochs of a run is what earlier legs show against it: a network that has learned little yet learns little from few
images, which no curve of the loss alone can say. Every leg gets its own floor, scale and start; the pair's are their
means, `floor_spread` and `spread` their standard deviations (of the scale's logarithm), `noise` what is left, pair by
pair, `correlation` that of neighbouring epochs in it, `common` the mean correlation of two pairs' log scale in one run.
A jump goes from where the curve before stood to where the new one starts: pruning throws the loss up, the first epoch
throws it down again, and what the forward pass in between shows says little of the curve that goes on (`recovers`).
"""

from __future__ import annotations

import argparse
import json
import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from relaytrain.core.law import Level, LossLaw, begin
from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.core.problem import Pair
from relaytrain.estimators import Prior
from relaytrain.scenario import Scenario, load_scenario

if TYPE_CHECKING:
    from branches import Done

Array = NDArray[np.float64]
FIRST_SEED, FIRST_CHECK = 1000, 2000
GOLD, SILVER, BRONZE = Pair("full", "gold"), Pair("medium", "silver"), Pair("small", "bronze")
INITIAL_LOSS = 2.3
ON_GOLD, ON_SILVER = (0, 4, 8, 12, 16, 20), (3, 8)
LEARNED = 20
"""Epochs on gold after which a network has learned what it is about; before, few images teach it less."""
EARLY, BLOCK = 20, 4
"""Epochs of a run that are still those of a network that has learned little, and how many are taken together."""
POWER = 4.0
"""Of 1, 2, 4 and 8 the one that leaves least, or next to least, for every pair."""
Z_95 = 1.645
HELD = 0.002
"""How strongly a leg's figures are held back, against the mean square of its residuals."""


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


PRESETS = {"digits": "quickstart", "fashion-mnist": "fashion", "deeper": "deeper"}


def scenario_of(data: str, seed: int) -> Scenario:
    """The preset with another draw of data and weights."""
    return load_scenario(PRESETS[data], overrides=[f"training.seed={seed}", f"data.seed={seed}"])


def schedules() -> list[tuple[tuple[Pair, int], ...]]:
    """The traced schedules, as (pair, epochs); they share their prefixes."""
    found: list[tuple[tuple[Pair, int], ...]] = [((GOLD, 22),)]
    for k in ON_GOLD:
        gold = ((GOLD, k),) if k else ()
        found += [(*gold, (SILVER, 12)), (*gold, (BRONZE, 14))]
        found += [(*gold, (SILVER, j), (BRONZE, 14)) for j in (ON_SILVER if k >= 8 else ())]
    return found


def traces(seed: int, data: str = "digits") -> list[Leg]:
    """The last leg of every schedule, trained with one seed."""
    import torch
    from branches import Branches

    torch.set_num_threads(1)
    trainer = Branches(scenario_of(data, seed))
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
    """floor + drop (1 + x/scale)^-POWER; `spread` is that of the logarithm of the scale, between legs.

    Of a leg's own curve `start` is where it begins: what pruning does to the loss the first epoch undoes, so that is
    not the loss of the forward pass after the switch.
    """

    floor: float
    scale: float
    start: float = INITIAL_LOSS
    spread: float = 0.0
    floor_spread: float = 0.0
    early: tuple[float, ...] = ()
    noise: float = 0.05

    def after(self, loss: float, epochs: int = 1) -> float:
        """The loss so many epochs on."""
        return float(self.path(loss, epochs)[-1]) if epochs else loss

    def path(self, loss: float, epochs: int) -> Array:
        """The losses of so many epochs from `loss` on."""
        if loss <= self.floor:
            return np.full(epochs, loss)
        drop = INITIAL_LOSS - self.floor
        position = ((loss - self.floor) / drop) ** (-1.0 / POWER)
        return np.asarray(self.floor + drop * (position + np.arange(1, epochs + 1) / self.scale) ** -POWER)

    def residuals(self, leg: Leg) -> Array:
        """Logarithms of seen over foreseen from the curve's own start on."""
        return np.asarray(np.log(np.array(leg.losses) / self.path(self.start, len(leg.losses))))


def fit_leg(leg: Leg, usual: Curve | None) -> Curve:
    """The leg's own floor, scale and start, each held back a little towards what is usual: legs are short."""
    centre = np.log([0.4, 12.0] if usual is None else [usual.floor, usual.scale])
    first = math.log(leg.losses[0]) + 0.1

    def curve(x: Array) -> Curve:
        start = leg.start if not leg.handed_over else math.exp(float(np.clip(x[2], -3.0, 1.0)))
        return Curve(float(np.clip(math.exp(x[0]), 0.03, 2.0)), math.exp(float(np.clip(x[1], -2.0, 6.0))), start)

    def cost(x: Array) -> float:
        held = HELD * float((x[0] - centre[0]) ** 2 + 0.5 * (x[1] - centre[1]) ** 2 + 0.25 * (x[2] - first) ** 2)
        return float(np.mean(curve(x).residuals(leg) ** 2)) + held

    starts = [np.array([centre[0], centre[1] + away, first]) for away in (-0.7, 0.7)]
    found = min(
        (minimize(cost, s, method="Nelder-Mead", options={"maxiter": 600}) for s in starts), key=lambda r: r.fun
    )
    return curve(found.x)


def fit_legs(legs: list[Leg]) -> dict[Leg, Curve]:
    """Every leg's own curve: once by itself, once more held back towards the middle of all."""
    first = [fit_leg(leg, None) for leg in legs]
    usual = Curve(
        float(np.median([c.floor for c in first])), math.exp(float(np.median(np.log([c.scale for c in first]))))
    )
    return {leg: fit_leg(leg, usual) for leg in legs}


def early_progress(curve: Curve, own: dict[Leg, Curve]) -> tuple[float, ...]:
    """The share of the curve's fall that epochs 1, 2 ... of a run make, in blocks: the median of legs that just came
    from gold."""
    shares: list[float] = []
    for first in range(1, EARLY + 1, BLOCK):
        seen = []
        for leg, mine in own.items():
            begun = leg.first_epoch - 1 == leg.gold and first - BLOCK <= leg.first_epoch <= first
            skipped = first - leg.first_epoch
            if begun and skipped + BLOCK <= len(leg.losses):
                before, after = (mine.after(mine.start, skipped + k) for k in (0, BLOCK))
                if before > curve.floor + 0.02:
                    seen.append((before - after) / (before - curve.after(before, BLOCK)))
        share = float(np.clip(np.median(seen), 0.0, 1.0)) if seen else 0.0
        shares += [max([share, *shares])] * BLOCK
    return tuple(shares)


@dataclass(frozen=True)
class Fit:
    """All that goes into the preset; jumps are (mean, mean per loss, spread) by (before, after)."""

    curves: dict[str, Curve]
    jumps: dict[tuple[str, str], tuple[float, float, float]]
    correlation: float
    common: float


def fit(legs: list[Leg]) -> Fit:
    """Curves, jumps and scatter of the traces."""
    curves: dict[str, Curve] = {}
    paces = []
    own: dict[Leg, Curve] = {}
    all_own: dict[Leg, Curve] = {}
    for pair in dict.fromkeys(leg.pair for leg in legs):
        every = [leg for leg in legs if leg.pair == pair]
        fitted = fit_legs(every)
        mine = {leg: found for leg, found in fitted.items() if pair == str(GOLD) or leg.gold >= LEARNED}
        own, all_own = own | mine, all_own | fitted
        floors, logs = np.array([c.floor for c in mine.values()]), np.log([c.scale for c in mine.values()])
        curve = Curve(
            float(floors.mean()),
            math.exp(float(logs.mean())),
            spread=float(logs.std()),
            floor_spread=float(floors.std()),
        )
        rest = [found.residuals(leg) for leg, found in mine.items()]
        # Every leg's own floor, scale and start took degrees of freedom.
        noise = math.sqrt(float(np.mean([np.sum(r**2) / (len(r) - 2.5) for r in rest])))
        early = () if pair == str(GOLD) else early_progress(curve, fitted)
        curves[pair] = replace(curve, early=early, noise=noise)
        seeds = np.array([leg.seed for leg in mine])
        paces.append([float(logs[seeds == seed].mean()) for seed in sorted(set(seeds))])
    between = np.corrcoef(paces)[np.triu_indices(len(paces), 1)]
    lags = [float(np.corrcoef(r[:-1], r[1:])[0, 1]) for r in (c.residuals(leg) for leg, c in own.items()) if len(r) > 5]
    common = float(np.clip(np.mean(between), 0.0, 0.9))
    return Fit(
        curves,
        fit_jumps({leg: curve for leg, curve in all_own.items() if leg.gold or not leg.handed_over}),
        float(np.clip(np.mean(lags), 0.0, 0.9)),
        common,
    )


def fit_jumps(own: dict[Leg, Curve]) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Whence a leg's curve goes on, against where the curve of the leg before it stood: mean, slope and spread."""
    jumps = {}
    for key in dict.fromkeys((leg.before, leg.pair) for leg in own if leg.handed_over):
        seen = [leg for leg in own if (leg.before, leg.pair) == key and leg.handed_over]
        loss = np.array([_stood(leg, own) for leg in seen])
        jump = np.array([own[leg].start for leg in seen]) - loss
        design = np.column_stack([np.ones(len(seen)), loss])
        mean, slope = np.linalg.lstsq(design, jump, rcond=None)[0]
        slope = float(np.clip(slope, -0.9, 2.0))
        mean = float(np.mean(jump - slope * loss))
        jumps[key] = (mean, slope, float(np.std(jump - mean - slope * loss)))
    return jumps


def _stood(leg: Leg, own: dict[Leg, Curve]) -> float:
    """Where the curve of the leg before stood at the switch; an observed loss has the luck of its epoch in it."""
    epochs = leg.first_epoch - 1 - (leg.gold if leg.before != str(GOLD) else 0)
    for other, curve in own.items():
        if other.seed == leg.seed and other.pair == leg.before and (leg.before == str(GOLD) or other.gold == leg.gold):
            return curve.after(curve.start, epochs)
    return leg.loss_before


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
    lines += [f"correlation = {found.correlation:.2f}", f"common = {found.common:.2f}", "recovers = true", ""]
    for name, curve in found.curves.items():
        version, nodes = name.split(" on ")
        lines += ["[[prior.curves]]", f'version = "{version}"', f'nodes = "{nodes}"']
        lines += [
            f"spread = {curve.spread:.2f}",
            f"floor_spread = {curve.floor_spread:.3f}",
            f"noise = {curve.noise:.3f}",
        ]
    for (before, after), (_, _, spread) in found.jumps.items():
        lines += ["[[prior.handovers]]", *_sides(before, after), f"spread = {spread:.3f}"]
    return "\n".join(lines)


def _sides(before: str, after: str) -> list[str]:
    return [f'from = "{before}"', f'to = "{after}"']


CHECKED = (1, 2, 3, 5, 8, 12)
LEVELS = (0.5, 0.75, 0.9, 0.95)


def check(seed: int, data: str = "digits") -> list[tuple[float, ...]]:
    """A fresh run along 14/6/12: (epochs ahead, loss seen, expected, at `LEVELS`), from every epoch on."""
    import torch
    from branches import Branches

    torch.set_num_threads(1)
    scenario = scenario_of(data, seed)
    pairs = scenario.problem.pairs
    trainer = Branches(scenario)
    done = list(trainer.follow([GOLD] * 14 + [SILVER] * 6 + [BRONZE] * 12))
    estimator = Prior.of(scenario, done[0].loss_before)
    history = [
        EpochOutcome(Decision(k, d.now.version, d.now.nodes), d.loss, 0.0, 0.0, handover_loss=d.handover_loss)
        for k, d in enumerate(done, 1)
    ]
    rows: list[tuple[float, ...]] = []
    levels: tuple[Level, ...] = ("expected", *LEVELS)
    for k in range(len(done)):
        law: LossLaw = estimator.law(history[:k], pairs)
        for ahead in (h for h in CHECKED if k + h <= len(done)):
            ends = [ahead_at(law, done[k : k + ahead], pairs, k, level) for level in levels]
            rows.append((ahead, done[k + ahead - 1].loss, *ends))
    return rows


def ahead_at(law: LossLaw, path: list[Done], pairs: tuple[Pair, ...], epoch: int, level: Level) -> float:
    """The loss at the end of `path` at `level`."""
    loss = np.array(begin(law, path[0].loss_before, pairs.index(path[0].before), level))
    for number, step in enumerate(path, epoch + 1):
        loss = law.next_loss(number, loss, pairs.index(step.before), pairs.index(step.now), level)
    return float(loss)


def coverage(rows: list[tuple[float, ...]]) -> list[str]:
    """By epochs ahead: how many losses stayed at or below each level, the median error and the median width."""
    lines = [
        f"# {'epochs ahead':>13}{'losses':>8}"
        + "".join(f"{f'<= {q:g}':>9}" for q in LEVELS)
        + f"{'error':>8}{'0.95 over expected':>20}"
    ]
    for ahead in CHECKED:
        mine = np.array([row[1:] for row in rows if row[0] == ahead])
        below = "".join(f"{np.mean(mine[:, 0] <= mine[:, 2 + i]):>9.0%}" for i in range(len(LEVELS)))
        error = np.median(np.abs(np.log(mine[:, 0] / mine[:, 1])))
        lines.append(f"# {ahead:>13}{len(mine):>8}{below}{error:>8.1%}{np.median(mine[:, -1] / mine[:, 1]):>20.2f}")
    return lines


def main() -> None:
    """Trace, fit, print, check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=list(PRESETS), default="digits")
    parser.add_argument("--seeds", type=int, default=8, help="runs to fit; 0: none, with --check alone")
    parser.add_argument(
        "--check", type=int, default=0, metavar="RUNS", help="fresh runs to foresee with the preset as it stands"
    )
    parser.add_argument("--traces", type=Path, help="keep the traces here, or take them from here")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        legs: list[Leg] = []
        if given.traces is not None and given.traces.exists():
            legs = [Leg(**{**row, "losses": tuple(row["losses"])}) for row in json.loads(given.traces.read_text())]
        elif given.seeds:
            seeds = range(FIRST_SEED, FIRST_SEED + given.seeds)
            legs = [leg for run in pool.map(traces, seeds, [given.data] * len(seeds)) for leg in run]
            if given.traces is not None:
                given.traces.write_text(json.dumps([asdict(leg) for leg in legs]))
        if legs:
            print(toml(fit(legs), len({leg.seed for leg in legs})))
        if given.check:
            seeds = range(FIRST_CHECK, FIRST_CHECK + given.check)
            rows = [row for run in pool.map(check, seeds, [given.data] * len(seeds)) for row in run]
            print("\n".join(coverage(rows)))


if __name__ == "__main__":
    main()
