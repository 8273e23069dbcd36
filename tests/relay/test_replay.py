"""A replay is the one loop with another runner: what it books is what training itself booked, to the bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from run_faults import small_relay

from relaytrain.campaigns.atlas_recording import AtlasTrainer, empty_atlas, off_grid
from relaytrain.core.errors import UsageError
from relaytrain.core.plan import Decision
from relaytrain.relay.assembly import job_of
from relaytrain.relay.job import Ended, Job
from relaytrain.relay.journal import MemoryJournal
from relaytrain.relay.loop import RelayLoop
from relaytrain.relay.replay import AtlasRunner, Place
from relaytrain.scenario import load_scenario
from relaytrain.traces.atlas import LegKey, read_atlas

pytestmark = pytest.mark.train
SEED = 3
SEEDED = [f"training.seed={SEED}", f"data.seed={SEED}"]


def through_the_loop(job: Job) -> Ended:
    first = job.runner.first()
    journal = MemoryJournal("run", first, job.problem.pairs, job.problem.start)
    return RelayLoop(job, journal, job.runner.probe(first).metric(job.problem.target.metric)).begin(first)


def told(ended: Ended) -> list[Any]:
    """All that a run says of itself but what was measured on this machine and the test set."""
    return [
        ended.verdict, ended.loss, ended.energy_j, ended.elapsed_s,
        *((o.decision, o.loss, o.handover_loss, o.energy_j, o.elapsed_s) for o in ended.outcomes),
    ]  # fmt: skip


@pytest.mark.parametrize("metric", ["loss", pytest.param("error", marks=pytest.mark.slow)])
def test_a_replay_decides_and_books_as_training_did(metric: str, tmp_path: Path):
    tables = small_relay()
    if metric == "error":
        tables["target"] |= {"metric": "error", "loss": 0.05, "max_epochs": 5}
        tables["start"]["loss"] = 0.9
        tables["law"]["curves"] = [
            {**curve, "floor": curve["floor"] / 3, "drop": 0.9} for curve in tables["law"]["curves"]
        ]
    job = job_of(load_scenario(tables, overrides=SEEDED))
    trained = through_the_loop(job)
    assert len(trained.outcomes) >= 4 and len({o.decision.pair for o in trained.outcomes}) > 1
    scenario = load_scenario(tables)  # of another seed: the replay brings its own
    atlas = empty_atlas(scenario)
    asked: list[tuple[LegKey, int]] = []
    train = off_grid(scenario, atlas)

    def missing(seed: int, key: LegKey, epochs: int) -> Any:
        asked.append((key, epochs))
        return train(seed, key, epochs)

    played = through_the_loop(replace(job, runner=AtlasRunner(atlas, SEED, missing)))
    assert told(played) == told(trained) and asked and atlas.epochs == len(trained.outcomes)
    atlas.save(tmp_path / "a.npz")
    again = through_the_loop(replace(job, runner=AtlasRunner(read_atlas(tmp_path / "a.npz"), SEED)))
    assert told(again) == told(trained)


def test_what_an_atlas_does_not_hold_is_named():
    scenario = load_scenario(small_relay())
    atlas = empty_atlas(scenario)
    trainer = AtlasTrainer(scenario, SEED)
    atlas.seeds[SEED] = {LegKey((), 0): trainer.leg(LegKey((), 0), 1)}
    replay = AtlasRunner(atlas, SEED)
    first = Place(LegKey((), 0), 0)
    decisions = [Decision(k, "full", "gold") for k in (1, 2)]
    after = replay.run_epoch(decisions[0], first, run="r").checkpoint
    assert replay.from_bytes(replay.to_bytes(after)) == after and replay.probe(after).loss < 2.4
    with pytest.raises(UsageError, match=r"holds no seed 3 of full on gold x2; .*relaytrain atlas"):
        replay.run_epoch(decisions[1], after, run="r")
    with pytest.raises(UsageError, match=r"no seed 3 of full on gold x1 -> small on silver x0"):
        replay.hand_over(after, atlas.pairs[0], Decision(2, "small", "silver"), lambda version: None)
    with pytest.raises(UsageError, match="no seed 4 of full on gold x0"):
        AtlasRunner(atlas, 4).probe(first)
    with pytest.raises(UsageError, match="data and resources cannot be replayed"):
        replay.hand_over(after, atlas.pairs[0], Decision(2, "small", "silver", ("a",)), lambda version: None)
    with pytest.raises(UsageError, match="other data, versions or training"):
        off_grid(load_scenario(small_relay(), overrides=["training.lr=0.01"]), atlas)


@pytest.mark.slow
def test_a_leg_is_the_same_by_whichever_way_the_trainer_came_to_it(monkeypatch: pytest.MonkeyPatch):
    """Remembered checkpoints, checkpoints that were forgotten, legs asked for in pieces: one loss."""
    scenario = load_scenario(small_relay())
    last = LegKey(((0, 2), (1, 2)), 2)
    at_once = AtlasTrainer(scenario, SEED)
    wanted = at_once.leg(last, 2).losses
    pieces = AtlasTrainer(scenario, SEED, every=2)
    for key, epochs in ((LegKey((), 0), 3), (LegKey(((0, 2),), 1), 1), (last, 1), (last, 2)):
        pieces.leg(key, epochs)
    assert pieces.legs[last].losses == wanted
    monkeypatch.setattr("relaytrain.campaigns.atlas_recording.MOST_REMEMBERED_BYTES", 0)
    forgetful = AtlasTrainer(scenario, SEED)
    assert forgetful.leg(last, 2).losses == wanted and len(forgetful._kept) == 1
    assert {key: leg.start for key, leg in forgetful.legs.items()} == {k: leg.start for k, leg in at_once.legs.items()}
