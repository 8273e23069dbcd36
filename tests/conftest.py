"""What all tests start from: Ctrl-C is heard, also where a shell that works in the background has it ignored.

`heavy.txt` beside this file names the tests that took more CPU than a quick look allows; they are marked `slow`, so
`make fast` leaves them out. `python tests/weigh.py` writes it anew. `rare.txt` names those that `make test` leaves to
the soak. The longest come first: one that is begun last keeps the others waiting.
"""

from __future__ import annotations

import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HEAVY, RARE = Path(__file__).with_name("heavy.txt"), Path(__file__).with_name("rare.txt")
FIRST = ("tests/test_types.py", "tests/executors/test_flower.py")

NEED_TORCH = (
    *(f"{folder}/test_*.py" for folder in ("compression", "executors", "models", "training")),
    *(f"relay/test_{name}.py" for name in ("nested_relay", "real_runs", "ways_of_training")),
)
"""Import it at once; other tests say by themselves when they need it."""
collect_ignore_glob = [] if find_spec("torch") else list(NEED_TORCH)

# how long a crowded machine takes to draw an example says nothing of what is tested
settings.register_profile(
    "untimed", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # as `make` does: a process that has begun threads cannot be forked soundly

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    heavy = set(HEAVY.read_text().split())
    rare = {line.split()[0] for line in RARE.read_text().splitlines() if not line.startswith("#")}
    for item in items:
        if item.nodeid in rare:
            item.add_marker(pytest.mark.soak)
        if item.nodeid.split("[")[0] in heavy:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
