"""C4: the power goes. Whatever the log and the folders keep, the events are a prefix of the acknowledged ones."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
import stub_run
from store_faults import (
    RUN,
    Child,
    Counting,
    PowerCut,
    assert_finished,
    assert_sound,
    die,
    scratch,
    soak,
    status,
    wal_of,
)

from relaytrain.store import RunStore, check
from relaytrain.store.check import errors
from relaytrain.store.files import using

pytestmark = pytest.mark.slow
EPOCHS = 5
WAL_HEADER, FRAME = 32, 24 + 4096
INSIDE = (1, 8, 23, 24, 25, 1000, 2048, FRAME - 1)  # bytes of the last frame that reached the disk


class LogSizes(Counting):
    """How long the log was when each event had been acknowledged."""

    def __init__(self, wal: Path, say) -> None:
        super().__init__()
        self.wal, self.say = wal, say

    def act(self, number, name, do, arguments):
        result = do()
        if name == "commit":
            self.say("log", self.wal.stat().st_size)
        return result


@pytest.fixture(scope="module")
def dead_run():
    """A store whose writer died after its last epoch, all of it still in the log; the log's length at each commit."""
    with scratch() as base:
        folder = base / "store"

        def work(say) -> int:
            with using(LogSizes(wal_of(folder), say)):
                stub_run.run(RunStore.open(folder), RUN, EPOCHS + 1, told=lambda what, k: die() if k > EPOCHS else None)
            return 0

        death = Child(work).wait()
        assert death.killed
        sizes = [n for what, n in death.said if what == "log"][1:]  # the first one made the tables
        assert len(sizes) == 1 + 2 * EPOCHS + 1 + 1  # start, planned + done, handover, the last planned
        yield folder, sizes


def _copy(folder: Path, target: Path) -> None:
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("*-shm", "reserve"))


def _cut_trail(store: Path, synced: int) -> None:
    """A line of the trail is written when its event is synced: the cut took along those of later events."""
    path = store / "blobs" / RUN / "trail"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: 1 + synced]))


def _reopen_append_reopen(store: Path, before: list, at_least: int) -> None:
    """The events left are a prefix that holds all those synced; the run goes on from there, and is whole after."""
    left = RunStore.open(store).events(RUN)
    assert list(left) == before[: len(left)]
    assert len(left) >= at_least
    assert errors(check(store)) == []
    if not left:
        assert stub_run.run(RunStore.open(store), RUN, 1) == "met"
    else:
        with RunStore.open(store).resume_run(RUN) as writer:
            epoch = writer.progress.epoch + 1
            body = {"loss": 1.0, "energy_j": 1.0, "elapsed_s": 1.0, "blob": writer.put_blob(b"x" * 100)}
            added = (
                writer.append("planned", {"note": "after the cut"}, epoch),
                writer.append("epoch_done", body, epoch),
                writer.append("verdict", {"verdict": "met", **writer.progress.totals.to_dict()}),
            )
        assert RunStore.open(store).events(RUN) == left + added
    assert errors(check(store)) == []


def test_c4_log_cut_at_and_inside_every_frame(dead_run, record_property):
    folder, sizes = dead_run
    with scratch() as base:
        _copy(folder, base / "whole")
        before = list(RunStore.open(base / "whole").events(RUN))
        assert len(before) == len(sizes)
        log = wal_of(folder).read_bytes()
        frames = (len(log) - WAL_HEADER) // FRAME
        ends = [0, 1, 16, WAL_HEADER - 1, WAL_HEADER]
        for frame in range(frames):
            start = WAL_HEADER + frame * FRAME
            ends += [start + part for part in INSIDE] + [start + FRAME]
        for number, end in enumerate(ends):
            for garbage in (False, True):
                store = base / f"cut-{number}-{garbage}"
                _copy(folder, store)
                os.truncate(wal_of(store), end)
                if garbage:  # room was given to the log, old bytes are in it
                    with wal_of(store).open("ab") as file:
                        file.write(random.Random(number).randbytes(FRAME * 2 - end % FRAME))
                synced = sum(size <= end for size in sizes)
                _cut_trail(store, synced)
                _reopen_append_reopen(store, before, synced)
                shutil.rmtree(store)
    record_property("states", 2 * len(ends))
    print(f"C4: {2 * len(ends)} states of the log, 0 violations")
    assert 2 * len(ends) >= 300  # and about 200 states of the folders below


def test_c4_cut_while_the_log_moves_into_the_database(dead_run):
    """A half-done checkpoint leaves torn pages in the database; the log still has them all."""
    folder, _ = dead_run
    with scratch() as base:
        _copy(folder, base / "whole")
        before = list(RunStore.open(base / "whole").events(RUN))  # closing moved the log over
        moved = (base / "whole" / "runs.sqlite").read_bytes()
        old = (folder / "runs.sqlite").read_bytes()
        chance = random.Random(4)
        for end in range(0, len(moved) + 1, 2048):
            store = base / f"moved-{end}"
            _copy(folder, store)
            page = bytearray(moved[:end] + old[end:])
            if end > 8192:  # pages arrive in any order
                hole = chance.randrange(4096, end - 512, 512)
                page[hole : hole + 512] = bytes(512)
            (store / "runs.sqlite").write_bytes(page)
            _reopen_append_reopen(store, before, len(before))


@pytest.mark.parametrize("forget", ["all", "none", "some"])
def test_c4_unsynced_files_and_renames_are_lost(forget, record_property):
    cuts = 0
    for number in range(1, 1000, 1 if soak() else 5):
        with scratch() as base:
            folder = base / "store"

            def work(say, folder=folder, number=number) -> int:
                with using(PowerCut(number, forget, seed=number)):
                    stub_run.run(RunStore.open(folder), RUN, EPOCHS, told=say)
                return 0

            death = Child(work).wait()
            if death.code == 0:
                break
            cuts += 1
            assert_sound(folder, death.acknowledged)
            if status(folder) != "met":
                stub_run.run(RunStore.open(folder), RUN, EPOCHS)
            assert_finished(folder, EPOCHS)
    record_property("cuts", cuts)
    assert cuts >= (60 if soak() else 15)


@pytest.mark.parametrize("skipped", ["sync", "sync_dir"])
def test_the_model_of_a_power_cut_notices_a_missing_sync(skipped):
    """Were one fsync left out, the loop above would fail: this keeps the model honest."""

    class Lazy(PowerCut):
        def at_step(self, name, do, arguments):
            return None if name == skipped else super().at_step(name, do, arguments)

    for number in range(10, 60):
        with scratch() as base:
            folder = base / "store"

            def work(say, folder=folder, number=number) -> int:
                with using(Lazy(number, "all")):
                    stub_run.run(RunStore.open(folder), RUN, EPOCHS, told=say)
                return 0

            death = Child(work).wait()
            if death.killed and (folder / "runs.sqlite").exists() and errors(check(folder)):
                return
    pytest.fail(f"no cut was harmful without {skipped}: the model is blind")
