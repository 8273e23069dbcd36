"""What the command line and Python users call: one public function per verb, thin over the packages below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Any

from .core.display import drawn
from .core.errors import ScenarioError
from .core.law import Level, LevelLaw, LossLaw
from .core.plan import Plan
from .core.protocols import Estimator, Planner
from .core.state import State
from .scenario import Scenario, Source, scenario_from
from .scenario.load import GUESSED
from .scenario.overrides import texts

if TYPE_CHECKING:
    from .core.worlds import Worlds
    from .planners.front import Front
    from .planners.over_worlds import Draw


def scenario(source: Source, *, overrides: Sequence[str] = (), without: Sequence[str] = ()) -> Scenario:
    """The scenario behind a preset's name, a file, a mapping, or itself; `overrides` as in `--set`."""
    return scenario_from(source, overrides, without)


def plan(
    source: Source,
    *,
    planner: str | Planner | None = None,
    rule: str | None = None,
    estimator: str | None = None,
    fitted: str | PathLike[str] | None = None,
    overrides: Sequence[str] = (),
    without: Sequence[str] = (),
    state: State | None = None,
) -> Plan:
    """The plan for a scenario; `planner`, `rule` and `estimator` default to what the scenario says.

    `fitted`: a file of `relaytrain fit`, which then says what is expected of the losses.
    """
    from .planners.over_worlds import plan_over
    from .planners.plan_size import limited
    from .planners.registry import planner_for

    if estimator is not None or fitted is not None:
        from .relay.runs import estimator_overrides

        overrides = [*texts(overrides), *estimator_overrides(estimator, fitted)]
    loaded = scenario(source, overrides=overrides, without=without)
    chosen = planner_for(loaded, planner, rule)
    law, drawn = _before_any_epoch(loaded)
    here = state or loaded.problem.first_state
    asked = (loaded.problem, loaded.costs, law, here)
    with limited(chosen, *asked):
        best = plan_over(chosen, drawn, *asked, guess=loaded.guessed)
    return _warned(replace(best, warnings=(*best.warnings, *loaded.warnings)) if loaded.warnings else best, loaded)


def _before_any_epoch(loaded: Scenario) -> tuple[LossLaw, Draw]:
    """The law and the worlds of the scenario's estimator, which is made once, and only where it is asked."""
    pairs = loaded.problem.pairs

    @cache
    def estimator() -> Estimator:
        from .estimators.choose import estimator_for

        return estimator_for(loaded)

    def drawn(count: int) -> Worlds | None:
        from .planners.over_worlds import drawn_by

        return drawn_by(estimator(), (), pairs, count, int(loaded.training.get("seed", 0)))

    stated = loaded.estimator.get("name", "prior") == "prior"
    return loaded.law if stated else estimator().law((), pairs), drawn


def _warned(plan: Plan, loaded: Scenario) -> Plan:
    """With what a planner that chooses no data leaves out of its energy, where a scenario charges for bringing data."""
    if loaded.depl is None or not plan.decisions:
        return plan
    from .core.depl_settings import left_out
    from .core.planner_names import DEPL_PLANNERS

    counted = plan.planner in (*DEPL_PLANNERS, "pact/sampled")
    charge = 0.0 if counted else left_out(loaded.depl, plan.decisions)
    if charge <= 0.0:
        return plan
    words = (
        f"bringing the data to the nodes costs {charge:g} {plan.energy_unit} more, "
        f"which {plan.planner} does not count; depl does"
    )
    return replace(plan, warnings=(*plan.warnings, words))


@dataclass(frozen=True)
class Comparison:
    """All planners on one scenario, the optimum (`best`) first."""

    problem: str
    plans: dict[str, Plan]
    best: str = "optimum"

    def ratio(self, name: str) -> float | None:
        """Energy of planner `name` over the optimum's; None where either is infeasible, or where one is a mean over
        worlds and the other follows an expected curve."""
        best, mine = self.plans[self.best], self.plans[name]
        if (best.energy_interval_j is None) != (mine.energy_interval_j is None):
            return None
        if not (best.feasible and mine.feasible) or best.energy_j <= 0:
            return None
        return mine.energy_j / best.energy_j

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        rows = {name: {**plan.to_dict(), "over_optimum": self.ratio(name)} for name, plan in self.plans.items()}
        return {"schema": "relaytrain.comparison/1", "problem": self.problem, "plans": rows}

    def _repr_html_(self) -> str:
        """A table in notebooks."""
        page: str = drawn(self, "notebook")
        return page


def compare(source: Source, *, overrides: Sequence[str] = (), without: Sequence[str] = ()) -> Comparison:
    """Every planner, PACT with its rules and each version alone, on one scenario.

    A scenario with `[depl]` is compared with DepL's exact search, which alone chooses data and resources too.
    """
    from .core.planner_names import DEPL_PLANNERS, PLAN_ONCE, RULES, SAMPLED
    from .planners.over_worlds import plan_over
    from .planners.pact.among import nested_rows
    from .planners.pact.baselines import Single
    from .planners.pact.planner import Optimum, Pact
    from .planners.plan_size import check_least_size, limited
    from .planners.registry import planner_for

    loaded = scenario(source, overrides=overrides, without=without)
    grid = loaded.planner.grid
    versions = dict.fromkeys(pair.version for pair in loaded.problem.pairs)
    planners: dict[str, Planner] = {}
    if loaded.depl is not None:
        from .planners.depl.planner import Depl

        shown = [name for name in DEPL_PLANNERS if name != "depl-literal"]
        if loaded.depl.instance.tables is not None:  # the others know neither epochs nor data of work and switches
            shown = ["depl", "best-exp-greedy"]
        planners |= {name: Depl(loaded.depl, name, explained=False) for name in shown}
    planners["optimum"] = Optimum(explained=False)
    planners |= {f"pact/{rule}": Pact(rule, grid, explained=False) for rule in RULES}
    if isinstance(loaded.law, LevelLaw):  # one without curves has no worlds
        planners[f"pact/{SAMPLED}"] = planner_for(loaded, "pact", SAMPLED)
    planners |= {name: planner_for(loaded, name) for name in PLAN_ONCE if name != "single"}
    planners |= nested_rows(loaded.problem.versions)
    planners |= {f"single/{version}": Single(version) for version in versions}
    start = loaded.problem.first_state
    law, drawn = _before_any_epoch(loaded)
    for planner in planners.values():
        check_least_size(planner, loaded.problem, loaded.costs, law, start)
    asked = (loaded.problem, loaded.costs, law, start)
    plans: dict[str, Plan] = {}
    for name, planner in planners.items():
        with limited(planner, *asked):
            answer = plan_over(planner, drawn, *asked, guess=loaded.guessed)
        plans[name] = _warned(answer, loaded)
    if loaded.guessed:
        plans = {name: replace(plan, warnings=(*plan.warnings, GUESSED)) for name, plan in plans.items()}
    return Comparison(loaded.problem.name, plans, "optimum" if loaded.depl is None else "depl")


def front(source: Source, *, level: float | None = None, overrides: Sequence[str] = ()) -> Front:
    """The energy-deadline-loss trade-off of a scenario, expected or at `level`."""
    from .planners.front import front as sweep
    from .planners.pact.planner import Optimum
    from .planners.plan_size import limited

    loaded = scenario(source, overrides=overrides)
    if loaded.guessed:
        raise ScenarioError(f"{loaded.name}: a front of guesses would say nothing. {GUESSED}")
    at: Level = "expected" if level is None else level
    law, start = _before_any_epoch(loaded)[0], loaded.problem.first_state
    with limited(Optimum(), loaded.problem, loaded.costs, law, start):
        return sweep(loaded.problem, loaded.costs, law, start, level=at)
