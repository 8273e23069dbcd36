"""Figures, each redrawn at most once in a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from relaytrain.experiments import Reproduction, run


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Reproduction]:
    """Each figure at most once in a session."""

    @cache
    def once(name: str) -> Reproduction:
        return run(name, tmp_path_factory.mktemp(name), formats=("png", "svg"))

    return once
