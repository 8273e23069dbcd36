"""A leash: `python -m relaytrain.executors.flower.tether COMMAND...` runs a command for as long as its stdin is open.

When stdin ends, because whoever started it closed it or died, the command is asked to end. When it has ended, also by
itself, everything that it has started is ended by force. On Linux the leash takes in orphans: nothing escapes it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

LOOK_S = 0.1
GRACE_S = 5.0
"""How long the command may take to end in order."""
END_S = 50.0
"""And how long all the rest may take to be gone: on a busy machine even the killed take their time."""
_SUBREAPER = 36


def main() -> int:
    """Run the command of the arguments; its exit status, 128 and more for a signal."""
    over = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever holds the other end
    signal.signal(signal.SIGTERM, lambda number, frame: over.set())
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_wait_for_end, args=(over,), daemon=True).start()
    while child.poll() is None and not over.wait(LOOK_S):
        pass
    if child.poll() is None:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
    _end_all(child)
    status = child.wait()
    return status if status >= 0 else 128 - status


def _wait_for_end(over: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    over.set()


def _end_all(child: subprocess.Popen[bytes]) -> None:
    """End what is left: our children, and orphans of theirs, which become ours.

    By force: a loop whose SuperLink has gone would take a request to stop for its user's.
    """
    if child.poll() is None:
        child.kill()
        child.wait()
    until = time.monotonic() + END_S
    while left := children_of(os.getpid()):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > until:
            break
        time.sleep(LOOK_S / 4)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)  # where /proc does not tell


def children_of(pid: int) -> list[int]:
    """Processes whose parent is `pid`, as /proc tells."""
    children: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children |= {int(word) for word in task.read_text(encoding="ascii").split()}
    return sorted(children)


def descendants_of(pid: int) -> list[int]:
    """Children, and theirs."""
    direct = children_of(pid)
    return [*direct, *(deeper for child in direct for deeper in descendants_of(child))]


if __name__ == "__main__":
    sys.exit(main())
