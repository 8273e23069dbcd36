"""A forecaster with a GRU, judged by its RMSE: what is pruned of it, what its figures are called, what goes wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from forked import relaytrain

MODULE = """\
import torch
from torch import nn
from torch.utils.data import Dataset


class Waves(Dataset):
    def __init__(self, count, seed):
        draws = torch.Generator().manual_seed(seed)
        self.series = torch.randn(count, 6, 3, generator=draws)

    def __len__(self):
        return len(self.series)

    def __getitem__(self, index):
        return {"past": self.series[index], "next": self.series[index, -1, :1]}


def data(who):
    return Waves(40, len(who))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(3, 8)
        self.gru = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, past):
        return self.head(self.gru(self.enter(past))[0][:, -1])


def net():
    return Net()


def step(model, batch):
    return nn.functional.mse_loss(model(batch["past"]), batch["next"])


def broken(model, batch):  # broken
    return model(batch[0]).mean() * float("nan")


def evaluate(model, batch):
    squares = float((model(batch["past"]) - batch["next"]).square().sum())
    return {"loss": squares, "squared_error": squares, "count": len(batch["next"])}


def arrays(who):
    draws = torch.Generator().manual_seed(len(who))
    return torch.randn(40, 1, 3, 3, generator=draws), torch.arange(40) % 2


def plain():
    return nn.Sequential(nn.Flatten(), nn.Linear(9, 2))
"""

SCENARIO = """\
schema = 1
name = "waves"
[target]
metric = "rmse"
loss = 0.001
max_epochs = 2
[start]
loss = 1.0
[[versions]]
name = "full"
factory = "waves:net"
[[versions]]
name = "half"
ratio = 0.5
[[nodes]]
name = "server"
samples = 40
[[node_sets]]
name = "cloud"
nodes = ["server"]
[[pairs]]
version = "full"
nodes = "cloud"
seconds = 1
energy = 1
[[pairs]]
version = "half"
nodes = "cloud"
seconds = 0.5
energy = 0.5
[training]
step = "waves:step"
evaluate = "waves:evaluate"
lr = 0.05
batch = 10
[data]
source = "waves:data"
partition = "by-node"
"""
WIDE, NARROW = 120, 16


def written(folder: Path, width: int, **changed: str) -> Path:
    (folder / "waves.py").write_text(MODULE.replace("WIDTH", str(width)))
    text = SCENARIO
    for old, new in changed.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "waves.toml").write_text(text)
    return folder


def run(folder: Path, *words: str) -> Any:
    return relaytrain("run", "waves.toml", "--store", "runs", "--name", "the-waves", *words, folder=folder)


def verdict(folder: Path) -> dict[str, Any]:
    shown = relaytrain("show", "the-waves", "--store", "runs", "--format", "json", folder=folder)
    body: dict[str, Any] = json.loads(shown.out)["verdict"]
    return body


@pytest.mark.parametrize("keep", ["[]", '["gru"]', '["enter", "gru"]'])
def test_it_is_pruned_around_its_gru(tmp_path: Path, keep: str) -> None:
    folder = written(tmp_path, WIDE)
    call = relaytrain("doctor", "waves.toml", "--set", f"training.keep={keep}", folder=folder)
    assert call.status == 0 and re.search(r"half: .* (49|50)\.\d% of the parameters removed", call.out), call.said
    assert "could be" not in call.out, "what was asked was reached"


def test_a_ratio_that_cannot_be_reached_is_no_plain_ok(tmp_path: Path) -> None:
    folder = written(tmp_path, NARROW)
    words = (
        r"half: 50\.0% of the parameters were to be removed, 2\d\.\d% could be: gru, which torch-pruning cannot narrow "
        r"\(GRU\), and what feeds it \(enter\) stay whole"
    )
    call = relaytrain("doctor", "waves.toml", folder=folder)
    assert call.status == 0 and re.search(f"warning +{words}", call.out), call.said
    ran = run(folder)
    assert ran.status == 5 and len(re.findall(words, ran.said)) == 1, ran.said
    assert any(re.search(words, note) for note in verdict(folder)["notes"])


def test_what_cannot_be_pruned_at_all_is_said_by_doctor_without_sending_to_doctor(tmp_path: Path) -> None:
    folder = written(tmp_path, NARROW)
    call = relaytrain("doctor", "waves.toml", "--set", 'training.keep=["head"]', folder=folder)
    assert call.status == 3 and "none of its layers may become narrower: gru" in call.out, call.said
    assert "run `relaytrain doctor`" not in call.out


def test_the_test_figure_is_in_the_metric_of_the_target(tmp_path: Path) -> None:
    folder = written(tmp_path, WIDE)
    ran = run(folder)
    body = verdict(folder)
    assert body["test_figure"] == pytest.approx(body["test_loss"] ** 0.5)
    said = f"test rmse {body['test_figure']:.4g}, loss {body['test_loss']:.4g}"
    assert said in ran.out and re.search(r"k +2 \| \w+ on cloud \| rmse 0", ran.err), ran.said
    assert not re.search(r"\bloss \d", ran.err), "an rmse is not called a loss"
    assert said in relaytrain("show", "the-waves", "--store", "runs", folder=folder).out
    assert relaytrain("report", "the-waves", "--store", "runs", "--out", "it.html", folder=folder).status == 0
    page = (folder / "it.html").read_text()
    assert "test rmse" in page and "test loss" not in page
    result = json.loads(run(folder, "--format", "json", "--name", "more-waves").out)
    assert result["test_figure"] == body["test_figure"] and result["test_loss"] == body["test_loss"]


def test_a_target_in_loss_reads_as_ever(tmp_path: Path) -> None:
    ran = run(written(tmp_path, WIDE, **{'metric = "rmse"': 'metric = "loss"'}))
    body = verdict(tmp_path)
    assert "test_figure" not in body and re.search(r"\n  test loss [\d.]+\n", ran.out), ran.said
    assert re.search(r"k +2 \| \w+ on cloud \| loss 0", ran.err)


def test_a_step_that_gives_nan_is_named_and_no_warning_of_ours_leaks(tmp_path: Path) -> None:
    """On arrays in memory nothing is tried before the run looks at its untrained network."""
    arrays = {"waves:net": "waves:plain", "waves:data": "waves:arrays", 'evaluate = "waves:evaluate"\n': ""}
    folder = written(tmp_path, NARROW, **arrays, **{"ratio = 0.5": 'student = "waves:plain"', '"rmse"': '"loss"'})
    line = (folder / "waves.py").read_text().partition("# broken")[0].count("\n") + 1
    ran = run(folder, "--set", "training.step=waves:broken")
    assert ran.status == 8 and f"waves.py:{line}: waves:broken gives it on the validation set" in ran.err, ran.said
    assert "Warning" not in ran.said and "wide.py" not in ran.said


def test_a_step_that_gives_nan_on_a_loader_is_named_by_doctor_and_run(tmp_path: Path) -> None:
    folder = written(tmp_path, NARROW, **{"ratio = 0.5": "ratio = 0.2"})
    module = (folder / "waves.py").read_text().replace("model(batch[0])", 'model(batch["past"])')
    (folder / "waves.py").write_text(module)
    line = module.partition("# broken")[0].count("\n") + 1
    words = f"holds no NaN, by waves.py:{line}: waves:broken; check it and the network's start values"
    for verb in ("run", "doctor"):
        call = relaytrain(verb, "waves.toml", "--set", "training.step=waves:broken", "--store", "runs", folder=folder)
        assert call.status == 3 and words in call.said and "Warning" not in call.said, call.said


def test_a_student_on_data_of_ones_own_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    """What a loader by node gives is known once it is called: arrays in memory can be distilled on."""
    ran = run(written(tmp_path, NARROW, **{"ratio = 0.5": 'student = "waves:net"'}))
    assert ran.status == 3 and "versions.half: distillation works on images in memory" in ran.err, ran.said
    assert "k   1" not in ran.err
    kept = relaytrain("show", "the-waves", "--store", "runs", folder=tmp_path)
    assert kept.status != 0, "no run was begun"
