"""A store, and sample runs written into it and read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sample_run import Sample, open_store, write_run

from relaytrain.report.run_view import RunView
from relaytrain.store import RunStore

RUN = "quickstart-0001"


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return open_store(tmp_path / "runs")


@pytest.fixture
def play(store: RunStore) -> Callable[..., RunView]:
    """Write a sample run and read it back."""

    def played(sample: Sample | None = None, run: str = RUN) -> RunView:
        write_run(store, run, sample)
        return RunView.of(store.events(run))

    return played
