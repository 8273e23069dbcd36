"""`new --model --data` on data and steps of one's own: counts are right, what nobody can know is left out."""

from __future__ import annotations

import json
import shutil
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import relaytrain

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"
TABLE = ("--model", "houses:network", "--data", "houses:houses")
LINES = ("--model", "verses:reader", "--data", "verses:lines", "--step", "verses:step", "--evaluate", "verses:evaluate")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The user's folder, with both modules."""
    for name in ("tabular/houses.py", "sequence/verses.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    return tmp_path


def module(name: str, folder: Path) -> Any:
    """The user's module, under a name that no scenario asks for."""
    spec = spec_from_file_location(f"{name}_of_the_test", folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def untrained(make: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    model: torch.nn.Module = make()
    return model.eval()


def test_a_dataset_of_float_targets_is_counted_and_trains(folder: Path) -> None:
    made = relaytrain("new", "my.toml", *TABLE, "--loss", "mse", "--target", "0.01", "--format", "json", folder=folder)
    assert made.status == 0, made.said
    counted = json.loads(made.out)["counted"]
    text = tomllib.loads((folder / "my.toml").read_text())
    full, small = text["versions"]
    assert full["parameters"] == 8 * 48 + 48 + 48 * 48 + 48 + 48 + 1 > small["parameters"]
    assert full["flops_per_sample"] == 2 * (3 * (8 * 48 + 48 * 48 + 48) - 8 * 48)
    assert full["weight_bytes"] == 4 * full["parameters"]
    assert counted["input"] == "(float32[8], float32[])"
    assert text["nodes"] == [{"name": "here", "samples": counted["nodes"]["here"]["samples"]}], "a price has no classes"
    assert counted["figures"]["rmse"] == pytest.approx(counted["start_loss"] ** 0.5)
    assert text["training"]["loss"] == "mse" and "lr" not in text["training"] and "law" not in text
    ran = relaytrain("run", "my.toml", "--set", "target.max_epochs=1", "--format", "json", folder=folder)
    assert ran.status == 5 and json.loads(ran.out)["epochs"] == 1, ran.said


def test_a_loader_for_each_node_and_a_step_are_counted(folder: Path) -> None:
    names = ("--node", "library", "--node", "desk-1")
    made = relaytrain("new", "my.toml", *LINES, *names, "--target", "1.0", folder=folder)
    assert made.status == 0, made.said
    assert "a smaller version" in made.out, "a GRU cannot be pruned, and that is said"
    text = tomllib.loads((folder / "my.toml").read_text())
    assert [(node["name"], node["samples"]) for node in text["nodes"]] == [("library", 400), ("desk-1", 120)]
    assert all("classes" not in node for node in text["nodes"]), "only the step knows what is a label"
    assert text["training"] == {"step": "verses:step", "evaluate": "verses:evaluate", "batch": 16}
    assert text["data"] == {"source": "verses:lines", "partition": "by-node"}
    verses = module("verses", folder)
    model = untrained(verses.reader)
    with torch.no_grad():
        sums = [verses.evaluate(model, batch) for batch in verses.lines("validation")]
    mean = sum(each["loss"] for each in sums) / sum(each["count"] for each in sums)
    assert text["start"]["loss"] == pytest.approx(mean, rel=1e-12)
    planned = relaytrain("plan", "my.toml", folder=folder)
    assert planned.status == 4, planned.said  # a guess, said so


def test_a_loader_that_knows_train_alone_becomes_a_node(folder: Path) -> None:
    (folder / "mine.py").write_text(
        "import torch\nfrom torch.utils.data import DataLoader\nfrom houses import Houses, network\n"
        'def loader(which):\n    return DataLoader(Houses("test", {"train": 60}.get(which, 20)), batch_size=12)\n'
        'def stream(which):\n    return lambda: iter(loader(which))\n'
    )  # fmt: skip
    for data, words in (("mine:loader", ""), ("mine:stream", "samples = 60")):
        asked = ("--model", "mine:network", "--data", data, "--loss", "mse", "--target", "0.1", "--force")
        made = relaytrain("new", "my.toml", *asked, folder=folder)
        assert made.status == 0, made.said
        text = (folder / "my.toml").read_text()
        loaded = tomllib.loads(text)
        assert loaded["nodes"] == [{"name": "train", "samples": 60}] and words in text
        assert loaded["training"] == {"loss": "mse", "batch": 12} and loaded["data"]["partition"] == "by-node"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (TABLE, 3, 'to predict numbers use loss = "mse"'),
        (LINES, 3, "name the nodes it knows with --node"),
        ((*LINES, "--node", "attic"), 3, "verses.py:"),
        (("--step", "verses:step"), 2, "beside --model and --data"),
        ((*LINES[:4], "--node", "library", "--step", "verses:nothing"), 3, "expected a name in the module"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    folder: Path, words: tuple[str, ...], status: int, said: str
) -> None:
    call = relaytrain("new", "my.toml", *words, folder=folder)
    assert call.status == status and said in call.err and "Traceback" not in call.err, call.said
    assert not (folder / "my.toml").exists()
