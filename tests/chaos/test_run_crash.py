"""C2 with the orchestrator itself, C3 with real training: SIGKILL at random moments, then the same weights, losses,
plans."""

from __future__ import annotations

import random
import select
from pathlib import Path

import pytest
from run_faults import STRAIGHT, go_on, small_relay, stub, trace
from store_faults import RUN, Child, scratch, soak

from relaytrain.store import RunStore, check
from relaytrain.store.check import errors


def lives(folder: Path, work, chance: random.Random, *, most: int, pause_s: float) -> list:
    """Processes of one run, each killed at a random moment but for the last; what each had said is in it."""
    ended = []
    while True:
        child = Child(work)
        if len(ended) < most and child.hear(chance.randrange(4)):
            select.select([], [], [], chance.random() * pause_s)  # the moment of death is meant to be random
            child.kill()
        ended.append(child.wait())
        assert errors(check(folder)) == [] if (folder / "runs.sqlite").exists() else True
        acknowledged = {epoch for life in ended for epoch in life.acknowledged}
        done = [e.epoch for e in RunStore.open(folder).events(RUN) if e.kind == "epoch_done"]
        assert acknowledged <= set(done), f"lost: {acknowledged - set(done)}"
        assert len(done) == len(set(done))  # no epoch that was done is ever repeated
        if RunStore.open(folder).events(RUN, kinds=("verdict",)):  # killed after its verdict, or not at all
            return ended
        assert ended[-1].killed, ended[-1]


def assert_same_as_straight(folder: Path, straight: dict) -> None:
    store = RunStore.open(folder)
    assert trace(store, RUN) == straight
    totals = store.summary(RUN).totals
    assert totals.energy_j == pytest.approx(totals.useful_j + totals.wasted_j)
    assert totals.useful_j == pytest.approx(straight["verdict"]["useful_j"])


@pytest.mark.slow
def test_c2_random_sigkill_of_the_orchestrator(record_property):
    wanted = 300 if soak() else 15
    chance = random.Random(22)
    with scratch() as base:
        go_on(stub.job(), base, STRAIGHT, lambda what, epoch: None)
        straight = trace(RunStore.open(base), STRAIGHT)
    kills = runs = begun = 0
    while kills < wanted:
        with scratch() as folder:

            def work(say, folder=folder) -> int:
                return go_on(stub.job(), folder, RUN, say)

            ended = lives(folder, work, chance, most=5, pause_s=0.03)
            assert_same_as_straight(folder, straight)
            deaths = sum(life.killed for life in ended)
            lost = [e for e in RunStore.open(folder).events(RUN) if e.kind == "node_failed"]
            assert len(lost) <= deaths  # at most the running epoch is repeated, and it is booked
            kills, runs, begun = kills + deaths, runs + 1, begun + len(lost)
    record_property("kills", kills)
    print(f"C2 (orchestrator): {kills} kills in {runs} runs, {begun} epochs repeated, 0 acknowledged epochs lost")


@pytest.mark.slow
@pytest.mark.train
def test_c3_random_sigkill_with_real_training(record_property):
    pytest.importorskip("torch").set_num_threads(1)
    from relaytrain.relay import assembly as launch
    from relaytrain.scenario import load_scenario
    from relaytrain.training.setup import TrainingSetup

    wanted = 60 if soak() else 5
    chance = random.Random(33)
    scenario = load_scenario(small_relay())
    setup = TrainingSetup.from_scenario(scenario)  # built once; children are forked from here, before any training
    setup.version_facts()

    def job():
        return launch.job_of(scenario, setup=setup)

    with scratch() as base:
        assert Child(lambda say: go_on(job(), base, STRAIGHT, say)).wait().code == 0
        straight = trace(RunStore.open(base), STRAIGHT)
        handed = [e for e in RunStore.open(base).events(STRAIGHT) if e.kind == "handover"]
    assert handed and straight["verdict"]["epochs"] == 9
    kills = runs = 0
    while kills < wanted:
        with scratch() as folder:
            ended = lives(folder, lambda say, f=folder: go_on(job(), f, RUN, say), chance, most=4, pause_s=0.25)
            assert_same_as_straight(folder, straight)
            kills, runs = kills + sum(life.killed for life in ended), runs + 1
    record_property("kills", kills)
    print(f"C3: {kills} kills in {runs} runs of real training, weights, losses and plans bit-equal in all")


@pytest.mark.slow
@pytest.mark.train
def test_c3_killed_in_the_middle_of_pruning_and_of_writing_the_handover():
    """SIGKILL inside the handover's own work, and before and after its checkpoint and event."""
    import os
    import signal

    pytest.importorskip("torch").set_num_threads(1)
    from relaytrain.relay import assembly as launch
    from relaytrain.scenario import load_scenario
    from relaytrain.store import RunWriter
    from relaytrain.training.setup import TrainingSetup

    scenario = load_scenario(small_relay())
    setup = TrainingSetup.from_scenario(scenario)
    setup.version_facts()

    def die_in(where: str, say, folder: Path) -> int:
        made = launch.job_of(scenario, setup=setup)
        plain_put, plain_append, plain_hand = RunWriter.put_blob, RunWriter.append, made.runner.hand_over
        state = {"handing": False}

        def die(*_: object) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        def hand_over(*arguments):
            state["handing"] = True
            if where == "before":
                die()
            handed = plain_hand(*arguments)
            if where == "pruned":
                die()
            return handed

        def put_blob(self, data):
            digest = plain_put(self, data)
            return die() if state["handing"] and where == "blob" else digest

        def append(self, kind, body, epoch=None):
            event = plain_append(self, kind, body, epoch)
            return die() if kind == "handover" and where == "event" else event

        made.runner.hand_over = hand_over
        RunWriter.put_blob, RunWriter.append = put_blob, append  # in this forked process only
        return go_on(made, folder, RUN, say)

    with scratch() as base:
        assert Child(lambda say: go_on(launch.job_of(scenario, setup=setup), base, STRAIGHT, say)).wait().code == 0
        straight = trace(RunStore.open(base), STRAIGHT)
    for where in ("before", "pruned", "blob", "event"):
        with scratch() as folder:
            assert Child(lambda say, w=where, f=folder: die_in(w, say, f)).wait().killed
            again = Child(lambda say, f=folder: go_on(launch.job_of(scenario, setup=setup), f, RUN, say)).wait()
            assert again.code == 0
            assert_same_as_straight(folder, straight)
