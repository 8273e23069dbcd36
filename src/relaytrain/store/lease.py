"""One writer a run: a lease with a fencing number, and the request to stop that travels in the same row.

Who lives is judged by silence: a writer renews its lease every `BEAT_S` seconds from a thread of its own, and one that
has been silent for `SILENT_S` is dead, wherever it ran and whatever its host is called now. Silence is measured on the
monotonic clock where both sides share a boot, else on the wall's; since clocks of two hosts may differ, whoever wants
to take over then also watches for `WATCH_S` whether a renewal comes. A process id proves nothing but a death: one that
is gone from the same boot and process-id namespace need not be waited for.

Each new holder gets a greater fencing number, and every append checks its number in the same transaction, so a holder
that was replaced cannot add a single event, however long it was stopped.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sqlite3
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..core.errors import RelayTrainError, StoppedByUser, StoreDamaged, UsageError
from . import blobs, files

BEAT_S = 2.0
SILENT_S = 30.0
WATCH_S = 3 * BEAT_S
_BEAT_LIMIT_BYTES = 4096


class LeaseHeld(UsageError):
    """Another live process writes this run."""


class LeaseLost(StoppedByUser):
    """This writer was replaced; it may add nothing more."""


@dataclass(frozen=True)
class Moment:
    """A time that other processes can compare with theirs: seconds of this boot, and of the clock on the wall."""

    boot: str
    monotonic_s: float
    wall_s: float

    @classmethod
    def now(cls) -> Moment:
        """This moment."""
        return cls(_boot(), time.monotonic(), time.time())

    def comparable(self, now: Moment) -> bool:
        """Whether both were taken in one boot, so that the wall need not be trusted."""
        return self.boot != "" and self.boot == now.boot and self.monotonic_s <= now.monotonic_s

    def silence_s(self, now: Moment) -> float:
        """Seconds from here to `now`; between boots by the wall, where one yet to come is as odd as one long past."""
        if self.comparable(now):
            return now.monotonic_s - self.monotonic_s
        return abs(now.wall_s - self.wall_s)


@dataclass(frozen=True)
class Holder:
    """Who writes: a process (for display, and to see at once that it is gone), and when it was last heard of."""

    pid: int
    started: str
    space: str
    host: str
    heard: Moment

    @classmethod
    def me(cls) -> Holder:
        """This process, now."""
        pid = os.getpid()
        return cls(pid, _started(pid) or "", _space(), socket.gethostname(), Moment.now())

    @classmethod
    def parse(cls, text: object) -> Holder | None:
        """From the lease row; None when the row is not one of ours. Format 1 wrote no time: that one is long silent."""
        try:
            row = json.loads(text) if isinstance(text, str) else {}
            heard = row.get("heard") or {"boot": row["boot"], "monotonic_s": -math.inf, "wall_s": -math.inf}
            space, host = row.get("space", ""), row.get("host", "")
            if "place" in row:
                host, _, space = str(row["place"]).partition(" ")
            return cls(int(row["pid"]), str(row["started"]), str(space), str(host), _moment(heard))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def gone(self) -> bool:
        """Whether the process is seen to have ended: its own boot and namespace are ours, and it is not in them."""
        if not self.space or self.heard.boot != _boot() or self.space != _space():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:  # another user's process; if its start is hidden too, nothing can be seen
            return _started(self.pid) not in (None, self.started)
        return _started(self.pid) != (self.started or None)

    def lives(self) -> bool:
        """Whether it has been heard of lately, and is not seen to be gone."""
        return not self.gone() and self.heard.silence_s(Moment.now()) <= SILENT_S

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True)
class Lease:
    """The lease row of a run; `holder` is None when nobody writes. `live` says whether it lived when it was `read`;
    leases of `verify` and `unchanged`, which look at the row alone, do not say."""

    fence: int
    holder: Holder | None
    stop: bool
    live: bool = False


def read(connection: sqlite3.Connection, store: Path, run: str) -> Lease:
    """The present lease of `run`, and whether its holder lives now; what is damaged in it counts as nobody's.

    Whoever reads events, too, reads them after this: they hold the verdict of a writer that had ended by now.
    """
    lease = _row(connection, run)
    if lease.holder is None:
        return lease
    holder = replace(lease.holder, heard=last_heard(store, run, lease.fence) or lease.holder.heard)
    return replace(lease, holder=holder, live=holder.lives())


def _row(connection: sqlite3.Connection, run: str) -> Lease:
    """The lease as the database has it: who holds it, not whether that one lives."""
    row = connection.execute("SELECT fence, holder, stop FROM lease WHERE run = ?", (run,)).fetchone()
    if row is None:
        return Lease(0, None, stop=False)
    fence = row[0] if isinstance(row[0], int) else 0
    return Lease(fence, Holder.parse(row[1]) if row[1] else None, row[2] == 1)


def check_free(connection: sqlite3.Connection, store: Path, run: str) -> Lease:
    """The lease, when nobody writes `run`; a holder whose clock is not ours is watched before it is held for dead.

    Raises:
        LeaseHeld: it renews its lease.
    """
    lease = read(connection, store, run)
    if lease.holder is None:
        return lease
    heard, live = lease.holder.heard, lease.live
    foreign = math.isfinite(heard.wall_s) and not heard.comparable(Moment.now())
    if not live and foreign and not lease.holder.gone():
        time.sleep(WATCH_S)
        live = read(connection, store, run).holder not in (None, lease.holder)
    if live:
        raise refusal(run, lease.holder)
    return lease


def refusal(run: str, holder: Holder | None) -> LeaseHeld:
    """The refusal of a second writer."""
    mine = holder is not None and holder.pid == os.getpid() and holder.space == _space()
    return LeaseHeld(
        f"run {run} is being written by {'this very process' if mine else holder}; `relaytrain stop {run}` ends it in "
        f"order; one that is gone is taken over after {SILENT_S:g} s of silence, with `--force` at once"
    )


def unchanged(connection: sqlite3.Connection, run: str, seen: Lease) -> Lease:
    """The lease, inside an open transaction, if nobody has become the writer of `run` since it was `seen`.

    Raises:
        LeaseHeld: somebody has.
    """
    lease = _row(connection, run)
    if lease.fence != seen.fence and lease.holder is not None:
        raise refusal(run, lease.holder)
    return lease


def take(connection: sqlite3.Connection, run: str, *, seen: Lease | None = None, above: int = 0) -> int:
    """Become the writer of `run`, inside an open transaction; the new fencing number.

    Args:
        seen: what `check_free` found; whoever came in between holds it. None takes over whoever holds it.
        above: the greatest number among the run's events, which a damaged lease row may have forgotten.
    """
    lease = _row(connection, run) if seen is None else unchanged(connection, run, seen)
    fence = max(lease.fence, above) + 1
    connection.execute(
        "INSERT INTO lease (run, fence, holder, stop) VALUES (?, ?, ?, 0) "
        "ON CONFLICT (run) DO UPDATE SET fence = excluded.fence, holder = excluded.holder, stop = 0",
        (run, fence, json.dumps(asdict(Holder.me()))),
    )
    return fence


def verify(connection: sqlite3.Connection, run: str, fence: int) -> Lease:
    """The lease, if it is still the one numbered `fence`.

    Raises:
        LeaseLost: somebody took it over, or the run was removed.
    """
    lease = _row(connection, run)
    if lease.fence != fence or lease.holder is None:
        raise LeaseLost(f"run {run} was taken over by {lease.holder or 'nobody (it was removed)'}; this writer stops")
    return lease


def release(connection: sqlite3.Connection, run: str, fence: int) -> None:
    """Give the lease back, unless somebody else has it by now."""
    connection.execute("UPDATE lease SET holder = NULL, stop = 0 WHERE run = ? AND fence = ?", (run, fence))


def ask_to_stop(connection: sqlite3.Connection, store: Path, run: str) -> None:
    """Leave a request to stop for the writer of `run`, inside an open transaction."""
    if not read(connection, store, run).live:
        raise UsageError(f"run {run} is not running: there is nothing to stop")
    connection.execute("UPDATE lease SET stop = 1 WHERE run = ?", (run,))


class Heartbeat:
    """Renews a lease from a thread until it is stopped: a small file beside the database, written whole, not synced."""

    def __init__(self, store: Path, run: str, fence: int) -> None:
        self._store, self._run, self._fence = store, run, fence
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"lease of {run}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and remove its file."""
        self._ended.set()
        self._thread.join()
        with suppress(RelayTrainError):
            if _beat_fence(beat_path(self._store, self._run)) == self._fence:
                forget(self._store, self._run)

    def _renew(self) -> None:
        while not self._ended.wait(BEAT_S):
            with suppress(RelayTrainError):  # a full disk: the run itself will meet it, and the next beat may not
                beat(self._store, self._run, self._fence)


def beat(store: Path, run: str, fence: int) -> None:
    """Renew the lease numbered `fence`, unless a later holder has renewed its own."""
    path = beat_path(store, run)
    if _beat_fence(path) <= fence:
        text = json.dumps({"fence": fence, **asdict(Moment.now())})
        files.write_atomic(path, text, private=True, durable=False)


def forget(store: Path, run: str) -> None:
    """Remove the sign of life of a writer that has ended."""
    path = beat_path(store, run)
    if files.is_regular(path):
        with suppress(RelayTrainError):
            files.remove(path)


def beat_path(store: Path, run: str) -> Path:
    """Where the writer of `run` renews its lease."""
    return blobs.real_folder(store, run) / blobs.BEAT_NAME


def last_heard(store: Path, run: str, fence: int | None = None) -> Moment | None:
    """When the lease of `run`, if given the one numbered `fence`, was last renewed; None when it never was."""
    try:
        row = _beat_row(beat_path(store, run))
        return _moment(row) if fence is None or row["fence"] == fence else None
    except (OSError, ValueError, KeyError, TypeError, StoreDamaged):
        return None


def _beat_fence(path: Path) -> int:
    try:
        return int(str(_beat_row(path)["fence"]))
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _beat_row(path: Path) -> dict[str, object]:
    row = json.loads(files.read_regular(path, _BEAT_LIMIT_BYTES))
    if not isinstance(row, dict):
        raise ValueError("no table")
    return row


def _moment(row: dict[str, object]) -> Moment:
    return Moment(str(row["boot"]), float(str(row["monotonic_s"])), float(str(row["wall_s"])))


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


def _space() -> str:
    """The process-id namespace; pids of another say nothing here."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
