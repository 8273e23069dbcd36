"""Tables and figures on traces of one's own: $RELAYTRAIN_TRACES gives the same table on a campaign never seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from relaytrain.core.errors import UsageError
from relaytrain.estimators.learned.bundle import bundle_of
from relaytrain.experiments import run
from relaytrain.experiments.figure_traces import campaigns
from relaytrain.experiments.pact.table1 import _notes
from relaytrain.experiments.pact.table1_mixed import joined
from relaytrain.traces.trace_files import read_traces

EPOCHS = "seed,run,parent,stage,k,k_stage,node_set,classes,samples,pruned_fraction,train_loss,test_loss,test_accuracy"
SWITCHES = (
    "seed,run,parent,k,kind,ratio_of_current,from_node_set,to_node_set,train_loss_before,test_loss_before,"
    "train_loss_after,test_loss_after,parameters_before,parameters_after"
)
FACTS = {"gold": (7, 800), "silver": (9, 120), "bronze": (10, 48)}


def write_campaign(folder: Path, seeds: int = 4) -> Path:
    """Relays with two switches, losses falling as inverse square roots with scatter."""
    folder.mkdir()
    epochs, switches = [EPOCHS], [SWITCHES]
    for seed in range(seeds):
        rng = np.random.default_rng([9, seed])

        def leg(run, parent, stage, k0, nodes, pruned, start, count, rng=rng, seed=seed):
            k = np.arange(1, count + 1)
            losses = start / np.sqrt(1 + 0.4 * k * start**2) * np.exp(0.03 * rng.standard_normal(count))
            for i, loss in enumerate(losses):
                classes, samples = FACTS[nodes]
                epochs.append(
                    f"{seed},{run},{parent},{stage},{k0 + i + 1},{i + 1},{nodes},{classes},{samples},{pruned},"
                    f"{loss:.5f},{loss * 1.2:.5f},0.5"
                )
            return losses

        def switch(run, parent, k, ratio, before, after, last, rng=rng, seed=seed):
            landed = last + 0.6 + 0.3 * ratio + 0.05 * float(rng.standard_normal())
            switches.append(
                f"{seed},{run},{parent},{k},prune,{ratio},{before},{after},{landed - 0.1:.5f},{landed:.5f},"
                f"{landed:.5f},{landed:.5f},1000,{int(1000 * (1 - ratio))}"
            )
            return landed

        gold = leg(0, "", 0, 0, "gold", 0, 2.3, 16)
        run = 0
        for k1 in (4, 8, 12, 16):
            for ratio in (0.5, 0.75):
                run += 1
                middle = run
                silver = leg(
                    run, 0, 1, k1, "silver", ratio, switch(run, 0, k1, ratio, "gold", "silver", gold[k1 - 1]), 12
                )
                run += 1
                leg(
                    run,
                    middle,
                    2,
                    k1 + 10,
                    "bronze",
                    1 - (1 - ratio) / 2,
                    switch(run, middle, k1 + 10, 0.5, "silver", "bronze", silver[9]),
                    10,
                )
    (folder / "epochs.csv").write_text("\n".join(epochs) + "\n")
    (folder / "switches.csv").write_text("\n".join(switches) + "\n")
    (folder / "meta.json").write_text('{"format": 1, "preset": "tiny", "loss": "cross-entropy, nats"}')
    return folder


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAYTRAIN_TRACES", str(write_campaign(tmp_path / "traces")))
    return tmp_path


@pytest.mark.train
@pytest.mark.soak
@pytest.mark.parametrize("name", ["pact-fig4", "pact-table1"])
def test_tables_of_prediction_on_traces_of_ones_own(tiny, name):
    made = run(name, tiny / "out", formats=("svg",), epochs=2)
    assert {row["campaign"] for row in made.rows} == {"tiny"} and len({row["estimator"] for row in made.rows}) >= 2
    assert [path.suffix for path in made.files] == [".svg", ".csv"] and all(path.is_file() for path in made.files)
    assert all(found.why for found in made.findings)


@pytest.mark.train
@pytest.mark.soak
def test_one_fit_of_two_campaigns_by_classes(tmp_path, monkeypatch):
    for name in ("one", "two"):
        place = write_campaign(tmp_path / name)
        (place / "meta.json").write_text(f'{{"format": 1, "preset": "{name}", "loss": "cross-entropy, nats"}}')
    monkeypatch.setenv("RELAYTRAIN_TRACES", str(tmp_path))
    made = run("pact-table1-mixed", tmp_path / "out", formats=("svg",), epochs=2)
    assert {row["classes"] for row in made.rows if row["fit"] == "one"} == {"all", "7", "9", "10"}
    values = {
        (row["fit"], row["campaign"], row["classes"]): row["values"]
        for row in made.rows
        if row["quantity"].startswith("lambda_run") and row["estimator"] == "paper"
    }
    assert values["one", "one", "all"] == values["each", "one", "all"] == values["one", "all", "all"] / 2
    assert sum(values["one", "all", classes] for classes in ("7", "9", "10")) == values["one", "all", "all"]


def test_campaigns_joined_for_one_fit_share_no_seed(tiny):
    bundle = bundle_of(campaigns()["tiny"], "train")
    both = joined({"one": bundle, "two": bundle})
    assert len(both.seeds) == 2 * len(bundle.seeds) and both.source == "one+two"
    assert [c.losses.tolist() for c in both.curves] == 2 * [c.losses.tolist() for c in bundle.curves]
    assert {s.group for s in both.switches} == {s.group for s in bundle.switches}
    with pytest.raises(UsageError, match="expected at least two campaigns"):
        joined({"one": bundle})


def test_campaigns_by_name(tiny):
    assert set(campaigns()) == {"tiny"}
    with pytest.raises(UsageError, match="expected one of tiny"):
        campaigns("digits")


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_single_seed_is_said_to_have_no_interval(tmp_path, seeds):
    bundle = bundle_of(read_traces(write_campaign(tmp_path / "traces", seeds=seeds)), "train")
    said = [note for note in _notes({"mine": bundle}) if note.startswith("mine: a single seed leaves nothing to draw")]
    assert len(said) == (seeds == 1)
