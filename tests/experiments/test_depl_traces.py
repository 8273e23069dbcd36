"""DepL's fits on traces drawn from (8) itself: what is known comes back, and what the paper states then holds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_prediction import EPOCHS, SWITCHES

from relaytrain.core.errors import ScenarioError, UsageError
from relaytrain.experiments import run
from relaytrain.experiments.depl import fits
from relaytrain.experiments.figure_traces import campaigns

A, B = 4.0, 2.0
SHAPE = 400.0  # of the inverse-gamma: x scatters by 5 %
REPLICATES = 19


def write_drawn(folder: Path, seeds: int = 4, *, k1s: tuple[int, ...] = (5, 17), model: str = "drawn") -> Path:
    """Versions alone for 20 epochs, legs of 60 after switches; test losses A / sqrt(k + B) x, x independent."""
    folder.mkdir(parents=True)
    epochs, switches = [EPOCHS], [SWITCHES]
    for seed in range(seeds):
        rng, run_number = np.random.default_rng([3, seed]), -1

        def leg(run, parent, stage, k0, nodes, pruned, count, rng=rng, seed=seed):
            x = (SHAPE - 1.0) / rng.gamma(SHAPE, 1.0, count)
            losses = (A + pruned) / np.sqrt(np.arange(1, count + 1) + B) * x
            for i, loss in enumerate(losses):
                epochs.append(
                    f"{seed},{run},{parent},{stage},{k0 + i + 1},{i + 1},{nodes},10,100,{pruned},"
                    f"{loss:.6f},{loss:.6f},0.5"
                )
            return losses

        for first, seconds in ((0.36, (0.5,)), (0.5, (0.75,)), (0.75, ()), (0.9, ())):
            root = run_number = run_number + 1
            losses = leg(root, "", 0, 0, "edge", first, 20)
            for k1 in k1s:
                for second in seconds:
                    run_number += 1
                    after = losses[k1 - 1] + 0.4 + 0.05 * rng.standard_t(5)
                    ratio = 1 - (1 - second) / (1 - first)
                    switches.append(
                        f"{seed},{run_number},{root},{k1},prune,{ratio:.6f},edge,far-edge,1,1,{after:.6f},{after:.6f},1000,500"
                    )
                    leg(run_number, root, 1, k1, "far-edge", second, 60)
    (folder / "epochs.csv").write_text("\n".join(epochs) + "\n")
    (folder / "switches.csv").write_text("\n".join(switches) + "\n")
    meta = {"format": 1, "preset": f"depl-{folder.name}", "loss": "cross-entropy, nats", "model": model}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAYTRAIN_TRACES", str(write_drawn(tmp_path / "traces")))
    return tmp_path


def test_the_campaign_is_read_by_version_and_configuration(drawn):
    found = fits.campaign()
    assert set(found.roots) == {0.36, 0.5, 0.75, 0.9} and all(len(c) == 4 for c in found.roots.values())
    assert set(found.legs) == {(k1, a, b) for k1 in (5, 17) for a, b in ((0.36, 0.5), (0.5, 0.75))}
    assert {kind: len(s) for kind, s in found.switches.items()} == {(0.36, 0.5): 8, (0.5, 0.75): 8}
    fit = fits.fitted(found.root(0.75), "level", replicates=0)
    assert (fit.gain, fit.offset) == (pytest.approx(A + 0.75, rel=0.05), pytest.approx(B, abs=0.5))
    with pytest.raises(ScenarioError, match=r"no version with 0\.8 removed was trained alone"):
        found.root(0.8)
    with pytest.raises(UsageError, match="expected a campaign with gold, silver and bronze nodes"):
        campaigns()


def test_figure_4_takes_the_most_ways_of_switching_and_the_others_the_most_seeds(tmp_path, monkeypatch):
    write_drawn(tmp_path / "many-seeds", 3)
    write_drawn(tmp_path / "many-ways", 1, k1s=(2, 3, 5, 17))
    monkeypatch.setenv("RELAYTRAIN_TRACES", str(tmp_path))
    assert fits.campaign().name == "depl-many-seeds"
    grid = fits.campaign(switched=True)
    assert grid.name == "depl-many-ways" and {k1 for k1, _, _ in grid.legs} == {2, 3, 5, 17}
    assert "1 seed; K1 in 2, 3, 5, 17 (the paper's: 1 to 20)" in grid.note
    assert {test.k2 for test in fits.p_values(grid, replicates=0)} == {5, 15, 25, 40, 60}  # one value fits nothing


@pytest.mark.slow
def test_fits_of_what_was_drawn_from_8_hold(drawn):
    made = run("depl-fig4", drawn / "out", formats=("svg",), replicates=REPLICATES)
    verdicts = {found.finding.split(" (")[0]: found.holds for found in made.findings}
    assert all(verdicts.values()), verdicts
    assert len(made.rows) == 4 * len(fits.K2S) and all(row["r2"] > 0.5 for row in made.rows if row["K2"] >= 15)
    single = [row for row in made.rows if row["K2"] == 1]
    assert len(single) == 4 and all(np.isnan(row["p_each_median"]) and 0.0 < row["p_pooled"] <= 1.0 for row in single)
    assert [path.name for path in made.files] == ["depl-fig4.svg", "depl-fig4.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["depl-fig2", "depl-table1"])
def test_version_figures_on_traces_of_ones_own(drawn, name, monkeypatch):
    monkeypatch.setattr(
        "relaytrain.experiments.depl.table1.find_spec", lambda package: None
    )  # count parameters: no torch needed
    made = run(name, drawn / "out", formats=("svg",), replicates=REPLICATES)
    assert [path.name for path in made.files] == [f"{name}.svg", f"{name}.csv"] and all(
        found.why for found in made.findings
    )
    if name == "depl-table1":
        assert [row["resources"] for row in made.rows] == pytest.approx([5.0, 2.5, 1.0])
        assert [row["r2_level"] > 0.9 for row in made.rows] == [True] * 3
        assert "MobileNet, the table's other half: no such traces" in made.notes[-1]
    else:
        assert {found.finding: found.holds for found in made.findings}[
            "The trajectories of the test loss are not deterministic but stochastic"
        ]


@pytest.mark.slow
def test_table_1_has_both_networks_where_the_traces_do(tmp_path, monkeypatch):
    write_drawn(tmp_path / "traces" / "one")
    write_drawn(tmp_path / "traces" / "two", k1s=(), model="MobileNet, drawn")
    monkeypatch.setenv("RELAYTRAIN_TRACES", str(tmp_path / "traces"))
    monkeypatch.setattr("relaytrain.experiments.depl.table1.find_spec", lambda package: None)
    made = run("depl-table1", tmp_path / "out", formats=("svg",), replicates=0)
    assert [(row["network"], row["pruned"]) for row in made.rows] == [
        (n, p) for n in ("AlexNet", "MobileNet") for p in (0.5, 0.75, 0.9)
    ]
    alone = [c.losses for c in fits.campaign_alone("MobileNet").root(0.9)]
    gain, offset = made.rows[4]["A"], made.rows[4]["B"]  # of its intermediate version
    x = [-np.diff([np.log(10.0), *losses]) * np.sqrt(np.arange(1, 21) + offset) / gain for losses in alone]
    assert (made.rows[-1]["mean_x"], made.rows[-1]["var_x"]) == (pytest.approx(np.mean(x)), pytest.approx(np.var(x)))
    assert [row["paper_mean"] for row in made.rows[3:]] == [1.02, 0.95, 0.92]
    assert [row["resources"] for row in made.rows] == pytest.approx([5.0, 2.5, 1.0, 2.0, 1.0, 0.4])
    assert sum(found.finding.startswith("MobileNet") for found in made.findings) == 3
    monkeypatch.setenv("RELAYTRAIN_TRACES", str(tmp_path / "traces" / "two"))
    with pytest.raises(UsageError, match="none of DepL's campaign with AlexNet"):
        run("depl-table1", tmp_path / "out")
