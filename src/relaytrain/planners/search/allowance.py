"""What a plan takes, counted by the searches that make it; they stop where it becomes more than it may.

Labels cannot be foreseen, so nothing is guessed: compiled loops write what they do into one array of counts and look
at its limits as they go. Work is counted, not timed: every kind of step stands for the nanoseconds that it takes on an
ordinary machine, so that a plan is refused on all machines or on none. Bytes are those of labels and tables.

A plan is made under `counting`; searches that nobody counts for have no limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
WORK, MOST_WORK, HELD, PEAK, MOST_BYTES, LABELS = range(6)
"""Places of the array: nanoseconds counted, those allowed; bytes of the tables that are kept, the most that were taken
at once, those allowed; labels made."""
NO_LIMIT = 1 << 62


class TooMuch(Exception):
    """A plan that is being made takes more than it may: so many bytes and nanoseconds by now, or with the next step."""

    def __init__(self, bytes_taken: int, work_ns: int) -> None:
        super().__init__(bytes_taken, work_ns)
        self.bytes_taken, self.work_ns = bytes_taken, work_ns


def no_counts(most_bytes: float = np.inf, most_ns: float = np.inf) -> Counts:
    """Nothing counted yet, and the limits."""
    work, taken = (round(max(min(limit, NO_LIMIT), -1.0)) for limit in (most_ns, most_bytes))
    return np.array([0, work, 0, 0, taken, 0], np.int64)


_UNCOUNTED = no_counts()
_COUNTS: ContextVar[Counts] = ContextVar("counts", default=_UNCOUNTED)


def current() -> Counts:
    """The counts of the plan that is being made."""
    return _COUNTS.get()


@contextmanager
def counting(counts: Counts) -> Iterator[Counts]:
    """What is searched within is counted there."""
    token = _COUNTS.set(counts)
    try:
        yield counts
    finally:
        _COUNTS.reset(token)


def check(counts: Counts) -> None:
    """After a search.

    Raises:
        TooMuch: if it stopped at a limit.
    """
    work, most_work, _, peak, most_bytes, _ = counts.tolist()
    if work > most_work or peak > most_bytes:
        raise TooMuch(peak, work)


def charge(counts: Counts, work_ns: float, extra_bytes: float = 0.0) -> None:
    """Before a step whose size is known.

    Raises:
        TooMuch: if there is no room for it; it has not been counted then.
    """
    work, most_work, held, peak, most_bytes, _ = counts.tolist()
    work, taken = work + int(work_ns), held + int(extra_bytes)
    if work > most_work or taken > most_bytes:
        raise TooMuch(max(taken, peak), work)
    counts[WORK] = work
    if taken > peak:
        counts[PEAK] = taken
