"""C7 and C8: damaged checkpoints are noticed and the one before is taken; a full disk ends a run in order."""

from __future__ import annotations

import errno
import os
import random
import resource
from pathlib import Path

import pytest
import stub_run
from store_faults import RUN, Child, Counting, FailFrom, assert_finished, assert_sound, litter, scratch, soak, status

from relaytrain.core.errors import NoSpace, StoreDamaged
from relaytrain.store import RunStore, check
from relaytrain.store.blobs import folder_of
from relaytrain.store.check import errors
from relaytrain.store.files import using

BIG = 1 << 16


@pytest.fixture
def three_epochs(tmp_path):
    """A run of three epochs with checkpoints of 64 kB; the paths of the checkpoints."""
    store = RunStore.open(tmp_path / "store")
    paths = []
    with store.create_run(RUN, {}) as writer:
        for epoch in (1, 2, 3):
            digest = writer.put_blob(random.Random(epoch).randbytes(BIG))
            writer.append("planned", {}, epoch)
            writer.append("epoch_done", {"loss": 1.0, "energy_j": 1, "elapsed_s": 1, "blob": digest}, epoch)
            paths.append(folder_of(store.folder, RUN) / digest)
    return store, paths


def _assert_previous_is_taken(store: RunStore, damaged: Path) -> None:
    checkpoint = store.latest_checkpoint(RUN)
    assert checkpoint is not None and checkpoint.event.epoch == 2
    assert checkpoint.data == random.Random(2).randbytes(BIG)
    assert len(checkpoint.skipped) == 1 and damaged.name in checkpoint.skipped[0]
    assert [f for f in errors(check(store.folder)) if damaged.name[:12] in f.where]


def test_c7_truncated_and_flipped(three_epochs, record_property):
    store, paths = three_epochs
    good = paths[2].read_bytes()
    cases = [good[:end] for end in range(0, BIG, 4096)] + [good[:-1], good + b"\0", good + good]
    chance = random.Random(7)
    for _ in range(500):
        flipped = bytearray(good)
        flipped[chance.randrange(BIG)] ^= 1 << chance.randrange(8)
        cases.append(bytes(flipped))
    for data in cases:
        paths[2].write_bytes(data)
        checkpoint = store.latest_checkpoint(RUN)
        assert checkpoint is not None and checkpoint.event.epoch == 2 and len(checkpoint.skipped) == 1
    _assert_previous_is_taken(store, paths[2])
    paths[2].write_bytes(good)
    assert store.latest_checkpoint(RUN).event.epoch == 3
    record_property("damaged", len(cases))


def test_c7_swapped_missing_or_no_file_at_all(three_epochs, tmp_path):
    store, paths = three_epochs
    good = paths[2].read_bytes()
    paths[2].write_bytes(paths[0].read_bytes())
    _assert_previous_is_taken(store, paths[2])
    paths[2].unlink()
    _assert_previous_is_taken(store, paths[2])
    (tmp_path / "elsewhere").write_bytes(good)
    paths[2].symlink_to(tmp_path / "elsewhere")  # never followed: a store may come from a stranger
    _assert_previous_is_taken(store, paths[2])
    paths[2].unlink()
    paths[2].mkdir()
    _assert_previous_is_taken(store, paths[2])


def test_c7_none_left_lists_what_was_tried(three_epochs):
    store, paths = three_epochs
    for path in paths:
        path.write_bytes(b"")
    with pytest.raises(StoreDamaged) as caught:
        store.latest_checkpoint(RUN)
    assert all(path.name in str(caught.value) for path in paths)


def test_c7_a_run_goes_on_from_the_previous_checkpoint():
    """The whole way: the last two of six are damaged, epochs 5 and 6 are booked as wasted and repeated bit for bit."""
    with scratch() as base:
        folder = base / "store"
        store = RunStore.open(folder)

        def work(say) -> int:
            stub_run.run(RunStore.open(folder), RUN, 9, told=lambda what, k: os._exit(5) if k > 6 else None)
            return 0

        assert Child(work).wait().code == 5
        for event in store.events(RUN):
            if event.kind == "epoch_done" and event.epoch in (5, 6):
                (folder_of(folder, RUN) / event.blob).write_bytes(b"rubbish")
        assert stub_run.run(store, RUN, 9) == "met"
        assert_finished(folder, 9)
        assert store.summary(RUN).totals.wasted_j == 2.0 * (5 + 6)


def _steps() -> int:
    with scratch() as base, using(Counting()) as counting:
        stub_run.run(RunStore.open(base / "store"), RUN, 5)
    return len(counting.steps)


@pytest.mark.slow
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT], ids=errno.errorcode.get)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from-then-on"])
def test_c8_every_step_refused(code, lasting, record_property):
    total, refusals = _steps(), 0
    apart = (1 if code == errno.ENOSPC else 3) * (1 if soak() else 6)  # the last step is always among them
    for number in range(total, 0, -apart):
        with scratch() as base:
            folder = base / "store"

            def work(say, folder=folder, number=number) -> int:
                with using(FailFrom(number, code, lasting=lasting)):
                    try:
                        stub_run.run(RunStore.open(folder), RUN, 5, told=say)
                    except NoSpace as error:
                        assert "cannot" in str(error) and "free some space" in str(error)
                        return error.exit_status
                return 0

            death = Child(work).wait()
            # the last six: a verdict refused once finds the reserve; a lease not given back ends with the process
            helped = number >= total - 5 or (not lasting and code in (errno.ENOSPC, errno.EDQUOT))  # by thinning
            assert death.code == 10 or (death.code == 0 and helped), death
            refusals += death.code == 10
            assert litter(folder) == []
            assert_sound(folder, death.acknowledged)
            if status(folder) != "met":
                stub_run.run(RunStore.open(folder), RUN, 5)
            assert_finished(folder, 5)
    record_property("refusals", refusals)


@pytest.mark.parametrize("limit", [4096, 100_000, (1 << 18) + 4096, 300_000, 500_000, 900_000])
def test_c8_real_limit_on_file_size(limit):
    """The kernel itself refuses: blobs are too large, or the database's log has grown to the limit."""
    with scratch() as base:
        folder = base / "store"

        def work(say) -> int:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            try:
                with RunStore.open(folder).create_run(RUN, {}, start=b"start") as writer:
                    for epoch in range(1, 100):
                        writer.append("planned", {"law": ["x" * 30_000]}, epoch)
                        body = {"loss": 1.0, "energy_j": 1, "elapsed_s": 1, "blob": writer.put_blob(bytes(epoch))}
                        writer.append("epoch_done", body, epoch)
                        say("done", epoch)
            except NoSpace as error:
                return error.exit_status
            return 0

        death = Child(work).wait()
        assert death.code == 10
        assert litter(folder) == []
        assert_sound(folder, death.acknowledged)
        if death.acknowledged:
            checkpoint = RunStore.open(folder).latest_checkpoint(RUN)
            assert checkpoint is not None and checkpoint.data == bytes(death.acknowledged[-1])
        assert (limit < 1 << 18) == (not death.acknowledged)  # the reserve itself must fit


def test_c8_a_full_disk_thins_checkpoints_first(tmp_path):
    """Ten checkpoints fit on this disk: a run of many epochs goes on, for those that no longer matter make room."""
    store = RunStore.open(tmp_path / "store")
    folder = folder_of(store.folder, RUN)

    class Small(Counting):
        def act(self, number, name, do, arguments):
            if name == "create" and sum(path.stat().st_size == BIG for path in folder.glob("*-*")) >= 10:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return do()

    with using(Small()), store.create_run(RUN, {}) as writer:
        for epoch in range(1, 31):
            writer.append("planned", {}, epoch)
            blob = writer.put_blob(random.Random(epoch).randbytes(BIG))
            writer.append("epoch_done", {"loss": 1 / epoch, "energy_j": 1, "elapsed_s": 1, "blob": blob}, epoch)
    assert store.latest_checkpoint(RUN).event.epoch == 30
    assert errors(check(store.folder)) == []


def test_c8_the_verdict_finds_room_in_the_reserve(tmp_path):
    store = RunStore.open(tmp_path / "store")
    writer = store.create_run(RUN, {})
    reserve = folder_of(store.folder, RUN) / "reserve"

    class Full(Counting):
        def act(self, number, name, do, arguments):
            if name != "remove" and reserve.exists():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return do()

    assert reserve.stat().st_size >= 1 << 18
    with using(Full()), writer:
        with pytest.raises(NoSpace):
            writer.append("planned", {}, 1)
        with pytest.raises(NoSpace):
            writer.put_blob(b"checkpoint")
        writer.append("verdict", {"verdict": "failed", "reason": "no space"})
    assert store.summary(RUN).status == "failed"
    assert [e.kind for e in store.events(RUN)] == ["run_started", "verdict"]
    with store.resume_run(RUN) as writer:  # room was made
        writer.append("planned", {}, 1)
    assert store.summary(RUN).status == "interrupted"
    assert errors(check(store.folder)) == []
