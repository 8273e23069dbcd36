"""One writer a run: who is alive decides, and a replaced writer can add nothing."""

from __future__ import annotations

import dataclasses
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
from relaytrain.store import LeaseHeld, LeaseLost, RunStore, check
from relaytrain.store.lease import Holder

RUN = "test-run-1"


@pytest.fixture
def store(tmp_path):
    return RunStore.open(tmp_path / "store")


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


def test_who_is_alive():
    me = Holder.me()
    assert me.alive()
    assert not dataclasses.replace(me, started="1").alive()  # the pid was given to another process
    assert not dataclasses.replace(me, boot="another").alive()  # the host was restarted
    assert dataclasses.replace(me, place="elsewhere pid:[1]").alive()  # cannot be known from here
    assert dataclasses.replace(me, place="elsewhere pid:[1]", boot="another").alive()
    host = me.place.split(" ")[0]
    assert dataclasses.replace(me, place=f"{host} pid:[1]").alive()  # another container of this host


def test_systems_that_say_less(monkeypatch):
    """Without start times (no /proc) the pid decides; a process of another user with a hidden start may be alive."""
    me = Holder.me()

    def refuse(pid, number):
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", refuse)
        assert me.alive()
        assert not dataclasses.replace(me, started="1").alive()
        patch.setattr("relaytrain.store.lease._started", lambda pid: None)
        assert me.alive()
    with monkeypatch.context() as patch:
        patch.setattr("relaytrain.store.lease._started", lambda pid: None)
        bare = Holder.me()
        assert bare.started == ""
        assert bare.alive()
        child = subprocess.Popen([sys.executable, "-c", ""])
        child.wait()
        assert not dataclasses.replace(bare, pid=child.pid).alive()


def test_a_zombie_is_not_alive():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    holder = dataclasses.replace(Holder.me(), pid=child.pid, started=started)
    assert holder.alive()
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, not yet collected
    assert not holder.alive()
    child.communicate()
    assert not holder.alive()


def test_a_suspended_writer_keeps_its_lease(store):
    """A stopped process is slow, not dead: no time-out takes its run away."""
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


def test_a_holder_elsewhere_needs_force(store):
    store.create_run(RUN, {}).close()
    pretend_holder(store, place="cloud-7 pid:[1]")
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
