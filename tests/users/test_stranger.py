"""A stranger's package outside the source tree: new, doctor, run, kill -9, the printed hint, export, plain torch."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
import torch
from fitted_file import write_fitted
from forked import Call, epoch_is, hint_of, relaytrain

import relaytrain as rt

HERE = Path(__file__).parent / "stranger"
KILLED_AT = 4
OPTIONS = {
    "seed": ("--seed", "3"),
    "set": ("--set", "training.lr=0.008", "--set", "target.loss=0.3"),
    "fitted": ("--fitted", "fit.npz"),
    "planner": ("--planner", "one-switch"),
    "without": ("--without", "box-2", "--set", "target.loss=0.5"),
}
"""What a run is started with beside its scenario; the hint has to do for each, alone and all together."""
TOGETHER = tuple(itertools.chain(*(OPTIONS[key] for key in ("seed", "fitted", "planner", "without", "set"))))
slow = pytest.mark.slow


def _furnish(folder: Path) -> Path:
    """The stranger's folder, far from the source tree."""
    for file in HERE.iterdir():
        if file.suffix in (".py", ".toml"):
            shutil.copy(file, folder)
    write_fitted(folder / "fit.npz")
    return folder


@pytest.fixture
def cellar(tmp_path: Path) -> Path:
    return _furnish(tmp_path)


class House(NamedTuple):
    """Made once: `kept` is as `lived_in` was after one whole run, its export and a killed run."""

    lived_in: Path
    kept: Path
    whole: Call
    exporting: Call


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    folder = tmp_path_factory.mktemp("cellar")
    lived_in, kept = folder / "lived-in", folder / "kept"
    lived_in.mkdir()
    _furnish(lived_in)
    whole = relaytrain("run", "cellar.toml", "--name", "cellar-whole", "--format", "json", folder=lived_in)
    words = ("cellar-whole", "out", "--model", "cellar:taster", "--input", "13,1,1")
    exporting = relaytrain("export", *words, folder=lived_in)
    assert exporting.status == 0, exporting.said
    _killed(lived_in)
    lived_in.rename(kept)
    return House(lived_in, kept, whole, exporting)


@pytest.fixture
def killed(house: House) -> Path:
    """The folder where a run was killed, in its old place and as it was then."""
    shutil.rmtree(house.lived_in, ignore_errors=True)
    shutil.copytree(house.kept, house.lived_in)
    return house.lived_in


def _result(call: Call) -> dict[str, object]:
    """What does not depend on how often a run was interrupted."""
    assert call.status in (0, 5), call.said
    said = json.loads(call.out)
    return {key: said[key] for key in ("verdict", "loss", "test_loss", "test_accuracy", "epochs", "legs")}


def _epochs(folder: Path, run: str) -> list[dict[str, object]]:
    shown = relaytrain("show", run, "--format", "json", folder=folder)
    assert shown.status == 0, shown.said
    epochs: list[dict[str, object]] = json.loads(shown.out)["epochs"]
    return epochs


def _killed(folder: Path, *words: str, name: str = "cellar-killed") -> None:
    call = relaytrain("run", "cellar.toml", "--name", name, *words, folder=folder, kill_when=epoch_is(KILLED_AT))
    assert call.status == -9, call.said


@slow
def test_a_loader_may_import_scipy_and_sklearn(cellar):
    """In a process of its own, where neither is loaded yet: what doctor calls healthy, run must train."""
    words = [sys.executable, "-m", "relaytrain", "run", "cellar.toml", "--set", "target.loss=1.05"]
    env = {key: value for key, value in os.environ.items() if key != "RELAYTRAIN_STORE"}
    ended = subprocess.run(words, cwd=cellar, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr


def test_what_new_writes_is_where_the_scenario_came_from(cellar):
    made = relaytrain("new", "fresh.toml", "--model", "cellar:taster", "--data", "cellar:wines", folder=cellar)
    assert made.status == 0, made.said
    assert "left out: target.loss: only you know it" in made.out and "relaytrain scout fresh.toml" in made.out
    told = relaytrain("validate", "fresh.toml", folder=cellar)
    assert told.status == 3 and "target.loss" in told.err, told.said
    assert relaytrain("plan", "fresh.toml", "--set", "target.loss=0.4", folder=cellar).status == 4  # a guess, said so

    text = tomllib.loads((cellar / "fresh.toml").read_text())
    full, small = text["versions"]
    model = _package().taster()
    assert full["parameters"] == sum(weight.numel() for weight in model.parameters())
    assert full["weight_bytes"] == 4 * full["parameters"] and full["factory"] == "cellar:taster"
    assert full["flops_per_sample"] == 2 * (3 * (13 * 16 + 16 * 16 + 16 * 3) - 13 * 16)  # the inputs need no gradient
    assert small["parameters"] < full["parameters"] and small["ratio"] == 0.5
    assert {node["name"]: (node["samples"], node["classes"]) for node in text["nodes"]} == {
        "laboratory": (80, 3),
        "growers": (160, 3),
    }
    assert math.isfinite(text["start"]["loss"]) and all(pair["seconds"] > 0.0 for pair in text["pairs"])
    assert "law" not in text and "loss" not in text["target"] and "lr" not in text["training"]


BROKEN = """
import numpy as np, torch
def fails(): raise ValueError("no weights for you")
def text(): return "a network"
def net(): return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
def images(split):
    rng = np.random.default_rng(len(split))
    return rng.random((60, 1, 8, 8), dtype=np.float32), np.arange(60) % 3
def nothing(split): return None
def raises(split): raise KeyError("no such file")
def wide(split): return images(split)[0][:, :, :4], images(split)[1]
def one_thing(): return [1, 2]
images_list = [1]
"""


@slow
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--model", "broken:net"), 2, "no --data, expected both"),
        (("--data", "broken:images"), 2, "no --model, expected both"),
        (("--target", "0.3"), 2, "beside --model and --data"),
        (("--model", "broken:net", "--data", "broken:images", "--target", "-1"), 2, "expected a positive number"),
        (("--model", "broken:fails", "--data", "broken:images"), 3, "broken.py:3: ValueError: no weights for you"),
        (("--model", "broken:text", "--data", "broken:images"), 3, "broken:text"),
        (("--model", "broken:missing", "--data", "broken:images"), 3, "expected a name in the module"),
        (("--model", "broken:net", "--data", "broken:raises"), 3, "broken.py:10: KeyError"),
        (("--model", "broken:net", "--data", "broken:nothing"), 3, "broken:nothing"),
        (("--model", "broken:net", "--data", "broken:one_thing"), 3, "gave a list: let it take the part's name"),
        (("--model", "broken:net", "--data", "broken:images_list"), 3, "is a list, expected a function"),
        (("--model", "broken:net", "--data", "broken:wide"), 3, "64"),
        (("--model", "vgg99", "--data", "broken:images"), 3, "expected module:function or one of"),
    ],
)
def test_new_says_what_is_wrong_with_network_or_data_and_writes_nothing(tmp_path, words, status, said):
    (tmp_path / "broken.py").write_text(BROKEN)
    call = relaytrain("new", "mine.toml", *words, folder=tmp_path)
    assert call.status == status and said in call.err, call.said
    assert not (tmp_path / "mine.toml").exists()


@slow
def test_new_with_a_target_is_whole_and_trains(tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    words = ("--model", "broken:net", "--data", "broken:images", "--target", "0.001", "--format", "json")
    made = relaytrain("new", "mine.toml", *words, folder=tmp_path)
    assert made.status == 0, made.said
    said = json.loads(made.out)
    assert said["counted"]["versions"]["full"]["parameters"] == 65 * 3
    assert said["counted"]["nodes"] == {"here": {"samples": 54, "classes": 3}}
    ran = relaytrain("run", "mine.toml", "--set", "target.max_epochs=2", "--format", "json", folder=tmp_path)
    assert ran.status == 5 and json.loads(ran.out)["epochs"] == 2, ran.said


def test_doctor_finds_the_package_healthy(cellar):
    call = relaytrain("doctor", "cellar.toml", folder=cellar)
    assert call.status == 0 and call.out.rstrip().endswith("healthy"), call.said
    assert "warning" not in call.out.partition("scenario\n")[2]


@slow
def test_a_killed_run_goes_on_with_the_printed_hint(killed, house):
    _check_it_goes_on(killed, house.whole)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(TOGETHER, id="together", marks=slow),
        *(pytest.param(words, id=name, marks=pytest.mark.soak) for name, words in OPTIONS.items()),
    ],
)
def test_the_printed_hint_knows_the_options(cellar, words):
    whole = relaytrain("run", "cellar.toml", "--name", "cellar-whole", *words, "--format", "json", folder=cellar)
    _killed(cellar, *words)
    _check_it_goes_on(cellar, whole)


def _check_it_goes_on(cellar: Path, whole: Call) -> None:
    """The run killed in `cellar` becomes the one that was not, bit for bit, by the command that `show` prints."""
    expected = _result(whole)
    assert expected["epochs"] > KILLED_AT
    hint = hint_of(relaytrain("show", "cellar-killed", folder=cellar).said)
    resumed = relaytrain(*hint, "--format", "json", folder=cellar)
    assert resumed.status == whole.status, f"relaytrain {' '.join(hint)}: {resumed.said}"
    assert _result(resumed) == expected
    assert _epochs(cellar, "cellar-killed") == _epochs(cellar, "cellar-whole"), "bit for bit"
    runs = cellar / "relaytrain-runs"
    mine, other = (rt.load_model(run, store=runs, resolve=_taster) for run in ("cellar-killed", "cellar-whole"))
    for name, tensor in mine.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


def _package() -> ModuleType:
    """The stranger's module, under a name that no scenario asks for."""
    spec = importlib.util.spec_from_file_location("cellar_of_the_test", HERE / "cellar.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _taster(reference: str) -> Callable[[], torch.nn.Module]:
    """The stranger's factory for `load_model`."""
    assert reference == "cellar:taster"
    factory: Callable[[], torch.nn.Module] = _package().taster
    return factory


@slow
def test_ls_says_how_to_go_on(killed):
    hint = hint_of(relaytrain("ls", folder=killed).said)
    assert hint[:2] == ["resume", "cellar-killed"]
    listed = json.loads(relaytrain("ls", "--format", "json", folder=killed).out)["runs"]
    rows = {row["run"]: row["resume"] for row in listed}
    assert rows["cellar-killed"].split()[1:] == hint and rows["cellar-whole"] is None
    shown = relaytrain("show", "--format", "json", folder=killed)
    assert json.loads(shown.out)["resume"] == rows["cellar-killed"]


@slow
def test_the_hint_knows_a_store_elsewhere(cellar):
    runs = cellar / "else where"
    _killed(cellar, "--store", str(runs))
    hint = hint_of(relaytrain("show", "--store", str(runs), folder=cellar).said)
    assert relaytrain(*hint, folder=cellar).status == 0


@slow
def test_changed_code_is_named_and_force_goes_on(killed):
    hint = hint_of(relaytrain("show", "cellar-killed", folder=killed).said)
    code = killed / "cellar.py"
    code.write_text(code.read_text() + "\nSEEN = True\n")
    refused = relaytrain(*hint, folder=killed)
    assert refused.status in (2, 3) and "cellar.py" in refused.err and "--force" in refused.err, refused.said
    assert relaytrain(*hint, "--force", folder=killed).status == 0


@slow
def test_a_changed_loader_is_noticed_too(cellar):
    """The data decide as much as the network: a helper module that the package imports counts as well."""
    (cellar / "noise.py").write_text("SHARE = 0.05\n")
    code = cellar / "cellar.py"
    helped = code.read_text().replace("import numpy as np\n", "import numpy as np\nfrom noise import SHARE\n", 1)
    code.write_text(helped.replace("0.05 * rng", "SHARE * rng"))
    _killed(cellar)
    (cellar / "noise.py").write_text("SHARE = 0.5\n")
    hint = hint_of(relaytrain("show", "cellar-killed", folder=cellar).said)
    refused = relaytrain(*hint, folder=cellar)
    assert refused.status in (2, 3) and "noise.py" in refused.err, refused.said
    forced = relaytrain("resume", "cellar-killed", "--scenario", "cellar.toml", "--force", folder=cellar)
    assert forced.status == 0, forced.said
    shown = relaytrain("show", "cellar-killed", folder=cellar).out
    assert "noise.py" in shown.partition("note: ")[2], "whoever reads the run later sees that it was not undisturbed"


@slow
def test_a_scenario_file_edited_since_does_not_matter(killed):
    """The stored scenario counts; the file may have moved on."""
    hint = hint_of(relaytrain("show", "cellar-killed", folder=killed).said)
    scenario = killed / "cellar.toml"
    scenario.write_text(scenario.read_text().replace("lr = 0.01", "lr = 0.1"))
    assert relaytrain(*hint, folder=killed).status == 0


@slow
def test_files_that_the_scenario_names_are_found_from_wherever_it_goes_on(cellar, tmp_path_factory):
    scenario = cellar / "cellar.toml"
    scenario.write_text(scenario.read_text() + '[estimator]\nname = "auto"\nfitted = "fit.npz"\n')
    _killed(cellar)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    hint = hint_of(relaytrain("show", "--store", cellar / "relaytrain-runs", folder=elsewhere).said)
    resumed = relaytrain(*hint, folder=elsewhere)
    assert resumed.status == 0, resumed.said


@slow
def test_code_is_not_imported_without_leave(killed):
    """A store may come from anywhere: what it names is imported only from a folder named on the command line."""
    (killed / "cellar.py").write_text("open('imported', 'w')\n")
    for words in (["--force"], []):
        refused = relaytrain("resume", "cellar-killed", *words, folder=killed)
        assert refused.status == 2 and "cellar:taster" in refused.err
        assert refused.err.rstrip().endswith(f"relaytrain resume cellar-killed --code {killed}")
    assert not (killed / "imported").exists()
    lost = relaytrain("resume", "cellar-killed", "--code", "nowhere", folder=killed)
    assert lost.status == 2 and "nowhere" in lost.err and str(killed) in lost.err


# --- what leaves the house


@pytest.fixture(scope="module")
def exported(house: House) -> tuple[Path, float]:
    """The folder of a trained and exported taster, and the test accuracy that the run reported."""
    return house.kept, float(json.loads(house.whole.out)["test_accuracy"])


@pytest.fixture(scope="module")
def raw() -> tuple[torch.Tensor, torch.Tensor]:
    """The stranger's own test set as the loader gives it."""
    images, labels = _package().wines()["test"]
    return torch.from_numpy(images), torch.from_numpy(labels)


@slow
def test_the_exported_program_repeats_the_accuracy_from_raw_inputs(exported, raw):
    folder, reported = exported
    program = torch.export.load(str(folder / "out" / "model.pt2")).module()
    outputs = program(raw[0])
    assert (outputs.argmax(1) == raw[1]).double().mean().item() == pytest.approx(reported, abs=1e-12)


@slow
def test_the_constants_are_in_spec_and_readme(exported, raw):
    """Plain torch: the network from the package, weights from state_dict.pt, mean and deviation from spec.json."""
    folder, reported = exported
    spec = json.loads((folder / "out" / "spec.json").read_text())
    steps = spec["preprocessing"]
    mean, deviation = (np.asarray(steps[key], dtype=np.float64) for key in ("mean", "deviation"))
    assert mean.shape == deviation.shape == (13,)
    weights = torch.load(folder / "out" / "state_dict.pt", weights_only=True)
    network = _package().Taster(hidden=len(weights["smell.bias"]))  # the relay ends with a pruned version
    network.load_state_dict(weights)
    scaled = (raw[0].double() - torch.from_numpy(mean)[:, None, None]) / torch.from_numpy(deviation)[:, None, None]
    with torch.no_grad():
        outputs = network.eval()(scaled.float())
    assert (outputs.argmax(1) == raw[1]).double().mean().item() == pytest.approx(reported, abs=1e-12)
    readme = (folder / "out" / "README.md").read_text()
    assert "raw" in readme and f"{mean[0]:.4g}"[:4] in readme


@slow
def test_a_loaded_model_takes_raw_inputs_when_asked(exported, raw):
    folder, reported = exported
    store = folder / "relaytrain-runs"
    network = rt.load_model("cellar-whole", store=store, resolve=_taster, preprocess=True)
    with torch.no_grad():
        outputs = network(raw[0])
        bare = rt.load_model("cellar-whole", store=store, resolve=_taster)(raw[0])
    assert (outputs.argmax(1) == raw[1]).double().mean().item() == pytest.approx(reported, abs=1e-12)
    assert not torch.equal(outputs, bare)


def test_the_model_of_a_result_says_what_it_expects():
    """`load_model` and `Trained.model` expect prepared inputs, and their descriptions say so."""
    doc = (rt.load_model.__doc__ or "") + (rt.Trained.model.__doc__ or "")
    assert re.search(r"raw|standardis", doc), "is preprocessing inside the module that load_model returns?"


@slow
def test_onnx_comes_with_train_or_the_way_to_it_is_said(house):
    said = house.exporting.said
    assert "model.onnx" in said
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    extras = re.search(r"^train = \[(.*?)\]", pyproject.read_text(), re.MULTILINE | re.DOTALL)
    assert extras is not None
    assert "onnx" in extras[1] or re.search(r"onnx.*relaytrain\[\w+\]", said), said
