"""`relaytrain atlas` from outside: what it estimates, records, goes on with, says of a file, and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from relaytrain.campaigns import atlas_recording
from relaytrain.campaigns.atlas_recording import AtlasRecording, LegGrid, planned_legs
from relaytrain.cli.app import main
from relaytrain.core.errors import RelayTrainError, UsageError
from relaytrain.crew import WorkerEnded
from relaytrain.scenario import Scenario, load_scenario
from relaytrain.testing.small_training import tables
from relaytrain.traces.atlas import LegKey, read_atlas

pytestmark = pytest.mark.train
GRID = LegGrid((2, 1), 1, ("full on gold", "half on silver", "small on silver"))
SEEDS = (1, 4)


def small() -> Scenario:
    return load_scenario({**tables(width=0.25), "name": "small"})


class HereCrew:
    """The crew's face, with every worker in this process; `lives`: tasks after which a worker is gone."""

    lives = 1000

    def __init__(self, module: str, opening: Any, workers: int) -> None:
        assert module == "campaigns.atlas_recording"
        told: Mapping[str, Any] = json.loads(json.dumps(opening))
        self.work: list[Callable[[Any], Any]] = [atlas_recording.worker(told) for _ in range(workers)]
        self.given: dict[int, Any] = {}

    def __enter__(self) -> HereCrew:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def idle(self) -> list[int]:
        return [number for number in range(len(self.work)) if number not in self.given]

    def give(self, worker: int, task: Any) -> None:
        self.given[worker] = task

    def take(self) -> tuple[Any, Any]:
        worker = max(self.given)  # the one that was begun last is done first
        task = self.given.pop(worker)
        HereCrew.lives -= 1
        if HereCrew.lives < 0:
            raise WorkerEnded(task)
        return task, json.loads(json.dumps(self.work[worker](json.loads(json.dumps(task)))))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atlas_recording, "Crew", HereCrew)
    monkeypatch.setattr(HereCrew, "lives", 1000)


def test_legs_of_a_grid_counted_by_hand():
    """0 -> 1 -> 2 and nothing back: first legs of 4, left after 2 and 4."""
    legs = planned_legs(LegGrid((4, 3), 2), 0, [0, 1, 2], lambda i, j: i < j)
    firsts = [(LegKey((), pair), 4) for pair in (0, 1, 2)]
    seconds = [(LegKey(((i, n),), j), 3) for i, j in ((0, 1), (0, 2), (1, 2)) for n in (2, 4)]
    assert sorted(legs) == sorted(firsts + seconds)
    with pytest.raises(UsageError, match="more than 100,000 legs"):
        planned_legs(LegGrid((20,) * 9, 1), 0, [0, 1, 2], lambda i, j: True)


@pytest.mark.slow
def test_an_interrupted_recording_goes_on_to_the_same_bytes(here: None, tmp_path: Path):
    whole = AtlasRecording(small(), tmp_path / "whole.npz", GRID, SEEDS)
    heard: list[tuple[int, int]] = []
    recorded = whole.train(1, lambda done, of: heard.append((done, of)))
    assert recorded.trained == whole.epochs == recorded.atlas.epochs and recorded.found == 0
    assert heard[0] == (0, whole.epochs) and heard[-1] == (whole.epochs, whole.epochs) and len(heard) > 6
    path, pieces = tmp_path / "pieces.npz", 0
    HereCrew.lives = 2
    while True:
        recording = AtlasRecording(small(), path, GRID, SEEDS)
        assert recording.found == (read_atlas(path).epochs if pieces else 0)
        if not recording.left:
            break
        pieces += 1
        with pytest.raises(RelayTrainError, match=r"a worker ended in seed .*the same command goes on"):
            recording.train(2)
        HereCrew.lives = 4 if pieces == 1 else 1000
        if pieces == 2:
            AtlasRecording(small(), path, GRID, SEEDS).train(2)
    assert pieces == 2 and path.read_bytes() == (tmp_path / "whole.npz").read_bytes()
    longer = AtlasRecording(small(), path, LegGrid((3, 1), 1, GRID.pairs), SEEDS[:1])
    assert 0 < longer.found < longer.epochs  # what branches off where it did is not trained again
    with pytest.raises(UsageError, match="got an atlas of small with other data, versions or training"):
        AtlasRecording(load_scenario(tables(width=0.5)), path, GRID, SEEDS)


@pytest.mark.slow
def test_the_verb_estimates_records_and_tells(here: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "small.json").write_text(json.dumps(tables(width=0.25)))
    words = ["atlas", str(tmp_path / "small.json"), str(tmp_path / "a.npz"), "--epochs", "2,1", "--every", "2"]
    words += ["--seeds", "1", "--seed", "9", "--pair", "full on gold", "--pair", "small on silver", "--format", "json"]

    def said(*arguments: str) -> Any:
        assert main(list(arguments)) == 0
        return json.loads(capsys.readouterr().out)

    expected = said(*words, "--dry-run")
    assert expected["schema"] == "relaytrain.atlas-estimate/1" and not (tmp_path / "a.npz").exists()
    assert (expected["seeds"], expected["legs_per_seed"], expected["epochs"]) == ([9], 3, 5) and expected["cpu_s"] > 0
    first = said(*words)
    assert first["schema"] == "relaytrain.atlas-recorded/1" and first["epochs_trained"] == 5 and first["legs"] == 3
    again = said(*words)
    assert (again["epochs_trained"], again["epochs_found"], again["cpu_s"]) == (0, 5, 0.0)
    file = str(tmp_path / "a.npz")
    alone = said("atlas", file, "--format", "json")
    assert alone["schema"] == "relaytrain.atlas-summary/1" and "best_fixed" not in alone
    judged = said("atlas", file, "--scenario", words[1], "--set", "target.loss=5", "--format", "json")
    assert judged["same_training"] and judged["best_fixed"]["met"] == 1 and judged["longest_legs"] == [2, 1]
    assert main(["atlas", file, "--scenario", words[1], "--set", "target.loss=0.001"]) == 0
    assert "none that is held meets it in time" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["quickstart", "--seeds", "2"], 2, "--seeds: got one word, expected a FILE to record to: atlas quick"),
        (["quickstart", "--dry-run"], 2, "--dry-run: got one word"),
        (["a", "b", "c.npz"], 2, "got 3 words"),
        (["quickstart", "a.npz", "--scenario", "quickstart"], 2, "--scenario: got two words beside it"),
        (["quickstart", "a.csv"], 2, "FILE: got 'a.csv', expected a file name that ends in .npz"),
        (["quickstart", "nowhere/a.npz"], 2, "expected a folder that exists"),
        (["quickstart", "a.npz", "--seeds", "0"], 2, "--seeds: got 0, expected 1 to 10000"),
        (["quickstart", "a.npz", "--seed", "-1"], 2, "--seed: got -1, expected 0 to"),
        (["quickstart", "a.npz", "--every", "0"], 2, "--every: got 0"),
        (["quickstart", "a.npz", "--workers", "0"], 2, "--workers: got 0"),
        (["quickstart", "a.npz", "--epochs", "24;2"], 2, "--epochs: got '24;2', expected lengths of legs such as"),
        (["quickstart", "a.npz", "--epochs", "4,0"], 2, "--epochs: got '4,0'"),
        (["quickstart", "a.npz", "--epochs", ",".join("1" * 18)], 2, "expected 1 to 17 lengths"),
        (["quickstart", "a.npz", "--pair", "full on tin"], 2, "--pair: got 'full on tin', expected some of: full"),
        (["quickstart", "a.npz", "--pair", "full on bronze"], 2, "which cannot train: full needs"),
        (["smart_factory", "a.npz"], 3, "no table [data]"),
        (["nothing.npz"], 3, "record one: relaytrain atlas SCENARIO nothing.npz"),
    ],
)  # fmt: skip
def test_words_that_do_not_fit(
    words: list[str], status: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    monkeypatch.chdir(tmp_path)
    assert main(["atlas", *words]) == status
    said = capsys.readouterr()
    assert message in said.err and "Traceback" not in said.err and said.out == "" and not list(tmp_path.iterdir())


def test_more_pairs_than_an_atlas_can_hold_have_to_be_chosen(tmp_path: Path):
    with pytest.raises(UsageError, match=r"6 pairs can train.*choose up to 4 with --pair: full on gold"):
        AtlasRecording(small(), tmp_path / "a.npz", LegGrid(), (0,))


@pytest.mark.slow  # starts two processes that import torch
def test_processes_record_what_one_process_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    grid = LegGrid((2, 1), 1, GRID.pairs[::2])
    AtlasRecording(small(), tmp_path / "two.npz", grid, SEEDS).train(2)
    monkeypatch.setattr(atlas_recording, "Crew", HereCrew)
    AtlasRecording(small(), tmp_path / "one.npz", grid, SEEDS).train(1)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
