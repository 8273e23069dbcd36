"""Functions of the user's that a run calls: when they are called, with what, and whose their exceptions are."""

from __future__ import annotations

from dataclasses import replace

import pytest
import stub

from relaytrain.core.errors import UsageError
from relaytrain.core.user_code import UserCodeError
from relaytrain.relay import loop as orchestrator
from relaytrain.relay.callbacks import Callbacks


def fails(value: object) -> None:
    raise ValueError("my own mistake")


def test_they_hear_what_the_events_say(store):
    epochs, handovers, verdicts = [], [], []
    hears = Callbacks(None, epochs.append, handovers.append, verdicts.append)
    ended = orchestrator.start(stub.job(), store, run="called-run", told=hears)
    assert [(line.epoch, line.loss) for line in epochs] == [(k, o.loss) for k, o in enumerate(ended.outcomes, 1)]
    kept = [event.body for event in store.events("called-run", kinds=("handover",))]
    assert kept and [list(made.before) for made in handovers] == [body["before"] for body in kept]
    assert [(made.loss_after, made.energy_j) for made in handovers] == [(b["loss_after"], b["energy_j"]) for b in kept]
    assert verdicts == [ended]


@pytest.mark.parametrize("which", ["on_epoch", "on_handover"])
def test_an_exception_is_the_users_and_costs_nothing_that_was_done(store, which):
    straight = orchestrator.start(stub.job(), store, run="straight-run")
    with pytest.raises(UserCodeError, match=rf"test_callbacks\.py:\d+: ValueError: my own mistake \(in {which}\)"):
        orchestrator.start(stub.job(), store, run="broken-run", told=Callbacks(**{which: fails}))
    assert store.summary("broken-run").status == "failed"
    ended = orchestrator.resume(stub.job(), store, "broken-run")
    assert [o.loss for o in ended.outcomes] == [o.loss for o in straight.outcomes]
    assert (ended.energy_j, ended.wasted_j) == (straight.energy_j, 0.0)


def test_a_listener_that_fails_before_the_first_epoch_leaves_a_verdict(store):
    class Listener:
        def __call__(self, line):
            raise AssertionError("no epoch was run")

        def happened(self, notice):
            assert notice.words == "not promised: the same batches twice"
            raise BrokenPipeError("nobody reads")

    job = replace(stub.job(), caveats=("the same batches twice",))
    with pytest.raises(BrokenPipeError):
        orchestrator.start(job, store, run="unheard-run", told=Listener())
    assert store.summary("unheard-run").status == "failed"


def test_an_exception_at_the_end_leaves_the_verdict(store):
    with pytest.raises(UserCodeError, match="my own mistake"):
        orchestrator.start(stub.job(), store, run="ended-run", told=Callbacks(on_verdict=fails))
    assert store.summary("ended-run").status == "met"


def test_what_cannot_be_called_is_refused():
    with pytest.raises(UsageError, match="on_epoch: got 3, expected a function"):
        Callbacks(on_epoch=3)
