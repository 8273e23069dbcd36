"""The store from outside: write a run, read it back, list it, stop it, remove it."""

from __future__ import annotations

import _thread
import errno
import functools
import math
import os
import signal
import sqlite3
import stat
import threading
from contextlib import closing

import numpy as np
import pytest

from relaytrain.core.errors import NoSpace, RelayTrainError, ScenarioError, StoreDamaged, UsageError
from relaytrain.store import RunStore, check, database, lease, new_run_id, salvage, store_path
from relaytrain.store.files import FileOps, using

RUN = "test-run-1"


def epoch(writer, number, *, loss=1.0, energy_j=2.0, elapsed_s=3.0, data=None, **more):
    """One epoch as the orchestrator writes it."""
    writer.append("planned", {"decision": {"epoch": number}}, number)
    body = {"decision": {"epoch": number}, "loss": loss, "energy_j": energy_j, "elapsed_s": elapsed_s, **more}
    if data is not None:
        body["blob"] = writer.put_blob(data)
    return writer.append("epoch_done", body, number)


def verdict(writer, word="met"):
    return writer.append("verdict", {"verdict": word, **writer.progress.totals.to_dict()})


@pytest.fixture
def store(tmp_path):
    return RunStore.open(tmp_path / "store")


def test_what_was_appended_comes_back(store):
    with store.create_run(RUN, {"name": "quickstart", "text": "ünï\u202e</script>"}, start=b"zero") as writer:
        written = [epoch(writer, 1, data=b"one"), epoch(writer, 2, data=b"two"), verdict(writer)]
    events = store.events(RUN)
    assert [(e.seq, e.kind, e.epoch) for e in events] == [
        (1, "run_started", 0),
        (2, "planned", 1),
        (3, "epoch_done", 1),
        (4, "planned", 2),
        (5, "epoch_done", 2),
        (6, "verdict", None),
    ]
    assert [events[2], events[4], events[5]] == written
    assert events[0].body["text"] == "ünï\u202e</script>"
    assert store.get_blob(RUN, events[0].blob) == b"zero"
    assert store.get_blob(RUN, events[4].blob) == b"two"
    assert store.events(RUN, after=4) == events[4:]
    assert store.events(RUN, kinds=["planned"]) == (events[1], events[3])
    assert check(store.folder) == []


def test_numbers_are_plain_finite_json(store):
    with store.create_run(RUN, {"cost": [1.0, math.inf], "a": np.float32(0.5), "b": np.arange(3)}) as writer:
        assert store.events(RUN)[0].body == {"cost": [1.0, None], "a": 0.5, "b": [0, 1, 2]}
        for bad in (math.nan, -math.inf, np.float64("nan"), [1, {"x": math.nan}], np.array([1.0, np.nan])):
            with pytest.raises(RelayTrainError, match=r"event body\.law.* is "):
                writer.append("planned", {"law": bad}, 1)
        for bad in (object(), b"bytes", {1: 2}, {1, 2}):
            with pytest.raises(RelayTrainError, match=r"event body\.law"):
                writer.append("planned", {"law": bad}, 1)
        with pytest.raises(RelayTrainError, match="schema"):
            writer.append("planned", {"schema": 1}, 1)
        writer.append("planned", {}, 1)
        for key, bad in (("loss", math.inf), ("loss", None), ("energy_j", -1.0), ("elapsed_s", True), ("wasted_j", -1)):
            body = {"loss": 1.0, "energy_j": 1.0, "elapsed_s": 1.0, key: bad}
            with pytest.raises(RelayTrainError, match=key):
                writer.append("epoch_done", body, 1)
    assert [e.kind for e in store.events(RUN)] == ["run_started", "planned"]


def test_a_missing_store_is_empty_and_not_made_by_reading(store):
    assert store.runs() == ()
    assert store.events(RUN) == ()
    assert store.gc().files == 0
    for ask in (store.summary, store.request_stop, store.rm, store.resume_run):
        with pytest.raises(UsageError, match=r"no run test-run-1|no RelayTrain store"):
            ask(RUN)
    assert not store.folder.exists()
    with pytest.raises(UsageError, match="no RelayTrain store"):
        check(store.folder)


def test_the_folder_and_its_files_are_private(store):
    old = os.umask(0o002)
    try:
        with store.create_run(RUN, {}, start=b"start") as writer:
            epoch(writer, 1)
            lease.beat(store.folder, RUN, 1)
            made = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.folder.rglob("*") if path.is_file()}
    finally:
        os.umask(old)
    assert set(made) >= {"runs.sqlite", "runs.sqlite-wal", "runs.sqlite-shm", "trail", "beat", "reserve"}
    assert set(made.values()) == {0o600}, made
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    os.chmod(store.folder / "runs.sqlite", 0o644)  # as format 1 made it
    store.resume_run(RUN).close()
    assert stat.S_IMODE((store.folder / "runs.sqlite").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "name", ["", "short", "Upper-case", "a" * 41, "../../../etc", "abc/defgh", "abc.defgh", "abcdefgh\n"]
)
def test_run_names(store, name):
    for ask in (store.events, store.summary, store.rm, store.resume_run, lambda n: store.create_run(n, {})):
        with pytest.raises(UsageError, match="8 to 40"):
            ask(name)
    with pytest.raises(UsageError, match="8 to 40"):
        store.get_blob(name, "0" * 64 + "-1")


@pytest.mark.parametrize(
    "digest", ["", "../../runs.sqlite", "0" * 64, "/etc/passwd", "0" * 64 + "-1/../x", "Z" * 64 + "-1"]
)
def test_checkpoint_names_cannot_leave_the_folder(store, digest):
    store.create_run(RUN, {}).close()
    with pytest.raises(StoreDamaged, match="not the name of a checkpoint"):
        store.get_blob(RUN, digest)


def test_new_run_ids_are_run_names(store):
    names = {new_run_id(name) for name in ("quickstart", "Ünï / x" * 20, "", "---", "a" * 100) for _ in range(3)}
    assert len(names) == 15
    for name in names:
        assert store.events(name) == ()


def test_where_the_store_is(monkeypatch, tmp_path):
    monkeypatch.delenv("RELAYTRAIN_STORE", raising=False)
    assert str(store_path()) == "relaytrain-runs"
    monkeypatch.setenv("RELAYTRAIN_STORE", str(tmp_path))
    assert store_path() == tmp_path
    assert str(store_path("other")) == "other"


def test_summaries(store):
    with store.create_run("test-run-a", {"name": "first"}) as first:
        epoch(first, 1, loss=0.5, energy_j=2.0, elapsed_s=3.0)
        epoch(first, 2, loss=0.75, energy_j=4.0, elapsed_s=1.0, wasted_j=0.5, wasted_s=0.25)
        now = store.summary("test-run-a")
        assert (now.status, now.epoch, now.loss, now.best_loss) == ("running", 2, 0.75, 0.5)
        assert now.totals.to_dict() == {
            "useful_j": 6.0, "wasted_j": 0.5, "energy_j": 6.5, "useful_s": 4.0, "wasted_s": 0.25, "elapsed_s": 4.25,
        }  # fmt: skip
        verdict(first, "missed")
    store.create_run("test-run-b", {}).close()
    b, a = store.runs()
    assert (a.run, a.status, a.started) == ("test-run-a", "missed", {"name": "first"})
    assert (b.run, b.status, b.epoch, b.loss, b.best_loss) == ("test-run-b", "interrupted", 0, None, None)


def test_roll_back_moves_energy_to_wasted(store):
    with store.create_run(RUN, {}) as writer:
        for number in (1, 2, 3):
            epoch(writer, number, energy_j=10.0 * number, elapsed_s=1.0, data=bytes([number]))
        writer.append("planned", {}, 4)
        writer.append("node_failed", {"node": "a", "wasted_j": 0.5}, 4)
        writer.append("rolled_back", {"reason": "non-finite", "wasted_j": 7.0, "wasted_s": 2.0}, 1)
        assert writer.progress.epoch == 1
        assert writer.planned is None
        assert writer.progress.totals.useful_j == 10.0
        assert writer.progress.totals.wasted_j == 57.5
        assert writer.progress.totals.wasted_s == 4.0
        assert store.latest_checkpoint(RUN).data == b"\x01"
        epoch(writer, 2, energy_j=1.0, data=b"again")
        verdict(writer)
    assert check(store.folder) == []
    assert store.latest_checkpoint(RUN).data == b"again"


def test_latest_checkpoint_none_then_start_then_handover(store):
    with store.create_run(RUN, {}) as writer:
        assert store.latest_checkpoint(RUN) is None
        epoch(writer, 1, data=b"one")
        writer.append("planned", {}, 2)
        writer.append("handover", {"blob": writer.put_blob(b"pruned")}, 2)
        checkpoint = store.latest_checkpoint(RUN)
        assert (checkpoint.event.kind, checkpoint.event.epoch, checkpoint.data) == ("handover", 2, b"pruned")
        writer.append("rolled_back", {}, 1)  # the handover is undone with its epoch
        assert store.latest_checkpoint(RUN).data == b"one"


def test_a_stopped_run_goes_on_and_a_finished_one_does_not(store):
    with store.create_run(RUN, {}) as writer:
        epoch(writer, 1)
        verdict(writer, "stopped")
        with pytest.raises(RelayTrainError, match="after the verdict 'stopped'"):
            writer.append("planned", {}, 2)
    assert store.summary(RUN).status == "stopped"
    with store.resume_run(RUN) as writer:
        assert store.summary(RUN).status == "stopped"  # until it does something
        epoch(writer, 2)
        assert store.summary(RUN).status == "running"
        verdict(writer, "met")
    with pytest.raises(UsageError, match="has ended"):
        store.resume_run(RUN)
    with pytest.raises(UsageError, match="exists already"):
        store.create_run(RUN, {})
    assert check(store.folder) == []


def test_the_open_decision_is_kept_on_resume(store):
    with store.create_run(RUN, {}) as writer:
        epoch(writer, 1)
        assert writer.planned is None
        writer.append("planned", {"decision": "L on gold"}, 2)
    with store.resume_run(RUN) as writer:
        assert writer.progress.epoch == 1
        assert writer.planned == {"decision": "L on gold"}


def test_gc_keeps_what_matters(store):
    losses = [5.0, 1.0, 4.0, 3.0, 2.0, 2.5]
    with store.create_run(RUN, {}, start=b"start") as writer:
        for number, loss in enumerate(losses, 1):
            if number == 3:
                writer.append("planned", {}, 3)
                writer.append("handover", {"blob": writer.put_blob(b"handed over")}, 3)
            epoch(writer, number, loss=loss, data=f"epoch {number}".encode())
        litter = store.folder / "blobs" / RUN / ".tmp-1-1"
        litter.write_bytes(b"half")
        assert store.gc().skipped_runs == (RUN,)
        assert litter.exists()
        removed = writer.thin()
        assert removed.files == 4  # epochs 1, 3, 4 and the litter
    orphan = store.folder / "blobs" / "gone-run-1"
    orphan.mkdir()
    (orphan / "x").write_bytes(b"123")
    again = store.gc()
    assert (again.files, again.size_bytes, again.skipped_runs) == (1, 3, ())
    assert not orphan.exists()

    def left(kind):
        texts = []
        for event in store.events(RUN, kinds=[kind]):
            try:
                texts.append(store.get_blob(RUN, event.blob).decode())
            except StoreDamaged:
                texts.append("")
        return texts

    assert left("run_started") == ["start"]
    assert left("handover") == ["handed over"]
    assert left("epoch_done") == ["", "epoch 2", "", "", "epoch 5", "epoch 6"]
    assert check(store.folder) == []


def test_gc_leaves_a_run_alone_whose_newest_checkpoints_are_damaged(store):
    with store.create_run(RUN, {}) as writer:
        done = [epoch(writer, number, data=bytes(number)) for number in range(1, 7)]
    for event in done[-2:]:
        (store.folder / "blobs" / RUN / event.blob).write_bytes(b"rubbish")
    assert store.gc().skipped_runs == (RUN,)
    assert store.latest_checkpoint(RUN).event.epoch == 4


def test_rm_takes_one_run_and_fences_its_writer(store):
    for run in ("test-run-a", "test-run-b"):
        with store.create_run(run, {}, start=b"the same bytes"):
            pass
    with store.resume_run("test-run-a"), pytest.raises(UsageError, match="is being written by"):
        store.rm("test-run-a")
    store.rm("test-run-a")
    assert [s.run for s in store.runs()] == ["test-run-b"]
    assert os.listdir(store.folder / "blobs") == ["test-run-b"]
    assert store.latest_checkpoint("test-run-b").data == b"the same bytes"
    with store.create_run("test-run-a", {}) as writer:  # the name is free again
        epoch(writer, 1)
    assert check(store.folder) == []


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (3, r"store format 3, this RelayTrain reads formats 1 to 2; a newer RelayTrain wrote it: upgrade"),
        (0, r"store format 0 is older than 1.*with an earlier RelayTrain, which brings it up"),
    ],
)
def test_another_format_is_refused_politely(store, monkeypatch, version, words):
    with monkeypatch.context() as patch:  # as the RelayTrain of that format writes it
        patch.setattr("relaytrain.store.trail.STORE_FORMAT", version)
        patch.setattr("relaytrain.store.database.FORMAT", version)
        patch.setattr("relaytrain.store.database.OLDEST_FORMAT", version)
        store.create_run(RUN, {}).close()
    for ask in (lambda: RunStore.open(store.folder), store.runs, lambda: store.create_run("test-run-2", {})):
        with pytest.raises(ScenarioError, match=words):
            ask()
    with pytest.raises(ScenarioError, match=words):
        salvage(store.folder)


def test_an_event_of_a_newer_schema_is_refused_politely(store, monkeypatch):
    monkeypatch.setattr("relaytrain.store.events.SCHEMA", "relaytrain.event/2")
    store.create_run(RUN, {}).close()
    monkeypatch.undo()
    with pytest.raises(ScenarioError, match=r"relaytrain\.event/2, this RelayTrain reads relaytrain\.event/1; upgrade"):
        store.events(RUN)


@pytest.mark.parametrize(
    "content", [b"", b"not a database, but long enough to look at" * 100, b"SQLite format 3\0rubbish" * 99]
)
def test_a_file_that_is_no_store(tmp_path, content):
    (tmp_path / "runs.sqlite").write_bytes(content)
    if not content:  # a creation that was interrupted: finished by whoever comes next
        assert RunStore.open(tmp_path).runs() == ()
        return
    with pytest.raises(StoreDamaged, match=r"runs\.sqlite"):
        RunStore.open(tmp_path)
    assert [f.level for f in check(tmp_path)] == ["error"]


def test_a_sqlite_file_with_other_tables(tmp_path):
    db = sqlite3.connect(tmp_path / "runs.sqlite")
    db.execute("CREATE TABLE format (version INTEGER)")
    db.execute("INSERT INTO format VALUES (1)")
    db.commit()
    db.close()
    with pytest.raises(StoreDamaged, match="no such table"):
        RunStore.open(tmp_path).runs()


def test_a_commit_that_reports_failure_may_have_arrived(store):
    """The disk took the event and failed to say so: the next append sees it, and the numbers stay whole."""

    class Doubtful(FileOps):
        def commit(self, connection):
            super().commit(connection)
            raise OSError(errno.EIO, "Input/output error")

    with store.create_run(RUN, {}) as writer:
        with using(Doubtful()), pytest.raises(NoSpace):
            writer.append("planned", {"decision": "a"}, 1)
        assert writer.progress.epoch == 0
        done = writer.append("epoch_done", {"decision": "a", "loss": 1, "energy_j": 1, "elapsed_s": 1}, 1)
        assert done.seq == 3
    assert [e.kind for e in store.events(RUN)] == ["run_started", "planned", "epoch_done"]
    assert check(store.folder) == []


def test_resume_of_an_unknown_run(store):
    store.create_run("another-run", {}).close()
    with pytest.raises(UsageError, match="no run test-run-1 in"):
        store.resume_run(RUN)


def test_a_writer_that_waits_too_long_for_the_lock_says_so(store, monkeypatch):
    monkeypatch.setattr("relaytrain.store.database.BUSY_TIMEOUT_S", 0.01)
    with store.create_run(RUN, {}) as writer:
        other = sqlite3.connect(store.folder / "runs.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UsageError, match=r"another process held it for 0.01 s; try again"):
            writer.append("planned", {}, 1)
        other.close()
        writer.append("planned", {}, 1)


def test_ctrl_c_right_behind_the_lock_does_not_keep_it(store):
    """It arrives while SQLite begins the transaction, and Python hears it when that is done."""
    store.create_run(RUN, {}).close()
    ctrl_c = map(_thread.interrupt_main, [signal.SIGINT])
    with closing(database.connect(store.folder)) as connection:
        connection.set_progress_handler(functools.partial(next, ctrl_c, None), 1)  # once, and not a step of Python
        with pytest.raises(KeyboardInterrupt), database.transaction(connection, store.folder):
            pytest.fail("it was not heard")
        with closing(sqlite3.connect(store.folder / "runs.sqlite", timeout=0.0)) as other:
            other.execute("BEGIN IMMEDIATE")


def test_many_threads_may_read(store):
    with store.create_run(RUN, {}) as writer:
        for number in range(1, 20):
            epoch(writer, number)
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(len(store.events(RUN)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [39] * 8


def test_an_unwritable_place_is_said_plainly(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="cannot make folder"):
        RunStore.open(tmp_path / "file" / "store").create_run(RUN, {})
