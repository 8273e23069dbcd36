from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from relaytrain.store import RunStore, check
from relaytrain.store.check import errors

sys.path.insert(0, str(Path(__file__).parents[1] / "chaos"))  # the small relay that crash tests train
if find_spec("torch") is None:
    collect_ignore = ["test_runs.py"]


@pytest.fixture
def store() -> Iterator[RunStore]:
    """A store in memory where there is one; whatever a test did to it, the checker finds no error afterwards."""
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = tempfile.mkdtemp(prefix="relaytrain-orchestrator-", dir=base)
    yield RunStore.open(folder)
    if (Path(folder) / "runs.sqlite").exists():
        assert errors(check(folder)) == []
    shutil.rmtree(folder, ignore_errors=True)
