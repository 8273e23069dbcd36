"""The verbs that read: report, audit, export, doctor, store. Results on stdout, faults as one sentence, exit
statuses."""

from __future__ import annotations

import json
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from sample_run import Sample, open_store, write_run

from relaytrain.scenario import load_scenario

NO_TORCH = find_spec("torch") is None
VERBS = (
    ("report",),
    ("audit",),
    ("export",),
    ("doctor",),
    ("profile",),
    ("store", "check"),
    ("store", "repair"),
    ("store", "gc"),
)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    folder = tmp_path / "runs"
    store = open_store(folder)
    write_run(store, "quick-good-1")
    write_run(store, "quick-open-2", Sample(stop_after=3))
    monkeypatch.setenv("RELAYTRAIN_STORE", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_a_screen_and_shows_examples(relaytrain, verb):
    shown = relaytrain(*verb, "--help")
    lines = shown.out.splitlines()
    assert shown.status == 0 and len(lines) <= 45 and max(map(len, lines)) <= 100
    assert f"relaytrain {' '.join(verb)}" in shown.out.partition("Options:")[2]


def test_report_writes_one_file(relaytrain, runs):
    call = relaytrain("report", "quick-good-1", "--out", "r.html")
    assert call.status == 0 and call.err == ""
    assert call.out.startswith("quick-good-1: target met.") and call.out.endswith("report: r.html\n")
    assert Path("r.html").read_text().startswith("<!doctype html>")
    last = relaytrain("report", "--format", "json")
    assert json.loads(last.out) == {
        "schema": "relaytrain.report/1", "run": "quick-open-2", "status": "interrupted", "written": "quick-open-2.html",
    }  # fmt: skip
    assert relaytrain("report", "quick-g", "--store", runs).status == 0 and Path("quick-good-1.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("report", "quick"), "fits several"),
        (("report", "other"), "none of the runs"),
        (("report", "--store", "nowhere"), "no runs here"),
        (("report", "--out", "no/such/r.html"), "mkdir -p"),
        (("report", "--baselines", "none.json"), "cannot read none.json"),
        (("audit", "nowhere"), "no runs here"),
        (("store", "check", "nowhere"), "no runs here"),
        *(
            pytest.param(
                ("export", "quick-good-1", "out", "--input", sizes),
                "expected sizes such as 3,32,32",
                marks=pytest.mark.train,
            )
            for sizes in ("3x32", "1" * 5000)
        ),
    ],
)
def test_faults_are_one_sentence_and_exit_2(relaytrain, runs, arguments, words):
    call = relaytrain(*arguments)
    assert call.status == 2 and call.out == "" and words in call.err and "Traceback" not in call.err


def test_audit_counts_finished_runs(relaytrain, runs):
    call = relaytrain("audit")
    assert call.status == 0 and call.out.startswith("1 finished runs, 1 met their target; left out: 1 interrupted")
    found = json.loads(relaytrain("audit", runs, "--format", "json").out)
    assert found["schema"] == "relaytrain.audit/1" and found["runs"] == 1 and found["levels"][0]["hits"] == 1


def test_store_check_and_gc(relaytrain, runs):
    assert relaytrain("store", "check").out == f"{runs}: whole, 2 runs\n"
    removed = json.loads(relaytrain("store", "gc", runs, "--format", "json").out)
    assert removed["files"] > 0 and removed["skipped"] == []
    assert relaytrain("store", "check").status == 0
    blob = max((runs / "blobs" / "quick-good-1").glob("*-*"), key=lambda path: path.stat().st_mtime_ns)
    blob.write_bytes(b"rot")
    broken = relaytrain("store", "check", "--format", "json")
    assert broken.status == 9 and json.loads(broken.out)["whole"] is False
    assert "1 promises broken; " in relaytrain("store", "check").out


def test_doctor_looks_at_machine_and_store(relaytrain, runs):
    call = relaytrain("doctor")
    assert call.status == 0 and "numpy" in call.out and f"{runs}: 2 runs" in call.out and call.out.endswith("healthy\n")
    next((runs / "blobs" / "quick-open-2").iterdir()).write_bytes(b"rot")
    sick = relaytrain("doctor", "--format", "json")
    assert sick.status == 3 and json.loads(sick.out)["healthy"] is False


@pytest.mark.train
def test_doctor_names_pairs_that_do_not_fit(relaytrain, runs):
    call = relaytrain("doctor", "quickstart")
    assert call.status == 0 and "full on bronze: never used: full needs" in call.out
    assert relaytrain("doctor", "nothing.toml").status == 3


@pytest.mark.train
@pytest.mark.skipif(NO_TORCH, reason="needs torch")
class TestWithTorch:
    def write(self, folder: Path, tables) -> Path:
        file = folder / "mine.json"
        file.write_text(json.dumps({"schema": 1, **tables}))
        return file

    def tables(self):
        from relaytrain.testing.small_training import tables

        return tables()

    def test_doctor_looks_at_data_and_networks(self, relaytrain, runs, tmp_path):
        found = json.loads(relaytrain("doctor", self.write(tmp_path, self.tables()), "--format", "json").out)[
            "scenario"
        ]
        words = [f"{row['level']}: {row['where']}: {row['what']}" for row in found]
        assert "ok: full: trains, prunes and is rebuilt bit for bit" in words
        assert any(line.startswith("ok: data: images [1, 8, 8]: cloud 128, edge-1 64, edge-2 48") for line in words)
        assert any(line.startswith("warning: full.parameters: the scenario says 1 000, counted are") for line in words)

    def test_doctor_names_layers_that_cannot_be_pruned(self, relaytrain, runs, tmp_path):
        tables = self.tables()
        tables["versions"][0] = {
            "name": "full",
            "factory": "stubborn_net:net",
            "parameters": 1000,
            "flops_per_sample": 3e6,
        }
        (tmp_path / "stubborn_net.py").write_text(
            "from torch import nn\n"
            "class Net(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.conv, self.head = nn.Conv2d(1, 8, 3), nn.Linear(288, 10)\n"
            "    def forward(self, x):\n"
            "        return self.head(self.conv(x).reshape(-1, 288))\n"
            "def net():\n"
            "    return Net()\n"
        )
        call = relaytrain("doctor", self.write(tmp_path, tables))
        assert call.status == 3 and "ERROR    full: conv: pruning its channels breaks the model" in call.out
        assert "in the way" in call.out.splitlines()[-1]

    def test_doctor_sees_data_that_cannot_teach(self, relaytrain, runs, tmp_path):
        tables = self.tables()
        tables["data"] = {
            "source": "digits",
            "partition": "by-class",
            "classes": {"cloud": [0, 1, 2], "edge-1": [3], "edge-2": [4, 5]},
        }
        call = relaytrain("doctor", self.write(tmp_path, tables))
        assert "warning  data of edge-1: all of one class" in call.out
        assert "no node holds class 6, 7, 8, 9, the target set does" in call.out

    @pytest.mark.slow
    def test_export_says_what_it_wrote(self, relaytrain, tmp_path, monkeypatch):
        from relaytrain.export import network_formats as formats
        from relaytrain.store import RunStore
        from relaytrain.testing.small_training import small_setup

        monkeypatch.setattr(formats, "exported_program", _untraceable)
        data = small_setup().first_checkpoint().to_bytes()
        store = RunStore.open(tmp_path / "trained")
        with store.create_run("small-run-1", {}, start=data) as writer:
            decision = {"version": "full", "nodes": "gold"}
            writer.append("planned", {"decision": decision}, 1)
            done = {"decision": decision, "loss": 0.5, "energy_j": 1.0, "elapsed_s": 1.0, "blob": writer.put_blob(data)}
            writer.append("epoch_done", done, 1)
        call = relaytrain("export", "small", tmp_path / "out", "--store", tmp_path / "trained")
        assert call.status == 0 and call.out.startswith("full after epoch 1 of small-run-1 (loss 0.5)")
        assert "state_dict.pt" in call.out and call.out.endswith(
            "read back: network rebuilt and compared bit for bit\n"
        )
        assert "left out: model.pt2: not today" in call.err
        again = relaytrain(
            "export", "small", tmp_path / "out", "--store", tmp_path / "trained", "--force", "--format", "json"
        )
        assert json.loads(again.out)["which"] == "final"

    @pytest.mark.slow
    def test_profile_writes_costs_that_a_scenario_takes(self, relaytrain, tmp_path):
        file, pasted = self.write(tmp_path, self.tables()), tmp_path / "measured.toml"
        call = relaytrain("profile", file, "--batches", "1", "--pairs", pasted, "--format", "json")
        assert call.status == 0 and call.err.endswith(f"costs: {pasted}\n")
        found = json.loads(call.out)
        assert found["schema"] == "relaytrain.profile/1" and set(found["versions"]) == {"full", "half", "small"}
        rows = tomllib.loads(pasted.read_text())["pairs"]
        assert [(r["version"], r["nodes"]) for r in rows] == [(r["version"], r["nodes"]) for r in found["pairs"]]
        loaded = load_scenario({"schema": 1, **self.tables(), "pairs": rows})
        assert loaded.costs.run_s.tolist() == [r["seconds"] for r in rows] and (loaded.costs.run_s > 0).all()


def test_verbs_that_need_torch_say_so(relaytrain, runs, monkeypatch):
    monkeypatch.setattr("relaytrain.core.errors.find_spec", lambda name: None)
    for arguments in (("profile",), ("export", "quick-good-1", "out")):
        call = relaytrain(*arguments)
        assert call.status == 2 and "pip install 'relaytrain[train]'" in call.err


def _untraceable(model, shape):
    from relaytrain.core.errors import ScenarioError

    raise ScenarioError("not today")
