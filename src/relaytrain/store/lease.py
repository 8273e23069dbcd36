"""One writer a run: a lease with a fencing number, and the request to stop that travels in the same row.

Who may write is decided by who is alive, never by a time-out: a slow or suspended writer keeps its lease, a dead one
loses it at once. Each new holder gets a greater fencing number, and every append checks its number in the same
transaction, so a holder that was replaced by force cannot add a single event.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from dataclasses import asdict, dataclass
from pathlib import Path

from ..core.errors import StoppedByUser, UsageError


class LeaseHeld(UsageError):
    """Another live process writes this run."""


class LeaseLost(StoppedByUser):
    """This writer was replaced; it may add nothing more."""


@dataclass(frozen=True)
class Holder:
    """A process, named so that no later one can be taken for it: pid, when it started, in which boot and place.

    `place` is the host and process-id namespace: pids of another host or container say nothing here.
    """

    pid: int
    started: str
    boot: str
    place: str

    @classmethod
    def me(cls) -> Holder:
        """This process."""
        pid = os.getpid()
        return cls(pid, _started(pid) or "", _boot(), _place())

    @classmethod
    def parse(cls, text: str) -> Holder | None:
        """From the lease row; None when the row is not one of ours."""
        try:
            row = json.loads(text)
            return cls(int(row["pid"]), str(row["started"]), str(row["boot"]), str(row["place"]))
        except (ValueError, KeyError, TypeError):
            return None

    def alive(self) -> bool:
        """Whether the process may still run; True when that cannot be known from here."""
        if self.place.split(" ")[0] == _place().split(" ")[0] and self.boot != _boot():
            return False  # this host was restarted since
        if self.place != _place() or self.boot != _boot():
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # another user's process; if its start is hidden too, nothing can be known
            return _started(self.pid) in (None, self.started)
        return _started(self.pid) == (self.started or None)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.place.split(' ')[0]}"


@dataclass(frozen=True)
class Lease:
    """The lease row of a run; `holder` is None when nobody writes."""

    fence: int
    holder: Holder | None
    stop: bool

    @property
    def live(self) -> bool:
        """Whether a process that may still run holds it."""
        return self.holder is not None and self.holder.alive()


def read(connection: sqlite3.Connection, run: str) -> Lease:
    """The present lease of `run`."""
    row = connection.execute("SELECT fence, holder, stop FROM lease WHERE run = ?", (run,)).fetchone()
    if row is None:
        return Lease(0, None, stop=False)
    return Lease(int(row[0]), Holder.parse(row[1]) if row[1] else None, stop=bool(row[2]))


def take(connection: sqlite3.Connection, run: str, *, force: bool = False) -> int:
    """Become the writer of `run`, inside an open transaction; the new fencing number.

    Raises:
        LeaseHeld: another process holds it and may be alive. `force` takes it over all the same.
    """
    lease = read(connection, run)
    me = Holder.me()
    if lease.live and not force:
        who = "this very process" if lease.holder == me else str(lease.holder)
        raise LeaseHeld(
            f"run {run} is being written by {who}; `relaytrain stop {run}` ends it in order, "
            "`--force` takes over if you know that it is gone"
        )
    connection.execute(
        "INSERT INTO lease (run, fence, holder, stop) VALUES (?, ?, ?, 0) "
        "ON CONFLICT (run) DO UPDATE SET fence = excluded.fence, holder = excluded.holder, stop = 0",
        (run, lease.fence + 1, json.dumps(asdict(me))),
    )
    return lease.fence + 1


def verify(connection: sqlite3.Connection, run: str, fence: int) -> Lease:
    """The lease, if it is still the one numbered `fence`.

    Raises:
        LeaseLost: somebody took it over, or the run was removed.
    """
    lease = read(connection, run)
    if lease.fence != fence or lease.holder is None:
        raise LeaseLost(f"run {run} was taken over by {lease.holder or 'nobody (it was removed)'}; this writer stops")
    return lease


def release(connection: sqlite3.Connection, run: str, fence: int) -> None:
    """Give the lease back, unless somebody else has it by now."""
    connection.execute("UPDATE lease SET holder = NULL, stop = 0 WHERE run = ? AND fence = ?", (run, fence))


def ask_to_stop(connection: sqlite3.Connection, run: str) -> None:
    """Leave a request to stop for the writer of `run`, inside an open transaction."""
    if not read(connection, run).live:
        raise UsageError(f"run {run} is not running: there is nothing to stop")
    connection.execute("UPDATE lease SET stop = 1 WHERE run = ?", (run,))


def _started(pid: int) -> str | None:
    """When `pid` began, in clock ticks since boot; None when it is gone (a zombie is) or the system does not say."""
    try:
        # the name, in brackets, may hold anything; state is the 3rd field, start the 22nd
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZXx" else fields[19]


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _place() -> str:
    try:
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{socket.gethostname()} "
