"""Loaders and steps that are wrong: doctor and run both name the user's file and line, and nothing is lost."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from forked import Call, relaytrain
from mistakes import changed, written

MODULE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):  # rows
    def __init__(self, count, seed):
        draws = torch.Generator().manual_seed(seed)
        self.rows = torch.randn(count, 4, generator=draws)
        self.sums = self.rows.sum(1)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index], self.sums[index]


class Batches:  # batches
    def __iter__(self):
        yield from DataLoader(Rows(40, 0), batch_size=10)


def data(who):
    return Rows(40, len(who))


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0))


def step(model, batch):  # step
    rows, wanted = batch
    return nn.functional.mse_loss(model(rows), wanted)


def evaluate(model, batch):  # evaluate
    return {"count": len(batch[0]), "gap": float((model(batch[0]) - batch[1]).abs().sum())}
"""

SCENARIO = """\
schema = 1
name = "rows"
[target]
metric = "gap"
loss = 0.05
deadline = "10m"
probability = 0.8
max_epochs = 3
[start]
loss = 1.6
[[versions]]
name = "full"
factory = "mine:net"
parameters = 49
flops_per_sample = "200 FLOP"
activation_bytes_per_sample = "100 B"
[[nodes]]
name = "server"
device = "bench"
samples = 40
[[node_sets]]
name = "cloud"
nodes = ["server"]
[devices.bench]
flops_per_s = "1 MFLOP/s"
busy_w = "2 W"
memory_bytes = "1 MB"
[law]
kind = "level"
[[law.curves]]
floor = 0.01
drop = 1.6
scale = 3
power = 2
[training]
step = "mine:step"
evaluate = "mine:evaluate"
lr = 0.05
batch = 10
[data]
source = "mine:data"
partition = "by-node"
"""
_RETURN = "return nn.functional.mse_loss(model(rows), wanted)"
_ITEM = "return self.rows[index], self.sums[index]"
_ALL = "yield from DataLoader(Rows(40, 0), batch_size=10)"
_DATA = "return Rows(40, len(who))"
_ONLY_SERVER = f'{_DATA} if who != "server" else '


@dataclass(frozen=True)
class OwnMistake:
    """One thing done wrong; `line` is marked in the module, and both verbs must name it and say `words`."""

    name: str
    line: str | None
    words: str
    module: dict[str, str] = field(default_factory=dict)
    scenario: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> int | None:
        module = written(folder, changed(MODULE, self.module), changed(SCENARIO, self.scenario))
        marked = [n for n, text in enumerate(module.splitlines(), 1) if self.line and text.endswith(f"# {self.line}")]
        return marked[0] if marked else None


MISTAKES = [
    OwnMistake(
        "a loader raises", "here", "the disc is gone",
        {_ITEM: f'if index == 33:\n            raise OSError("the disc is gone")  # here\n        {_ITEM}'},
    ),
    OwnMistake(
        "a worker of a loader raises", "here", "OSError: the disc is gone",
        {
            _ITEM: f'if index == 33:\n            raise OSError("the disc is gone")  # here\n        {_ITEM}',
            _DATA: "return DataLoader(Rows(40, len(who)), batch_size=10, num_workers=1)",
        },
    ),
    OwnMistake(
        "a loader gives nothing", "batches", "gave no batch",
        {_ALL: "yield from ()", _DATA: f"{_ONLY_SERVER}Batches()"},
    ),
    OwnMistake(
        "a loader changes its shapes", "batches", r"batch [23] .* is \(float32\[3\].*first was \(float32\[4\]",
        {
            _ALL: "for at, (rows, sums) in enumerate(DataLoader(Rows(40, 0), batch_size=10)):\n"
            "            yield (rows if at != 2 else rows[:, :3]), sums",
            _DATA: f"{_ONLY_SERVER}Batches()",
        },
    ),
    OwnMistake(
        "a loader gives NaN", "rows", "holds NaN",
        {_ITEM: 'return self.rows[index], self.sums[index] if index != 33 else torch.tensor(float("nan"))'},
    ),
    OwnMistake("an empty dataset", "rows", "no samples at all", {_DATA: "return Rows(0, 1)"}),
    OwnMistake("no data for a name", None, "returned nothing", {_DATA: f"{_ONLY_SERVER}None"}),
    OwnMistake("data that are none", None, "expected .*a Dataset, a DataLoader", {_DATA: f"{_ONLY_SERVER}7"}),
    OwnMistake("a step returns nothing", "step", "returned nothing", {_RETURN: "loss = 3"}),
    OwnMistake("a step returns no scalar", "step", r"shape \[10\]", {_RETURN: "return (model(rows) - wanted) ** 2"}),
    OwnMistake("a step returns a float", "step", "returned a float", {_RETURN: f"{_RETURN}.item()"}),
    OwnMistake("a step that detaches", "step", "without a gradient", {_RETURN: f"{_RETURN}.detach()"}),
    OwnMistake(
        "a step that raises", "here", "IndexError",
        {_RETURN: "return model(rows)[:, :, 3].mean()  # here"},
    ),
    OwnMistake("sums without a count", "evaluate", 'with "count"', {'"count": len(batch[0]), ': ""}),
    OwnMistake("a figure that nobody sums", None, "target.metric: got gapp", scenario={'"gap"': '"gapp"'}),
    OwnMistake(
        "a missing package", "here", "install that package",
        {"import torch\n": "import torch\nimport nosuchthing  # here\n"},
    ),
    OwnMistake(
        "a batch that is no pair", None, "give .training. step",
        {_DATA: "return DataLoader([1.0, 2.0] * 20, batch_size=10)"}, {'step = "mine:step"\n': ""},
    ),
    OwnMistake("images only", None, "standardise: got true", scenario={'"by-node"': '"by-node"\nstandardise = true'}),
    OwnMistake(
        "divided by class without classes", None, "neither `targets` nor `labels`",
        scenario={'"by-node"': '"dirichlet"'},
    ),
    OwnMistake(
        "a loader that cannot be divided", None, "cannot be divided",
        {_DATA: "return Batches()"}, {'"by-node"': '"iid"'},
    ),
]  # fmt: skip
QUICK = ("a loader raises", "a step returns nothing")


def said_by(verb: str, folder: Path) -> Call:
    return relaytrain(verb, "mine.toml", folder=folder)


def cases() -> list[Any]:
    """Every mistake by both verbs in the soak; else by one of them, in turn, and the quick ones by both."""
    made = []
    for place, mistake in enumerate(MISTAKES):
        for turn, verb in enumerate(("doctor", "run")):
            marks = [] if mistake.name in QUICK else [pytest.mark.slow]
            if mistake.name not in QUICK and place % 2 != turn:
                marks.append(pytest.mark.soak)
            made.append(pytest.param(mistake, verb, id=f"{verb}-{mistake.name}", marks=marks))
    return made


@pytest.mark.parametrize(("mistake", "verb"), cases())
def test_the_users_file_and_line_are_named(mistake: OwnMistake, verb: str, tmp_path: Path) -> None:
    line = mistake.write(tmp_path)
    call = said_by(verb, tmp_path)
    assert call.status == 3, call.said
    assert re.search(mistake.words, call.said), call.said
    assert "Traceback" not in call.said
    if mistake.line is not None:
        assert re.search(rf"mine\.py:{line}\b", call.said), call.said


def test_the_package_as_it_should_be_is_healthy(tmp_path: Path) -> None:
    OwnMistake("none", None, "").write(tmp_path)
    call = said_by("doctor", tmp_path)
    assert call.status == 0 and call.out.rstrip().endswith("healthy"), call.said


@pytest.mark.slow
def test_what_was_trained_before_a_loader_failed_is_kept(tmp_path: Path) -> None:
    late = f"""Rows.served = getattr(Rows, "served", 0) + 1
        if Rows.served > 150:
            raise OSError("gone")
        {_ITEM}"""
    OwnMistake("late", None, "", {_ITEM: late}).write(tmp_path)
    failed = relaytrain("run", "mine.toml", "--name", "rows-late", folder=tmp_path)
    assert failed.status == 3 and "gone" in failed.said and "those before it are kept" in failed.said, failed.said
    OwnMistake("mended", None, "").write(tmp_path)
    whole = relaytrain("run", "mine.toml", "--name", "rows-whole", folder=tmp_path)
    resumed = relaytrain("resume", "rows-late", "--code", ".", "--force", folder=tmp_path)
    assert resumed.status == whole.status == 5, resumed.said
    shown = [relaytrain("show", run, folder=tmp_path).out.count("k ") for run in ("rows-late", "rows-whole")]
    assert shown[0] == shown[1]


@pytest.mark.slow
def test_an_iterable_trains_and_the_run_says_what_it_cannot_promise(tmp_path: Path) -> None:
    OwnMistake("iterable", None, "", {_DATA: f"{_ONLY_SERVER}Batches()"}).write(tmp_path)
    call = said_by("run", tmp_path)
    assert call.status == 5, call.said
    assert "not promised: server of mine:data is iterated over" in call.said
    assert "is iterated over" in said_by("doctor", tmp_path).said
