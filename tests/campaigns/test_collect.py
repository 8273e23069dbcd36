"""`relaytrain collect` from outside: what it refuses, what it estimates, and a scenario's own campaign."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from relaytrain.campaigns.campaign import Branch, Campaign, images_of
from relaytrain.campaigns.campaign_estimate import OVERHEAD, estimate
from relaytrain.campaigns.preset_campaigns import preset
from relaytrain.campaigns.scenario_campaign import SwitchGrid, campaign_of
from relaytrain.cli.app import main
from relaytrain.core.errors import ScenarioError, UsageError
from relaytrain.scenario import load_scenario
from relaytrain.testing.small_training import tables
from relaytrain.traces import bundled_traces

pytestmark = pytest.mark.train


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["out"], "expected SCENARIO and OUTDIR"),
        (["quickstart", "out", "--preset", "digits"], "expected OUTDIR alone beside --preset"),
        (["out", "--preset", "digit"], "got 'digit', expected one of digits, v16s"),
        (["out", "--preset", "digits", "--seeds", "0"], "--seeds: got 0"),
        (["out", "--preset", "digits", "--workers", "0"], "--workers: got 0"),
        (["out", "--preset", "digits", "--switch", "2"], "are for a scenario"),
        (["out", "--preset", "v32", "--cifar100"], "only `paper` does"),
        (["quickstart", "out", "--data", "x"], "are for a preset"),
        (["quickstart", "out", "--switch", "2;5"], "--switch: got '2;5'"),
        (["quickstart", "out", "--switch", "1" * 5000], "expected epochs such as 2,5,10"),
    ],
)
def test_words_that_do_not_fit(words: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert main(["collect", *words]) == 2
    said = capsys.readouterr()
    assert message in said.err and "Traceback" not in said.err and said.out == ""


def test_a_scenario_without_data_is_refused():
    with pytest.raises(ScenarioError, match="no table"):
        campaign_of(load_scenario("smart_factory"), SwitchGrid())


def test_a_scenario_gets_every_handover_it_allows():
    """Three versions on two sets: from (full, gold) five pairs follow, and from each those that are no larger."""
    campaign = campaign_of(load_scenario(tables()), SwitchGrid((1, 2), (1,), 2))
    first = {(b.version, b.nodes) for b in campaign.branches if b.parent == 0}
    assert first == {(v, n) for v in ("full", "half", "small") for n in ("gold", "silver")} - {("full", "gold")}
    order = ["full", "half", "small"]
    for branch in campaign.branches:
        if branch.parent is not None:
            before = campaign.by_run[branch.parent]
            assert order.index(branch.version) >= order.index(before.version)
            assert (branch.version, branch.nodes) != (before.version, before.nodes)
    assert Campaign.from_dict(json.loads(json.dumps(campaign.to_dict()))).digest == campaign.digest


def test_pieces_cover_every_epoch_once():
    campaign = preset("v32")
    for branch in campaign.branches:
        pieces = [p for p in campaign.pieces if p.run == branch.run]
        assert [e for p in pieces for e in range(p.first, p.last + 1)] == list(range(branch.after + 1, branch.last + 1))
    for piece in campaign.pieces:
        if piece.start is not None:
            assert piece.start < piece.index and campaign.pieces[piece.start].last == piece.first - 1


def test_trees_that_cannot_be_are_refused():
    for branches in ((Branch(0, None, 0, "a", "x", 3), Branch(1, 0, 4, "b", "x", 1)), (Branch(0, 5, 1, "a", "x", 1),)):
        with pytest.raises(UsageError, match="campaign: branch"):
            Campaign("wrong", {}, branches)


@pytest.mark.soak  # times seven versions
def test_the_estimate_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out"
    assert main(["collect", "--preset", "digits", str(out), "--seeds", "3", "--dry-run", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    shared, naive = images_of(preset("digits"), {"gold": 800, "silver": 120, "bronze": 48})
    assert (told["images"], told["naive_images"]) == (3 * shared, 3 * naive)
    assert told["saving"] > 10 and 0 < told["cpu_s"] < told["naive_cpu_s"]
    assert not out.exists()


def test_an_estimate_counts_trainings_and_segments(monkeypatch: pytest.MonkeyPatch):
    second_a_sample = SimpleNamespace(cpu_s=lambda version, samples: float(sum(samples)))
    monkeypatch.setattr("relaytrain.costs.profiled.profile", lambda setup, batches: second_a_sample)
    counted = estimate(preset("digits"), 3)
    assert (counted.trainings, counted.segments) == (3 * 72, 3 * 73) and counted.saving > 10
    assert (counted.cpu_s, counted.naive_cpu_s) == pytest.approx(
        (OVERHEAD * counted.images, OVERHEAD * counted.naive_images)
    )


def test_the_bundled_traces_are_those_of_the_presets(monkeypatch: pytest.MonkeyPatch):
    """Every seed from 0 on, every branch: nothing left out."""
    monkeypatch.delenv("RELAYTRAIN_TRACES", raising=False)
    for name, traces in bundled_traces().items():
        campaign = preset(name)
        assert traces.seeds == tuple(range(len(traces.seeds)))
        for seed in traces.seeds:
            kept = [(s.run, s.parent, s.node_set, s.first, s.last) for s in traces.segments if s.seed == seed]
            assert kept == [(b.run, b.parent, b.nodes, b.after + 1, b.last) for b in campaign.branches]
        assert dict(traces.meta) == {"format": 1, **campaign.meta}
