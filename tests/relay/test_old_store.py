"""A store that the last release wrote (format 1; one run finished, one killed with its log left behind) is taken up."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import stub
from compare import trace

from relaytrain.relay import loop as orchestrator
from relaytrain.store import RunStore, check, trail

KEPT = Path(__file__).parents[1] / "store" / "data" / "format-1"


@pytest.fixture
def old(tmp_path):
    shutil.copytree(KEPT, tmp_path / "store")
    return RunStore.open(tmp_path / "store")


def version(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "runs.sqlite")) as db:
        return db.execute("SELECT version FROM format").fetchone()[0]


def story(store: RunStore, run: str) -> list[tuple[object, ...]]:
    """What was decided and came out of every epoch, to the last bit of the weights."""
    keys = ("decision", "loss", "energy_j", "elapsed_s", "blob")
    return [tuple(body[key] for key in keys) for body in trace(store, run)["done"].values()]


def test_it_is_read_as_it_is(old):
    assert {(s.run, s.status, s.epoch) for s in old.runs()} == {
        ("finished-1", "met", 12),
        ("interrupted-1", "interrupted", 2),
    }
    assert check(old.folder) == []
    before = {path.name for path in (old.folder / "blobs" / "interrupted-1").iterdir()}
    spare = old.folder / "blobs" / "interrupted-1" / ("0" * 64 + "-1")
    spare.write_bytes(b"x")  # without a trail nobody knows whether a lost event named it
    old.gc()
    assert spare.exists() and before >= {path.name for path in spare.parent.iterdir()} - {spare.name}
    assert version(old.folder) == 1


def test_it_is_brought_up_and_resumed_bit_for_bit(old):
    ended = orchestrator.resume(stub.job(), old, "interrupted-1")
    assert ended.verdict == "met" and len(ended.outcomes) == 12
    assert version(old.folder) == 2
    assert story(old, "interrupted-1") == story(old, "finished-1")
    assert len(trail.read(old.folder, "interrupted-1").rows) == len(old.events("interrupted-1"))
    assert check(old.folder) == []
    assert old.rm("finished-1") is None and [s.run for s in old.runs()] == ["interrupted-1"]
