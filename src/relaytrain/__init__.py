"""RelayTrain: train a network as a relay of versions and nodes, to a loss target by a deadline at least energy.

import relaytrain as rt
plan = rt.plan("smart_factory")
print(plan.explain())
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import Comparison, compare, front, plan
    from .core.errors import InfeasibleError, RelayTrainError, ScenarioError
    from .core.plan import Decision, Handover, Leg, Plan
    from .core.problem import Pair, Problem, Target
    from .core.state import Grid, State
    from .planners.baselines import OneSwitch, Single, StaticLearn
    from .planners.pact import Optimum, Pact
    from .runs import Trained, load_model, resume, run, train
    from .scenario import Scenario, load_scenario
    from .session import Session

_HOME = {
    "Comparison": "api",
    "Decision": "core.plan",
    "Grid": "core.state",
    "Handover": "core.plan",
    "InfeasibleError": "core.errors",
    "Leg": "core.plan",
    "OneSwitch": "planners.baselines",
    "Optimum": "planners.pact",
    "Pact": "planners.pact",
    "Pair": "core.problem",
    "Plan": "core.plan",
    "Problem": "core.problem",
    "RelayTrainError": "core.errors",
    "Scenario": "scenario",
    "ScenarioError": "core.errors",
    "Session": "session",
    "Single": "planners.baselines",
    "State": "core.state",
    "StaticLearn": "planners.baselines",
    "Target": "core.problem",
    "Trained": "runs",
    "compare": "api",
    "front": "api",
    "load_model": "runs",
    "load_scenario": "scenario",
    "plan": "api",
    "resume": "runs",
    "run": "runs",
    "train": "runs",
}

__all__ = [
    "Comparison",
    "Decision",
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


def __getattr__(name: str) -> Any:
    """Public names are imported on first use, so that `import relaytrain` stays instant."""
    if name in _HOME:
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'relaytrain' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
