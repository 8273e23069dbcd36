"""Hostile files, made by seed: no crash of the interpreter, no traceback, no gigabyte, no hang, nothing outside is
touched. 32 of them in `make test`, 240 with RELAYTRAIN_TIER=soak; `hostile_worker.py` replays one by its seed."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hostile_files import KINDS, good_atlas, good_fit, write_fitted
from store_faults import soak

from relaytrain.cli.app import main
from relaytrain.core.errors import ScenarioError, WorkerLost
from relaytrain.estimators.learned.fitted import load_fitted
from relaytrain.scenario.read import read_named
from relaytrain.traces.atlas import read_atlas

COUNT = 240 if soak() else 32
TORCH = find_spec("torch") is not None and soak()
"""Start files need torch, whose import alone takes seconds."""
MOST_MB = 1024


def snapshot(tree: Path) -> dict[str, tuple[int, int, int, bytes]]:
    facts = {}
    for path in sorted(tree.rglob("*")):
        state = path.lstat()
        facts[str(path)] = (
            state.st_mode,
            state.st_size,
            state.st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
    return facts


@pytest.mark.slow
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
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    lines = done.stdout[done.stdout.find("ready") :].splitlines()[1:]
    ended = [json.loads(line) for line in lines]
    assert len(ended) == len(seeds), done.stderr[-2000:]
    bad = [one for one in ended if one["code"] not in one["allowed"] or _rude(one["said"])]
    bad += [one for one in ended if soak() and one["mb"] > MOST_MB]  # a process may not ask for more in any tier
    assert not bad, "\n".join(json.dumps(one) for one in bad)
    assert snapshot(sentinel) == before
    kinds = {kind: sum(one["kind"] == kind for one in ended) for kind in dict.fromkeys(KINDS)}
    print(f"hostile files: {len(ended)} ({kinds}), largest {max(one['mb'] for one in ended)} MB")


def _rude(said: str) -> bool:
    return "Traceback" in said or "bug of relaytrain" in said


def test_what_is_spoiled_is_good_before(tmp_path):
    """And so is the atlas, or all of the files above would be refused for another reason."""
    arrays, body = good_fit()
    write_fitted(tmp_path / "fit.npz", arrays, body)
    assert load_fitted(tmp_path / "fit.npz").change is not None
    arrays, body = good_atlas()
    write_fitted(tmp_path / "atlas.npz", arrays, body)
    assert read_atlas(tmp_path / "atlas.npz").epochs == 6


_UNSCALED = {"misses.bias": np.zeros((11, 5)), "misses.inputs": np.zeros((4, 4))}


@pytest.mark.parametrize(
    ("key", "spoil"),
    [
        ("forest0.feature", lambda arrays, body: _set(arrays, "forest0.feature", 0, 10**6)),  # was a SIGSEGV
        ("forest1.feature", lambda arrays, body: _set(arrays, "forest1.feature", 0, 40)),  # read beyond its row
        ("forest2.roots", lambda arrays, body: _set(arrays, "forest2.roots", 19, 10**8)),
        ("forest0.left", lambda arrays, body: arrays.update({"forest0.left": np.full(140, 2**32)})),
        ("run.rounds", lambda arrays, body: body["run"].update(rounds=10**9)),  # never ended
        ("net0.head.weight", lambda arrays, body: arrays.update({"net0.head.weight": np.zeros((2, 2))})),
        ("change0.input_sd", lambda arrays, body: arrays.update({"change0.input_sd": np.zeros(19)})),
        ("misses.scatter", lambda arrays, body: arrays.update({"misses.scatter": np.full((2, 5), -1.0)})),
        ("misses.inputs", lambda arrays, body: arrays.update(_UNSCALED)),
        ("misses.common", lambda arrays, body: body.update(misses={"common": 7})),
    ],
)  # fmt: skip
def test_a_fitted_file_is_refused_with_its_name_and_the_key(key, spoil, tmp_path):
    arrays, body = good_fit()
    spoil(arrays, body)
    write_fitted(tmp_path / "fit.npz", arrays, body)
    with pytest.raises(ScenarioError, match=rf"fit\.npz: {re.escape(key)}: got .*, expected .*fit again"):
        load_fitted(tmp_path / "fit.npz")


def _set(arrays, name, at, value):
    arrays[name] = arrays[name].copy()
    arrays[name][at] = value


def test_nothing_is_read_from_a_fifo_or_device(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for place in (tmp_path / "fifo", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match="no regular file"):
            read_named(place, 10)


@pytest.mark.parametrize(
    "call", [("ls", "--store"), ("store", "check"), ("fit", "--metric", "test", "out.npz")], ids=lambda call: call[0]
)
def test_a_path_that_is_too_long_has_its_sentence(call, tmp_path, capsys):
    path = str(tmp_path / ("d" * 300) / "x")
    words = [path, call[-1]] if call[0] == "fit" else [path]
    assert main([*(call[:-1] if call[0] == "fit" else call), *words]) == 2
    assert "File name too long; choose another path" in capsys.readouterr().err


def test_a_launcher_that_was_killed_has_its_sentence(tmp_path):
    from relaytrain.launcher import Launcher

    for ended in ("closed", "reset"):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        killed = Launcher.__new__(Launcher)
        killed._attach(ours)
        forked = killed.fork([str(tmp_path), 0, ""])
        if ended == "closed":
            assert theirs.recv(2**20)
        theirs.close()
        with pytest.raises(WorkerLost, match="process that starts workers has ended"):
            _ = forked.pid
        with pytest.raises(WorkerLost):
            forked.end()
        with pytest.raises(WorkerLost):
            killed.fork([])
        ours.close()


def test_a_request_that_the_launcher_cannot_be_sent_is_not_its_end():
    from relaytrain.launcher import Launcher

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**16)
        alive = Launcher.__new__(Launcher)
        alive._attach(ours)
        with pytest.raises(WorkerLost, match=r"cannot be asked: Message too long \(\d+,\d+ bytes"):
            alive.fork([], environment={"LARGE": "x" * 2**19})
        alive.fork([])
        assert theirs.recv(2**20), "one that is small enough arrives"
