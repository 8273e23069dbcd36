"""Hostile files, made by seed: no crash of the interpreter, no traceback, no gigabyte, no ten seconds, nothing outside
touched. 56 of them in `make test`, 240 with RELAYTRAIN_TIER=soak; `hostile_worker.py` replays one by its seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hostile_files import KINDS
from store_faults import soak

COUNT = 240 if soak() else 56
TORCH = find_spec("torch") is not None and soak()
"""Start files need torch, whose import alone takes seconds."""
MOST_MB = 1024


def snapshot(tree: Path) -> dict[str, tuple[int, int, int, bytes]]:
    facts = {}
    for path in sorted(tree.rglob("*")):
        state = path.lstat()
        facts[str(path)] = (state.st_mode, state.st_size, state.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
    return facts


def test_hostile_files_are_refused_in_words(tmp_path):
    scratch, sentinel = tmp_path / "scratch", tmp_path / "sentinel"
    for folder in (scratch, sentinel, sentinel / "deep"):
        folder.mkdir()
    (sentinel / "secret").write_text("nobody's business\n")
    (sentinel / "deep" / "file").write_bytes(bytes(range(256)))
    before = snapshot(sentinel)
    seeds = [str(seed) for seed in range(COUNT) if TORCH or KINDS[seed % len(KINDS)] != "start"]
    worker = Path(__file__).with_name("hostile_worker.py")
    environment = {**os.environ, "HOME": str(scratch), "HOSTILE_TORCH": "1" if TORCH else ""}
    done = subprocess.run(
        [sys.executable, str(worker), str(scratch), str(sentinel), *seeds],
        capture_output=True, text=True, env=environment, timeout=60 + 12 * len(seeds), check=False,
    )  # fmt: skip
    lines = done.stdout[done.stdout.find("ready") :].splitlines()[1:]
    ended = [json.loads(line) for line in lines]
    assert len(ended) == len(seeds), done.stderr[-2000:]
    bad = [one for one in ended if one["code"] not in one["allowed"] or one["mb"] > MOST_MB or _rude(one["said"])]
    assert not bad, "\n".join(json.dumps(one) for one in bad)
    assert snapshot(sentinel) == before
    kinds = {kind: sum(one["kind"] == kind for one in ended) for kind in dict.fromkeys(KINDS)}
    print(f"hostile files: {len(ended)} ({kinds}), largest {max(one['mb'] for one in ended)} MB")


def _rude(said: str) -> bool:
    return "Traceback" in said or "bug of relaytrain" in said


@pytest.mark.parametrize("name", ["fit.npz"])
def test_the_fit_that_is_spoiled_is_a_good_one(name, tmp_path):
    """Or all of the fitted files above would be refused for another reason."""
    from hostile_files import _good, write_fitted

    from relaytrain.estimators.learned.fitted import load_fitted

    arrays, body = _good()
    write_fitted(tmp_path / name, arrays, body)
    assert load_fitted(tmp_path / name).change is not None
