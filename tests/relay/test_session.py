"""`rt.Session`: the same decisions as an orchestrated run, for a loop that is not ours."""

from __future__ import annotations

import math

import pytest
import stub

import relaytrain as rt
from relaytrain.core.errors import NonFiniteTraining, UsageError
from relaytrain.costs.meters import Reading
from relaytrain.relay import loop as orchestrator
from relaytrain.testing.fakes import ReplayMeter


class OwnLoop:
    """A user's loop around the stub's arithmetic."""

    def __init__(self, loaded, seed: int = 0) -> None:
        self.runner = stub.StubRunner.of(loaded, seed=seed)
        self.checkpoint, self.pair = self.runner.first(), self.runner.start

    def epoch(self, decision):
        probed = None
        if decision.pair != self.pair:
            self.checkpoint = self.runner.hand_over(self.checkpoint, self.pair, decision, lambda v: None).checkpoint
            probed, self.pair = self.checkpoint.loss, decision.pair
        self.checkpoint = self.runner.run_epoch(decision, self.checkpoint, run="own").checkpoint
        return self.checkpoint.loss, probed


def test_the_decisions_are_those_of_the_orchestrator(store):
    loaded = stub.scenario()
    ended = orchestrator.start(stub.job(loaded), store, run="orchestrated")
    own = OwnLoop(loaded)
    with rt.Session(loaded) as session:
        while (decision := session.ask()) is not None:
            now, before = loaded.problem.index(decision.pair), session.state.pair
            loss, probed = own.epoch(decision)
            cost = float(loaded.costs.epoch_s[before, now]), float(loaded.costs.epoch_j[before, now])
            assert session.tell(loss, elapsed_s=cost[0], energy_j=cost[1], handover_loss=probed)
    assert [o.decision for o in session.outcomes] == [o.decision for o in ended.outcomes]
    assert [o.loss for o in session.outcomes] == [o.loss for o in ended.outcomes]
    assert session.verdict == ended.verdict == "met" and session.state.energy_j == pytest.approx(ended.energy_j)


def test_seconds_and_joules_are_measured_when_not_given():
    readings = [Reading(7.0, "measured", "replayed", 0.5, 2.5)] * 3
    with rt.Session(stub.scenario(), meter=ReplayMeter(readings)) as session:
        session.ask()
        session.tell(1.5)
        session.ask()
        session.tell(1.4, energy_j=1.0)
    first, second = session.outcomes
    assert (first.elapsed_s, first.energy_j, first.provenance) == (2.5, 7.0, "measured")
    assert (second.elapsed_s, second.energy_j) == (2.5, 1.0)
    assert session.verdict == "stopped"


def test_asking_twice_changes_nothing_and_telling_needs_asking():
    session = rt.Session(stub.scenario())
    with pytest.raises(UsageError, match="ask"):
        session.tell(1.0)
    assert session.ask() is session.ask()
    assert session.plan is not None and session.plan.decisions[0] == session.ask()
    for bad in ({"elapsed_s": -1.0}, {"energy_j": math.nan}):
        with pytest.raises(UsageError):
            session.tell(1.0, **bad)
    assert session.tell(1.0) and "epoch 1" in repr(session)


def test_a_loss_that_is_no_number_forbids_the_pair():
    session = rt.Session(stub.scenario())
    first = session.ask()
    assert session.tell(math.nan, elapsed_s=1.0, energy_j=2.0) is False
    second = session.ask()
    assert second.epoch == 1 and second.pair != first.pair
    assert session.state.energy_j == 2.0 and session.state.elapsed_s == 1.0
    session.tell(math.inf)
    third = session.ask()
    if third is not None:
        with pytest.raises(NonFiniteTraining):
            session.tell(math.nan)
    assert session.verdict == "failed" and session.ask() is None


def test_forbidding_a_pair_withdraws_its_decision():
    session = rt.Session(stub.scenario())
    first = session.ask()
    session.forbid(first.version, first.nodes)
    assert session.ask().pair != first.pair
    with pytest.raises(rt.ScenarioError, match="no pair"):
        session.forbid("L", "nowhere")


def test_a_problem_needs_costs_and_a_law():
    loaded = stub.scenario()
    with pytest.raises(UsageError, match="costs="):
        rt.Session(loaded.problem)
    same = rt.Session(loaded.problem, costs=loaded.costs, law=loaded.law)
    assert same.ask() == rt.Session(loaded).ask()


def test_it_ends_at_the_deadline():
    with rt.Session(stub.scenario(target__deadline=5.0)) as session:
        told = 0
        while session.ask() is not None:
            session.tell(1.9, elapsed_s=2.0, energy_j=1.0)
            told += 1
    assert session.verdict == "missed" and told <= 3 and session.reason


def test_leaving_by_an_error_is_failed_and_by_break_is_stopped():
    with pytest.raises(ZeroDivisionError), rt.Session(stub.scenario()) as broken:
        broken.ask()
        raise ZeroDivisionError
    assert broken.verdict == "failed"
    with rt.Session(stub.scenario()) as left:
        left.ask()
    assert left.verdict == "stopped"
