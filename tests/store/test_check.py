"""The checker finds every broken promise: each one is broken here on purpose, past the writer that would refuse it."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing

import pytest

from relaytrain.core.errors import RelayTrainError
from relaytrain.store import Event, RunStore, check, events
from relaytrain.store.check import errors

RUN = "test-run-1"
DONE = {"loss": 1.0, "energy_j": 1.0, "elapsed_s": 1.0}
GOOD = [
    ("run_started", 0, {}, 1),
    ("planned", 1, {"decision": "a"}, 1),
    ("epoch_done", 1, {**DONE, "decision": "a"}, 1),
    ("planned", 2, {}, 1),
    ("epoch_done", 2, {**DONE, "wasted_j": 0.5}, 1),
    ("rolled_back", 1, {}, 1),
    ("verdict", None, {"verdict": "stopped", "useful_j": 1.0, "wasted_j": 1.5, "energy_j": 2.5}, 1),
]
PLAN, DONE_1, PLAN_2 = GOOD[1:4]


@pytest.fixture
def folder(tmp_path):
    RunStore.open(tmp_path / "store").create_run("another-run", {}).close()
    return tmp_path / "store"


def write(folder, rows, *, seqs=None):
    """Put rows into the database behind the writer's back."""
    with closing(sqlite3.connect(folder / "runs.sqlite")) as db:
        for number, (kind, epoch, body, fence) in enumerate(rows, 1):
            seq = seqs[number - 1] if seqs else number
            text = body if isinstance(body, str) else json.dumps({"schema": events.SCHEMA, **body})
            events.insert(db, Event(RUN, seq, kind, epoch, {}, fence, 0.0, 0.0), text)
        db.commit()


def test_a_good_run_is_good(folder):
    write(folder, GOOD)
    assert check(folder) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (GOOD[1:], "run_started comes first"),
        ([GOOD[0], GOOD[0]], "run_started comes first"),
        ([("run_started", 3, {}, 1)], "expected none"),
        ([GOOD[0], DONE_1], "without its decision"),
        ([GOOD[0], ("handover", 1, {}, 1)], "without its decision"),
        ([GOOD[0], ("node_failed", 1, {}, 1)], "without its decision"),
        ([GOOD[0], PLAN_2], "expected epoch 1"),
        ([GOOD[0], PLAN, DONE_1, DONE_1], "expected epoch 2"),
        ([GOOD[0], PLAN, DONE_1, ("epoch_done", 2, DONE, 1)], "without its decision"),
        ([GOOD[0], PLAN, ("epoch_done", 1, {**DONE, "decision": "b"}, 1)], "not the one that was planned"),
        ([GOOD[0], PLAN, ("epoch_done", 1, {"loss": 1.0}, 1)], "energy_j is None"),
        ([GOOD[0], PLAN, ("epoch_done", 1, {**DONE, "loss": None}, 1)], "loss is None"),
        ([GOOD[0], PLAN, ("epoch_done", 1, {**DONE, "elapsed_s": -1}, 1)], "elapsed_s is -1"),
        ([GOOD[0], PLAN, ("node_failed", 1, {"wasted_s": "x"}, 1)], "wasted_s is 'x'"),
        ([GOOD[0], ("rolled_back", 1, {}, 1)], "expected 0 to 0"),
        ([GOOD[0], ("rolled_back", -1, {}, 1)], "expected 0 to 0"),
        ([GOOD[0], ("verdict", None, {"verdict": "great"}, 1)], "verdict is 'great'"),
        ([*GOOD[:6], ("verdict", None, {"verdict": "met", "useful_j": 2.0}, 1)], "useful_j is 2.0, but .* 1.0"),
        ([*GOOD[:6], ("verdict", None, {"verdict": "met", "energy_j": 1.0}, 1)], "energy_j is 1.0, but .* 2.5"),
        ([GOOD[0], ("verdict", None, {"verdict": "met"}, 1), ("planned", 1, {}, 2)], "after the verdict 'met'"),
        ([GOOD[0], ("verdict", None, {"verdict": "failed"}, 1), ("planned", 1, {}, 1)], "after the verdict 'failed'"),
        ([("run_started", 0, {}, 2), ("planned", 1, {}, 1)], "fencing number 1 after 2"),
        ([GOOD[0], ("party", 1, {}, 1)], "kind 'party'"),
        ([("run_started", 0, '{"schema": "relaytrain.event/1", "x": NaN}', 1)], "the number NaN"),
        ([("run_started", 0, '{"schema": "relaytrain.event/1", "x": -Infinity}', 1)], "the number -Infinity"),
        ([("run_started", 0, "[1]", 1)], "schema None"),
        ([("run_started", 0, '{"schema": "other/1"}', 1)], "schema 'other/1'"),
        ([("run_started", 0, "{", 1)], "not JSON"),
        ([("run_started", 0, "[" * 100_000, 1)], "not JSON"),
        ([("run_started", 0, '{"schema": "relaytrain.event/7"}', 1)], "upgrade"),
    ],
)
def test_each_broken_rule_is_found(folder, rows, message):
    write(folder, rows)
    broken = errors(check(folder))
    assert broken
    assert any(re.search(message, f.what) for f in broken), [str(f) for f in broken]
    assert all(RUN in f.where for f in broken)


def test_the_writer_refuses_what_the_checker_finds(tmp_path):
    store = RunStore.open(tmp_path / "store")
    with store.create_run(RUN, {}) as writer:
        for kind, epoch, body in [
            ("epoch_done", 1, DONE),
            ("planned", 2, {}),
            ("planned", None, {}),
            ("run_started", 0, {}),
            ("rolled_back", 1, {}),
            ("verdict", None, {"verdict": "met", "energy_j": 1.0}),
        ]:
            with pytest.raises(RelayTrainError, match=RUN):
                writer.append(kind, body, epoch)
    assert len(store.events(RUN)) == 1
    assert check(store.folder) == []


def test_a_gap_is_found(folder):
    write(folder, GOOD[:3], seqs=[1, 2, 4])
    assert [f.what for f in errors(check(folder))] == [
        "1 of 4 events cannot be found in the database",
        "expected event 3: the sequence has a gap",
    ]


@pytest.mark.parametrize(
    "change", ["body = replace(body, '1.0', '1.5')", "epoch = 9", "kind = 'handover'", "fence = 7", "body = x'00'"]
)
def test_rot_in_a_row_is_found(folder, change):
    write(folder, GOOD)
    with closing(sqlite3.connect(folder / "runs.sqlite")) as db:
        db.execute(f"UPDATE event SET {change} WHERE run = ? AND seq = 3", (RUN,))
        db.commit()
    assert [f.what for f in errors(check(folder))] == [
        f"run {RUN}, event 3: the row is not the one that was written (CRC differs)"
    ]


def test_rot_in_the_database_is_found(folder):
    write(folder, GOOD)
    path = folder / "runs.sqlite"
    data = bytearray(path.read_bytes())
    for page in range(1, len(data) // 4096):
        data[page * 4096 : page * 4096 + 8] = b"\xff" * 8
    path.write_bytes(data)
    assert errors(check(folder))


def test_checkpoints_are_checked_and_litter_is_noted(tmp_path):
    store = RunStore.open(tmp_path / "store")
    with store.create_run(RUN, {}) as writer:
        for epoch in (1, 2, 3):
            writer.append("planned", {}, epoch)
            writer.append("epoch_done", {**DONE, "loss": epoch, "blob": writer.put_blob(bytes(epoch))}, epoch)
        unnamed = writer.put_blob(b"crashed before the event")
    folder = store.folder / "blobs" / RUN
    (folder / ".tmp-1-1").write_bytes(b"half")
    (store.folder / "blobs" / "gone-run-1").mkdir()
    notes = check(store.folder)
    assert errors(notes) == []
    assert sorted(n.what for n in notes) == ["belongs to no run", "named by no event", "unfinished file"]
    assert any(unnamed in n.where for n in notes)
    assert str(notes[0]).startswith("note: ")
    store.gc()
    assert check(store.folder) == []
    last = store.events(RUN)[-1].blob
    (folder / last).write_bytes(b"\1\2\3")
    assert ["SHA-256" in f.what for f in errors(check(store.folder))] == [True]
    (folder / last).unlink()
    assert ["missing" in f.what for f in errors(check(store.folder))] == [True]
