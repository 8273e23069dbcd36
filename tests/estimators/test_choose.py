"""Which estimator a scenario, a command or a session gets, and what is said when there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import relaytrain as rt
from relaytrain.cli.app import main
from relaytrain.core.errors import ScenarioError, UsageError
from relaytrain.core.law import LevelLaw
from relaytrain.core.protocols import Belief
from relaytrain.estimators import Prior
from relaytrain.estimators.choose import estimator_for
from relaytrain.estimators.learned import fitted
from relaytrain.estimators.learned.fitted import load_fitted
from relaytrain.estimators.learned.learned_law import Learned
from relaytrain.estimators.learned.zero_trace import zero_trace
from relaytrain.relay.runs import as_overrides
from relaytrain.scenario import load_scenario


@pytest.fixture
def file(tmp_path):
    return replace(zero_trace(), name="auto", metric="test").save(tmp_path / "my fit.npz")


def test_the_prior_unless_told_otherwise():
    assert isinstance(estimator_for(load_scenario("quickstart")), Prior)
    named = load_scenario("quickstart", overrides=["estimator.name=zero-trace"])
    assert isinstance(estimator_for(named), Learned)
    assert load_scenario(named.resolved).estimator["name"] == "zero-trace"  # what is kept with a run says it


def test_a_fitted_file_says_itself_what_it_is(file):
    changes = as_overrides(None, None, None, None, fitted=file)
    scenario = load_scenario("quickstart", overrides=changes)
    made = estimator_for(scenario)
    assert isinstance(made, Learned) and made.fitted.name == "auto"
    law = made.law((), scenario.problem.pairs)
    assert isinstance(law, LevelLaw) and law.monotone and law.autonomous


def test_files_are_found_beside_the_scenario(file, tmp_path):
    source = (Path(rt.__file__).parent / "scenario/presets/quickstart.toml").read_text("utf-8")
    here = tmp_path / "mine.toml"
    here.write_text(source + '\n[estimator]\nname = "auto"\nfitted = "my fit.npz"\n')
    assert isinstance(estimator_for(load_scenario(here)), Learned)


def test_sessions_learn_with_it(file):
    with rt.Session("quickstart", overrides=as_overrides(None, None, None, None, fitted=file)) as session:
        for loss in (2.0, 1.8, 1.7):
            assert session.ask() is not None
            session.tell(loss, elapsed_s=1.0, energy_j=1.0)
        assert session.state.epoch == 3


@pytest.mark.slow
def test_a_plan_rests_on_it(file):
    limits = ["target.deadline=90"]
    plan = rt.plan("quickstart", rule="adaptive", fitted=file, overrides=limits)
    changes = [*limits, *as_overrides(None, None, None, None, fitted=file)]
    assert plan.to_dict() == rt.plan("quickstart", rule="adaptive", overrides=changes).to_dict()
    assert plan.to_dict() != rt.plan("quickstart", rule="adaptive", overrides=limits).to_dict()
    with pytest.raises(ScenarioError, match="relaytrain collect"):
        rt.plan("quickstart", estimator="auto")


@pytest.mark.slow
def test_a_plan_over_worlds_reads_what_was_fitted_once(file, monkeypatch):
    read = []
    monkeypatch.setattr(fitted, "load_fitted", lambda path: read.append(path) or load_fitted(path))
    changes = as_overrides(None, None, None, None, estimator="auto", fitted=file)
    plan = rt.plan("quickstart", rule="sampled", overrides=changes)
    assert plan.energy_interval_j is not None and read == [file]


@pytest.mark.parametrize("name", ["quickstart", "epoch_example", "depl_alexnet"])
def test_pairs_that_are_not_its_own_are_refused_in_words(name):
    """Its figures stand in the order of its own: another order or a part would be given those of others."""
    scenario = load_scenario(name)
    estimator, pairs = estimator_for(scenario), scenario.problem.pairs
    asks = [estimator.law]
    if isinstance(estimator, Belief):
        asks.append(lambda history, asked: estimator.sample(history, asked, 4, 0))
    first = rf"expected the {len(pairs)} .*number 1 of them {pairs[-1]} where {pairs[0]}"
    for ask in asks:
        with pytest.raises(UsageError, match=first):
            ask((), pairs[::-1])
        for others in (pairs[:-1], (*pairs, pairs[0])):
            with pytest.raises(UsageError, match=f"pairs: got {len(others)}, expected the {len(pairs)} that"):
                ask((), others)
        ask((), list(pairs))


def test_refusals_name_the_remedy(file, capsys):
    for changes, words in (
        (["estimator.name=auto"], "relaytrain collect"),
        (["estimator.name=paper", f"estimator.fitted={file}"], "fitted as 'auto'"),
        ([f"estimator.fitted={file}"], "expected estimator.name auto"),
    ):
        with pytest.raises(ScenarioError, match=words):
            estimator_for(load_scenario("quickstart", overrides=changes))
    assert main(["plan", "quickstart", "--estimator", "auto"]) == ScenarioError.exit_status
    assert "relaytrain fit TRACES" in capsys.readouterr().err
    assert main(["plan", "quickstart", "--estimator", "guess"]) == ScenarioError.exit_status
    assert "estimator.name" in capsys.readouterr().err
