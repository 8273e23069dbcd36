"""C1 and C2: a writer that dies at every single step, and at random moments; nothing acknowledged is ever lost."""

from __future__ import annotations

import random
import select
from pathlib import Path

import pytest
import stub_run
from store_faults import RUN, Child, Counting, CrashAt, assert_finished, assert_sound, scratch, soak, status, wal_of

from relaytrain.store import RunStore, check
from relaytrain.store.check import errors
from relaytrain.store.files import using

EPOCHS = 5  # the fourth begins with a handover
MODES = ("before", "after", "torn")


def _child(folder: Path, number: int, mode: str) -> Child:
    def work(say) -> int:
        with using(CrashAt(number, mode, wal_of(folder))):
            stub_run.run(RunStore.open(folder), RUN, EPOCHS, told=say)
        return 0

    return Child(work)


def _steps() -> list[str]:
    with scratch() as base, using(Counting()) as counting:
        stub_run.run(RunStore.open(base / "store"), RUN, EPOCHS)
    return counting.steps


def test_the_run_takes_the_steps_that_the_crash_loop_is_meant_for():
    steps = _steps()
    assert len(steps) >= 60
    assert steps.count("append") == EPOCHS + 3  # the trail: each epoch, the start, the handover, the verdict
    assert (
        steps.count("rename") == EPOCHS + 4
    )  # each epoch, the start, the handover, the reserve, the trail's beginning
    assert steps.count("write") == steps.count("sync") == steps.count("rename") + steps.count("append")
    assert steps.count("commit") == 2 * EPOCHS + 5  # planned and done; tables, start, handover, verdict, lease


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_c1_crash_at_every_step(mode, record_property):
    """In the soak at every step in every way; else every step in one of the three."""
    crashes = 0
    for number in range(1, 1000) if soak() else range(1 + MODES.index(mode), 1000, len(MODES)):
        with scratch() as base:
            folder = base / "store"
            death = _child(folder, number, mode).wait()
            if death.code == 0:
                break
            assert death.killed, death
            crashes += 1
            assert_sound(folder, death.acknowledged)
            if status(folder) != "met":
                assert stub_run.run(RunStore.open(folder), RUN, EPOCHS) == "met"
            else:  # died after the verdict
                assert death.acknowledged == list(range(1, EPOCHS + 1))
            assert_finished(folder, EPOCHS)
    share = len(_steps()) if soak() else len(_steps()[MODES.index(mode) :: len(MODES)])
    assert crashes == share
    record_property("crashes", crashes)


@pytest.mark.slow
def test_c1_crash_again_while_resuming(record_property):
    """The first life ends at step n, the second at step 1, 8, 15, ... of its own, the third finishes."""
    crashes = 0
    for number in range(1, len(_steps()), 1 if soak() else 13):
        for second in range(1 + number % 7, 100, 7 if soak() else 17):
            with scratch() as base:
                folder = base / "store"
                lives = [_child(folder, number, "after").wait()]
                if status(folder) == "met":
                    continue
                lives.append(_child(folder, second, "torn").wait())
                assert_sound(folder, [epoch for life in lives for epoch in life.acknowledged])
                crashes += sum(life.killed for life in lives)
                if status(folder) != "met":
                    stub_run.run(RunStore.open(folder), RUN, EPOCHS)
                assert_finished(folder, EPOCHS)
                if not lives[-1].killed:
                    break
    record_property("crashes", crashes)
    assert crashes > (50 if soak() else 10)


@pytest.mark.parametrize("act", ["rm", "gc"])
@pytest.mark.parametrize("mode", ["before", "after"])
def test_c1_crash_while_removing(act, mode):
    """Half a removal leaves a run whole or gone, and litter at most; the other run is never touched."""
    for number in range(1, 100):
        with scratch() as base:
            folder = base / "store"
            store = RunStore.open(folder)
            for name in (RUN, "another-run"):
                stub_run.run(store, name, EPOCHS)

            def work(say, folder=folder, number=number) -> int:
                with using(CrashAt(number, mode, wal_of(folder))):
                    RunStore.open(folder).rm(RUN) if act == "rm" else RunStore.open(folder).gc()
                return 0

            death = Child(work).wait()
            assert errors(check(folder)) == []
            assert {s.run for s in store.runs()} in ({RUN, "another-run"}, {"another-run"})
            store.gc()
            assert check(folder) == []
            assert store.latest_checkpoint("another-run").event.epoch == EPOCHS
            if death.code == 0:
                break
    assert number > 5


@pytest.mark.slow
def test_c2_random_sigkill(record_property):
    epochs, wanted = 12, 300 if soak() else 20
    chance = random.Random(2)
    kills = runs = repeated = 0
    while kills < wanted:
        with scratch() as base:
            folder = base / "store"
            lives = []
            while True:

                def work(say, folder=folder) -> int:
                    return 0 if stub_run.run(RunStore.open(folder), RUN, epochs, told=say) == "met" else 1

                child = Child(work)
                if len(lives) < 5 and child.hear(chance.randrange(6)):
                    select.select([], [], [], chance.random() * 0.004)  # the moment of death is meant to be random
                    child.kill()
                lives.append(child.wait())
                assert_sound(folder, [epoch for life in lives for epoch in life.acknowledged])
                if status(folder) == "met":
                    break
                assert lives[-1].killed, lives[-1]
            deaths = sum(life.killed for life in lives)
            begun = sum(what == "work" for life in lives for what, _ in life.said)
            assert begun - epochs <= deaths  # at most the running epoch is repeated
            assert_finished(folder, epochs)
            kills, runs, repeated = kills + deaths, runs + 1, repeated + begun - epochs
    record_property("kills", kills)
    record_property("repeated_epochs", repeated)
    print(f"C2: {kills} kills in {runs} runs, {repeated} epochs repeated, 0 acknowledged epochs lost")
