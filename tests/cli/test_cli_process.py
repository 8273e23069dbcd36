"""What only a process of its own can show: exit statuses, imports, streams, and the cache of compiled code."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from relaytrain.cli import compiled
from relaytrain.cli.output import talk

NEVER = ("torch", "sklearn", "matplotlib", "fastapi", "flwr", "pandas", "scipy.linalg", "networkx", "cffi", "yaml")
LIMIT_S = 600  # what hangs, not what is slow on a busy machine
SPY = """
import sys
from relaytrain.cli.app import main
status = main(sys.argv[1:])
print(status, *(name for name in {names} if name in sys.modules), file=sys.stderr)
"""


def _run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=LIMIT_S, check=False, **options)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("arguments", "barred"),
    [
        (["--help"], (*NEVER, "numba", "numpy", "pydantic")),
        (["validate"], (*NEVER, "numba", "scipy")),
        (["validate", "depl_alexnet"], (*NEVER, "numba", "scipy")),
        (["plan", "quickstart"], NEVER),
        (["plan", "quickstart", "--rule", "adaptive"], ("relaytrain.planners.search.world_walk",)),
        pytest.param(["plan", "depl_alexnet"], NEVER, marks=pytest.mark.slow),
    ],
)
def test_heavy_packages_stay_out(arguments, barred):
    spied = _run(sys.executable, "-c", SPY.format(names=barred), *arguments)
    assert spied.stderr.splitlines()[-1] == "0", spied.stderr


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["plan", "smart_factory"], 0),
        (["plan", "smart_factory", "--set", "target.deadline=5"], 4),
        (["plan", "missing.toml"], 3),
        (["plan", "--planner", "none"], 2),
    ],
)
def test_the_process_ends_with_the_status(arguments, status):
    assert _run(sys.executable, "-m", "relaytrain", *arguments).returncode == status


def test_pipes_get_plain_text_without_escapes():
    piped = _run(sys.executable, "-m", "relaytrain", "compare", "fig5", "-q", env={**os.environ, "COLUMNS": "40"})
    assert "\x1b" not in piped.stdout and piped.stderr == ""
    assert any(line.startswith("pact/adaptive ") and "m0 on n0" in line for line in piped.stdout.splitlines()), (
        "one line a row"
    )


@pytest.mark.slow
def test_an_ascii_terminal_is_no_reason_to_fail():
    options = {"env": {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}}
    assert _run(sys.executable, "-m", "relaytrain", "compare", "fig5", **options).returncode == 0


def test_a_reader_that_leaves_is_no_error():
    script = f"{sys.executable} -m relaytrain plan smart_factory -q --format json | head -c 1"
    ended = _run("bash", "-c", f"set -o pipefail; {script}")
    assert ended.returncode == 0 and ended.stdout == "{" and ended.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is Linux's")
def test_a_full_disk_is_said_and_no_bug():
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "relaytrain", "validate"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert ended.returncode == 10
    assert "no space left" in ended.stderr and "bug" not in ended.stderr


def test_json_goes_to_stdout_alone():
    ended = _run(sys.executable, "-m", "relaytrain", "plan", "fig5", "--format", "json")
    assert json.loads(ended.stdout)["schema"] == "relaytrain.plan/2"


def test_compilation_is_announced_once(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    talk.quiet = True
    with compiled.compiled():
        numba.njit(lambda x: x + 3)(1)
    talk.quiet = False
    assert capsys.readouterr().err == "" and not (tmp_path / "cache").exists(), "what was not said is still to be said"
    for expected in (compiled.FIRST_TIME + "\n", ""):  # another verb, with searches of its own
        with compiled.compiled():
            assert [numba.njit(lambda x, n=n: x + n)(1) for n in (1, 2)] == [2, 3]
        assert capsys.readouterr().err == expected


@pytest.fixture
def unwritable(monkeypatch, tmp_path):
    """As if neither the package's folder nor the user's cache could be written, in a process without numba yet."""
    monkeypatch.setattr(compiled, "_writable", lambda folder: False)
    monkeypatch.setattr(compiled.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.delitem(sys.modules, "numba")
    for name in ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT"):
        monkeypatch.setenv(name, "")
    return tmp_path


def test_a_private_folder_takes_the_cache_when_no_other_can(unwritable):
    compiled._choose_cache()
    chosen = Path(os.environ["NUMBA_CACHE_DIR"])
    assert chosen.parent == unwritable and stat.S_IMODE(chosen.stat().st_mode) == 0o700


def test_a_folder_open_to_others_is_not_trusted(unwritable, capsys):
    compiled._choose_cache()
    chosen = Path(os.environ["NUMBA_CACHE_DIR"])
    chosen.chmod(0o777)
    os.environ["NUMBA_CACHE_DIR"] = ""
    compiled._choose_cache()
    assert os.environ["NUMBA_CACHE_DIR"] == "" and os.environ["NUMBA_DISABLE_JIT"] == "1"
    assert "slow" in capsys.readouterr().err


def test_uncompiled_planning_works():
    ended = _run(sys.executable, "-m", "relaytrain", "plan", "fig5", env={**os.environ, "NUMBA_DISABLE_JIT": "1"})
    assert ended.returncode == 0 and "m0 on n0" in ended.stdout
