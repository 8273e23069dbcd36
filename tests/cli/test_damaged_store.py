"""A store that is damaged, or comes from a stranger: one sentence and exit 9, nothing lost without a word, nothing
outside of it touched."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
from sample_run import Sample, open_store, write_run

from relaytrain.core.errors import StoreDamaged
from relaytrain.store import RunStore, check
from relaytrain.store.check import errors

GOOD, BAD = "quick-good-1", "quick-open-2"
EPOCHS = 6
SOAK = os.environ.get("RELAYTRAIN_TIER") == "soak"
TRAINS = () if find_spec("torch") is None else (("export", BAD, "out"), ("resume", BAD))
SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written") / "runs"
    store = open_store(folder)
    write_run(store, GOOD)
    write_run(store, BAD, Sample(stop_after=EPOCHS))
    return folder


@pytest.fixture
def runs(written, tmp_path, monkeypatch):
    """A whole run and one that is interrupted, which is going to be damaged."""
    folder = tmp_path / "runs"
    shutil.copytree(written, folder)
    monkeypatch.setenv("RELAYTRAIN_STORE", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def sql(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "runs.sqlite")) as db:
        db.execute("PRAGMA ignore_check_constraints = 1")
        db.execute(statement.replace("BAD", f"run = '{BAD}'"))
        db.commit()


ROWS = {
    "a changed plan": "UPDATE event SET body = replace(body, 'expected', 'expectes') WHERE BAD AND seq = 2",
    "no UTF-8": "UPDATE event SET body = CAST(x'7bff7d' AS TEXT) WHERE BAD AND seq = 3",
    "a blob as body": "UPDATE event SET body = x'00' WHERE BAD AND seq = 3",
    "no number as number": "UPDATE event SET seq = 'x' WHERE BAD AND seq = 3",
    "a text as epoch": "UPDATE event SET epoch = 'x' WHERE BAD AND seq = 2",
    "a text as time": "UPDATE event SET wall_s = 'x' WHERE BAD AND seq = 2",
    "another time": "UPDATE event SET wall_s = 5 WHERE BAD AND seq = 3",
    "a text as fence": "UPDATE event SET fence = 'x' WHERE BAD AND seq = 4",
    "a huge fence": "UPDATE event SET fence = 99 WHERE BAD AND seq = 3",
    "a name that is none": "UPDATE event SET run = CAST(x'ff1b5b' AS TEXT) WHERE BAD AND seq = 3",
    "no name at all": "UPDATE event SET run = x'00' WHERE BAD AND seq = 3",
    "the start is gone": "DELETE FROM event WHERE BAD AND seq = 1",
    "a row is gone": "DELETE FROM event WHERE BAD AND seq = 3",
    "the end is gone": "DELETE FROM event WHERE BAD AND seq > 5",
    "all is gone": "DELETE FROM event WHERE BAD",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SLOW if number % 4 else ()) for number, name in enumerate(ROWS)]
)
def test_one_bad_row_costs_that_run_until_it_is_repaired(relaytrain, runs, name):
    before = RunStore.open(runs).events(BAD)
    statement = ROWS[name]
    sql(runs, statement)
    every = SOAK or statement == ROWS["a changed plan"]  # else only what differs between them
    for verb in (("show", BAD), *((("report", BAD), *TRAINS) if every else ())):
        call = relaytrain(*verb)
        assert call.status == 9 and BAD in call.err and "relaytrain store repair" in call.err, call
    listed = relaytrain("ls")
    assert GOOD in listed.out and relaytrain("show", GOOD).status == 0
    checked = relaytrain("store", "check")
    assert checked.status == 9 and "1 promises broken" not in checked.err
    if "body = replace" not in statement and "epoch =" not in statement:  # it shows nothing of plans
        assert listed.status == 9 and "error: run quick-open-2" in listed.err and "damaged" in listed.out, listed
    if every:
        assert relaytrain("store", "gc").status == 0
        dry = relaytrain("store", "repair", "--dry-run")
        assert f"{BAD}: {EPOCHS} of {EPOCHS} epochs" in dry.out and not (runs / "damaged-1").exists()
    repaired = relaytrain("store", "repair")
    assert repaired.status == 0 and "put together" in repaired.out, repaired
    assert (runs / "damaged-1" / "runs.sqlite").exists()
    assert RunStore.open(runs).events(BAD) == before
    assert relaytrain("store", "check").status == relaytrain("show", BAD).status == 0
    assert not every or "nothing to repair" in relaytrain("store", "repair").out
    RunStore.open(runs).resume_run(BAD).close()


def test_what_is_lost_from_both_records_is_named(relaytrain, runs):
    """Without its trail, as a run of format 1: a lost decision has a stand-in, behind a lost epoch the run is cut."""
    for trail in runs.glob("blobs/*/trail"):
        trail.unlink()
    with closing(sqlite3.connect(runs / "runs.sqlite")) as db:
        done = dict(db.execute(f"SELECT epoch, seq FROM event WHERE run = '{BAD}' AND kind = 'epoch_done'").fetchall())
        planned = dict(db.execute(f"SELECT epoch, seq FROM event WHERE run = '{BAD}' AND kind = 'planned'").fetchall())
    sql(runs, f"DELETE FROM event WHERE BAD AND seq IN ({planned[2]}, {done[5]})")
    assert relaytrain("show", BAD).status == 9
    call = relaytrain("store", "repair", "--format", "json")
    told = json.loads(call.out)
    assert call.status == 9 and told["schema"] == "relaytrain.store-repair/1"
    row = next(row for row in told["runs"] if row["run"] == BAD)
    assert (row["epoch"], row["acknowledged"], row["lost_epochs"], row["stand_ins"]) == (4, 6, [5, 6], 1)
    assert next(row for row in told["runs"] if row["run"] == GOOD)["lost"] == 0
    assert errors(check(runs)) == []
    assert "5-6" not in relaytrain("show", BAD).out
    with RunStore.open(runs).resume_run(BAD) as writer:
        assert writer.progress.epoch == 4


@pytest.mark.parametrize("remove", ["runs.sqlite", "runs.sqlite-wal"])
def test_a_file_of_the_database_is_gone(relaytrain, runs, remove):
    store = RunStore.open(runs)
    writer = store.resume_run(BAD)  # all it adds stays in the log
    writer.append("verdict", {"verdict": "stopped", **writer.progress.totals.to_dict()})
    shutil.copytree(runs, "copy")
    writer.close()
    copy = Path("copy")
    (copy / remove).unlink()
    for verb in (("ls",), ("show", BAD), *TRAINS):
        call = relaytrain(*verb, "--store", copy)
        assert call.status == 9 and "relaytrain store repair" in call.err, call
    assert relaytrain("store", "check", copy).status == 9
    assert relaytrain("doctor", "--store", copy).status != 0
    repaired = relaytrain("store", "repair", copy, "--force")
    assert repaired.status == 0 and "from the trail" in repaired.out
    assert RunStore.open(copy).summary(BAD).status == "stopped"
    assert len(RunStore.open(copy).runs()) == 2


def test_a_repair_waits_for_a_writer(relaytrain, runs):
    with RunStore.open(runs).resume_run(BAD):
        call = relaytrain("store", "repair")
    assert call.status == 2 and "being written" in call.err


def test_control_characters_from_a_store_are_spelt_out(relaytrain, tmp_path):
    nasty = "\x1b]0;owned\x07\x1b[2J \u202egnp.exe\u2066 \x9b31m \r ok"
    store = open_store(tmp_path / "runs")
    write_run(store, GOOD, Sample(name=nasty, notes=(nasty,)))
    for verb in (("show", GOOD), ("ls",), ("audit",), ("store", "check")):
        call = relaytrain(*verb, *(() if verb[0] in ("audit", "store") else ("--store",)), tmp_path / "runs")
        said = call.out + call.err
        assert not set(said) & set("\x1b\x07\x9b\r\u202e\u2066"), (verb, said)
    assert "\\x1b]0;owned\\x07" in relaytrain("show", GOOD, "--store", tmp_path / "runs").out


@pytest.fixture
def in_time():
    """Whatever waits for the other end of a pipe is stopped."""

    def hung(number, frame):
        raise AssertionError("hangs")

    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _fifo(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def _link(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "runs.sqlite" if path.name.startswith("runs.sqlite") else outside / "file")


def _link_to_zero(path: Path, outside: Path) -> None:
    path.symlink_to("/dev/zero")


def _folder(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


PLACES = {
    "database": "runs.sqlite",
    "log": "runs.sqlite-wal",
    "trail": f"blobs/{BAD}/trail",
    "beat": f"blobs/{BAD}/beat",
    "reserve": f"blobs/{BAD}/reserve",
    "checkpoint": f"blobs/{BAD}/*-*",
    "run": f"blobs/{BAD}",
    "blobs": "blobs",
    "unfinished": f"blobs/{BAD}/.tmp-1-1",
    "litter": f"blobs/{BAD}/{'0' * 64}-5",
}


@pytest.mark.parametrize(
    "thing", [_link, *(pytest.param(made, marks=SLOW) for made in (_fifo, _link_to_zero, _folder))]
)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_nothing_is_followed_opened_or_deleted_through(relaytrain, runs, in_time, tmp_path, thing, place):
    outside = tmp_path / "outside"
    shutil.copytree(runs / "blobs" / BAD, outside)
    (outside / ".tmp-9-9").write_bytes(b"theirs")
    (outside / "file").write_bytes(b"theirs")
    shutil.copy(runs / "runs.sqlite", outside / "runs.sqlite")
    path = next(iter(sorted(runs.glob(place))), runs / place)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    thing(path, outside)
    before = {p.relative_to(outside): (p.stat().st_mtime_ns, p.read_bytes()) for p in outside.rglob("*") if p.is_file()}
    verbs = [("ls",), ("show", BAD), ("store", "check"), ("store", "gc"), ("resume", BAD), ("store", "repair")]
    for verb in (*verbs, ("rm", BAD, "--yes")):
        call = relaytrain(*verb)
        assert call.status in (0, 2, 3, 9), (verb, call)
        assert "unexpected" not in call.err, (verb, call)
    try:
        store = RunStore.open(runs)
        with store.create_run("another-run", {}, start=b"x") as writer:
            writer.thin()
    except StoreDamaged:
        assert place in ("runs.sqlite", "runs.sqlite-wal", "blobs")
    after = {p.relative_to(outside): (p.stat().st_mtime_ns, p.read_bytes()) for p in outside.rglob("*") if p.is_file()}
    assert after == before
