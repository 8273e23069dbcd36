"""A store for runs, looked over by the checker when a test is done with it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from relaytrain.store import RunStore, check
from relaytrain.store.check import errors


@pytest.fixture
def store() -> Iterator[RunStore]:
    """A store in memory where there is one; whatever a test did to it, the checker finds no error afterwards."""
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = tempfile.mkdtemp(prefix="relaytrain-orchestrator-", dir=base)
    yield RunStore.open(folder)
    if (Path(folder) / "runs.sqlite").exists():
        assert errors(check(folder)) == []
    shutil.rmtree(folder, ignore_errors=True)
