"""Commands are forked from a process that has loaded all they need; without torch or scikit-learn none is collected."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

import forked


@pytest.fixture(scope="session", autouse=True)
def loaded() -> None:
    """What every forked command would load, loaded once."""
    forked.warm()
