"""How long the first answer after an install takes: no compiled code anywhere, searched as it comes and compiled first.

    python benchmarks/first_answer.py [PRESET ...]

Every command starts with an empty folder for compiled code. `compiled first` is what `RELAYTRAIN_COMPILE=1` asks for,
and what every first plan did before. The first epoch of a run is timed until its line appears. Wanted: the plan within
5 s, the epoch within 10 s.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time

from machine import calibrated

PRESETS = ("smart_factory", "depl_alexnet", "depl_digits", "quickstart")
RUN = ("run", "quickstart", "--seed", "0", "--set", "target.max_epochs=2")


def taken(words: tuple[str, ...], **variables: str) -> tuple[float, float, float]:
    """Wall seconds until the first epoch's line, of the whole command, and its CPU seconds."""
    with tempfile.TemporaryDirectory() as empty:
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        first_s = 0.0
        here = os.environ | {"NUMBA_CACHE_DIR": f"{empty}/compiled", "RELAYTRAIN_STORE": f"{empty}/runs"} | variables
        process = subprocess.Popen(
            [sys.executable, "-m", "relaytrain", *words],
            env=here,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("k   1") and not first_s:
                first_s = time.monotonic() - begin
        process.wait()
    wall_s, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return first_s, wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """A row a preset, then the first epoch."""
    with calibrated():
        print(f"{'first plan of':16} {'compiled first':>22} {'as it comes':>22} {'CPU ratio':>10}")
        for name in sys.argv[1:] or PRESETS:
            _, old_s, old_cpu_s = taken(("plan", name), RELAYTRAIN_COMPILE="1")
            _, new_s, new_cpu_s = taken(("plan", name))
            old, new = f"{old_s:.1f} s, {old_cpu_s:.1f} CPU-s", f"{new_s:.1f} s, {new_cpu_s:.1f} CPU-s"
            print(f"{name:16} {old:>22} {new:>22} {old_cpu_s / new_cpu_s:9.1f}x")
        first_s, _, cpu_s = taken(RUN)
        print(f"first epoch of `run quickstart`: {first_s:.1f} s after the command, {cpu_s:.1f} CPU-s for two epochs")


if __name__ == "__main__":
    main()
