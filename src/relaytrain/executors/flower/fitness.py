"""What a machine is looked at for before it becomes a node: torch, memory and clock. Data and meter its trainer opens.

Nothing here stops a node: who knows better may go on, and what is short fails later with its own words.
"""

from __future__ import annotations

import email.utils
import http.client
import importlib.metadata
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ...core.problem import Problem
from .local import connection_to
from .security import Link

BYTES = 4
COPIES = 4
"""Of every weight while it is trained: itself, its gradient, the optimizer's state, the checkpoint that came."""
MOST_CLOCK_S = 10.0
"""Certificates, keys and messages have times in them; so much is forgiven by all of them."""


def fitness(link: Link, problem: Problem, batch: int) -> Iterator[str]:
    """Lines for whoever starts the node; what is off says what to do."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with suppress(importlib.metadata.PackageNotFoundError):
        yield f"torch {importlib.metadata.version('torch')}, {cores} processors"
    needed, free = training_bytes(problem, batch), free_bytes()
    if free is not None:
        short = needed > free
        words = f"memory: {free / 1e6:,.0f} MB free, about {needed / 1e6:,.0f} MB for training the largest version"
        yield f"{words}: too little; expect failures, or take a smaller batch" if short else words
    ahead_s = clock_ahead_s(link)
    if ahead_s is not None:
        off = abs(ahead_s) > MOST_CLOCK_S
        words = f"clock: {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} the SuperLink's"
        yield f"{words}: set it (NTP), keys and messages are refused by time" if off else "clock: as the SuperLink's"


def training_bytes(problem: Problem, batch: int) -> float:
    """A rough figure of what the largest version needs while it is trained."""
    needs = [0.0]
    for version in problem.versions:
        weights = version.weight_bytes or BYTES * (version.parameters or 0)
        needs.append(COPIES * weights + version.fixed_bytes + batch * (version.activation_bytes_per_sample or 0))
    return max(needs)


def free_bytes(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Memory that can be had without swapping, where the system says it."""
    with suppress(OSError, ValueError, IndexError):
        for line in meminfo.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return None


def clock_ahead_s(link: Link) -> float | None:
    """By how much this machine's clock is ahead of the SuperLink's, to a second; None where that one says no time."""
    connection = connection_to(link)
    try:
        connection.request("GET", "/health")
        date = connection.getresponse().getheader("Date")
        return None if date is None else time.time() - 0.5 - email.utils.parsedate_to_datetime(date).timestamp()
    except (OSError, http.client.HTTPException, ValueError, TypeError):
        return None
    finally:
        connection.close()
