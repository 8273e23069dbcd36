"""RelayTrain: train a network as a relay of versions and nodes, to a loss target by a deadline at least energy.

In three lines:

    import relaytrain as rt
    plan = rt.plan("smart_factory")
    print(plan.explain())
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .core.display import draw_with

if TYPE_CHECKING:
    from .api import Comparison, compare, front, plan
    from .core.errors import InfeasibleError, RelayTrainError, ScenarioError
    from .core.plan import Decision, Handover, Leg, Plan
    from .core.problem import Pair, Problem, Target
    from .core.state import Grid, State
    from .planners.pact.baselines import OneSwitch, Single, StaticLearn
    from .planners.pact.fixed import FixedRelay
    from .planners.pact.planner import Optimum, Pact
    from .relay.runs import Trained, load_model, resume, run, train
    from .relay.session import Session
    from .scenario import Scenario, load_scenario

_HOME = {
    name: module
    for module, names in {
        "api": "Comparison compare front plan",
        "core.errors": "InfeasibleError RelayTrainError ScenarioError",
        "core.plan": "Decision Handover Leg Plan",
        "core.problem": "Pair Problem Target",
        "core.state": "Grid State",
        "planners.pact.baselines": "OneSwitch Single StaticLearn",
        "planners.pact.fixed": "FixedRelay",
        "planners.pact.planner": "Optimum Pact",
        "relay.runs": "Trained load_model resume run train",
        "relay.session": "Session",
        "scenario": "Scenario load_scenario",
    }.items()
    for name in names.split()
}

__all__ = [
    "Comparison",
    "Decision",
    "FixedRelay",
    "Grid",
    "Handover",
    "InfeasibleError",
    "Leg",
    "OneSwitch",
    "Optimum",
    "Pact",
    "Pair",
    "Plan",
    "Problem",
    "RelayTrainError",
    "Scenario",
    "ScenarioError",
    "Session",
    "Single",
    "State",
    "StaticLearn",
    "Target",
    "Trained",
    "compare",
    "front",
    "load_model",
    "load_scenario",
    "plan",
    "resume",
    "run",
    "train",
]


def _drawn_by(module: str, function: str) -> Callable[[Any], Any]:
    return lambda value: getattr(importlib.import_module(module, __name__), function)(value)


draw_with("terminal", _drawn_by(".report.tables", "plan_tables"))
draw_with("notebook", _drawn_by(".report.notebook", "notebook_html"))


def __getattr__(name: str) -> Any:
    """Public names are imported on first use, so that `import relaytrain` stays instant."""
    if name in _HOME:
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'relaytrain' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
