"""The examples with data and step of their own, killed once with -9 and resumed: losses are those of a whole run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from forked import epoch_is, hint_of, relaytrain

EXAMPLES = Path(__file__).parents[2] / "examples"
JOBS = {"tabular": "houses", "sequence": "verses", "disk_images": "scans", "vit": "garments", "text_lora": "notices"}
LOADED = {
    "vit": ("transformers.models.vit.modeling_vit",),
    "text_lora": ("transformers.models.bert.modeling_bert", "peft"),
}
"""Imported once here, so that none of the forked processes has to."""
EPOCHS = 2
SHORT = ("--set", "target.loss=0.01", "--set", f"target.max_epochs={EPOCHS}")
"""A target out of reach: every run has all its epochs."""


def losses(folder: Path, run: str) -> list[float]:
    shown = relaytrain("show", run, "--format", "json", folder=folder)
    assert shown.status == 0, shown.said
    return [epoch["loss"] for epoch in json.loads(shown.out)["epochs"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_a_killed_example_goes_on_with_equal_losses(name: str, tmp_path: Path) -> None:
    for package in LOADED.get(name, ()):
        pytest.importorskip(package)
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__", "scans", "relaytrain-runs"))
    file = f"{JOBS[name]}.toml"
    whole = relaytrain("run", file, "--name", "never-killed", *SHORT, folder=folder)
    assert whole.status == 5, whole.said
    killed = relaytrain("run", file, "--name", "killed-once", *SHORT, folder=folder, kill_when=epoch_is(1))
    assert killed.status == -9, killed.said
    listed = relaytrain("ls", folder=folder)
    resumed = relaytrain(*hint_of(listed.said), folder=folder)
    assert resumed.status == 5, resumed.said
    assert losses(folder, "killed-once") == losses(folder, "never-killed")
    assert len(losses(folder, "never-killed")) == EPOCHS
