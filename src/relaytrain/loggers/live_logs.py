"""Logs of a run while it trains: a process each, started beside it, that can fail, lag or hang without being noticed.

with live_logs(store, run, targets) as problems:
    ...train...
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ..core.notices import say
from ..crew import ONE_THREAD
from ..store import RunStore
from .log_kinds import LogTarget

WAIT_S = 60.0
"""How long the end of a run waits for its logs; after that they finish by themselves."""


def targets_of(texts: str | Iterable[str]) -> tuple[LogTarget, ...]:
    """`KIND=PLACE` texts, checked before anything trains; each once."""
    given = [texts] if isinstance(texts, str) else list(texts)
    return tuple(dict.fromkeys(LogTarget.of(text) for text in given))


@contextmanager
def live_logs(store: RunStore, run: str, targets: Sequence[LogTarget]) -> Iterator[list[str]]:
    """While the block runs, `run` is logged to every target; leaving it waits until the last events are written.

    The list that is given fills, at the end, with what could not be logged and the command that does.
    """
    problems: list[str] = []
    followers = [(target, _start(store, run, target)) for target in targets]
    try:
        yield problems
    finally:
        for _, process in followers:
            if process is not None and process.stdin is not None:
                process.stdin.close()
        until_s = time.monotonic() + WAIT_S  # for all of them together
        for target, process in followers:
            outcome = _last_word(process, max(until_s - time.monotonic(), 0.0))
            if outcome is not None:
                problems.append(f"{outcome}. To log it: {_command(store, run, target)}")
        if sys.exc_info()[0] is not None:  # nobody is left who would read the list
            for words in problems:
                say(words)


def _start(store: RunStore, run: str, target: LogTarget) -> subprocess.Popen[bytes] | None:
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "relaytrain.loggers.tail", str(store.folder.resolve()), run, _absolute(target)]
    with suppress(OSError):
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the run's
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
        )
    return None


def _last_word(process: subprocess.Popen[bytes] | None, wait_s: float) -> str | None:
    """Why a log is not whole; None where it is."""
    if process is None:
        return "log: no process could be started"
    process.stdin = None
    try:
        text, _ = process.communicate(timeout=wait_s)
    except subprocess.TimeoutExpired:
        return "log: still being written"
    with suppress(ValueError):
        outcome = json.loads(text)
        return f"log {outcome['failed']}" if "failed" in outcome else None
    return f"log: its process ended with status {process.returncode}"


def _absolute(target: LogTarget) -> str:
    """The same place from any folder; a URI stays as it is."""
    uri = target.kind == "mlflow" and ":" in target.place
    return f"{target.kind}={target.place if uri else Path(target.place).absolute()}"


def _command(store: RunStore, run: str, target: LogTarget) -> str:
    words = ["relaytrain", "export", run, target.place, "--as", target.kind, "--store", str(store.folder)]
    return shlex.join(words)
