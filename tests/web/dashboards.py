"""What the tests of the dashboard look at: stores full of runs."""

from __future__ import annotations

from pathlib import Path

import stub
from sample_run import Sample, write_run

from relaytrain.relay import loop
from relaytrain.store import RunStore

TOKEN = "a-token-for-tests"
HOST = "127.0.0.1:7717"


def fill(folder: Path) -> RunStore:
    """Real runs of the stub, met and missed, and sample runs with failures, roll-backs and no end."""
    store = RunStore.open(folder)
    loop.start(stub.job(), store, run="stub-met-1")
    loop.start(stub.job(seed=1), store, run="stub-met-2")
    loop.start(stub.job(stub.scenario(target__deadline=6.0)), store, run="stub-missed")
    write_run(store, "sample-trouble")
    write_run(store, "sample-broken", Sample(stop_after=9, fail_at=None, roll_back_at=None))
    return store
