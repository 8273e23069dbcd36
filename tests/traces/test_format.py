"""Trace format v1 from outside: round trips, the tree, and what the numbers of a switch add up to."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
from path_columns import column, stage_epochs

from relaytrain.core.errors import ScenarioError
from relaytrain.traces import TraceSet, bundled_traces, read_traces, write_traces

CASE = Path(__file__).parent / "case"


@pytest.fixture(scope="module")
def traces() -> TraceSet:
    return read_traces(CASE)


def test_reading_and_writing_gives_the_same_bytes(traces: TraceSet, tmp_path: Path):
    write_traces(traces, tmp_path)
    for name in ("epochs.csv", "switches.csv"):
        assert (tmp_path / name).read_bytes() == (CASE / name).read_bytes()
    assert read_traces(tmp_path).meta == traces.meta


def test_packed_traces_are_the_same_and_carry_no_time(traces: TraceSet, tmp_path: Path):
    write_traces(traces, tmp_path / "a", compress=True)
    write_traces(traces, tmp_path / "b", compress=True)
    for name in ("epochs.csv", "switches.csv"):
        packed = (tmp_path / "a" / f"{name}.gz").read_bytes()
        assert packed == (tmp_path / "b" / f"{name}.gz").read_bytes()
        assert gzip.decompress(packed) == (CASE / name).read_bytes()
    assert read_traces(tmp_path / "a").images == traces.images


def test_line_feeds_and_a_byte_order_mark_are_read(traces: TraceSet, tmp_path: Path):
    for name in ("epochs.csv", "switches.csv", "meta.json"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + (CASE / name).read_bytes().replace(b"\r\n", b"\n"))
    assert read_traces(tmp_path).images == traces.images


def test_the_tree_agrees_with_the_plain_rows(traces: TraceSet):
    """Paths put together by hand from the CSV files: ancestors cut at their switches."""
    with (CASE / "epochs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (CASE / "switches.csv").open(newline="") as file:
        cut = {row["run"]: (row["parent"], int(row["k"])) for row in csv.DictReader(file)}
    for path in traces.paths():
        run, chosen, end = str(path.segments[-1].run), [], 10**9
        while run is not None:
            chosen = [row for row in rows if row["run"] == run and int(row["k"]) <= end] + chosen
            run, end = cut.get(run, (None, 0))
        assert column(path, "k") == list(range(1, sum(path.lengths) + 1)) == [int(row["k"]) for row in chosen]
        assert column(path, "train_loss") == [float(row["train_loss"]) for row in chosen]
        assert column(path, "test_loss") == [float(row["test_loss"]) for row in chosen]
        assert column(path, "samples") == [int(row["samples"]) for row in chosen]
        assert column(path, "classes") == [int(row["classes"]) for row in chosen]
        assert stage_epochs(path) == [int(row["k_stage"]) for row in chosen]
        assert column(path, "pruned_fraction") == [float(row["pruned_fraction"]) for row in chosen]


def test_images_shared_and_naive(traces: TraceSet):
    """30 epochs of 2,700; for each of 4 K1 x 2 F1: 20 of 300, 20 of 90, and 4 second prunings of 12 epochs of 90."""
    assert traces.images == 30 * 2700 + 8 * (20 * 300 + 20 * 90 + 4 * 12 * 90)
    begun = 2 * 2700 * (5 + 10 + 20 + 30)
    ends = 8 * (20 * 300 + 20 * 90 + 2 * (5 + 15) * 300 + 4 * 12 * 90)
    assert traces.naive_images == 6 * begun + ends


def test_a_switch_says_what_it_changed(traces: TraceSet):
    assert {switch.change for switch in traces.switches} == {"both"}


def test_another_folder_takes_the_place_of_the_bundled_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    one = read_traces(CASE)
    monkeypatch.setenv("RELAYTRAIN_TRACES", str(CASE))
    assert {name: t.images for name, t in bundled_traces().items()} == {"v16s": one.images}
    for seed in (3, 1):
        moved = tmp_path / f"seed-{seed}"
        moved.mkdir()
        for name in ("epochs.csv", "switches.csv"):
            lines = (CASE / name).read_text().splitlines()
            moved.joinpath(name).write_text("\n".join([lines[0], *(f"{seed}{line[1:]}" for line in lines[1:])]))
        (moved / "meta.json").write_bytes((CASE / "meta.json").read_bytes())
    monkeypatch.setenv("RELAYTRAIN_TRACES", str(tmp_path))
    (both,) = bundled_traces().values()
    assert both.seeds == (1, 3) and both.images == 2 * one.images
    assert sum(segment.images for segment in both.segments if segment.seed == 3) == one.images
    monkeypatch.setenv("RELAYTRAIN_TRACES", str(tmp_path / "none"))
    with pytest.raises(ScenarioError, match="no such folder"):
        bundled_traces()
