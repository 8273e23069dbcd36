"""A finished run as traces: the losses of its epochs and, at handovers, what a forward pass of the weights gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from path_columns import column
from run_faults import small_relay

import relaytrain as rt
from relaytrain.cli.app import main
from relaytrain.store import RunStore
from relaytrain.traces import read_traces
from relaytrain.training.checkpoint import Checkpoint
from relaytrain.training.evaluate import evaluate
from relaytrain.training.setup import TrainingSetup

pytestmark = [pytest.mark.train, pytest.mark.slow]


def test_a_run_is_exported_as_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    scenario = tmp_path / "relay.json"
    scenario.write_text(json.dumps(small_relay()))
    done = rt.run(scenario, store=tmp_path / "runs", name="small-relay")
    out = tmp_path / "traces"
    words = ["export", "small-relay", str(out), "--as", "traces", "--store", str(tmp_path / "runs")]
    assert main([*words, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    traces = read_traces(out)
    (*_, path) = traces.paths()
    assert column(path, "test_loss") == [outcome.loss for outcome in done.outcomes]
    assert told["epochs"] == sum(path.lengths) == len(done.outcomes) and told["switches"] == len(path.switches) > 0
    assert [s.node_set for s in path.segments] == [leg.nodes for leg in _legs(done)]

    setup = TrainingSetup.from_scenario(rt.load_scenario(scenario))
    store = RunStore.open(tmp_path / "runs")
    for event in (e for e in store.events("small-relay") if e.kind == "handover"):
        switch = next(s for s in traces.switches if s.k == event.epoch - 1)
        model = Checkpoint.from_bytes(store.get_blob("small-relay", event.body["blob"])).model()
        assert evaluate(model, setup.data_of(switch.to_node_set)).loss == switch.train_loss_after
        assert evaluate(model, setup.validation).loss == switch.test_loss_after
        before = traces.segment(switch.seed, switch.parent)
        assert before.test_loss[switch.k - before.first] == switch.test_loss_before
        assert sum(p.numel() for p in model.parameters()) == switch.parameters_after
    assert main(words) == 2 and "not empty" in capsys.readouterr().err


def _legs(done):
    decisions = [outcome.decision for outcome in done.outcomes]
    return [d for i, d in enumerate(decisions) if i == 0 or d.pair != decisions[i - 1].pair]
