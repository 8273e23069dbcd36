"""The types of the whole source, as `make check` looks at them: beside the other tests, for they take a minute."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.train
def test_types_are_sound() -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--cache-dir", os.devnull]  # a fifth of the time is writing one
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
