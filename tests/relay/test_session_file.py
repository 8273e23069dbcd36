"""Sessions kept in files: another process goes on and decides the same, to the bit."""

from __future__ import annotations

import json
import math

import pytest
import stub

import relaytrain as rt
from relaytrain.core.errors import ScenarioError, UsageError
from relaytrain.core.law_json import law_to_json
from relaytrain.costs.meters import Reading
from relaytrain.testing.fakes import ReplayMeter

LOSSES = (1.6, 1.31, 1.15, math.nan, 1.02, 0.97, 0.81, 0.78, 0.7, 0.64, 0.6)


def meter() -> ReplayMeter:
    return ReplayMeter([Reading(7.3, "measured", "replayed", 0.5, 2.1)] * 40)


def play(session, losses):
    """What was decided, planned and believed at every step."""
    said = []
    for loss in losses:
        decision = session.ask()
        if decision is None:
            break
        law = json.dumps(law_to_json(session._step.law, pairs=3, top=4.0))
        said.append((decision, session.plan.to_dict(), law, session._step.guaranteed))
        session.tell(loss)
    return said, session.state, session.verdict


@pytest.mark.slow
@pytest.mark.parametrize("rule", [None, "sampled"])
def test_a_session_that_was_saved_anywhere_goes_on_as_one_that_was_not(tmp_path, rule):
    straight = play(rt.Session(stub.scenario(), rule=rule, meter=meter()), LOSSES)
    for at in (0, 3, 6) if rule is None else (5,):
        session, file = rt.Session(stub.scenario(), rule=rule, meter=meter()), tmp_path / f"{rule}-{at}.json"
        before = play(session, LOSSES[:at])[0]
        session.ask()  # the decision is open
        session.save(file)
        after = play(rt.Session.load(file, meter=meter()), LOSSES[at:])
        assert ([*before, *after[0]], *after[1:]) == straight


def test_a_problem_and_objects_of_ones_own_are_given_again(tmp_path):
    loaded, file = stub.scenario(), tmp_path / "own.json"
    given = {"costs": loaded.costs, "law": loaded.law, "planner": rt.Pact("robust")}
    session = rt.Session(loaded.problem, **given)
    play(session, LOSSES[:2])
    session.save(file)
    again = rt.Session.load(file, loaded.problem, **given)
    assert again.ask() == session.ask() and again.outcomes == session.outcomes
    with pytest.raises(UsageError, match="made with source, costs, law, planner of your own"):
        rt.Session.load(file)
    other = stub.scenario(target__loss=0.6)
    with pytest.raises(UsageError, match=r"target_loss was 0\.45 when it was saved and is 0\.6"):
        rt.Session.load(file, other.problem, **given)


def test_an_ended_session_stays_ended(tmp_path):
    session, file = rt.Session(stub.scenario()), tmp_path / "ended.json"
    session.ask()
    session.tell(0.1, elapsed_s=1.0, energy_j=1.0)
    assert session.ask() is None and session.verdict == "met"
    session.save(file)
    again = rt.Session.load(file)
    assert again.ask() is None and (again.verdict, again.reason) == (session.verdict, session.reason)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: "[", "no JSON"),
        (lambda data: "[" * 200_000, "no JSON"),
        (lambda data: "[]", "schema is None"),
        (lambda data: json.dumps({**data, "schema": "relaytrain.session/9"}), "session/9', expected"),
        (lambda data: json.dumps({**data, "history": [{"loss": 1}]}), "not as Session.save writes it"),
        (lambda data: json.dumps({**data, "charged_s": "long"}), "expected a finite number"),
        (lambda data: json.dumps({k: v for k, v in data.items() if k != "stated"}), "KeyError: 'stated'"),
    ],
)
def test_files_that_are_no_sessions_are_refused(tmp_path, change, said):
    file = tmp_path / "mine.json"
    rt.Session(stub.scenario()).save(file)
    file.write_text(change(json.loads(file.read_text())))
    with pytest.raises(ScenarioError) as refused:
        rt.Session.load(file)
    assert said in str(refused.value) and str(file) in str(refused.value)


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(UsageError, match=r"nowhere\.json: No such file"):
        rt.Session.load(tmp_path / "nowhere.json")
