"""Time in which nobody ran the run: on the measured clock it passes, unless the scenario says that it does not."""

from __future__ import annotations

import pytest
import stub

from relaytrain.costs.clock import MeasuredClock
from relaytrain.relay import loop as orchestrator
from relaytrain.relay.job import Job
from relaytrain.scenario import load_scenario
from relaytrain.store import Clock, LeaseLost, RunStore


class Wall:
    """A clock on the wall that goes where it is put."""

    def __init__(self) -> None:
        self.now_s = 1.8e9

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def clocked(store, wall) -> RunStore:
    return RunStore.open(store.folder, clock=Clock(wall_s=wall))


def job(*, count_pauses: bool = True, fault=None) -> Job:
    made = stub.job(clock="measured", fault=fault)
    return Job(**{**vars(made), "clock": MeasuredClock(made.clock.meter, count_pauses=count_pauses)})


def interrupted(store: RunStore, run: str, epoch: int = 4) -> None:
    """Killed in the middle of `epoch`; before it every epoch took 1.25 s, the deadline is 35 s."""

    def fault(moment, decision, attempt):
        if moment == "trained" and decision.epoch == epoch:
            raise LeaseLost("as if the process were gone")

    with pytest.raises(LeaseLost):
        orchestrator.start(job(fault=fault), store, run=run)


def last(store: RunStore, run: str):
    return store.events(run)[-1].body


def test_a_pause_beyond_the_deadline_misses_it(clocked, wall):
    interrupted(clocked, "slept-well")
    wall.now_s += 40.0
    ended = orchestrator.resume(job(), clocked, "slept-well")
    assert ended.verdict == "missed" and ended.exit_status == 5 and len(ended.outcomes) == 3
    assert ended.elapsed_s > 40.0 and any("40 s passed between the last event and resume" in n for n in ended.notes)
    (resumed,) = clocked.events("slept-well", kinds=("resumed",))
    assert resumed.body["wasted_s"] == 40.0 and last(clocked, "slept-well")["wasted_s"] == 40.0


def test_a_shorter_pause_leaves_less_time(clocked, wall):
    interrupted(clocked, "slept-little")
    wall.now_s += 9.0
    ended = orchestrator.resume(job(), clocked, "slept-little")
    useful = sum(outcome.elapsed_s for outcome in ended.outcomes)
    assert ended.elapsed_s == pytest.approx(useful + 9.0)  # the attempt that was lost is part of the nine seconds
    assert ended.verdict == "met" and ended.wasted_j > 0.0
    planned = clocked.events("slept-little", kinds=("planned",))
    assert planned[4].body["state"]["elapsed_s"] == pytest.approx(
        sum(outcome.elapsed_s for outcome in ended.outcomes[:4]) + 9.0
    )


def test_a_scenario_may_say_that_pauses_do_not_count(clocked, wall):
    interrupted(clocked, "not-counted")
    wall.now_s += 1000.0
    ended = orchestrator.resume(job(count_pauses=False), clocked, "not-counted")
    assert ended.verdict == "met" and ended.elapsed_s < 35.0
    assert clocked.events("not-counted", kinds=("resumed",)) == ()


def test_a_stopped_run_that_is_resumed_late_is_late(clocked, wall):
    def stop_at(line):
        if line.epoch == 3:
            clocked.request_stop("stopped-run")

    orchestrator.start(job(), clocked, run="stopped-run", told=stop_at)
    wall.now_s += 60.0
    assert orchestrator.resume(job(), clocked, "stopped-run").verdict == "missed"


def test_two_pauses_add_up(clocked, wall):
    interrupted(clocked, "woken-twice", epoch=2)
    wall.now_s += 5.0

    def dies(moment, decision, attempt):
        if moment == "trained" and decision.epoch == 4:
            raise LeaseLost("gone")

    with pytest.raises(LeaseLost):
        orchestrator.resume(job(fault=dies), clocked, "woken-twice")
    wall.now_s += 4.0
    ended = orchestrator.resume(job(), clocked, "woken-twice")
    assert ended.elapsed_s == pytest.approx(sum(outcome.elapsed_s for outcome in ended.outcomes) + 9.0)


@pytest.mark.parametrize("back_s", [0.5, 3600.0, 1.8e9])
def test_a_clock_that_went_back_is_not_believed(clocked, wall, back_s):
    interrupted(clocked, "back-in-time")
    wall.now_s -= back_s
    ended = orchestrator.resume(job(), clocked, "back-in-time")
    assert ended.verdict == "met" and any("went back by" in note for note in ended.notes)
    (resumed,) = clocked.events("back-in-time", kinds=("resumed",))
    assert resumed.body["wasted_s"] == 0.0 and resumed.body["backwards"] is True
    assert ended.elapsed_s > sum(outcome.elapsed_s for outcome in ended.outcomes)  # the lost attempt, as modelled


def test_the_emulated_clock_stands_still(clocked, wall):
    def fault(moment, decision, attempt):
        if moment == "trained" and decision.epoch == 4:
            raise LeaseLost("gone")

    with pytest.raises(LeaseLost):
        orchestrator.start(stub.job(fault=fault), clocked, run="emulated-run")
    wall.now_s += 1e6
    assert orchestrator.resume(stub.job(), clocked, "emulated-run").verdict == "met"
    assert clocked.events("emulated-run", kinds=("resumed",)) == ()


def test_the_key_of_a_scenario():
    from relaytrain.testing.small_training import tables

    assert load_scenario(tables()).training["count_pauses"] is True
    assert load_scenario(tables(count_pauses=False)).training["count_pauses"] is False
