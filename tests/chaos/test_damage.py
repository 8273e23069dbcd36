"""Bytes of a store are flipped, cut off and removed: the commands say what is wrong, or nothing is.

The store holds a finished run and one that was killed with its log left behind. One place is damaged at a time; then
`ls`, `show`, `store check`, `store repair` and the store's own resume are asked. No acknowledged epoch may be missing
without a word. `python test_damage.py [PLACES [SEED]]` prints what was salvaged as a table.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import signal
import sys
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
import stub_run
from store_faults import Child, die, scratch, soak

from relaytrain.cli.app import main
from relaytrain.core.errors import RelayTrainError
from relaytrain.store import Event, RunStore, thinning

FINISHED, KILLED = "finished-1", "interrupted-1"
EPOCHS = {FINISHED: 60, KILLED: 9}  # the first fills pages that are in the database alone
LIMIT_S = 20 if soak() else 600  # a command that takes longer hangs; a busy machine is given more
FEW, MANY = 45, 420


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


def places(folder: Path, count: int, seed: int) -> list[tuple[str, str, int]]:
    """(file, what is done to it, where): all kinds of files removed and emptied, the rest at random places."""
    files = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
    files = [name for name in files if not name.endswith("-shm")]
    main_files = [name for name in files if name.startswith("runs.sqlite")]
    trails = [name for name in files if name.endswith("/trail")]
    blobs = [name for name in files if name not in (*main_files, *trails)]
    some = [*main_files, *trails, *blobs[:: max(1, len(blobs) // 6)]]
    cases = [(name, how, 0) for name in some for how in ("remove", "cut")]
    chance = random.Random(seed)
    weighted = [*(main_files * len(blobs)), *(trails * (len(blobs) // 4)), *blobs[::2]]
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
    """What became of one damaged store: who spoke up, and how many epochs the resumed run had to repeat."""

    file: str
    how: str
    said: bool
    repeated: int


def judge(folder: Path, case: tuple[str, str, int], needed: set[str], told: dict[str, tuple[Event, ...]]) -> Result:
    """Ask every command about a damaged store; AssertionError when one is silent about what is missing."""
    listed, checked = ask("ls", "--store", folder), ask("store", "check", folder)
    shown = {run: ask("show", run, "--store", folder) for run in EPOCHS}
    whole = {run: status == 0 for run, (status, _) in shown.items()}
    for run, epochs in EPOCHS.items():
        assert not whole[run] or f" {epochs} " in f" {listed[1]} ", (case, run, listed)
        assert not whole[run] or as_told(RunStore.open(folder).events(run), told[run]), (case, run)
        assert whole[run] or shown[run][0] in (3, 9), (case, shown[run])
    assert all(whole.values()) or checked[0], (case, checked)
    if listed[0] == 0:  # it does not show plans
        assert all(whole[run] or "CRC" in shown[run][1] for run in EPOCHS), (case, listed, shown)
        assert all(f" {epochs} " in listed[1] for epochs in EPOCHS.values()), (case, listed)
    try:
        with RunStore.open(folder).resume_run(KILLED) as writer:
            assert writer.progress.epoch == EPOCHS[KILLED], (case, "resumed short")
    except RelayTrainError as error:
        assert error.exit_status in (3, 9), (case, error)
        assert not whole[KILLED], (case, error)
    before = blobs_of(folder)
    assert ask("store", "gc", folder)[0] == 0 or not all(whole.values()), case
    assert blobs_of(folder) >= before & needed, (case, "gc removed what is needed")
    repaired = ask("store", "repair", folder)
    assert repaired[0] == 0, (case, repaired)  # one damage is never too much: there are two records
    assert all(as_told(RunStore.open(folder).events(run), told[run]) for run in EPOCHS), case
    assert ask("ls", "--store", folder)[0] == 0, case
    kind = "checkpoint" if case[0].count("/") == 2 and not case[0].endswith("trail") else case[0].split("/")[-1]
    said = bool(listed[0] or checked[0] or "damaged" in checked[1])
    return Result(kind, case[1], said, go_on(folder))


def as_told(events: tuple[Event, ...], before: tuple[Event, ...]) -> bool:
    """Whether nothing is missing or changed; a decision without its epoch may be gone, for it is made again."""
    return events == before or (before[-1].kind == "planned" and events == before[:-1])


def blobs_of(folder: Path) -> set[str]:
    return {f"{path.parent.name}/{path.name}" for path in folder.glob("blobs/*/*-*")}


def go_on(folder: Path) -> int:
    """Resume the killed run from its newest whole checkpoint; how many epochs were repeated."""
    store = RunStore.open(folder)
    begun: list[int] = []
    assert stub_run.run(store, KILLED, 11, told=lambda what, k: begun.append(k) if what == "work" else None) == "met"
    assert stub_run.unpack(store.latest_checkpoint(KILLED).data)[1].tobytes() == stub_run.expected_weights(11).tobytes()
    return EPOCHS[KILLED] + 1 - begun[0]


def hung(number: int, frame: object) -> None:
    raise AssertionError(f"a command took longer than {LIMIT_S} s")


def damage_all(count: int, seed: int = 14) -> list[Result]:
    results = []
    before = signal.signal(signal.SIGALRM, hung)
    try:
        with scratch() as base:
            make(base / "store")
            whole = base / "whole"
            shutil.copytree(base / "store", whole)
            told = {run: RunStore.open(whole).events(run) for run in EPOCHS}
            assert told[KILLED][-1].kind == "planned" and told[FINISHED][-1].kind == "verdict"
            needed = {f"{run}/{name}" for run in EPOCHS for name in thinning.needed(told[run])}
            for case in places(base / "store", count, seed):
                shutil.copytree(base / "store", base / "case", ignore=shutil.ignore_patterns("*-shm"))
                damage(base / "case" / case[0], *case[1:])
                signal.alarm(LIMIT_S)
                try:
                    results.append(judge(base / "case", case, needed, told))
                except Exception as error:
                    raise AssertionError(f"{case}: {type(error).__name__}: {error}") from error
                finally:
                    signal.alarm(0)
                shutil.rmtree(base / "case")
    finally:
        signal.signal(signal.SIGALRM, before)
    return results


def table(results: list[Result]) -> str:
    """By file and damage: cases, how many were said, epochs salvaged of those acknowledged, epochs repeated."""
    lines = [f"{'file':<16} {'damage':<7} {'cases':>5} {'said':>5} {'salvaged':>11} {'repeated':>8}"]
    for (file, how), count in sorted(Counter((r.file, r.how) for r in results).items()):
        rows = [r for r in results if (r.file, r.how) == (file, how)]
        epochs = count * sum(EPOCHS.values())
        said, repeated = sum(r.said for r in rows), sum(r.repeated for r in rows)
        lines.append(f"{file:<16} {how:<7} {count:>5} {said:>5} {epochs:>5}/{epochs:<5} {repeated:>8}")
    return "\n".join(lines)


@pytest.mark.slow
def test_no_epoch_is_missing_without_a_word(record_property):
    results = damage_all(MANY if soak() else FEW)
    print(table(results))
    record_property("places", len(results))
    by_file = Counter(r.file for r in results)
    assert min(by_file[name] for name in ("runs.sqlite", "runs.sqlite-wal", "trail", "checkpoint")) >= 5, by_file
    assert any(r.said for r in results)


if __name__ == "__main__":
    print(table(damage_all(*(map(int, sys.argv[1:]) if len(sys.argv) > 1 else (MANY,)))))
