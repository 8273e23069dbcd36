"""The machine's state around a benchmark: a calibration loop before and after, and a verdict on the run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

MOST_DRIFT = 0.10


def bandwidth_gb_s() -> float:
    """Gigabytes a second read and written by one core, the best of a few passes over 64 MB."""
    source, target = np.ones(8_000_000), np.empty(8_000_000)
    best = np.inf
    for _ in range(7):
        begin = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - begin)
    return 2 * source.nbytes / best / 1e9


@contextmanager
def calibrated() -> Iterator[None]:
    """Prints the machine's state before and after, and whether the run counts."""
    before = bandwidth_gb_s()
    print(f"machine: {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}, copy {before:.1f} GB/s before")
    yield
    after = bandwidth_gb_s()
    drift = abs(after - before) / before
    verdict = "accepted" if drift <= MOST_DRIFT else "REJECTED: run again on a quieter machine"
    print(f"machine: load {os.getloadavg()[0]:.2f}, copy {after:.1f} GB/s after, drift {drift:.0%}: {verdict}")


def interleaved(candidates: dict[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """The median CPU seconds of each candidate, repetitions interleaved; each is run once before, unmeasured."""
    for call in candidates.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(repeats):
        for name, call in candidates.items():
            begin = time.process_time()
            call()
            seconds[name].append(time.process_time() - begin)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def repeated(call: Callable[[], object], *, enough_s: float = 0.05) -> Callable[[], object]:
    """`call` repeated until it fills the clock's resolution; divide by `.times` of the returned function."""
    begin = time.process_time()
    call()
    once = max(time.process_time() - begin, 1e-6)
    times = max(1, int(enough_s / once))

    def many() -> None:
        for _ in range(times):
            call()

    many.times = times  # type: ignore[attr-defined]
    return many


def median_s(candidates: dict[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """Like `interleaved`, with short calls repeated to be measurable."""
    wrapped = {name: repeated(call) for name, call in candidates.items()}
    taken = interleaved(wrapped, repeats)
    return {name: taken[name] / wrapped[name].times for name in candidates}  # type: ignore[attr-defined]
