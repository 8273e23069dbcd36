"""Which estimator a scenario asks for, made for the problem at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.errors import ScenarioError
from ..core.problem import Problem
from ..core.protocols import Estimator
from ..scenario.model import Scenario
from .learned.bounds import Bound, Constants
from .prior.reweighting import Prior

if TYPE_CHECKING:
    from .learned.fitted import Fitted

REMEDY = (
    "collect traces (relaytrain collect SCENARIO), fit them (relaytrain fit TRACES fit.npz) and give --fitted fit.npz; "
    "without traces use --estimator zero-trace, or prior with what you know"
)


def estimator_for(scenario: Scenario, problem: Problem | None = None, fitted: Fitted | None = None) -> Estimator:
    """The estimator that `[estimator]` names; `problem` has the probed l(0), and counts where the file gives none.

    `fitted`: what `fitted_of` gave, where it was read before.
    """
    problem = problem or scenario.problem
    fitted = fitted or fitted_of(scenario)
    if fitted is None and scenario.resolved["law"]["kind"] == "depl":
        from .depl.increments import Increments

        return Increments.of(scenario, problem.initial_loss)
    if fitted is None:
        return Prior.of(scenario, problem)
    from .learned.learned_law import Learned

    return Learned.of(fitted, problem, scenario.law, _bound(scenario, fitted))


def _bound(scenario: Scenario, fitted: Fitted) -> Bound:
    """The theory bound that `[estimator]` asks for."""
    mode = scenario.estimator.get("bounds", "shape")
    table = scenario.estimator.get("theorem")
    if mode == "level" and table is None:
        raise ScenarioError(
            "estimator.theorem: got none for bounds 'level', expected the constants of FedAvg's Theorem 1"
        )
    return Bound(mode, fitted.run.bound_offset, None if table is None else Constants(**table))


def fitted_of(scenario: Scenario) -> Fitted | None:
    """What was fitted, read from its file; None when the scenario's prior is to be used.

    Raises:
        ScenarioError: a learned estimator without a file, a file that cannot be used, or one of another estimator.
    """
    name, file = scenario.estimator.get("name", "prior"), scenario.estimator.get("fitted")
    if name == "prior":
        if file is not None:
            raise ScenarioError("estimator.fitted: got a file for 'prior', expected estimator.name auto or paper")
        return None
    if name == "zero-trace" and file is None:
        from .learned.zero_trace import zero_trace

        return zero_trace()
    if file is None:
        raise ScenarioError(f"estimator.fitted: got none for '{name}', expected a fitted file; {REMEDY}")
    from .learned.fitted import load_fitted

    fitted = load_fitted(scenario.beside(file))
    if fitted.name != name:
        raise ScenarioError(
            f"estimator.fitted: got {file}, fitted as '{fitted.name}', expected '{name}'; name the one it is"
        )
    return fitted
