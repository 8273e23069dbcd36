"""Is a run's forecast true? How often the energy that a run ended with lay between what the forecast said: 10 to 90 %.

    python benchmarks/forecast.py                          # loops of the product whose losses are drawn, minutes
    python benchmarks/forecast.py smart_factory            # runs of 300 epochs: most of an hour
    python benchmarks/forecast.py --trained 30             # real training of `quickstart`, minutes

Drawn: before a run one level of the law that is believed then is drawn, evenly between 0 and 1, and the losses follow
it, seen with a scatter of `--noise`; the loop, the estimator and the planner are those of a run. So what is believed is
true, and four in five forecasts ought to hold. Trained: real losses, seeds from 5000 on, to which nothing was fitted.

A forecast is made with every plan. `first` are those before epoch 1, one a run; `early`, `middle` and `late` those made
in each third of a run. `under` and `over` count runs that spent less, and more, than the interval has.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relaytrain.core.law import LossLaw, begin
from relaytrain.core.outcome import EpochOutcome, EpochResult, Evaluation, Handed
from relaytrain.core.plan import Decision
from relaytrain.core.problem import Pair, Problem
from relaytrain.core.protocols import Earlier
from relaytrain.estimators import Prior
from relaytrain.planners.registry import planner_for
from relaytrain.relay import loop
from relaytrain.relay.job import Job, Settings
from relaytrain.scenario import Scenario, load_scenario
from relaytrain.store import RunStore

FIRST_SEED = 5000
PARTS = ("first", "early", "middle", "late", "all")


@dataclass(frozen=True)
class Drawn:
    """A checkpoint without weights: where on its curve the run is, and the pair that brought it there."""

    loss: float
    pair: int


class DrawnRunner:
    """Epochs along one level of a law; what is seen of a loss scatters."""

    def __init__(self, problem: Problem, law: LossLaw, level: float, *, noise: float, seed: int) -> None:
        self.problem, self.law, self.level, self.noise, self.seed = problem, law, level, noise, seed

    def first(self) -> Drawn:
        return Drawn(self.problem.initial_loss, self.problem.start)

    def to_bytes(self, checkpoint: Drawn) -> bytes:
        return json.dumps([checkpoint.loss, checkpoint.pair]).encode()

    def from_bytes(self, data: bytes) -> Drawn:
        return Drawn(*json.loads(data))

    def probe(self, checkpoint: Drawn) -> Evaluation:
        return Evaluation(checkpoint.loss)

    def test(self, checkpoint: Drawn) -> None:
        return None

    def hand_over(self, checkpoint: Drawn, before: Pair, decision: Decision, earlier: Earlier) -> Handed:
        return Handed(checkpoint)  # the epoch's own step has the jump in it

    def run_epoch(self, decision: Decision, checkpoint: Drawn, *, run: str, attempt: int = 0) -> EpochResult:
        now = self.problem.index(decision.pair)
        at = checkpoint.loss
        if decision.epoch == 1:
            at = float(begin(self.law, at, checkpoint.pair, self.level))
        loss = float(self.law.next_loss(decision.epoch, np.array(at), checkpoint.pair, now, self.level))
        scatter = np.random.default_rng((self.seed, decision.epoch)).standard_normal()
        seen = max(loss, 0.0) * math.exp(self.noise * scatter)
        outcome = EpochOutcome(decision, seen, 0.0, 0.0, "modelled")
        return EpochResult(outcome, Drawn(loss, now), Evaluation(seen))


def drawn_job(loaded: Scenario, seed: int, noise: float) -> Job:
    """A run whose losses follow a level drawn from `seed`."""
    problem = loaded.problem
    believed = Prior.of(loaded).law((), problem.pairs)
    level = float(np.random.default_rng((seed, 1)).uniform(0.001, 0.999))
    runner = DrawnRunner(problem, believed, level, noise=noise, seed=seed)
    return Job(
        problem,
        loaded.costs,
        loaded.law,
        lambda probed: Prior.of(loaded, probed),
        planner_for(loaded, None),
        runner,
        Settings(seed=seed),
        {"scenario": dict(loaded.resolved), "planner": loaded.planner.name},
    )


def trained_job(preset: str, seed: int) -> Job:
    """A run that trains, with this seed's data and weights."""
    from relaytrain.relay.assembly import job_of

    return job_of(load_scenario(preset, overrides=[f"training.seed={seed}", f"data.seed={seed}"]))


@dataclass(frozen=True)
class Judged:
    """One forecast of a run's total: at which share of the run, low, middle, high, and what it came to."""

    share: float
    low_j: float
    middle_j: float
    high_j: float
    spent_j: float
    met: bool


def judged(job: Job, folder: Path, name: str) -> list[Judged]:
    """The forecasts of a run, against its end."""
    store = RunStore.open(folder)
    ended = loop.start(job, store, run=name)
    rows = [event.body for event in store.events(name) if event.kind == "planned"]
    return [
        Judged(
            i / max(len(rows), 1),
            *(
                row["state"]["energy_j"] + (math.inf if to_go is None else to_go)
                for to_go in row["predicted"]["to_go_j"]
            ),
            ended.energy_j,
            ended.verdict == "met",
        )
        for i, row in enumerate(rows)
    ]


def parts(runs: list[list[Judged]]) -> Iterator[tuple[str, list[Judged]]]:
    """Forecasts by where in their run they were made."""
    every = [row for run in runs for row in run]
    yield "first", [run[0] for run in runs if run]
    for name, low in zip(PARTS[1:4], (0.0, 1 / 3, 2 / 3), strict=True):
        yield name, [row for row in every if low <= row.share < low + 1 / 3]
    yield "all", every


def report(title: str, runs: list[list[Judged]]) -> None:
    """A line a part."""
    met = sum(run[0].met for run in runs if run)
    print(f"{title}: {len(runs)} runs, {met} met their target")
    heads = {"count": 6, "within": 9, "95 % interval": 16, "under": 8, "over": 8, "width": 8, "middle off": 12}
    print(f"  {'made':<8}" + "".join(f"{head:>{wide}}" for head, wide in heads.items()))
    for name, rows in parts(runs):
        if not rows:
            continue
        slack = 1e-9
        under = np.mean([row.spent_j < row.low_j - slack for row in rows])
        over = np.mean([row.spent_j > row.high_j + slack for row in rows])
        width = np.median([(row.high_j - row.low_j) / row.spent_j for row in rows])
        off = np.median([abs(row.middle_j / row.spent_j - 1.0) for row in rows])
        low, high = interval(runs, name)
        print(
            f"  {name:<8}{len(rows):>6}{1 - under - over:>9.1%}{f'{low:.0%} to {high:.0%}':>16}"
            f"{under:>8.1%}{over:>8.1%}{width:>8.0%}{off:>12.1%}"
        )


def interval(runs: list[list[Judged]], name: str, draws: int = 400) -> tuple[float, float]:
    """Of the share within, by drawing whole runs again: forecasts of one run stand and fall together."""
    rng = np.random.default_rng(0)
    counts = []
    for run in runs:
        rows = dict(parts([run]))[name]
        counts.append((sum(row.low_j - 1e-9 <= row.spent_j <= row.high_j + 1e-9 for row in rows), len(rows)))
    table = np.array(counts, float)
    again = table[rng.integers(len(table), size=(draws, len(table)))].sum(axis=1)
    low, high = np.quantile(again[:, 0] / np.maximum(again[:, 1], 1.0), [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("presets", nargs="*", default=["quickstart"])
    asked.add_argument("--runs", type=int, default=60)
    asked.add_argument("--noise", type=float, default=0.03)
    asked.add_argument("--trained", type=int, default=0, help="runs of real training instead")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for preset in given.presets[:1] if given.trained else given.presets:
            loaded = load_scenario(preset)
            runs = []
            for seed in range(FIRST_SEED, FIRST_SEED + (given.trained or given.runs)):
                job = trained_job(preset, seed) if given.trained else drawn_job(loaded, seed, given.noise)
                runs.append(judged(job, Path(name), f"{preset.replace('_', '-')}-{seed}"))
            report(f"{preset}, {'trained' if given.trained else 'drawn'}", runs)


if __name__ == "__main__":
    main()
