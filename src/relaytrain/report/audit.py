"""`audit`: over the finished runs of a store, was what had been stated true?

* stated against observed probability: of the runs whose first plan rested on a level, how many met their target. Levels
  near each other are judged together, planner by planner: one run says nothing about its 92.3 %;
* the band: how often a loss stayed at or below what was promised one epoch before it, and how often so many epochs
  before it, as long as the run did what that plan had said. A run that met its target has kept what was promised for
  later epochs. Epochs of one run hang together, so these intervals count runs as far as their epochs agree;
* the energy that first plans stated, an interval for 8 of 10 cases, against what a run had spent in all. A run that
  missed its target has not shown what it would have cost, and is above the interval if it spent more already; else it
  is left out. Guesses state nothing;
* predicted against booked seconds and joules, by version, the measured CPU-seconds beside;
* targets that a plan called infeasible although a run of the same case, or that run itself, reached them.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..core.plan import finite
from ..core.state import TOLERANCE
from ..store.runs import RunStore
from .audit_bands import ahead_rates, band_rates
from .audit_rates import BINS, INTERVAL, Rate, bin_name, bin_of, mean
from .run_parts import Cost, EpochView
from .run_view import RunView


@dataclass(frozen=True)
class CostCheck:
    """Predicted against booked costs of one version over all runs, and the median ratio of single epochs."""

    version: str
    clock: str
    cost: Cost
    median_s: float | None
    median_j: float | None

    @property
    def ratio_s(self) -> float | None:
        """Seconds booked over seconds predicted."""
        return _ratio(self.cost.against_s, self.cost.predicted_s)

    @property
    def ratio_j(self) -> float | None:
        """Joules booked over joules predicted."""
        return _ratio(self.cost.against_j, self.cost.predicted_j)

    @property
    def figures(self) -> list[str]:
        """The ratios of time and of energy, each before the median of its epochs, as they are shown."""
        ratios = (self.ratio_s, self.median_s, self.ratio_j, self.median_j)
        return ["" if value is None else f"{value:.3f}" for value in ratios]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; ratios are booked over predicted."""
        cost = self.cost
        return {
            "version": self.version,
            "clock": self.clock,
            "epochs": cost.epochs,
            "predicted_epochs": cost.predicted_epochs,
            "predicted_s": cost.predicted_s,
            "booked_s": cost.against_s,
            "ratio_s": self.ratio_s,
            "predicted_j": cost.predicted_j,
            "booked_j": cost.against_j,
            "ratio_j": self.ratio_j,
            "median_ratio_s": self.median_s,
            "median_ratio_j": self.median_j,
            "cpu_s": cost.cpu_s,
        }


@dataclass(frozen=True)
class WrongNo:
    """A target that `run` called infeasible, and the runs of the same case that reached it."""

    run: str
    target_loss: float | None
    deadline_s: float | None
    reached_by: tuple[str, ...]


@dataclass(frozen=True)
class Audit:
    """What the finished runs say about the promises made for them. `left_out` counts runs by status."""

    runs: int
    met: int
    levels: tuple[Rate, ...]
    probability: Rate
    band: tuple[Rate, ...]
    ahead: tuple[Rate, ...]
    energy: tuple[Rate, ...]
    costs: tuple[CostCheck, ...]
    infeasible: int
    wrong_noes: tuple[WrongNo, ...]
    left_out: dict[str, int]

    def groups(self) -> list[tuple[str, tuple[Rate, ...]]]:
        """The rates that belong together, by what they say; those that nothing was counted for are left out."""
        groups = (
            (
                "targets met, against what the first plans stated",
                (*self.levels, *((self.probability,) if self.probability.count else ())),
            ),
            (
                "losses at or below what was promised just before (intervals count runs as far as their epochs agree)",
                self.band,
            ),
            ("losses at or below what the plan of so many epochs before said, where it was followed", self.ahead),
            ("energy of whole runs, against what their first plans stated", self.energy),
        )
        return [(words, rates) for words, rates in groups if rates]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values (docs/formats.md, audit)."""
        return {
            "schema": "relaytrain.audit/1",
            "runs": self.runs,
            "met": self.met,
            "interval": INTERVAL,
            "levels": [rate.to_dict() for rate in self.levels],
            "probability": self.probability.to_dict(),
            "band": [rate.to_dict() for rate in self.band],
            "ahead": [rate.to_dict() for rate in self.ahead],
            "energy": [rate.to_dict() for rate in self.energy],
            "costs": [check.to_dict() for check in self.costs],
            "called_infeasible": self.infeasible,
            "infeasible_but_reached": [asdict(wrong) for wrong in self.wrong_noes],
            "left_out": self.left_out,
        }


def audit(store: RunStore) -> Audit:
    """Audit all runs of a store."""
    return audit_views(RunView.of(store.events(row.run), live=row.status == "running") for row in store.runs())


def audit_views(views: Iterable[RunView]) -> Audit:
    """Audit these runs; those without a verdict of met or missed are counted, not judged."""
    finished: list[RunView] = []
    left_out: dict[str, int] = {}
    for view in views:
        if view.finished:
            finished.append(view)
        else:
            left_out[view.status] = left_out.get(view.status, 0) + 1
    finished.sort(key=lambda view: view.run)
    met = sum(view.status == "met" for view in finished)
    noes = [view for view in finished if _called_infeasible(view)]
    return Audit(
        runs=len(finished),
        met=met,
        levels=_levels(finished),
        probability=_probability(finished),
        band=band_rates(finished),
        ahead=ahead_rates(finished),
        energy=_energies(finished),
        costs=_costs(finished),
        infeasible=len(noes),
        wrong_noes=_wrong_noes(finished, noes),
        left_out=dict(sorted(left_out.items())),
    )


def _ratio(booked: float, predicted: float) -> float | None:
    return booked / predicted if predicted > 0 else None


def _levels(views: Sequence[RunView]) -> tuple[Rate, ...]:
    """Met targets by planner and by the probability that the first plan stated, together where the levels are near."""
    groups: dict[tuple[str, int], list[tuple[float, bool]]] = {}
    for view in views:
        sure = view.plans[0].sure if view.plans else None
        if sure is not None:
            key = view.plans[0].planner.split("/")[0], bin_of(sure)
            groups.setdefault(key, []).append((sure, view.status == "met"))
    several = len({planner for planner, _ in groups}) > 1
    rows = sorted(groups.items(), key=lambda item: (item[0][0], item[0][1]))
    return tuple(_level(planner if several else "", number, rows) for (planner, number), rows in rows)


def _level(planner: str, number: int, runs: Sequence[tuple[float, bool]]) -> Rate:
    lead, hits = f"{planner}: " if planner else "", sum(hit for _, hit in runs)
    if number == len(BINS):
        return Rate(f"{lead}infeasible", None, hits, len(runs))
    return Rate(f"{lead}{bin_name(number)}", mean([rung for rung, _ in runs]), hits, len(runs))


def _probability(views: Sequence[RunView]) -> Rate:
    """Met targets against the mean of the probabilities that the first plans stated."""
    known = [(view.plans[0].probability, view.status == "met") for view in views if view.plans]
    stated = [(p, hit) for p, hit in known if p is not None]
    average = mean([p for p, _ in stated]) if stated else None
    return Rate("stated probability, mean", average, sum(hit for _, hit in stated), len(stated))


STATED_ENERGY, AT_MOST = 0.8, 0.9
"""Shares of runs within the stated interval of energy, and at or below its upper end."""


def _energies(views: Sequence[RunView]) -> tuple[Rate, ...]:
    """Runs whose energy lay within what their first plan stated, and those that did not spend more than its end."""
    inside, not_above = [], []
    for view in views:
        stated = view.plans[0].energy_interval_j if view.plans and not view.plans[0].guess else ()
        if len(stated) == 2:
            spent, above = view.totals.energy_j, view.totals.energy_j > stated[1] + TOLERANCE
            if view.status == "met" or above:
                not_above.append(not above)
                inside.append(stated[0] - TOLERANCE <= spent and not above)
    if not inside:
        return ()
    return (
        Rate("energy within the stated interval", STATED_ENERGY, sum(inside), len(inside)),
        Rate("energy at most its upper end", AT_MOST, sum(not_above), len(not_above)),
    )


def _costs(views: Sequence[RunView]) -> tuple[CostCheck, ...]:
    groups: dict[tuple[str, str], list[EpochView]] = {}
    for view in views:
        for epoch in view.epochs:
            groups.setdefault((epoch.pair.version, view.clock), []).append(epoch)
    return tuple(
        CostCheck(
            version,
            clock,
            Cost.of(rows),
            _median([r.elapsed_s / r.predicted.elapsed_s for r in rows if r.predicted.elapsed_s]),
            _median([r.energy_j / r.predicted.energy_j for r in rows if r.predicted.energy_j]),
        )
        for (version, clock), rows in sorted(groups.items())
    )


def _called_infeasible(view: RunView) -> bool:
    """Its first plan found no way, or the run ended for want of one; being given up for its losses is another thing."""
    gave_up = view.verdict is not None and view.verdict.get("infeasible") is True
    return gave_up or bool(view.plans and not view.plans[0].feasible)


def _wrong_noes(views: Sequence[RunView], noes: Sequence[RunView]) -> tuple[WrongNo, ...]:
    reached: dict[str, list[str]] = {}
    for view in views:
        if view.status == "met":
            reached.setdefault(case_of(view), []).append(view.run)
    wrong = []
    for view in noes:
        by = tuple(reached.get(case_of(view), ()))
        if by:
            wrong.append(WrongNo(view.run, view.asked.loss, finite(view.asked.deadline_s), by))
    return tuple(wrong)


def case_of(view: RunView) -> str:
    """What makes two runs comparable: the same scenario and seed, whoever plans."""
    scenario = {key: value for key, value in view.scenario.items() if key not in ("planner", "description")}
    return json.dumps([scenario, view.started.get("seed"), view.clock], sort_keys=True, default=str)


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None
