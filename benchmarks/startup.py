"""How long a shell waits for the quick verbs once compiled caches exist, and which heavy packages they import.

Wanted: `--help` and `validate` below 0.5 s, `plan` of every preset below 1.5 s. What Python, numpy, pydantic and typer
take alone is measured in the same interleaved rounds: on a machine where those are slow, so is everything above them.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time

from machine import calibrated

from relaytrain.scenario.read import preset_names

ROUNDS = 9
FORBIDDEN = ("torch", "sklearn", "matplotlib", "fastapi")
WANTED_S = {"--help": 0.5, "validate": 0.5, **{f"plan {name}": 1.5 for name in preset_names()}}
PLAIN = {
    "python": "pass",
    "numpy": "import numpy",
    "pydantic": "from pydantic import BaseModel",
    "typer": "import typer",
}
SPY = """
import sys
from relaytrain.cli.app import main
main(sys.argv[1:])
print(*(name for name in {names} if name in sys.modules), file=sys.stderr)
"""


def taken(command: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of one child process."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    status = subprocess.run(command, check=False, capture_output=True).returncode
    assert status in (0, 4), (command, status)  # 4: planned, and less sure than was asked
    wall_s, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Interleaved rounds, then a table."""
    commands = {f"{name} alone": [sys.executable, "-c", code] for name, code in PLAIN.items()}
    commands |= {verb: [sys.executable, "-m", "relaytrain", *verb.split()] for verb in WANTED_S}
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for command in commands.values():
        taken(command)
    with calibrated():
        for _ in range(ROUNDS):
            for name, command in commands.items():
                rows[name].append(taken(command))
    print(f"{'':22} {'wall median':>12} {'least':>7} {'CPU median':>12} {'least':>7}")
    for name, seen in rows.items():
        wall_s, cpu_s = zip(*seen, strict=True)
        middle = statistics.median(wall_s)
        verdict = (
            f"  wanted < {WANTED_S[name]} s: {'met' if middle < WANTED_S[name] else 'NOT met'}"
            if name in WANTED_S
            else ""
        )
        print(
            f"{name:22} {middle:11.3f}s {min(wall_s):6.3f}s {statistics.median(cpu_s):11.3f}s "
            f"{min(cpu_s):6.3f}s{verdict}"
        )
    for verb in WANTED_S:
        spied = subprocess.run(
            [sys.executable, "-c", SPY.format(names=FORBIDDEN), *verb.split()],
            check=True,
            capture_output=True,
            text=True,
        )
        print(f"{verb}: imports {spied.stderr.splitlines()[-1].strip() or 'none'} of {', '.join(FORBIDDEN)}")


if __name__ == "__main__":
    main()
