"""Whatever ends a process, the next one arrives at the same weights, losses and plans."""

from __future__ import annotations

import os

import pytest
import stub
from compare import trace

from relaytrain.core.errors import StoreDamaged
from relaytrain.relay import loop as orchestrator
from relaytrain.store import LeaseLost, RunStore


def die_at(count: int):
    """A fault that ends the run at its `count`-th moment as if the process were gone: nothing is written after it."""
    calls = [0]

    def fault(moment, decision, attempt):
        calls[0] += moment != "test"
        if calls[0] == count and moment != "test":
            raise LeaseLost("as if the process were gone")  # the one error after which nothing is written

    return fault


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    store = RunStore.open(tmp_path_factory.mktemp("straight"))
    ended = orchestrator.start(stub.job(), store, run="undisturbed")
    return trace(store, "undisturbed"), ended


@pytest.mark.slow
def test_resume_after_a_death_at_every_moment_is_bit_equal(store, straight):
    """In the soak at every moment; else at every third."""
    deaths, apart = 0, 1 if os.environ.get("RELAYTRAIN_TIER") == "soak" else 3
    for count in range(2, 200, apart):
        run = f"dies-at-{count}"
        try:
            orchestrator.start(stub.job(fault=die_at(count)), store, run=run)
        except LeaseLost:
            deaths += 1
            assert store.summary(run).status == "interrupted"
            done = len([e for e in store.events(run) if e.kind == "epoch_done"])
            lived = orchestrator.resume(again := stub.job(), store, run)
            begun = [epoch for what, epoch in again.runner.calls if what == "epoch"]
            assert begun == list(range(done + 1, len(lived.outcomes) + 1))  # no epoch done is ever repeated
        else:
            break
        assert trace(store, run) == straight[0]
        store.rm(run)
    assert deaths > 25 // apart


def test_many_deaths_in_one_run(store, straight):
    job = stub.job(fault=die_at(6))
    with pytest.raises(LeaseLost):
        orchestrator.start(job, store, run="nine-lives")
    for _ in range(40):
        try:
            ended = orchestrator.resume(stub.job(fault=die_at(5)), store, "nine-lives")
            break
        except LeaseLost:
            continue
    assert trace(store, "nine-lives") == straight[0]
    assert ended.wasted_j > 0
    totals = store.summary("nine-lives").totals
    assert totals.useful_j == pytest.approx(straight[1].energy_j)
    assert totals.energy_j == pytest.approx(totals.useful_j + totals.wasted_j)


@pytest.mark.parametrize("damaged", [1, 2])
def test_a_damaged_checkpoint_costs_epochs_but_not_the_result(store, straight, damaged):
    def stop_at(line):
        if line.epoch == 6:
            store.request_stop("damaged-1")

    orchestrator.start(stub.job(thin=False), store, run="damaged-1", told=stop_at)
    whole = [e for e in store.events("damaged-1") if e.kind == "epoch_done"]
    for event in whole[-damaged:]:
        path = store.folder / "blobs" / "damaged-1" / event.blob
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(bytes(data))
    ended = orchestrator.resume(stub.job(), store, "damaged-1")
    assert any("damaged" in note for note in ended.notes)
    assert trace(store, "damaged-1") == straight[0]
    assert ended.wasted_j > 0


def test_damage_down_to_a_handover_repeats_its_decision(store, straight):
    def stop_at(line):
        if line.epoch == 4:
            store.request_stop("damaged-2")

    orchestrator.start(stub.job(thin=False), store, run="damaged-2", told=stop_at)
    events = store.events("damaged-2")
    last = max(e.seq for e in events if e.kind == "handover")
    for event in events:
        if event.kind == "epoch_done" and event.seq > last:
            (store.folder / "blobs" / "damaged-2" / event.blob).unlink()
    orchestrator.resume(stub.job(), store, "damaged-2")
    assert trace(store, "damaged-2") == straight[0]


def test_no_whole_checkpoint_left_is_exit_9(store):
    def stop_at(line):
        if line.epoch == 2:
            store.request_stop("all-damaged")

    orchestrator.start(stub.job(), store, run="all-damaged", told=stop_at)
    for path in (store.folder / "blobs" / "all-damaged").iterdir():
        path.write_bytes(b"")
    with pytest.raises(StoreDamaged) as caught:
        orchestrator.resume(stub.job(), store, "all-damaged")
    assert caught.value.exit_status == 9
    store.rm("all-damaged")


@pytest.mark.parametrize("planner", ["one-switch", "static-learn"])
def test_a_baseline_keeps_to_its_first_plan_after_a_death(store, planner):
    orchestrator.start(stub.job(planner=planner, replan=False), store, run="undisturbed")
    with pytest.raises(LeaseLost):
        orchestrator.start(stub.job(planner=planner, replan=False, fault=die_at(12)), store, run="dies-once")
    orchestrator.resume(stub.job(planner=planner, replan=False), store, "dies-once")
    assert trace(store, "dies-once") == trace(store, "undisturbed")


def test_forbidden_pairs_stay_forbidden_after_a_death(store):
    import math

    def fault(moment, decision, attempt):
        if moment == "epoch" and decision.epoch == 3 and decision.nodes == "bronze":
            return math.nan
        return None

    orchestrator.start(stub.job(fault=fault), store, run="undisturbed")
    calls = [0]

    def dies_later(moment, decision, attempt):
        calls[0] += 1
        if calls[0] == 14:
            raise LeaseLost("gone")
        return fault(moment, decision, attempt)

    with pytest.raises(LeaseLost):
        orchestrator.start(stub.job(fault=dies_later), store, run="dies-once")
    assert any(e.kind == "rolled_back" for e in store.events("dies-once"))
    orchestrator.resume(stub.job(fault=fault), store, "dies-once")
    assert trace(store, "dies-once") == trace(store, "undisturbed")
