"""Nodes that die, losses that are no numbers, estimators that fail, users who stop: always a verdict, never a lie."""

from __future__ import annotations

import errno
import itertools
import math
import os
import random
from collections import Counter

import numpy as np
import pytest
import stub
from compare import trace

from relaytrain.core.errors import NonFiniteTraining, NoSpace, RelayTrainError, WorkerLost
from relaytrain.core.law import LevelLaw
from relaytrain.estimators import Prior
from relaytrain.relay import loop as orchestrator
from relaytrain.store import LeaseLost
from relaytrain.store.files import FileOps, using


def verdict_of(store, run):
    event = store.events(run)[-1]
    assert event.kind == "verdict"
    return event.body


def test_non_finite_loss_rolls_back_and_forbids_the_pair(store):
    bad = []

    def fault(moment, decision, attempt):
        if moment == "epoch" and decision.epoch == 4 and not bad:
            bad.append(decision.pair)
            return math.nan
        return None

    ended = orchestrator.start(stub.job(fault=fault), store, run="nan-at-four")
    (rolled,) = [e for e in store.events("nan-at-four") if e.kind == "rolled_back"]
    assert rolled.epoch == 3 and tuple(rolled.body["forbidden"]) == bad[0]
    assert bad[0] not in [o.decision.pair for o in ended.outcomes[3:]]
    assert rolled.body["wasted_j"] > 0 and ended.wasted_j == pytest.approx(rolled.body["wasted_j"])
    totals = store.summary("nan-at-four").totals
    assert totals.energy_j == pytest.approx(totals.useful_j + totals.wasted_j)


def test_three_roll_backs_end_the_run(store):
    fault = lambda moment, decision, attempt: math.inf if moment == "epoch" else None  # noqa: E731
    with pytest.raises(NonFiniteTraining) as caught:
        orchestrator.start(stub.job(fault=fault), store, run="all-is-nan")
    assert caught.value.exit_status == 8
    body = verdict_of(store, "all-is-nan")
    assert body["verdict"] == "failed" and body["loss"] == 2.0
    assert sum(e.kind == "rolled_back" for e in store.events("all-is-nan")) == 3


def test_a_non_finite_probe_after_a_handover_undoes_the_handover(store):
    def fault(moment, decision, attempt):
        return math.nan if moment == "hand_over" and decision.nodes == "bronze" else None

    ended = orchestrator.start(stub.job(fault=fault), store, run="bad-handover")
    assert all(o.decision.nodes == "gold" for o in ended.outcomes)
    assert not [e for e in store.events("bad-handover") if e.kind == "handover" and e.body["after"][1] == "bronze"]


def test_a_node_set_that_does_not_answer_is_left_out(store):
    tries = []

    def fault(moment, decision, attempt):
        if moment == "epoch" and decision.nodes == "bronze":
            tries.append((decision.epoch, attempt))
            raise WorkerLost("bronze: 1 of 3 nodes answered")

    ended = orchestrator.start(stub.job(fault=fault), store, run="bronze-lost")
    assert all(o.decision.nodes == "gold" for o in ended.outcomes)
    first, second = (epoch for epoch, _ in tries[:2])  # the runner itself has tried again; the loop waits some epochs
    assert second - first >= 2 and all(b - a >= 4 for (a, _), (b, _) in itertools.pairwise(tries[1:]))
    failures = [e for e in store.events("bronze-lost") if e.kind == "node_failed"]
    assert len(failures) == len(tries) and all(e.body["wasted_j"] > 0 for e in failures)
    assert ended.verdict in ("met", "missed")


def back_at(epoch):
    """Bronze does not answer before `epoch`."""

    def fault(moment, decision, attempt):
        if moment == "epoch" and decision.nodes == "bronze" and decision.epoch < epoch:
            raise WorkerLost("bronze: 0 of 3 nodes answered")

    return fault


def test_a_node_set_comes_back_when_its_nodes_do(store):
    ended = orchestrator.start(stub.job(fault=back_at(4)), store, run="bronze-back")
    assert any(o.decision.nodes == "bronze" for o in ended.outcomes)
    lost = [e.epoch for e in store.events("bronze-back") if e.body.get("lost_nodes") == "bronze"]
    first = min(o.decision.epoch for o in ended.outcomes if o.decision.nodes == "bronze")
    assert lost and first >= lost[-1] + 2


@pytest.mark.slow
def test_a_node_set_comes_back_at_the_same_epoch_after_a_death(store):
    """At whatever moment the process dies, what is left out and until when is read from the events."""
    orchestrator.start(stub.job(fault=back_at(4)), store, run="undisturbed")
    for count in range(4, 24, 3):
        calls, lies = [0], back_at(4)

        def fault(moment, decision, attempt, calls=calls, lies=lies, count=count):
            calls[0] += 1
            if calls[0] == count:
                raise LeaseLost("as if the process were gone")
            lies(moment, decision, attempt)

        with pytest.raises(LeaseLost):
            orchestrator.start(stub.job(fault=fault), store, run=f"dies-at-{count}")
        orchestrator.resume(stub.job(fault=back_at(4)), store, f"dies-at-{count}")
        assert trace(store, f"dies-at-{count}") == trace(store, "undisturbed")


@pytest.mark.parametrize("losses", [1, 2, 3])
def test_when_nobody_answers_all_are_tried_again_at_once_but_not_for_ever(store, losses):
    tries = Counter()

    def fault(moment, decision, attempt):
        if moment == "epoch" and tries[decision.nodes] < losses:
            tries[decision.nodes] += 1
            raise WorkerLost("nobody there")

    try:
        ended = orchestrator.start(stub.job(fault=fault), store, run="nobody-there")
    except WorkerLost as error:
        assert losses == 3 and "nobody there" in str(error) and tries == {"gold": 3, "bronze": 3}
    else:
        assert losses < 3 and ended.verdict in ("met", "missed") and len(ended.outcomes) > 3


def test_a_loss_that_no_training_makes_is_rolled_back_and_named(store):
    def fault(moment, decision, attempt):
        return 1.4e11 if moment == "epoch" and decision.nodes == "bronze" else None

    ended = orchestrator.start(stub.job(fault=fault), store, run="absurd-loss")
    rolled = [e.body for e in store.events("absurd-loss") if e.kind == "rolled_back"]
    assert rolled and all(body["cause"] == "implausible" for body in rolled)
    assert "to 1.4e+11 in epoch" in rolled[0]["reason"] and rolled[0]["wasted_j"] > 0
    assert all(o.decision.nodes == "gold" and o.loss < 10 for o in ended.outcomes)


def test_losses_that_no_training_makes_end_the_run_after_three(store):
    fault = lambda moment, decision, attempt: 1.4e11 if moment == "epoch" else None  # noqa: E731
    with pytest.raises(NonFiniteTraining) as caught:
        orchestrator.start(stub.job(fault=fault), store, run="all-absurd")
    assert caught.value.exit_status == 8 and len(verdict_of(store, "all-absurd")["notes"]) >= 1
    assert sum(e.kind == "rolled_back" for e in store.events("all-absurd")) == 3


def test_attempts_that_failed_inside_an_epoch_are_recorded_and_booked(store):
    """The runner tried a node again and succeeded: the epoch counts, what the first attempt cost is wasted."""

    def fault(moment, decision, attempt):
        return {"wasted_j": 3.0, "wasted_s": 0.5} if moment == "epoch" and decision.epoch == 2 else None

    disturbed = orchestrator.start(stub.job(fault=fault), store, run="second-try")
    orchestrator.start(stub.job(), store, run="undisturbed")
    assert trace(store, "second-try") == trace(store, "undisturbed")
    assert disturbed.wasted_j == 3.0


def test_when_no_node_set_answers_the_run_fails_with_a_verdict(store):
    def fault(moment, decision, attempt):
        if moment == "epoch":
            raise WorkerLost("nobody answered")

    with pytest.raises(WorkerLost) as caught:
        orchestrator.start(stub.job(fault=fault), store, run="all-are-gone")
    assert caught.value.exit_status == 7 and verdict_of(store, "all-are-gone")["verdict"] == "failed"
    ended = orchestrator.resume(stub.job(), store, "all-are-gone")  # they are back
    assert ended.verdict in ("met", "missed") and len(ended.outcomes) > 3


@pytest.mark.parametrize("moment", ["epoch", "trained", "hand_over", "probe"])
def test_any_exception_leaves_a_verdict_and_a_run_that_can_go_on(store, moment):
    calls = []

    def fault(now, decision, attempt):
        if now == moment:
            calls.append(now)
            if len(calls) == 2:
                raise RuntimeError("a bug in somebody's code")

    with pytest.raises(RuntimeError):
        orchestrator.start(stub.job(fault=fault), store, run="broken-code")
    assert verdict_of(store, "broken-code")["verdict"] == "failed"
    orchestrator.resume(stub.job(), store, "broken-code")
    orchestrator.start(stub.job(), store, run="undisturbed")
    assert trace(store, "broken-code") == trace(store, "undisturbed")


def test_a_test_set_that_cannot_be_read_does_not_cost_the_verdict(store):
    def fault(moment, decision, attempt):
        if moment == "test":
            raise OSError("gone")

    ended = orchestrator.start(stub.job(fault=fault), store, run="no-test-set")
    assert ended.verdict == "met" and ended.test_loss is None


def test_stop_request_from_elsewhere_ends_after_the_epoch_and_resume_goes_on(store):
    def stop_at_five(line):
        if line.epoch == 5:
            store.request_stop("stopped-run")

    ended = orchestrator.start(stub.job(), store, run="stopped-run", told=stop_at_five)
    assert ended.verdict == "stopped" and ended.exit_status == 6 and len(ended.outcomes) == 5
    assert ended.wasted_j == 0.0
    again = orchestrator.resume(stub.job(), store, "stopped-run")
    orchestrator.start(stub.job(), store, run="undisturbed")
    assert again.verdict == "met" and trace(store, "stopped-run") == trace(store, "undisturbed")


def test_ctrl_c_inside_an_epoch_books_it_as_lost_once(store):
    def fault(moment, decision, attempt):
        if moment == "trained" and decision.epoch == 3:
            raise KeyboardInterrupt

    ended = orchestrator.start(stub.job(fault=fault), store, run="interrupted")
    assert ended.verdict == "stopped" and len(ended.outcomes) == 2 and ended.wasted_j > 0
    again = orchestrator.resume(stub.job(), store, "interrupted")
    assert again.wasted_j == ended.wasted_j
    orchestrator.start(stub.job(), store, run="undisturbed")
    assert trace(store, "interrupted") == trace(store, "undisturbed")


def test_lost_work_counts_against_the_deadline_when_charged(store):
    def fault(moment, decision, attempt):
        return {"wasted_j": 3.0, "wasted_s": 2.0} if moment == "epoch" else None

    free = orchestrator.start(stub.job(fault=fault), store, run="not-charged")
    charged = orchestrator.start(stub.job(fault=fault, charge_lost_work=True), store, run="charged-1")
    assert free.verdict == "met" and free.elapsed_s > 35.0
    assert charged.verdict == "missed" and len(charged.outcomes) < len(free.outcomes)


class Broken:
    """An estimator that is wrong in a chosen way from a chosen epoch on."""

    def __init__(self, way: str, since: int, prior: Prior) -> None:
        self.way, self.since, self.prior = way, since, prior

    def law(self, history, pairs):
        law = self.prior.law(history, pairs)
        assert isinstance(law, LevelLaw)
        if len(history) < self.since:
            return law
        if self.way == "raises":
            raise ZeroDivisionError("nothing to fit")
        broken = np.full_like(law.curves, math.nan) if self.way == "nan" else law.curves
        if self.way == "swapped":
            return LevelLaw(law.curves, law.jump0, law.jump1, law.mult, law.mult * 1.5)
        return LevelLaw(broken, law.jump0, law.jump1, law.mult)


@pytest.mark.parametrize("way", ["raises", "nan", "swapped"])
def test_an_estimator_that_fails_is_replaced_with_a_note(store, way):
    loaded = stub.scenario()
    made = lambda problem: Broken(way, 3, Prior.of(loaded, problem))  # noqa: E731
    ended = orchestrator.start(stub.job(loaded, estimator=made), store, run="bad-estimator")
    assert ended.verdict in ("met", "missed") and any("estimator" in note for note in ended.notes)


def test_a_full_disk_ends_with_exit_10_and_the_last_good_epoch(store, monkeypatch):
    from relaytrain.store import blobs

    plain = blobs.put
    calls = []

    def full(*arguments):
        calls.append(1)
        if len(calls) > 4:
            raise NoSpace("no space left on device")
        return plain(*arguments)

    monkeypatch.setattr(blobs, "put", full)
    with pytest.raises(NoSpace) as caught:
        orchestrator.start(stub.job(), store, run="disk-is-full")
    assert caught.value.exit_status == 10 and verdict_of(store, "disk-is-full")["verdict"] == "failed"
    monkeypatch.setattr(blobs, "put", plain)
    assert orchestrator.resume(stub.job(), store, "disk-is-full").verdict == "met"


def test_an_epoch_that_is_recorded_but_not_acknowledged_is_in_the_verdict_whole(store):
    """The database takes epoch 5, then its trail finds no disk: the verdict's figures are all of epoch 5."""

    class TrailFails(FileOps):
        fails = False

        def append(self, path, mode):
            if self.fails:
                self.fails = False
                raise OSError(errno.EIO, "Input/output error")
            return super().append(path, mode)

    disk = TrailFails()

    def fault(moment, decision, attempt):
        if moment == "trained":
            disk.fails = decision.epoch == 5

    with using(disk), pytest.raises(NoSpace, match="cannot write"):
        orchestrator.start(stub.job(fault=fault), store, run="trail-fails")
    last = [e for e in store.events("trail-fails") if e.kind == "epoch_done"][-1]
    body = verdict_of(store, "trail-fails")
    assert (body["epochs"], body["loss"]) == (5, last.body["loss"]) and last.epoch == 5
    assert body["test_loss"] is None  # the network at hand is that of epoch 4
    assert orchestrator.resume(stub.job(), store, "trail-fails").verdict == "met"
    orchestrator.start(stub.job(), store, run="undisturbed")
    assert trace(store, "trail-fails") == trace(store, "undisturbed")


@pytest.mark.slow
@pytest.mark.parametrize("case", range(50 if os.environ.get("RELAYTRAIN_TIER") == "soak" else 12))
def test_c9_non_finite_numbers_never_get_in(store, case):
    """NaN and infinity in losses, handovers, metered costs, the probe and the estimate, at random epochs."""
    chance = random.Random(case)
    what = ["loss", "handover", "cost", "estimate", "update"][case % 5]
    when = {chance.randrange(1, 10) for _ in range(chance.randrange(1, 4))}
    value = chance.choice([math.nan, math.inf, -math.inf])

    def fault(moment, decision, attempt):
        if decision is None or decision.epoch not in when:
            return None
        if moment == "epoch" and what == "loss":
            return value
        if moment == "hand_over" and what == "handover":
            return value
        if moment == "epoch" and what == "cost":
            return {chance.choice(["elapsed_s", "energy_j", "cpu_s"]): value}
        if moment == "epoch" and what == "update":
            raise NonFiniteTraining("every node's update had NaN in it")
        return None

    loaded = stub.scenario()
    estimator = None
    if what == "estimate":
        estimator = lambda problem: Broken("nan", min(when), Prior.of(loaded, problem))  # noqa: E731
    clock = "measured" if what == "cost" else "emulated"
    run = f"non-finite-{case}"
    try:
        ended = orchestrator.start(stub.job(loaded, fault=fault, estimator=estimator, clock=clock), store, run=run)
        assert ended.verdict in ("met", "missed")
    except RelayTrainError as error:
        assert isinstance(error, NonFiniteTraining) and error.exit_status == 8
    body = verdict_of(store, run)
    assert math.isfinite(body["loss"])
    for event in store.events(run):  # reading refuses NaN; losses, costs and plans are numbers
        if event.kind == "epoch_done":
            assert all(math.isfinite(event.body[key]) for key in ("loss", "elapsed_s", "energy_j"))
    checkpoint = store.latest_checkpoint(run)
    assert np.isfinite(stub.Stub.unpack(checkpoint.data).weights).all() and checkpoint.skipped == ()
