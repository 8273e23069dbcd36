"""Bytes of a store are flipped, cut off and removed: the commands say what is wrong, or nothing is.

The store holds a finished run and one that was killed with its log left behind. One place is damaged at a time; then
`ls`, `show`, `store check`, `store repair` and the store's own resume are asked. No acknowledged epoch may be missing
without a word. `python test_damage.py [PLACES]` prints what was salvaged as a table.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import sys
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import stub_run
from store_faults import Child, die, scratch, soak

from relaytrain.cli.app import main
from relaytrain.core.errors import RelayTrainError
from relaytrain.store import RunStore

FINISHED, KILLED = "finished-1", "interrupted-1"
EPOCHS = {FINISHED: 6, KILLED: 9}
LIMIT_S = 20  # a command that takes longer hangs
FEW, MANY = 60, 420


def make(folder: Path) -> None:
    """The store to damage."""

    def work(say) -> int:
        stub_run.run(RunStore.open(folder), FINISHED, EPOCHS[FINISHED])
        goes_on = EPOCHS[KILLED]
        stub_run.run(RunStore.open(folder), KILLED, 99, told=lambda what, k: die() if k > goes_on else None)
        return 0

    assert Child(work).wait().killed
    assert (folder / "runs.sqlite-wal").stat().st_size > 100_000
    for reserve in folder.rglob("reserve"):
        reserve.unlink()


def places(folder: Path, count: int) -> list[tuple[str, str, int]]:
    """(file, what is done to it, where): every file removed and emptied once, the rest flips and cuts at random places."""
    files = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
    files = [name for name in files if not name.endswith("-shm")]
    main_files = [name for name in files if name.startswith("runs.sqlite")]
    trails = [name for name in files if name.endswith("/trail")]
    blobs = [name for name in files if name not in (*main_files, *trails)]
    some = [*main_files, *trails, *blobs[:: max(1, len(blobs) // 6)]]
    cases = [(name, how, 0) for name in some for how in ("remove", "cut")]
    chance = random.Random(14)
    weighted = [*(main_files * 6), *(trails * 2), *blobs]
    while len(cases) < count:
        name = chance.choice(weighted)
        size = (folder / name).stat().st_size
        how = chance.choices(("flip", "zero", "cut"), (6, 2, 2))[0]
        cases.append((name, how, chance.randrange(size)))
    return cases[:count]


def damage(path: Path, how: str, where: int) -> None:
    if how == "remove":
        path.unlink()
    elif how == "cut":
        os.truncate(path, where)
    else:
        data = bytearray(path.read_bytes())
        if how == "zero":
            data[where : where + 512] = bytes(len(data[where : where + 512]))
        else:
            data[where] ^= 1 << random.Random(where).randrange(8)
        path.write_bytes(data)


def ask(*arguments: object) -> tuple[int, str]:
    """A command's exit status and words; exit 1 and tracebacks are faults of ours."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([str(a) for a in arguments])
    words = out.getvalue() + err.getvalue()
    assert status in (0, 2, 3, 9) and "Traceback" not in words, (status, words)
    if status in (3, 9):
        assert "error:" in words or "lost" in words or "broken" in words, words
    return status, words


@dataclass(frozen=True)
class Result:
    """What became of one damaged store."""

    file: str
    said: bool
    kept: int  # epochs that stand after the repair, of both runs
    repeated: int  # epochs that the resumed run went back


def judge(folder: Path, case: tuple[str, str, int]) -> Result:
    """Ask every command about a damaged store; AssertionError when one is silent about what is missing."""
    name = case[0]
    listed = ask("ls", "--store", folder)
    checked = ask("store", "check", folder)
    shown = {run: ask("show", run, "--store", folder) for run in EPOCHS}
    for run, epochs in EPOCHS.items():
        whole = shown[run][0] == 0 and _epochs(folder, run) == epochs
        assert whole or shown[run][0] in (3, 9), (case, run, shown[run])
        if shown[run][0] and listed[0] == 0:
            assert "event" in shown[run][1], (case, shown[run])  # a plan, which `ls` does not show
    said = max(listed[0], checked[0], *(status for status, _ in shown.values())) > 0
    if any(status for status, _ in shown.values()):
        assert checked[0], (case, checked)
    before = {path.name for path in (folder / "blobs").rglob("*-*") if path.is_file()}
    if said:
        ask("store", "gc", folder)
        named = {path.name for path in (folder / "blobs").rglob("*-*") if path.is_file()}
        lost = any(status for status, _ in shown.values())
        assert not lost or named >= {n for n in before if _may_be_needed(folder, n)}, case
    repaired = ask("store", "repair", folder)
    assert repaired[0] == 0, (case, repaired)  # one damage is never too much: there are two records
    for run, epochs in EPOCHS.items():
        assert _epochs(folder, run) == epochs, (case, run)
    assert ask("ls", "--store", folder)[0] == 0
    back = _go_on(folder)
    return Result(name.split("/")[-1] if "-" not in name.split("/")[-1][:20] else name[:11], said, sum(EPOCHS.values()), back)


def _may_be_needed(folder: Path, name: str) -> bool:
    """Whether a checkpoint is one of the last two epochs of the killed run, its start or a handover."""
    return name in _NEEDED


_NEEDED: set[str] = set()


def _epochs(folder: Path, run: str) -> int:
    return sum(event.kind == "epoch_done" for event in RunStore.open(folder).events(run))


def _go_on(folder: Path) -> int:
    """Resume the killed run from its newest whole checkpoint; how many epochs were repeated."""
    store, begun = RunStore.open(folder), []
    assert stub_run.run(store, KILLED, 11, told=lambda what, k: begun.append(k) if what == "work" else None) == "met"
    assert stub_run.unpack(store.latest_checkpoint(KILLED).data)[1].tobytes() == stub_run.expected_weights(11).tobytes()
    return EPOCHS[KILLED] + 1 - begun[0]
