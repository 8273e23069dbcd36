"""The process that follows a live run for one log: `python -m relaytrain.loggers.tail STORE RUN KIND=PLACE`.

It only reads the store, so whatever happens here the run does not notice. It ends when its standard input closes, which
it does when the run's process ends in any way, after reading what is left; its last word, one line of JSON on standard
output, says what came of it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core.errors import RelayTrainError
from ..store import RunStore
from .log_kinds import LogTarget
from .replaying import LogFollower

POLL_S = 0.5
LAST_S = 120
"""What a tool may take to finish once the run has ended; then this process ends itself."""
NICENESS = 5


def follow(store: RunStore, run: str, target: LogTarget, ended: threading.Event) -> dict[str, Any]:
    """Log `run` as it goes, until `ended`; what came of it."""
    follower = LogFollower(store, run, target)
    try:
        over = False
        while not over:
            over = ended.wait(POLL_S)  # asked before the store is read: what was written until then is logged
            follower.step()
    finally:
        follower.close()
    return {"new": follower.logged.new, "events": follower.seq, "where": follower.logged.where}


def _input_closes() -> threading.Event:
    """Set once standard input is closed; from then on the time that is left is limited."""
    closed = threading.Event()

    def wait() -> None:
        with suppress(OSError):
            while os.read(0, 4096):
                pass
        if hasattr(signal, "alarm"):
            signal.alarm(LAST_S)
        closed.set()

    threading.Thread(target=wait, daemon=True).start()
    return closed


def main(arguments: list[str]) -> int:
    """The process."""
    folder, run, text = arguments
    answer = os.dup(1)  # other tools print what they like
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        with suppress(AttributeError, ValueError):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    with suppress(AttributeError, OSError):
        os.nice(NICENESS)  # training comes first
    try:
        outcome = follow(RunStore.open(Path(folder)), run, LogTarget.of(text), _input_closes())
    except RelayTrainError as error:
        outcome = {"failed": str(error)}
    except Exception as error:
        outcome = {"failed": f"{text}: {type(error).__name__}: {error}"[:400]}
    with suppress(OSError):
        os.write(answer, json.dumps(outcome).encode() + b"\n")
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    os._exit(status)
