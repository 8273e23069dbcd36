"""Every checked case through `optimum` and the paper's grid: feasibility, energy, and the action lists replayed."""

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
from checked_cases import ESTIMATES, PACT, Case, case_files, reaches_goal, read_case, replay

from relaytrain.core.errors import ScenarioError
from relaytrain.planners.pact.planner import Optimum
from relaytrain.planners.search.solve import Start, instance_of, solve

SAME_ENERGY = 1e-6  # as the files ask
OWN = Path(__file__).parent / "cases"
FOLDER = Path(os.environ.get("RELAYTRAIN_CASES") or OWN)
SEARCHES = [("optimum_true", "true", False), *((f"quantised_{est}", est, True) for est in ESTIMATES)]


def collect():
    known, others = case_files(FOLDER)
    rows = [pytest.param(path, id=path.stem) for path, kind in known if kind == PACT]
    return rows + [
        pytest.param(path, id=path.stem, marks=pytest.mark.skip(reason=f"{path.name}: unknown kind {kind}"))
        for path, kind in others
    ]


def plan_of(case: Case, estimate: str, *, quantised: bool):
    planner = Optimum(grid=case.grid if quantised else None, explained=False)
    problem = replace(case.problem, max_epochs=None) if quantised else case.problem
    return planner.plan(problem, case.costs, case.laws[estimate], problem.first_state)


@pytest.mark.parametrize("path", collect())
def test_case(path):
    case = read_case(path)
    checked = 0
    for name, estimate, quantised in SEARCHES:
        if name not in case.expected:
            continue
        checked += 1
        answer = case.expected[name]
        plan = plan_of(case, estimate, quantised=quantised)
        assert plan.feasible == answer.feasible, name
        if answer.actions is not None and answer.feasible:
            check_replay(case, name, estimate, answer.actions, answer.energy_j, quantised=quantised)
        if plan.feasible:
            assert plan.energy_j == pytest.approx(answer.energy_j, abs=SAME_ENERGY, rel=0), name
            actions = [case.problem.index(decision.pair) for decision in plan.decisions]
            check_replay(case, name, estimate, actions, plan.energy_j, quantised=quantised)
        if answer.without_deadline_j is not None:
            check_without_deadline(case, estimate, answer.without_deadline_j)
    assert checked, f"{path}: none of the searches it expects is known"


def check_replay(case, name, estimate, actions, energy_j, *, quantised):
    end = replay(case.raw, estimate, actions, quantised=quantised)
    assert reaches_goal(case.raw, end, quantised=quantised), f"{name}: {actions} ends at {end}"
    assert end.energy_j == pytest.approx(energy_j, abs=SAME_ENERGY, rel=0), name


def check_without_deadline(case, estimate, energy_j):
    target = replace(case.problem.target, deadline_s=math.inf)
    instance = instance_of(replace(case.problem, target=target, max_epochs=None), case.costs, case.laws[estimate])
    found = solve(instance, Start(0, case.problem.start, case.problem.initial_loss, 0.0))
    assert found.feasible
    assert found.energy_j == pytest.approx(energy_j, abs=SAME_ENERGY, rel=0)
    end = replay(case.raw, estimate, found.actions, quantised=False)
    assert reaches_goal(case.raw, end, quantised=False, deadline=False)


def test_the_committed_cases_are_found_recursively():
    known, others = case_files(OWN)
    assert [kind for _, kind in known].count(PACT) >= 8
    assert {kind for _, kind in known} >= {"full", "quantile", "allocation"}
    assert others == []


def test_a_folder_without_a_known_kind_is_refused(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "other.json").write_text('{"kind": "riddle"}')
    with pytest.raises(ScenarioError, match="got riddle, expected at least one case of kind pact, full, quantile"):
        case_files(tmp_path)
    with pytest.raises(ScenarioError, match="no JSON file"):
        case_files(tmp_path / "missing")


@pytest.mark.parametrize(("text", "says"), [("[1]", "got a list"), ("{", "not JSON")])
def test_a_file_that_is_no_case_is_named(tmp_path, text, says):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ScenarioError, match=f"bad.json: {says}"):
        case_files(tmp_path)


def test_missing_fields_are_named(tmp_path):
    (tmp_path / "thin.json").write_text('{"name": "thin", "law": {}}')
    with pytest.raises(ScenarioError, match=r"thin.json: KeyError 'tau_run'"):
        read_case(tmp_path / "thin.json")


def test_replay_is_stopped_by_a_forbidden_change():
    case = read_case(OWN / "pact" / "fig5_irreversible.json")  # start is pair 2; m1 -> m0 is impossible
    assert not replay(case.raw, "true", [0], quantised=False).possible
    assert replay(case.raw, "true", [2], quantised=False).possible
