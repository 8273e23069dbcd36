"""Every example is a script that runs; the stranger's walk goes from `new` to an exported network."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from relaytrain.store import RunStore

pytest.importorskip("torch")
pytestmark = pytest.mark.train
EXAMPLES = Path(__file__).parents[2] / "examples"


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("name", ["own_loop", "lightning_style"])
def test_a_loop_of_ones_own_follows_the_decisions(name: str) -> None:
    session = module(EXAMPLES / f"{name}.py").main(most_epochs=7)
    outcomes = session.outcomes
    assert [outcome.decision.epoch for outcome in outcomes] == list(range(1, len(outcomes) + 1)) and outcomes
    assert all(math.isfinite(outcome.loss) for outcome in outcomes)
    assert outcomes[-1].loss < 1.5 < outcomes[0].loss
    assert session.verdict is not None


@pytest.mark.slow
def test_a_loop_of_ones_own_reaches_the_target() -> None:
    session = module(EXAMPLES / "own_loop.py").main()
    assert session.verdict == "met"
    assert len({outcome.decision.pair for outcome in session.outcomes}) >= 2
    probed = [outcome.handover_loss for outcome in session.outcomes]
    assert sum(loss is not None for loss in probed) == len({o.decision.pair for o in session.outcomes}) - 1


@pytest.mark.slow
def test_a_strangers_network_goes_all_the_way(tmp_path: Path) -> None:
    walk = EXAMPLES / "stranger" / "walk.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(walk), str(tmp_path / "own")],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("valid: waves", "trains, prunes and is rebuilt bit for bit", "healthy", "target met", "bit for bit"):
        assert words in done.stdout
    (handover,) = RunStore.open(tmp_path / "own" / "runs").events("waves-first", kinds=("handover",))
    assert handover.body["before"] == ["full", "cloud"] and handover.body["after"] == ["small", "edge"]
    assert handover.body["kind"] == "prune"
    exported = tmp_path / "own" / "trained"
    facts = json.loads((exported / "export.json").read_text())
    assert facts["run"] == "waves-first" and facts["version"] == "small"
    assert (exported / "model.safetensors").stat().st_size > 0
