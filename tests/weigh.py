"""Which tests are too heavy for `make fast`: `python tests/weigh.py` runs those not marked by hand, writes `heavy.txt`.

A case's weight is the CPU seconds of its process and of the processes it waited for, so a crowded machine weighs like
an empty one. A test is heavy when one of its cases is, or all of them together; `conftest.py` marks it `slow`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HEAVY_CASE_CPU_S = 0.4
HEAVY_CPU_S = 4.0
HERE = Path(__file__).parent
FOLDER = "RELAYTRAIN_WEIGHTS"  # where the processes of a weighing leave what they saw

_seen: dict[str, list[float]] = {}


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Weigh one case with its set-up."""
    before = _cpu_s()
    result = yield
    _seen.setdefault(item.nodeid.split("[")[0], []).append(_cpu_s() - before)
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
        weights: dict[str, list[float]] = {}
        for part in Path(folder).glob("*.json"):
            for name, cases in json.loads(part.read_text()).items():
                weights.setdefault(name, []).extend(cases)
    names = sorted(name for name, w in weights.items() if max(w) > HEAVY_CASE_CPU_S or sum(w) > HEAVY_CPU_S)
    heavy.write_text("".join(f"{name}\n" for name in names))
    left_s = sum(sum(w) for name, w in weights.items() if name not in names)
    print(f"{len(names)} of {len(weights)} tests are heavy; what is left weighs {left_s:.0f} CPU-s")
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
