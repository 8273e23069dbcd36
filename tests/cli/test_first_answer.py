"""The first plan after an install: searched uncompiled where that is quicker, with the same answer to the last bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import relaytrain as rt
from relaytrain.cli import compiled
from relaytrain.cli.output import talk

pytestmark = pytest.mark.slow

HURRIED = """
import os
import relaytrain.cli.compiled as compiled
compiled.PATIENCE_CPU_S = 0.05
compiled._better_uncompiled = lambda module: os.environ.get(compiled.COMPILE) != "1"
from relaytrain.cli.app import command
command()
"""


def _plan(*start: str, preset: str, **variables: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, *start, "plan", preset, "--format", "json"]
    return subprocess.run(words, env=os.environ | variables, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("preset", ["smart_factory", "depl_digits"])
def test_nothing_is_compiled_for_a_small_plan(preset, tmp_path):
    first = _plan("-m", "relaytrain", preset=preset, NUMBA_CACHE_DIR=str(tmp_path))
    assert first.returncode == 0, first.stderr
    assert not list(tmp_path.rglob("*.nbi")) and "compiling" not in first.stderr
    assert json.loads(first.stdout) == rt.plan(preset).to_dict()


@pytest.mark.parametrize(
    "words",
    [
        ("smart_factory", "--set", "target.deadline=180", "--without", "bronze"),
        ("worlds", "--set", "target.deadline=0.7"),
        ("depl_digits", "--set", "target.deadline=14"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_had_is_said_uncompiled_as_compiled(words):
    """Sums of an uncompiled search are numpy's numbers, which write themselves otherwise."""
    command = [sys.executable, "-m", "relaytrain", "plan", *words]
    said = []
    for disabled in ("1", "0"):
        variables = {"NUMBA_DISABLE_JIT": disabled, compiled.COMPILE: "1"}
        env = os.environ | variables
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 4, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1] and "nearest feasible" in said[0]


def test_only_a_command_of_ours_may_begin_anew(monkeypatch, tmp_path):
    """Whoever calls `main` with words of their own is another program, which must not be started a second time."""
    monkeypatch.setattr(compiled, "_folder", lambda: tmp_path)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    monkeypatch.delenv(compiled.COMPILE, raising=False)
    monkeypatch.setattr(talk, "arguments", ("plan", "smart_factory"))
    assert not compiled._better_uncompiled("thresholds")
    monkeypatch.setattr(sys, "argv", ["relaytrain", *talk.arguments])
    assert compiled._better_uncompiled("thresholds")


def test_a_search_that_takes_long_begins_anew_and_is_compiled():
    late = _plan("-c", HURRIED, preset="smart_factory")
    assert late.returncode == 0, late.stderr
    assert json.loads(late.stdout) == rt.plan("smart_factory").to_dict()
