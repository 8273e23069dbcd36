"""What a run tells while it goes on: lines of epochs, and what happens between them, as it happens."""

from __future__ import annotations

import itertools
import math

import pytest
import stub

from relaytrain.core.errors import WorkerLost
from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.core.state import State
from relaytrain.planners.pact.forecast import forecast
from relaytrain.relay import loop as orchestrator
from relaytrain.relay.job import Line, Notice
from relaytrain.relay.steering import Steering
from relaytrain.report.happenings import happenings
from relaytrain.report.run_view import RunView


class Watcher:
    """Hears both kinds, in order."""

    def __init__(self) -> None:
        self.heard: list[Line | Notice] = []

    def __call__(self, line: Line) -> None:
        self.heard.append(line)

    def happened(self, notice: Notice) -> None:
        self.heard.append(notice)

    def of(self, kind: str) -> list[Notice]:
        return [said for said in self.heard if isinstance(said, Notice) and said.kind == kind]


def _bronze_is_gone(moment, decision, attempt):
    if moment == "epoch" and decision.nodes == "bronze":
        raise WorkerLost("bronze: 1 of 3 nodes answered")


def test_a_lost_node_set_is_told_before_the_line_of_its_epoch_and_kept(store):
    watcher = Watcher()
    orchestrator.start(stub.job(fault=_bronze_is_gone), store, run="bronze-lost", told=watcher)
    failed, back = watcher.of("failure")[0], watcher.of("roll-back")[0]  # it is tried again later
    assert "bronze failed: bronze: 1 of 3 nodes answered" in failed.words and "does not answer" in back.words
    after = next(said for said in watcher.heard[watcher.heard.index(failed) :] if isinstance(said, Line))
    assert after.epoch == failed.epoch == back.epoch, "the epoch was decided anew, and then its line came"
    assert {failed, back} <= set(after.notices), "whoever hears only lines finds it there"
    kept = happenings(RunView.of(store.events("bronze-lost")))
    assert {failed.words, back.words} <= {row.words for row in kept}


def test_a_plain_function_hears_lines_alone(store):
    heard = []
    orchestrator.start(stub.job(fault=_bronze_is_gone), store, run="only-lines", told=heard.append)
    assert heard and all(isinstance(said, Line) for said in heard)


def test_handovers_are_told(store):
    watcher = Watcher()
    ended = orchestrator.start(stub.job(), store, run="handed-over", told=watcher)
    pairs = [outcome.decision.pair for outcome in ended.outcomes]
    changed = [k for k, (before, now) in enumerate(itertools.pairwise(pairs), 2) if before != now]
    assert changed and [said.epoch for said in watcher.of("handover")][-len(changed) :] == changed


def test_an_infeasible_plan_is_told_once_and_not_again_after_a_resume(store):
    """27 epochs without a feasible plan are one word, not 27, and none more after a resume."""
    job = stub.job(stub.scenario(target__loss=0.06, target__deadline=30.0))
    watcher, again = Watcher(), Watcher()
    first = lambda: sum(isinstance(said, Line) for said in watcher.heard) >= 3  # noqa: E731
    orchestrator.start(job, store, run="out-of-reach", told=watcher, stop=first)
    assert [said.epoch for said in watcher.of("infeasible")] == [1]
    assert "loss 0.06" in watcher.of("infeasible")[0].words
    orchestrator.resume(job, store, "out-of-reach", told=again)
    assert again.of("infeasible") == [] and any(isinstance(said, Line) for said in again.heard)
    words = [row.words for row in happenings(RunView.of(store.events("out-of-reach")))]
    assert sum(said.startswith("no plan is feasible") for said in words) == 1


def test_a_broken_bound_is_known_to_its_line(store):
    lines: list[Line] = []
    orchestrator.start(stub.job(), store, run="with-bounds", told=lines.append)
    view = RunView.of(store.events("with-bounds"))
    assert [line.broken for line in lines] == [epoch.in_band is False for epoch in view.epochs]


def test_the_forecast_is_kept_with_the_decision(store):
    lines: list[Line] = []
    orchestrator.start(stub.job(), store, run="with-totals", told=lines.append)
    kept = [e.body for e in store.events("with-totals") if e.kind == "planned"]
    totals = [tuple(body["state"]["energy_j"] + j for j in body["predicted"]["to_go_j"]) for body in kept]
    assert [line.forecast_j for line in lines] == totals
    for line in lines:
        low, middle, high = line.forecast_j
        assert line.energy_j - 1e-9 <= high and low <= middle <= high < math.inf


class Failing:
    """An estimator of a third party that raises."""

    def law(self, history, pairs):
        raise ArithmeticError("its forecasts are no numbers")


def test_a_fallback_of_an_estimator_is_told_before_the_line_that_rests_on_it_and_kept(store):
    watcher = Watcher()
    orchestrator.start(stub.job(estimator=lambda problem: Failing()), store, run="no-estimator", told=watcher)
    (said,) = watcher.of("estimator")
    assert "the estimator failed (ArithmeticError: its forecasts are no numbers)" in said.words
    assert watcher.heard.index(said) < next(i for i, heard in enumerate(watcher.heard) if isinstance(heard, Line))
    assert said.words in {row.words for row in happenings(RunView.of(store.events("no-estimator")))}


def _steering(**overrides) -> Steering:
    loaded = stub.scenario(**overrides)
    job = stub.job(loaded)
    return Steering(loaded.problem, loaded.costs, job.estimator(loaded.problem), job.planner, loaded.law)


def test_a_law_without_doubt_has_a_forecast_without_width():
    steering = _steering(law__robust_progress=1.0, law__robust_jump_factor=1.0)
    problem, law = steering.problem, steering.fallback
    plan = steering.planner.plan(problem, steering.costs, law, steering.state)
    for replan in (True, False):
        found = forecast(problem, plan, law, steering.costs, steering.state, replan=replan)
        assert found == pytest.approx((plan.energy_j,) * 3)


def test_worse_levels_cost_more_and_what_never_arrives_ends_with_the_deadline():
    steering = _steering()
    problem, law = steering.problem, steering.fallback
    plan = steering.planner.plan(problem, steering.costs, law, steering.state)
    followed = forecast(problem, plan, law, steering.costs, steering.state, replan=False)
    planned_again = forecast(problem, plan, law, steering.costs, steering.state)
    assert followed.low_j < followed.middle_j < followed.high_j
    assert planned_again.low_j <= followed.low_j + 1e-9, "where both arrive, planning again is never dearer"
    slowest_s, dearest_w = problem.target.deadline_s, 50.0 / 2.0
    assert followed.high_j <= slowest_s * dearest_w


def test_whatever_a_run_is_told_it_stands_where_one_does_that_was_told_all_at_once():
    steering = _steering()
    pair, other = steering.problem.pairs[:2]
    for epoch, loss in ((1, 2.0), (2, 1.5), (3, 1.2)):
        steering.tell(EpochOutcome(Decision(epoch, *pair), loss, 2.0, 3.0))
    steering.undo(2)
    steering.charge(5.0, 7.0)
    steering.forbid(other, "it does not train")
    steering.lose(other.nodes, "no answer")
    fresh = _steering()
    fresh.recall(list(steering.history), dict(steering.forbidden), dict(steering.lost), steering.path, {})
    fresh.charge(5.0, 7.0)
    assert steering.state == fresh.state == State(2, 1.5, 9.0, 0, 13.0)
    assert steering.table().run_s.tolist() == fresh.table().run_s.tolist()
    assert math.isinf(steering.table().run_s[1])
    steering.charge(6.0, 7.0)
    assert steering.state.elapsed_s == 10.0
