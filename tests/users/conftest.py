"""Commands are forked from a process that has loaded all they need; without torch or scikit-learn none is collected."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if not (find_spec("torch") and find_spec("sklearn")):
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def loaded() -> None:
    """What every forked command would load, loaded once."""
    import forked

    forked.warm()
