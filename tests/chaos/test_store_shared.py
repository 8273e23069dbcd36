"""C10, C11, C14: clocks that jump, two that resume while others read, and thousands of epochs."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
import stub_run
from store_faults import RUN, Child, assert_finished, die, scratch, soak

from relaytrain.core.errors import StoppedByUser
from relaytrain.store import Clock, LeaseHeld, RunStore, check

WALL_CLOCKS = {
    "steady": lambda n: 1e9 + n,
    "an hour on": lambda n: 1e9 + n + 3600 * (n > 10),
    "an hour back": lambda n: 1e9 + n - 3600 * (n > 10),
    "a day back": lambda n: 1e9 + n - 86400 * (n > 7),
    "frozen": lambda n: 1e9,
    "before 1970": lambda n: -5.0 * n,
}


def test_c10_the_wall_clock_never_touches_durations_or_order():
    seen = {}
    for name, wall in WALL_CLOCKS.items():
        with scratch() as base:
            calls, ticks = itertools.count(), itertools.count()
            clock = Clock(wall_s=lambda w=wall, c=calls: w(next(c)), monotonic_s=lambda t=ticks: 0.25 * next(t))
            store = RunStore.open(base / "store", clock=clock)
            assert stub_run.run(store, RUN, 9) == "met"
            assert_finished(base / "store", 9)
            seen[name] = [(e.seq, e.kind, e.epoch, e.session_s, e.body) for e in store.events(RUN)]
    assert all(events == seen["steady"] for events in seen.values())
    durations = [body["wall_s"] for _, kind, _, _, body in seen["steady"] if kind == "epoch_done"]
    assert all(d > 0 for d in durations)
    sessions = [session for _, _, _, session, _ in seen["steady"]]
    assert sessions == sorted(sessions)


@pytest.mark.slow
def test_eight_processes_make_one_store_at_once():
    for _ in range(5):
        with scratch() as base:
            folder = base / "store"

            def work(say, number, folder=folder) -> int:
                return 0 if stub_run.run(RunStore.open(folder), f"stub-run-{number}", 3) == "met" else 1

            children = [Child(lambda say, n=n: work(say, n)) for n in range(8)]
            assert [child.wait().code for child in children] == [0] * 8
            assert {s.status for s in RunStore.open(folder).runs()} == {"met"}
            assert len(RunStore.open(folder).runs()) == 8
            assert check(folder) == []


def test_stop_from_another_process_and_resume():
    with scratch() as base:
        folder = base / "store"
        store = RunStore.open(folder)

        def work(say) -> int:
            try:
                stub_run.run(RunStore.open(folder), RUN, 100_000, told=say)
            except StoppedByUser as stopped:
                return stopped.exit_status
            return 0

        child = Child(work)
        assert child.hear(6)
        store.request_stop(RUN)
        death = child.wait()
        assert death.code == 6
        assert store.summary(RUN).status == "stopped"
        reached = store.summary(RUN).epoch
        assert death.acknowledged == list(range(1, reached + 1))
        assert stub_run.run(store, RUN, reached + 3) == "met"
        assert_finished(folder, reached + 3)


def _read_until_verdict(folder: Path) -> int:
    """A dashboard: every look shows a longer prefix of the same events, and no epoch without its checkpoint."""
    store, known, looks = RunStore.open(folder), (), 0
    while not known or known[-1].kind != "verdict":
        events = store.events(RUN)
        looks += 1
        assert events[: len(known)] == known
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        for event in events[len(known) :]:
            if event.blob:
                epoch, _ = stub_run.unpack(store.get_blob(RUN, event.blob))
                assert epoch == (event.epoch or 0)
        summary = store.summary(RUN)
        assert summary.status in ("running", "interrupted", "met")
        assert summary.totals.useful_j == summary.epoch * (summary.epoch + 1)
        known = events
    return 0


@pytest.mark.slow
def test_c11_two_resume_and_two_read(record_property):
    rounds, epochs = 50 if soak() else 6, 8
    for _ in range(rounds):
        with scratch() as base:
            folder = base / "store"

            def start(say, folder=folder) -> int:
                stub_run.run(RunStore.open(folder), RUN, epochs, told=lambda what, k: die() if k == 3 else None)
                return 0

            assert Child(start).wait().killed
            gate_read, gate_write = os.pipe()  # a byte comes when both have tried: the winner holds on until then

            def resume(say, folder=folder, gate=gate_read) -> int:
                store = RunStore.open(folder)
                try:
                    writer = store.resume_run(RUN)
                except LeaseHeld:
                    say("refused", 0)
                    return 2
                say("holds", 0)
                os.read(gate, 1)
                writer.close()
                return 0 if stub_run.run(store, RUN, epochs) == "met" else 1

            readers = [Child(lambda say, folder=folder: _read_until_verdict(folder)) for _ in range(2)]
            rivals = [Child(resume) for _ in range(2)]
            assert all(rival.hear(1) for rival in rivals)
            os.write(gate_write, b"!")
            os.close(gate_write)
            os.close(gate_read)
            ends = sorted(rival.wait().code for rival in rivals)
            assert ends == [0, 2]
            assert [reader.wait().code for reader in readers] == [0, 0]
            assert_finished(folder, epochs)
    record_property("rounds", rounds)


def _resident() -> tuple[int, int]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
def test_c14_memory_and_files_stay_flat(record_property):
    epochs = 2000 if soak() else 400
    with scratch() as base:
        folder = base / "store"

        def work(say) -> int:
            def told(what: str, epoch: int) -> None:
                if what == "done" and epoch in (epochs // 4, epochs):
                    size, fds = _resident()
                    say("bytes", size)
                    say("fds", fds)

            stub_run.run(RunStore.open(folder), RUN, epochs, told=told, thin_every=10)
            return 0

        death = Child(work).wait()
        assert death.code == 0
        (_, size), (_, fds), (_, size_end), (_, fds_end) = death.said
        record_property("growth_bytes", size_end - size)
        print(f"C14: {epochs} epochs, {(size_end - size) / 1e6:.2f} MB more, {fds_end - fds} more open files")
        assert not soak() or size_end - size < 5_000_000  # elsewhere an allocator's whims are larger than a leak
        assert fds_end == fds
        left = len(os.listdir(folder / "blobs" / RUN))
        assert left < epochs // 4 + 15  # the handovers, the last two, the best, those since the last thinning
