"""A run that a test paces: a real loop with a stub that trains, one epoch for every line on stdin.

`lose` loses the node set of that epoch; the end of stdin lets it run to its verdict.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "relay"))

import stub

from relaytrain.core.errors import WorkerLost
from relaytrain.core.plan import Decision
from relaytrain.relay import loop
from relaytrain.store import RunStore


def paced(moment: str, decision: Decision | None, attempt: int) -> Any:
    if moment == "epoch" and decision is not None:
        print("epoch", decision.epoch, decision.nodes, flush=True)
        if sys.stdin.readline().strip() == "lose":
            raise WorkerLost("killed by signal 9")


def main(folder: str, run: str) -> None:
    store = RunStore.open(folder)
    ended = loop.start(stub.job(fault=paced, noise=0.1), store, run=run)
    print("ended", ended.verdict, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
