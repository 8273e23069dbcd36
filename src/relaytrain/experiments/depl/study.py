"""What figures 5 to 9 of DepL are drawn from: four strategies at every target of a preset.

"Optimum" is the exact search, "DepL" the paper's procedure with eta = 200 in its `merged` reading, "best-exp" takes in
every epoch the version with the most expected progress; a second best-exp minimises cost under an expected-loss target.
All four meet the quantile and share node sets and resources at best.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...core.depl import DeplProblem
from ...core.fourier import Real
from ...planners.depl.exact.joint import plan
from ...planners.depl.paper.best_exp import best_expected, greedy_expected
from ...planners.depl.paper.grid import GridReading
from ...planners.depl.paper.outer_loop import paper_plan
from ...planners.depl.schedule_losses import losses_by_epoch
from ...planners.depl.solution import DeplPlan
from ...scenario import load_scenario
from .. import style
from ..expected import Expected, Judgement, expected_of, judged
from ..result import Reproduction, Row, written
from ..style import DEFAULT_FORMATS, house_style, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TARGETS = (13.0, 11.0, 9.0, 7.0, 5.0)
LOOSE, TIGHT = TARGETS[0], TARGETS[-1]
ETA = 200
SCALE = 20.0
"""The stand-ins' initial loss: targets and limits are stated for it."""
VERSIONS = ("fast-unsteady", "intermediate", "slow-steady")
OPTIMUM, DEPL, GREEDY, CHEAP = "Optimum", "DepL", "best-exp", "best-exp, min. cost"
STYLES = dict(zip((OPTIMUM, DEPL, GREEDY, CHEAP), style.STRATEGIES.values(), strict=True))
COLOURS, HATCHES = (dict(zip(VERSIONS, by.values(), strict=True)) for by in (style.VERSIONS, style.HATCHES))


@dataclass(frozen=True)
class Run:
    """One strategy's plan for one target."""

    instance: DeplProblem
    plan: DeplPlan

    @property
    def epochs(self) -> dict[str, int]:
        """Epochs by version."""
        names = [m.name for m in self.instance.versions]
        return {name: self.plan.versions.count(names.index(name)) for name in VERSIONS}

    @property
    def costs(self) -> dict[str, float]:
        """kappa * x by version."""
        costs = dict.fromkeys(VERSIONS, 0.0)
        for m, n, x in zip(self.plan.versions, self.plan.node_sets, self.plan.resources, strict=True):
            costs[self.instance.versions[m].name] += self.instance.node_sets[n].price * x
        return costs

    @property
    def switches(self) -> list[int]:
        """Epochs before which the version changes."""
        return [k for k, (a, b) in enumerate(pairwise(self.plan.versions), start=2) if a != b]

    def legs(self) -> str:
        """`fast-unsteady 4, intermediate 17`."""
        return ", ".join(
            f"{self.instance.versions[m].name} {len(list(rows))}" for m, rows in groupby(self.plan.versions)
        )

    def band(self, low: float, high: float) -> tuple[Real, Real, Real]:
        """Expected loss and its quantiles at `low` and `high`, from the start to the last epoch."""
        start = self.instance.initial_loss
        after = losses_by_epoch(self.instance, self.plan.datasets, self.plan.versions)
        rows = [(start, start, start), *((loss.mean, loss.quantile(low), loss.quantile(high)) for loss in after)]
        mean, below, above = np.array(rows).T
        return mean, below, above


Study = dict[float, dict[str, Run]]


def instance_of(preset: str, target: float, curves: str = "stand-in") -> DeplProblem:
    """The preset's problem with another target; with measured curves it is so many 20ths of the initial loss."""
    settings = load_scenario(preset).depl
    assert settings is not None, f"{preset} has a table [depl]"
    if curves == "measured":
        from .measured import with_measured

        return with_measured(settings.instance, preset, target)
    return replace(settings.instance, target=replace(settings.instance.target, loss=target))


@lru_cache(maxsize=4)
def study(preset: str, curves: str = "stand-in") -> Study:
    """Every strategy at every target; made once for all figures."""
    runs: Study = {}
    for target in TARGETS:
        instance = instance_of(preset, target, curves)
        runs[target] = {
            OPTIMUM: Run(instance, plan(instance)),
            DEPL: Run(instance, paper_plan(instance, eta=ETA, reading="merged")),
            GREEDY: Run(instance, greedy_expected(instance)),
            CHEAP: Run(instance, best_expected(instance)),
        }
    return runs


@lru_cache(maxsize=32)
def by_eta(preset: str, target: float, eta: int, reading: GridReading, curves: str = "stand-in") -> float:
    """Cost of DepL(eta) in a reading; infinite where it finds nothing."""
    answer = paper_plan(instance_of(preset, target, curves), eta=eta, reading=reading)
    return answer.cost if answer.feasible else float("inf")


@dataclass(frozen=True)
class StudyFigure:
    """A figure drawn from a preset's study, with the checks of the findings in the TOML file beside its module.

    `draw` and `checks` also hear which curves are meant. `stand_in`: what is said unless the curves are measured.
    """

    name: str
    title: str
    preset: str
    module_file: str
    draw: Callable[[Study, str], tuple[Figure, tuple[Row, ...]]]
    checks: Callable[[Study, str, Mapping[str, Expected]], dict[str, Judgement]]
    notes: tuple[str, ...] = ()
    stand_in: tuple[str, ...] = ()

    def reproduce(
        self, out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, curves: str = "stand-in"
    ) -> Reproduction:
        """Plan with every strategy for every target, draw and judge."""
        runs, said = study(self.preset, curves), self.stand_in
        files_name = self.name if curves == "stand-in" else f"{self.name}-{curves}"
        with house_style():
            figure, rows = self.draw(runs, curves)
            files = save(figure, out_dir, files_name, formats)
        expected = findings_of(self.module_file, curves)
        findings = judged(self.title.partition(":")[0], expected, self.checks(runs, curves, expected))
        if curves == "measured":
            from .measured import CAMPAIGN, measured

            said = measured(CAMPAIGN[self.preset]).notes
        notes = (*self.notes, *said)
        return written(self.name, self.title, out_dir, files, rows, findings, notes, table=files_name)


def findings_of(module_file: str, curves: str) -> dict[str, Expected]:
    """The findings that ship with a figure, with the verdicts for these curves."""
    expected = expected_of(module_file)
    if curves != "measured":
        return expected
    from .measured import verdicts

    known = tomllib.loads(Path(__file__).with_name("measured.toml").read_text("utf-8"))
    return verdicts(expected, known[Path(module_file).stem], known["why"])


def off_target(run: Run) -> float:
    """How far the quantile lies from the target, in the stand-ins' unit: 20ths of the initial loss."""
    return abs(run.plan.quantile - run.instance.target.loss) * SCALE / run.instance.initial_loss


def over(runs: Mapping[str, Run], name: str) -> float:
    """Cost over the optimum's."""
    return runs[name].plan.cost / runs[OPTIMUM].plan.cost


def listed(values: Mapping[float, float], form: str = ".3f") -> str:
    """`1.226 at 13, 1.164 at 11`."""
    return ", ".join(f"{value:{form}} at {target:g}" for target, value in values.items())
