"""The wheel in a new environment outside the checkout: `plan`, `run quickstart`, `report` and `export` work there.

By default the environment is one of this Python and borrows its packages, which takes no download. `RELAYTRAIN_PYTHONS`
names other interpreters, separated by colons, in whose environments the dependencies are installed already.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak
ROOT = Path(__file__).parents[2]
PYTHONS = [sys.executable, *filter(None, os.environ.get("RELAYTRAIN_PYTHONS", "").split(":"))]
LIMIT_S = 900
RAW = """
import sys
import torch
from relaytrain.data.quick import quick_data

test = quick_data(0, "quick")["test"]
outputs = torch.export.load(sys.argv[1]).module()(torch.from_numpy(test.images))
print((outputs.argmax(1).numpy() == test.labels).mean())
"""


def said(*words: str | Path, cwd: Path) -> str:
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "RELAYTRAIN_STORE")}
    call = list(map(str, words))
    ended = subprocess.run(call, cwd=cwd, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0, f"{' '.join(call)}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once, from a copy: building leaves files beside the sources."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", "src"):
        said("cp", "-r", ROOT / name, copy, cwd=copy)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir", out, copy]
    said(*pip, cwd=copy)
    (made,) = out.glob("relaytrain-*.whl")
    return made


def environment(python: str, folder: Path) -> Path:
    """A new environment whose packages are those of `python`, all but RelayTrain."""
    said(python, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    new = folder / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    own, lent = (Path(said(each, "-c", where, cwd=folder).strip()) for each in (new, python))
    (own / "lent.pth").write_text(f"{lent}\n")  # a plain path: the .pth files of an editable install there are not read
    return new


@pytest.mark.parametrize("python", PYTHONS)
def test_the_wheel_works_outside_the_checkout(wheel, tmp_path, python):
    new = environment(python, tmp_path / "env")
    pip = [sys.executable, "-m", "pip", "--python", new, "install", "-q", "--no-deps", "--no-index", wheel]
    said(*pip, cwd=tmp_path)
    relaytrain, work = new.with_name("relaytrain"), tmp_path / "work"
    work.mkdir()
    place = said(new, "-c", "import relaytrain; print(relaytrain.__file__)", cwd=work)
    assert Path(place.strip()).is_relative_to(tmp_path / "env")
    assert "legs" in json.loads(said(relaytrain, "plan", "quickstart", "--format", "json", cwd=work))
    words = ("run", "quickstart", "--name", "from-wheel", "--set", "data.standardise=true", "--format", "json")
    ran = json.loads(said(relaytrain, *words, cwd=work))
    assert ran["verdict"] == "met"
    said(relaytrain, "report", "from-wheel", "--out", "quick.html", cwd=work)
    assert "target met" in (work / "quick.html").read_text()
    made = json.loads(said(relaytrain, "export", "from-wheel", "trained", "--format", "json", cwd=work))
    assert made["rebuilt"] and {"model.pt2", "README.md"} <= set(made["files"])
    accuracy = float(said(new, "-c", RAW, work / "trained" / "model.pt2", cwd=work))
    assert accuracy == pytest.approx(ran["test_accuracy"], abs=1e-12), "from raw inputs"
