"""A program handed to a SuperLink as a Flower run: submitted, its words passed on, its exit status brought back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...core.errors import StoppedByUser, WorkerLost
from ...core.notices import say
from ...store.files import make_dir, write_atomic
from .channel import CallerEnd
from .environment import environment, program
from .security import Link
from .serverapp_name import APP, CHANNEL

COME_S = 300.0
"""How long Flower may take from a submission to the start of its ServerApp."""
END_S = 5.0
LOOK_S = 0.1
Lost = Callable[[], "str | None"]


def submit(
    arguments: Sequence[str],
    *,
    link: Link,
    room: Path,
    lost: Lost,
    module: str = "relaytrain",
    asked: Callable[[], int] = int,
) -> int:
    """Run `python -m module arguments` in a ServerApp of the SuperLink at `link`; its exit status.

    Args:
        room: a private folder with a short name.
        lost: says in words when the SuperLink has gone.
        asked: how often the user has asked to stop by now; each time is passed on.

    Raises:
        WorkerLost: SuperLink or ServerApp ended before the program did.
    """
    end = CallerEnd(room / "channel")
    try:
        _hand_over(link, room)
        return _follow(end, _program(module, arguments), lost, asked)
    finally:
        end.close()


def _program(module: str, arguments: Sequence[str]) -> dict[str, Any]:
    own = {key: value for key, value in os.environ.items() if key.startswith("RELAYTRAIN_")}
    return {"module": module, "arguments": list(arguments), "folder": os.getcwd(), "environment": own}


def _hand_over(link: Link, room: Path) -> None:
    home, app = room / "flwr", make_dir(room / "relaytrain-app", private=True)
    link.write_config(home)
    write_atomic(app / "pyproject.toml", APP, private=True, durable=False)
    command = [program("flwr"), "run", str(app), "here", "--run-config", f'{CHANNEL}="{room / "channel"}"']
    done = subprocess.run(
        command,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COME_S,
        start_new_session=True,
        check=False,
    )
    if done.returncode != 0:
        words = " ".join((done.stderr + done.stdout).split())[-400:]
        raise WorkerLost(f"the SuperLink at {link.address} took no run: {words}")


def _follow(end: CallerEnd, what: dict[str, Any], lost: Lost, asked: Callable[[], int]) -> int:
    began = told_s = time.monotonic()
    out, err = sys.stdout.buffer, sys.stderr.buffer
    while not end.accept(what, out, err):
        words, now = lost(), time.monotonic()
        if asked():
            raise StoppedByUser("stopped before the run had started")
        if words is not None:
            raise WorkerLost(f"{words} before the run had started")
        if now - began > COME_S:
            raise WorkerLost(
                f"no ServerApp within {COME_S:g} s; it starts where the SuperLink runs: run `relaytrain` there"
            )
        if now - told_s > 10.0:
            told_s = now
            say(f"waiting for Flower to start the run ({now - began:.0f} s)")
    passed_on = 0
    while not end.over.wait(LOOK_S):
        for _ in range(asked() - passed_on):
            passed_on += 1
            end.signal(signal.SIGTERM)
        words = lost()
        if words is not None and not end.over.wait(END_S / 5):
            _kill(end.pid)
            raise WorkerLost(f"{words}; what was done is kept: `relaytrain resume` goes on")
    if end.status is None:
        raise WorkerLost(
            "the ServerApp ended (somebody killed it?); what was done is kept: `relaytrain resume` goes on"
        )
    return end.status


def _kill(pid: int | None) -> None:
    if pid is not None:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)  # it waits for a SuperLink that does not come back; our store does not mind
