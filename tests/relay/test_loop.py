"""The loop: what is recorded and in which order, when it ends, how it is booked."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import stub
from compare import trace

from relaytrain.core.errors import UsageError
from relaytrain.core.law_json import costs_from_json, costs_to_json, law_from_json
from relaytrain.core.state import State
from relaytrain.costs.table import LearningCosts
from relaytrain.planners.registry import planner_named
from relaytrain.relay import loop as orchestrator
from relaytrain.relay.event_bodies import RunPast
from relaytrain.relay.journal import MemoryJournal
from relaytrain.relay.loop import RelayLoop


def kinds(store, run):
    return [(event.kind, event.epoch) for event in store.events(run)]


def test_a_run_is_recorded_decision_first_and_ends_at_the_first_epoch_that_meets_the_target(store):
    ended = orchestrator.start(stub.job(), store, run="straight-1")
    assert ended.verdict == "met" and ended.exit_status == 0
    assert ended.loss <= 0.45 < min(outcome.loss for outcome in ended.outcomes[:-1])
    events = store.events("straight-1")
    assert events[0].kind == "run_started" and events[-1].kind == "verdict"
    for before, after in pairwise(events):
        if after.kind in ("handover", "epoch_done"):
            assert before.epoch == after.epoch and before.kind in ("planned", "handover")
    assert sum(e.kind == "epoch_done" for e in events) == len(ended.outcomes)
    assert store.summary("straight-1").status == "met"


def test_every_plan_can_be_made_again_from_its_event_alone(store):
    """The frozen law, costs and state of `planned` give the recorded decision."""
    loaded = stub.scenario()
    orchestrator.start(stub.job(loaded), store, run="frozen-run")
    planner = planner_named("pact")
    checked = 0
    for event in store.events("frozen-run", kinds=("planned",)):
        body = event.body
        at = body["state"]
        state = State(
            at["epoch"], at["loss"], at["elapsed_s"], loaded.problem.pairs.index(tuple(at["pair"])), at["energy_j"]
        )
        again = planner.plan(loaded.problem, costs_from_json(body["costs"]), law_from_json(body["law"]), state)
        first = again.decisions[0]
        assert [first.version, first.nodes] == [body["decision"]["version"], body["decision"]["nodes"]]
        assert again.probability == body["plan"]["probability"] and list(again.losses) == body["plan"]["expected_loss"]
        checked += 1
    assert checked > 5


def test_a_handover_is_one_step_with_its_checkpoint_and_probed_loss(store):
    ended = orchestrator.start(stub.job(), store, run="handed-over")
    handed = [e for e in store.events("handed-over") if e.kind == "handover"]
    assert len(handed) >= 1
    done = {e.epoch: e.body for e in store.events("handed-over") if e.kind == "epoch_done"}
    for event in handed:
        body = event.body
        checkpoint = stub.Stub.unpack(store.get_blob("handed-over", event.blob))
        assert checkpoint.version == body["after"][0] and checkpoint.loss == body["loss_after"]
        assert done[event.epoch]["handover_loss"] == body["loss_after"]
        before = done[event.epoch - 1]["loss"] if event.epoch > 1 else 2.0
        assert body["loss_before"] == before
    switches = [o.decision.epoch for o in ended.outcomes if o.handover_loss is not None]
    assert switches == [e.epoch for e in handed]


def test_emulated_seconds_and_joules_are_those_of_the_cost_table(store):
    loaded = stub.scenario()
    ended = orchestrator.start(stub.job(loaded), store, run="emulated-1")
    before, seconds, joules = loaded.problem.start, 0.0, 0.0
    for outcome in ended.outcomes:
        now = loaded.problem.index(outcome.decision.pair)
        assert outcome.elapsed_s == loaded.costs.epoch_s[before, now]
        seconds, joules = seconds + outcome.elapsed_s, joules + outcome.energy_j
        before = now
    assert ended.elapsed_s == pytest.approx(seconds) and ended.energy_j == pytest.approx(joules)
    assert ended.wasted_j == 0.0


def test_measured_seconds_move_the_cost_table_and_include_the_handover(store):
    job = stub.job(clock="measured")
    ended = orchestrator.start(job, store, run="measured-1")
    for outcome in ended.outcomes:
        assert outcome.elapsed_s == 1.25 + (0.5 if outcome.handover_loss is not None else 0.0)
        assert outcome.provenance == "measured"
    tables = [e.body["costs"] for e in store.events("measured-1", kinds=("planned",))]
    assert tables[0] != tables[-1] and tables[-1]["provenance"] == "measured"
    past, learned = RunPast.of(store.events("measured-1")).history, LearningCosts(job.problem.pairs, job.costs)
    assert past == list(ended.outcomes)
    for outcome, planned in zip(past, tables[1:], strict=False):  # so whoever resumes plans with the same table
        learned.tell(outcome)
        assert costs_to_json(learned.table()) == planned
        assert learned.table().run_s[job.problem.index(outcome.decision.pair)] == 1.25
    assert 0.5 in learned.table().change_s


def test_the_same_job_twice_gives_the_same_run(store):
    for name in ("first-run", "second-run"):
        orchestrator.start(stub.job(), store, run=name)
    assert trace(store, "first-run") == trace(store, "second-run")


@pytest.mark.parametrize("planner", ["one-switch", "static-learn", "single", "fixed"])
def test_baselines_plan_once_and_follow_their_plan(store, planner):
    ended = orchestrator.start(stub.job(planner=planner, replan=False), store, run="baseline-1")
    first = store.events("baseline-1", kinds=("planned",))[0].body
    ran = [o.decision.pair for o in ended.outcomes]
    path = [tuple(pair) for pair in first["path"]]
    assert ran == [path[min(k, len(path) - 1)] for k in range(len(ran))]


def test_a_target_met_before_epoch_1_needs_no_epoch(store):
    ended = orchestrator.start(stub.job(stub.scenario(target__loss=2.5)), store, run="nothing-to-do")
    assert ended.verdict == "met" and ended.outcomes == () and ended.energy_j == 0.0
    assert kinds(store, "nothing-to-do") == [("run_started", 0), ("verdict", None)]
    assert ended.test_loss == pytest.approx(2.2)


def test_a_slow_world_misses_by_the_deadline_and_says_so(store):
    ended = orchestrator.start(stub.job(pace=0.2), store, run="too-slow-1")
    assert ended.verdict == "missed" and ended.exit_status == 5
    assert ended.elapsed_s <= 35.0
    verdict = store.events("too-slow-1")[-1].body
    assert verdict["loss"] > 0.45 and verdict["test_loss"] is not None and verdict["test_accuracy"] == 0.9
    assert any("time that is left" in note or "deadline" in note for note in verdict["notes"])


def test_infeasible_stops_only_when_asked_to(store):
    hard = stub.scenario(target__deadline=6.0)
    best = orchestrator.start(stub.job(hard), store, run="best-effort")
    assert best.verdict == "missed" and best.exit_status == 5 and len(best.outcomes) >= 2
    stopped = orchestrator.start(stub.job(hard, when_infeasible="stop"), store, run="gave-it-up")
    assert stopped.verdict == "missed" and stopped.exit_status == 4 and stopped.outcomes == ()
    assert "nearest feasible" in " ".join(stopped.notes)


def test_the_most_epochs_end_a_run(store):
    ended = orchestrator.start(stub.job(stub.scenario(target__max_epochs=3)), store, run="three-epochs")
    assert len(ended.outcomes) == 3 and ended.verdict == "missed"


@pytest.mark.slow
def test_without_a_deadline_a_run_that_gains_nothing_is_given_up(store):
    """The floor of every pair lies above the target: no plan is feasible and no deadline ends it."""

    class Short:
        def plan(self, problem, costs, law, state):  # plans without a deadline are long: not in a test
            return planner_named("pact").plan(replace(problem, max_epochs=state.epoch + 30), costs, law, state)

    loaded = stub.scenario(target__deadline=None, target__loss=0.01)
    ended = orchestrator.start(replace(stub.job(loaded, noise=0.0), planner=Short()), store, run="hopeless-1")
    assert ended.verdict == "missed" and len(ended.outcomes) > 20 and ended.loss < 0.2


def test_a_watcher_hears_one_line_an_epoch(store):
    lines = []
    ended = orchestrator.start(stub.job(), store, run="watched-1", told=lines.append)
    assert [line.epoch for line in lines] == list(range(1, len(ended.outcomes) + 1))
    assert lines[-1].energy_j == ended.energy_j and lines[0].deadline_s == 35.0
    assert all(math.isfinite(line.guaranteed) and line.level >= 0.5 for line in lines)


@pytest.mark.slow
def test_robust_band_covers_most_of_what_is_measured(store):
    """Losses stay below the band at the level the plan rests on about as often as it says, on the whole."""
    inside = total = 0
    for seed in range(6):
        lines = []
        orchestrator.start(stub.job(seed=seed, pace=0.95), store, run=f"covered-{seed}", told=lines.append)
        inside += sum(line.loss <= line.guaranteed for line in lines)
        total += len(lines)
    assert inside / total > 0.6


def test_old_checkpoints_are_thinned_but_those_needed_stay(store):
    orchestrator.start(stub.job(), store, run="thinned-1")
    folder = store.folder / "blobs" / "thinned-1"
    assert len(list(folder.iterdir())) < sum(e.blob is not None for e in store.events("thinned-1"))
    assert store.latest_checkpoint("thinned-1").skipped == ()


def test_a_run_that_has_ended_cannot_be_resumed(store):
    orchestrator.start(stub.job(), store, run="ended-run")
    with pytest.raises(UsageError, match="has ended"):
        orchestrator.resume(stub.job(), store, "ended-run")


def test_weights_do_not_depend_on_the_store(store):
    """The checkpoint of the last epoch is what the bare runner arrives at with the same decisions."""
    the_job = stub.job()
    ended = orchestrator.start(the_job, store, run="transparent")
    runner, checkpoint, before = the_job.runner, the_job.runner.first(), the_job.runner.start
    for outcome in ended.outcomes:
        if outcome.decision.pair != before:
            checkpoint = runner.hand_over(checkpoint, before, outcome.decision, lambda version: None).checkpoint
        checkpoint = runner.run_epoch(outcome.decision, checkpoint, run="x").checkpoint
        before = outcome.decision.pair
    kept = stub.Stub.unpack(store.latest_checkpoint("transparent").data)
    assert np.array_equal(kept.weights, checkpoint.weights) and kept.loss == checkpoint.loss


def test_a_relay_in_memory_is_the_same_relay(store):
    """Without a store, and without one byte of a checkpoint: the same decisions, losses and joules."""
    kept = orchestrator.start(stub.job(), store, run="kept-run")
    job = stub.job()
    job.runner.to_bytes = job.runner.from_bytes = None
    first, problem = job.runner.first(), job.problem
    journal = MemoryJournal("played", first, problem.pairs, problem.start)
    lines = []
    played = RelayLoop(job, journal, job.runner.probe(first).loss, told=lines.append).begin(first)
    assert replace(played, run=kept.run) == kept
    assert [line.epoch for line in lines] == [outcome.decision.epoch for outcome in kept.outcomes]


def test_a_relay_in_memory_forgets_a_handover_that_led_to_no_number(store):
    def fault(moment, decision, attempt):
        return math.nan if moment == "epoch" and decision.nodes == "bronze" else None

    kept = orchestrator.start(stub.job(fault=fault), store, run="kept-run")
    job = stub.job(fault=fault)
    first, problem = job.runner.first(), job.problem
    journal = MemoryJournal("played", first, problem.pairs, problem.start)
    played = RelayLoop(job, journal, job.runner.probe(first).loss).begin(first)
    assert replace(played, run=kept.run) == kept and played.wasted_j > 0
