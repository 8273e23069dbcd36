"""A relay that goes down to a slice and up again: kept whole, resumed bit for bit, the same in worker processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from compare import trace

from relaytrain.core.plan import Plan
from relaytrain.planners.pact.baselines import planned_path
from relaytrain.planners.pact.level_tables import Tables
from relaytrain.relay import loop
from relaytrain.relay.assembly import job_of
from relaytrain.scenario import load_scenario
from relaytrain.store import RunStore
from relaytrain.testing.small_training import tables

pytestmark = [pytest.mark.train, pytest.mark.slow]
torch.set_num_threads(1)
DOWN_AND_UP = ["full on gold", "half on silver", "small on silver", "full on silver", "half on gold"]


class Scheduled:
    """One epoch on each pair, in this order."""

    name = "scheduled"

    def plan(self, problem: Any, costs: Any, law: Any, state: Any) -> Plan:
        names = [str(pair) for pair in problem.pairs]
        actions = np.array([names.index(name) for name in DOWN_AND_UP[state.epoch :]], dtype=np.int64)
        return planned_path(Tables(problem, costs, law), state, actions, self.name)


def job(**training: Any) -> Any:
    made = tables(family="resnet8", width=0.25, optimizer="adam", lr=0.003, **training)
    made["target"] = {"loss": 0.001, "deadline": 1e6, "max_epochs": len(DOWN_AND_UP)}
    for version in made["versions"][1:]:
        version["way"] = "nested"
    return job_of(load_scenario(made), planner=Scheduled())


def relayed(store: RunStore, name: str, *, stops: tuple[int, ...] = (), **training: Any) -> Any:
    """The run of that name, stopped after these epochs and resumed."""

    def told(line: Any) -> None:
        if line.epoch in stops:
            store.request_stop(name)

    made = job(**training)
    try:
        ended = loop.start(made, store, run=name, told=told)
        for _ in stops:
            ended = loop.resume(made, store, name, told=told)
    finally:
        made.runner.close()
    return ended


def test_a_relay_down_and_up_is_resumed_and_spread_bit_for_bit(store: RunStore, tmp_path: Path) -> None:
    ended = relayed(store, "straight-run")
    assert [str(outcome.decision.pair) for outcome in ended.outcomes] == DOWN_AND_UP
    kinds = [event.body["kind"] for event in store.events("straight-run") if event.kind == "handover"]
    assert kinds == ["slice"] * 4
    straight = trace(store, "straight-run")
    relayed(store, "stopped-run", stops=(3,))
    assert trace(store, "stopped-run") == straight
    relayed(store, "spread-run", transport="processes", workers=2)
    assert trace(store, "spread-run") == straight
