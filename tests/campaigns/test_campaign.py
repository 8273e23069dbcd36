"""Campaigns from outside: a branch equals a training from scratch, kills change nothing, the counts are right."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from small import small_campaign

from relaytrain.campaigns.campaign import Campaign, images_of
from relaytrain.campaigns.collect import collect, collected_so_far, traces_of
from relaytrain.campaigns.piece_results import checkpoint_path, read_result, result_path
from relaytrain.campaigns.piece_training import LostWeights, PieceBench, train_piece
from relaytrain.campaigns.preset_campaigns import preset
from relaytrain.core.errors import UsageError
from relaytrain.core.plan import Decision
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.inprocess import InProcess
from relaytrain.scenario import load_scenario
from relaytrain.traces import read_traces, write_traces
from relaytrain.training.evaluate import evaluate
from relaytrain.training.handover import hand_over
from relaytrain.training.setup import TrainingSetup

pytestmark = [pytest.mark.train, pytest.mark.slow]
SEEDS = (0, 3)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Campaign, Path, Path]:
    """All pieces of both seeds, one after the other in this process: the work folder, and the traces."""
    campaign, folder = small_campaign(), tmp_path_factory.mktemp("straight")
    done = {}
    for seed in SEEDS:
        bench = PieceBench(campaign, seed)
        for piece in campaign.pieces:
            done[seed, piece.index] = train_piece(bench, piece, folder)
    write_traces(traces_of(campaign, SEEDS, done), folder / "traces")
    return campaign, folder, folder / "traces"


def test_a_branch_is_what_a_training_from_scratch_gives(straight: tuple[Campaign, Path, Path]):
    """Gold 4 epochs, half of it on silver 2, half of that on bronze 2: trained here without any campaign."""
    campaign, work, _ = straight
    setup = TrainingSetup.from_scenario(load_scenario(campaign.tables(3)))
    runner = FederatedEpoch(setup, InProcess(setup))
    checkpoint, losses, probes = setup.first_checkpoint(), [], []
    for version, nodes, first, last in (("full", "gold", 1, 4), ("p50", "silver", 5, 6), ("p75", "bronze", 7, 8)):
        before, data = checkpoint, setup.data_of(nodes)
        checkpoint = hand_over(setup, checkpoint, version, nodes).checkpoint
        probes.append([evaluate(c.model(), data).loss for c in (before, checkpoint)])
        for epoch in range(first, last + 1):
            done = runner.run_epoch(Decision(epoch, version, nodes), checkpoint)
            checkpoint = done.checkpoint
            losses.append(done.train_loss)
    leaf = next(b for b in campaign.branches if b.version == "p75" and b.after == 6)
    kept: list[float] = []
    for stage, (branch, epochs) in enumerate(campaign.chain(leaf)):
        results = [read_result(work, 3, p.index, campaign.digest) for p in campaign.pieces if p.run == branch.run]
        kept += [row[0] for result in results for row in result.rows][:epochs]
        if branch.parent is not None:
            switch = results[0].switch
            assert [switch["train_loss_before"], switch["train_loss_after"]] == probes[stage]
    assert kept == losses


def test_every_kind_of_switch_is_there(straight: tuple[Campaign, Path, Path]):
    campaign, _, folder = straight
    traces = read_traces(folder)
    assert traces.seeds == SEEDS
    assert {s.change for s in traces.switches} == {"both", "nodes", "version", "distill"}
    by_kind = {s.change: s for s in traces.switches}
    assert by_kind["nodes"].train_loss_before == by_kind["nodes"].train_loss_after
    assert by_kind["nodes"].parameters_before == by_kind["nodes"].parameters_after
    assert by_kind["version"].ratio_of_current == 0.5
    shared, naive = images_of(campaign, {"gold": 64, "silver": 36, "bronze": 20})
    assert (traces.images, traces.naive_images) == (2 * shared, 2 * naive)
    assert {(s.node_set, s.classes, s.samples) for s in traces.segments} == {
        ("gold", 7, 64),
        ("silver", 9, 36),
        ("bronze", 10, 20),
    }


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from small import small_campaign
from relaytrain.campaigns.collect import collect

def bar(done, total):
    if done >= int(sys.argv[3]):
        os.killpg(os.getpgid(0), signal.SIGKILL)  # caller and workers, all at once

collect(small_campaign(), sys.argv[2], seeds=(0, 3), workers=int(sys.argv[4]), progress=bar)
"""


def _run(folder: Path, until: int, workers: int) -> int:
    words = [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(folder), str(until), str(workers)]
    return subprocess.run(words, start_new_session=True, timeout=300, check=False).returncode


def test_killed_and_resumed_gives_the_same_bytes(straight: tuple[Campaign, Path, Path], tmp_path: Path):
    campaign, _, traces = straight
    folder = tmp_path / "out"
    assert _run(folder, 7, workers=2) == -signal.SIGKILL
    work = folder / "work"
    kept = {path: path.stat().st_mtime_ns for path in work.rglob("piece-*.json")}
    assert 0 < len(kept) < 2 * len(campaign.pieces)
    assert not (folder / "meta.json").exists()
    so_far = collected_so_far(campaign, folder, SEEDS)
    rows = [len(json.loads(path.read_text())["rows"]) for path in kept]
    assert so_far.epochs == sum(rows) and so_far.of == 2 * sum(piece.epochs for piece in campaign.pieces)
    assert f"{so_far.epochs} of {so_far.of} epochs" in str(so_far) and so_far.left_cpu_s > 0.0
    damaged = next(
        (seed, p.index)
        for seed in SEEDS
        for p in campaign.pieces
        if checkpoint_path(work, seed, p.index).exists() and result_path(work, seed, p.index) in kept
    )
    checkpoint_path(work, *damaged).write_bytes(b"not what it was")
    collected = collect(campaign, folder, seeds=SEEDS, workers=1)
    assert collected_so_far(campaign, folder, SEEDS).epochs == so_far.of
    assert collected.found == len(kept) and collected.trained == 2 * len(campaign.pieces) - len(kept)
    again = [path for path, when in kept.items() if path.stat().st_mtime_ns != when]
    assert again in ([], [result_path(work, *damaged)])  # trained once more if somebody still starts from it
    for name in ("epochs.csv", "switches.csv", "meta.json"):
        assert (folder / name).read_bytes() == (traces / name).read_bytes()
    assert list(work.rglob("*.safetensors")) == []


def test_a_finished_campaign_trains_nothing_and_starts_nobody(
    straight: tuple[Campaign, Path, Path], tmp_path: Path, monkeypatch
):
    campaign, work, traces = straight
    folder = tmp_path / "out"
    for seed in SEEDS:
        place = folder / "work" / f"seed-{seed}"
        place.mkdir(parents=True)
        for piece in campaign.pieces:
            (place / f"piece-{piece.index}.json").write_bytes(result_path(work, seed, piece.index).read_bytes())
    monkeypatch.setattr(subprocess, "Popen", None)
    collected = collect(campaign, folder, seeds=SEEDS, compress=True)
    assert (collected.trained, collected.found) == (0, 2 * len(campaign.pieces))
    assert collected.traces.images == read_traces(traces).images == read_traces(folder).images
    collect(campaign, folder, seeds=SEEDS)
    assert not (folder / "epochs.csv.gz").exists()
    other = Campaign("small", {**campaign.scenario, "training": {"lr": 0.1}}, campaign.branches)
    with pytest.raises(UsageError, match="another campaign"):
        collect(other, folder, seeds=SEEDS)


def test_lost_weights_name_their_piece(straight: tuple[Campaign, Path, Path], tmp_path: Path):
    campaign, _, _ = straight
    with pytest.raises(LostWeights) as lost:
        train_piece(PieceBench(campaign, 0), campaign.pieces[1], tmp_path)
    assert lost.value.piece == 0


@pytest.mark.parametrize(
    ("name", "samples", "shared", "naive"),
    [
        (
            "paper",
            {"gold": 45_000, "silver": 5000, "bronze": 1500},
            33.9e6,
            367e6,
        ),  # counted by hand for the paper's grid
        ("digits", {"gold": 800, "silver": 120, "bronze": 48}, None, None),
        ("v16s", {"gold": 2700, "silver": 300, "bronze": 90}, None, None),
    ],
)
def test_images_of_the_presets(name: str, samples: dict[str, int], shared: float | None, naive: float | None):
    counted = images_of(preset(name), samples)
    if shared is not None and naive is not None:
        assert counted == (pytest.approx(shared, rel=0.01), pytest.approx(naive, rel=0.01))
    assert counted[1] >= 10 * counted[0]


@pytest.mark.parametrize("name", ["depl", "depl-sgd"])
def test_depl_has_its_grid(name: str):
    campaign = preset(name)
    roots = [b for b in campaign.branches if b.parent is None]
    # F1 of the pairs, and the versions of Table I by themselves
    assert [b.version for b in roots] == ["p25", "p36", "p50", "p75", "p90"] and all(b.epochs == 20 for b in roots)
    pairs = {(campaign.by_run[b.parent].version, b.version, b.after) for b in campaign.branches if b.parent is not None}
    assert len(pairs) == 6 * 20 and all(b.epochs == 60 for b in campaign.branches if b.parent is not None)
