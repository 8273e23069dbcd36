"""`relaytrain atlas FILE --teach OUT.json`: from recorded relays to a scenario that plans on them."""

import json

import relaytrain as rt
from relaytrain.cli.app import main
from relaytrain.traces.atlas import read_atlas


def test_an_atlas_teaches_a_scenario(tmp_path, capsys):
    out = tmp_path / "taught.json"
    assert main(["atlas", "deeper", "--teach", str(out), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["taught"] == str(out)
    body = json.loads(out.read_text())
    assert {"floor_common", "source"} <= set(body["prior"])
    assert body["prior"]["seeds"] == len(read_atlas("deeper").seeds)
    assert all(curve["scatter"] and curve["begins"] > 0.5 for curve in body["prior"]["curves"])
    plan = rt.plan(out, rule="sampled")
    assert plan.energy_interval_j is not None  # it may be less sure than the scenario asks, and says so


def test_what_cannot_be_taught_is_said(tmp_path, capsys):
    assert main(["atlas", "deeper", "--teach", str(tmp_path / "taught.toml")]) == 2
    assert "ends in .json" in capsys.readouterr().err
    assert main(["atlas", "quickstart", str(tmp_path / "a.npz"), "--teach", str(tmp_path / "b.json")]) == 2
    assert "--teach: got two words" in capsys.readouterr().err
