"""One writer a run: who is silent is dead, whoever renews is not, and a replaced writer can add nothing."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from relaytrain.core.errors import StoppedByUser, UsageError
from relaytrain.store import LeaseHeld, LeaseLost, RunStore, check, lease
from relaytrain.store.lease import SILENT_S, Holder, Moment

RUN = "test-run-1"


@pytest.fixture
def store(tmp_path):
    return RunStore.open(tmp_path / "store")


@pytest.fixture
def at(monkeypatch):
    """Sets the time, and the boot, that the lease sees."""

    def at(monotonic_s: float, wall_s: float = 1e9, boot: str = "this-boot") -> None:
        monkeypatch.setattr(lease, "_boot", lambda: boot)
        monkeypatch.setattr(lease.time, "monotonic", lambda: monotonic_s)
        monkeypatch.setattr(lease.time, "time", lambda: wall_s)

    return at


def pretend_holder(store, **changes):
    """Write another holder into the lease row."""
    holder = dataclasses.replace(Holder.me(), **changes)
    with closing(sqlite3.connect(store.folder / "runs.sqlite")) as db:
        db.execute("UPDATE lease SET holder = ?", (json.dumps(dataclasses.asdict(holder)),))
        db.commit()
    return holder


def test_the_second_writer_is_refused(store):
    with store.create_run(RUN, {}):
        with pytest.raises(LeaseHeld, match="this very process") as caught:
            store.resume_run(RUN)
        assert caught.value.exit_status == 2
        assert store.summary(RUN).status == "running"
    store.resume_run(RUN).close()


def test_force_fences_the_first_writer_off(store):
    first = store.create_run(RUN, {})
    second = store.resume_run(RUN, force=True)
    for attempt in (lambda: first.append("planned", {}, 1), first.stop_requested, first.thin):
        with pytest.raises(LeaseLost, match="taken over"):
            attempt()
    assert issubclass(LeaseLost, StoppedByUser)
    second.append("planned", {}, 1)
    first.close()  # gives back nothing: the lease is not his any more
    assert store.summary(RUN).status == "running"
    second.append("verdict", {"verdict": "stopped"})
    second.close()
    assert [e.fence for e in store.events(RUN)] == [1, 2, 2]
    assert check(store.folder) == []


ELSEWHERE = {"pid": 7, "started": "1", "space": "pid:[1]", "host": "container-before"}


@pytest.mark.parametrize("change", [{}, ELSEWHERE, {**ELSEWHERE, "host": "other"}], ids=["here", "namespace", "host"])
def test_silence_decides_not_the_pid_nor_the_host(store, at, change):
    """A container was restarted: pid, namespace and hostname are new, and the one before is silent or is not."""
    at(100.0)
    store.create_run(RUN, {}).close()
    pretend_holder(store, **change)
    at(100.0 + SILENT_S - 0.1)
    assert store.summary(RUN).status == "running"
    for refused in (store.resume_run, store.rm):
        with pytest.raises(LeaseHeld, match=r"is being written.*--force"):
            refused(RUN)
    lease.beat(store.folder, RUN, 1)
    at(100.0 + 2 * SILENT_S - 0.2)  # it renewed its lease meanwhile
    assert store.summary(RUN).status == "running"
    with pytest.raises(LeaseHeld):
        store.resume_run(RUN)
    at(100.0 + 2 * SILENT_S)
    assert store.summary(RUN).status == "interrupted"
    store.resume_run(RUN).close()
    store.rm(RUN)


def test_a_writer_renews_its_lease_from_a_thread(store, monkeypatch):
    monkeypatch.setattr(lease, "BEAT_S", 0.001)
    renewed = lease.threading.Event()
    real = lease.beat
    monkeypatch.setattr(lease, "beat", lambda *a: (real(*a), renewed.set()))
    with store.create_run(RUN, {}):
        assert renewed.wait(120)
        assert lease.last_heard(store.folder, RUN, fence=1) is not None
    assert lease.last_heard(store.folder, RUN) is None


def test_one_that_was_stopped_for_long_is_fenced_off(store, at):
    at(100.0)
    first = store.create_run(RUN, {})
    pretend_holder(store, **ELSEWHERE)
    at(100.0 + 1e6)
    second = store.resume_run(RUN)
    lease.beat(store.folder, RUN, 2)
    lease.beat(store.folder, RUN, 1)  # the first one's thread wakes up too
    assert lease.last_heard(store.folder, RUN, fence=2) is not None
    with pytest.raises(LeaseLost, match="taken over"):
        first.append("planned", {}, 1)
    first.close()
    assert lease.last_heard(store.folder, RUN, fence=2) is not None
    second.append("planned", {}, 1)
    second.close()


@pytest.mark.parametrize("ahead_s", [-3600.0, 3600.0])
def test_clocks_of_two_hosts_may_differ(store, at, monkeypatch, ahead_s):
    """By the wall it is silent: whoever wants to take over looks whether it renews all the same."""
    at(5.0, 1e9 + ahead_s, "another-boot")
    store.create_run(RUN, {}).close()
    pretend_holder(store, **ELSEWHERE)
    renews, looks = [True], itertools.count(1)

    def pause(seconds: float) -> None:
        assert seconds >= 2 * lease.BEAT_S
        if renews[0]:
            later_s = 4.0 * next(looks)
            at(5.0 + later_s, 1e9 + ahead_s + later_s, "another-boot")
            lease.beat(store.folder, RUN, 1)
            at(100.0)

    monkeypatch.setattr(lease.time, "sleep", pause)
    at(100.0)
    with pytest.raises(LeaseHeld):
        store.resume_run(RUN)
    with pytest.raises(LeaseHeld):
        store.rm(RUN)
    assert store.gc().skipped_runs == (RUN,)
    renews[0] = False
    store.resume_run(RUN).close()


def test_a_suspended_machine_is_not_silent():
    """The monotonic clock stands still while the machine sleeps: both wake up to a lease that is fresh."""
    before, after = Moment("boot", 10.0, 1e9), Moment("boot", 11.0, 1e9 + 86400)
    assert before.silence_s(after) == 1.0
    assert dataclasses.replace(before, boot="").silence_s(after) == 86400


def test_a_death_that_is_seen_need_not_be_waited_for():
    me = Holder.me()
    assert not me.gone()
    assert dataclasses.replace(me, started="1").gone()  # the pid was given to another process
    assert not dataclasses.replace(me, space="pid:[1]", started="1").gone()  # cannot be seen from here
    assert not dataclasses.replace(me, heard=Moment("another", 0.0, 0.0), started="1").gone()


def test_systems_that_say_less(monkeypatch):
    """Without start times the pid decides; of a process of another user with a hidden start nothing is seen."""
    me = Holder.me()

    def refuse(pid, number):
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", refuse)
        assert not me.gone()
        assert dataclasses.replace(me, started="1").gone()
        patch.setattr("relaytrain.store.lease._started", lambda pid: None)
        assert not me.gone()
    with monkeypatch.context() as patch:
        patch.setattr("relaytrain.store.lease._started", lambda pid: None)
        bare = Holder.me()
        assert bare.started == ""
        assert not bare.gone()
        child = subprocess.Popen([sys.executable, "-c", ""])
        child.wait()
        assert dataclasses.replace(bare, pid=child.pid).gone()


def test_a_zombie_is_gone():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    holder = dataclasses.replace(Holder.me(), pid=child.pid, started=started)
    assert not holder.gone()
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, not yet collected
    assert holder.gone()
    child.communicate()
    assert holder.gone()


def test_a_suspended_writer_keeps_its_lease_for_a_while(store):
    """A process that stops for less than the stated silence is slow, not dead."""
    code = (
        "import sys; from relaytrain.store import RunStore\n"
        f"w = RunStore.open({str(store.folder)!r}).create_run({RUN!r}, {{}})\n"
        "print('ready', flush=True); input(); w.append('planned', {}, 1); print('written', flush=True); input()"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGSTOP)
        with pytest.raises(LeaseHeld, match=f"process {child.pid}"):
            store.resume_run(RUN)
        child.send_signal(signal.SIGCONT)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "written\n"
        assert store.summary(RUN).status == "running"
    finally:
        child.kill()
        child.communicate()
    assert store.summary(RUN).status == "interrupted"
    with store.resume_run(RUN) as writer:
        assert writer.planned == {}


def test_force_takes_over_at_once(store):
    store.create_run(RUN, {}).close()
    pretend_holder(store, **{**ELSEWHERE, "host": "cloud-7"})
    with pytest.raises(LeaseHeld, match=r"on cloud-7.*--force"):
        store.resume_run(RUN)
    store.resume_run(RUN, force=True).close()


@pytest.mark.parametrize("text", ["", "{}", "[]", "rubbish", '{"pid": "x"}', "null"])
def test_a_damaged_holder_counts_as_nobody(store, text):
    store.create_run(RUN, {}).close()
    with closing(sqlite3.connect(store.folder / "runs.sqlite")) as db:
        db.execute("UPDATE lease SET holder = ?", (text,))
        db.commit()
    assert store.summary(RUN).status == "interrupted"
    store.resume_run(RUN).close()


def test_stop_reaches_the_writer_and_is_gone_after(store):
    with store.create_run(RUN, {}) as writer:
        assert writer.stop_requested() is False
        RunStore.open(store.folder).request_stop(RUN)
        assert writer.stop_requested() is True
        assert store.summary(RUN).stop_requested
    assert not store.summary(RUN).stop_requested
    with pytest.raises(UsageError, match="is not running"):
        store.request_stop(RUN)
    with store.resume_run(RUN) as writer:
        assert writer.stop_requested() is False


def test_two_runs_have_two_writers(store):
    with store.create_run("test-run-a", {}) as a, store.create_run("test-run-b", {}) as b:
        a.append("planned", {}, 1)
        b.append("planned", {}, 1)
        store.request_stop("test-run-a")
        assert (a.stop_requested(), b.stop_requested()) == (True, False)
    assert [s.events for s in store.runs()] == [2, 2]
