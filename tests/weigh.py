"""Which tests are too heavy for `make fast`: `python tests/weigh.py` runs those not marked by hand, writes `heavy.txt`.

A test's weight is the CPU seconds of its process and of the processes it waited for, summed over its cases, so a
crowded machine weighs like an empty one. What is above `HEAVY_CPU_S` is written down; `conftest.py` marks it `slow`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

HEAVY_CPU_S = 0.8
HERE = Path(__file__).parent
FOLDER = "RELAYTRAIN_WEIGHTS"  # where the processes of a weighing leave what they saw

_seen: Counter[str] = Counter()


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Weigh one case with its set-up."""
    before = _cpu_s()
    result = yield
    _seen[item.nodeid.split("[")[0]] += _cpu_s() - before
    return result


def pytest_sessionfinish() -> None:
    """Leave what this process saw."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    Path(os.environ[FOLDER], f"{worker}.json").write_text(json.dumps(_seen))


def main() -> int:
    """Run, add up, write."""
    heavy = HERE / "heavy.txt"
    heavy.write_text("")
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "weigh", "-n", "2", "-m", "not slow and not soak"],
            cwd=HERE.parent,
            env=os.environ | {FOLDER: folder, "PYTHONPATH": f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
            check=False,
        )
        weights: Counter[str] = Counter()
        for part in Path(folder).glob("*.json"):
            weights.update(json.loads(part.read_text()))
    names = sorted(name for name, cpu_s in weights.items() if cpu_s > HEAVY_CPU_S)
    heavy.write_text("".join(f"{name}\n" for name in names))
    left_s = sum(weights.values()) - sum(weights[name] for name in names)
    print(f"{len(names)} of {len(weights)} tests are heavy; what is left weighs {left_s:.0f} CPU-s")
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
