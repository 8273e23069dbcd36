"""The federated epoch over transports that lose, repeat, delay, mix up and poison results."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from booking import booked
from opened_updates import open_updates

from relaytrain.core.outcome import EpochResult, LostEpoch
from relaytrain.core.plan import Decision
from relaytrain.core.problem import Pair
from relaytrain.costs.clock import MeasuredClock, Spent
from relaytrain.costs.meters import Reading
from relaytrain.executors import epoch
from relaytrain.executors.epoch import EpochImplausible, EpochLost, EpochNonFinite, EpochStopped, FederatedEpoch
from relaytrain.executors.inprocess import InProcess
from relaytrain.relay.assembly import clock_of, job_of
from relaytrain.scenario import load_scenario
from relaytrain.testing.fakes import ReplayMeter
from relaytrain.testing.small_training import small_setup, tables
from relaytrain.training.aggregate import average
from relaytrain.training.checkpoint import Checkpoint
from relaytrain.training.datasets import Sets
from relaytrain.training.setup import TrainingSetup
from relaytrain.training.task import NodeResult, NodeTask, failed

pytestmark = pytest.mark.train
SILVER = Decision(1, "full", "silver")
Change = Callable[[NodeTask, NodeResult], Iterable[NodeResult]]


class Meddling:
    """In-process training whose results go through `change`; remembers what it was sent."""

    def __init__(self, setup: Any, change: Change) -> None:
        self.inner, self.change, self.tasks = InProcess(setup), change, list[NodeTask]()

    def send(self, tasks: Iterable[NodeTask]) -> Iterator[NodeResult]:
        chosen = list(tasks)
        self.tasks += chosen
        results = []
        for task, result in zip(chosen, self.inner.send(chosen), strict=True):
            results += list(self.change(task, result))
        return iter(reversed(results))


def run(change: Change | None = None, *, decision: Decision = SILVER, **settings: Any) -> tuple[EpochResult, Any, Any]:
    setup = small_setup(**settings)
    scenario = load_scenario(tables(**settings))
    transport = Meddling(setup, change or (lambda task, result: [result]))
    clock = clock_of(setup, devices=scenario.resolved["devices"])
    done = FederatedEpoch(setup, transport, clock.meter).run_epoch(decision, setup.first_checkpoint())
    return booked(done, clock, scenario), transport, scenario


def test_what_an_epoch_reports() -> None:
    done, transport, scenario = run()
    outcome, index = done.outcome, scenario.problem.index(Pair("full", "silver"))
    assert outcome.elapsed_s == scenario.costs.run_s[index] and outcome.energy_j == scenario.costs.run_j[index]
    assert outcome.provenance == "modelled"
    assert [n.node for n in done.nodes] == ["edge-1", "edge-2"] and [n.samples for n in done.nodes] == [64, 48]
    assert sum(n.energy_j for n in done.nodes) == pytest.approx(outcome.energy_j)
    assert done.nodes[0].energy_j / done.nodes[1].energy_j == pytest.approx(64 / 48)
    assert outcome.cpu_s == pytest.approx(sum(n.cpu_s for n in done.nodes)) and (outcome.wall_s or 0) > 0
    losses = [n.train_loss or math.nan for n in done.nodes]
    assert done.train_loss == pytest.approx((64 * losses[0] + 48 * losses[1]) / 112)
    assert outcome.loss == done.evaluation.loss and 0 <= done.evaluation.accuracy <= 1
    assert [t.attempt for t in transport.tasks] == [0, 0]


def test_repeated_reordered_foreign_and_old_results_change_nothing() -> None:
    def mixed(task: NodeTask, result: NodeResult) -> list[NodeResult]:
        old = replace(result, attempt=task.attempt - 1)
        stranger = replace(result, node="stranger")
        other_run, other_epoch = replace(result, run="another"), replace(result, epoch=task.epoch + 1)
        return [result, old, stranger, other_run, other_epoch, result]

    assert run(mixed)[0].checkpoint.digest == run()[0].checkpoint.digest


def test_a_late_answer_of_the_first_attempt_is_dropped_and_the_second_counts() -> None:
    held: list[NodeResult] = []

    def late(task: NodeTask, result: NodeResult) -> list[NodeResult]:
        if task.node == "edge-2" and task.attempt == 0:
            held.append(replace(result, checkpoint=b"poison"))
            return [failed(task, "late", "no answer within 1 s", cpu_s=0.25)]
        return [*held, result]

    done, transport, scenario = run(late)
    assert [(t.node, t.attempt) for t in transport.tasks] == [("edge-1", 0), ("edge-2", 0), ("edge-2", 1)]
    assert done.checkpoint.digest == run()[0].checkpoint.digest
    assert [(f.node, f.attempt, f.kind) for f in done.failures] == [("edge-2", 0, "late")]
    run_j = scenario.costs.run_j[scenario.problem.index(Pair("full", "silver"))]
    assert done.outcome.wasted_j == pytest.approx(run_j * 48 / 112)
    assert done.outcome.energy_j == pytest.approx(run_j * (1 + 48 / 112))
    assert done.outcome.wasted_s == 0.0 and done.outcome.failed_nodes == ()


def test_lost_work_takes_time_only_when_charged() -> None:
    def once(task: NodeTask, result: NodeResult) -> list[NodeResult]:
        return [failed(task, "lost", "gone")] if task.attempt == 0 else [result]

    plain, charged = run(once)[0].outcome, run(once, charge_lost_work=True)[0].outcome
    assert charged.elapsed_s == 2 * plain.elapsed_s and charged.wasted_s == plain.elapsed_s
    assert plain.wasted_s == 0.0 and plain.wasted_j == charged.wasted_j > 0.0


def test_a_silent_transport_is_a_lost_epoch() -> None:
    with pytest.raises(EpochLost, match=r"0 of 2 nodes of silver answered.*edge-1: no answer") as caught:
        run(lambda task, result: [])
    lost = caught.value.lost
    assert {f.node for f in lost.failures} == {"edge-1", "edge-2"} and lost.energy_j == 0.0 < lost.elapsed_s
    assert caught.value.exit_status == 7


def test_code_of_the_users_that_fails_ends_the_run_unless_the_quorum_does_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(7 * "pass\n")

    def raised(task: NodeTask, result: NodeResult) -> list[NodeResult]:
        return [failed(task, "user", "mine.py:7: ValueError: no") if task.node == "edge-2" else result]

    with pytest.raises(EpochStopped, match=r"^mine\.py:7: ValueError: no; epoch 1 on full on silver") as caught:
        run(raised)
    assert caught.value.exit_status == 3 and {f.kind for f in caught.value.lost.failures} == {"user"}
    assert run(raised, quorum=0.5)[0].outcome.failed_nodes == ("edge-2",)


@pytest.mark.parametrize(
    "words",
    ["mine.py:8: ValueError: no", "other.py:1: ValueError: no", "no", "mine:net: ValueError: no", ": 1: x", "\0:1: x",
     f"{torch.__file__}:3: ValueError: no", "/dev/zero:1: ValueError: no"],
)  # fmt: skip
def test_a_node_that_lays_its_failure_on_code_that_is_not_here_has_failed_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(7 * "pass\n")

    def lies(times: int) -> Any:
        return lambda task, result: [
            failed(task, "user", words) if (task.node, task.attempt < times) == ("edge-2", True) else result
        ]

    done = run(lies(1))[0]
    assert done.outcome.failed_nodes == () and [(f.node, f.kind) for f in done.failures] == [("edge-2", "refused")]
    with pytest.raises(EpochLost, match="names none that is here") as caught:
        run(lies(9))
    assert caught.value.exit_status == 7


def test_weights_without_measure_are_training_gone_wild_and_no_lost_nodes() -> None:
    def exploded(task: NodeTask, result: NodeResult) -> list[NodeResult]:
        update = Checkpoint.opened(result.checkpoint)
        huge = {name: w * 1e9 if w.is_floating_point() else w for name, w in update.weights.items()}
        return [replace(result, checkpoint=replace(update, weights=huge))]

    with pytest.raises(EpochNonFinite, match="weights grew to") as caught:
        run(exploded)
    assert caught.value.exit_status == 8


def test_a_node_short_of_memory_is_a_node_that_failed() -> None:
    class Greedy(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            raise torch.OutOfMemoryError("no room")

    setup = small_setup()
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10), Greedy())
    sets = Sets(setup.datasets, setup.validation, setup.test)
    own = TrainingSetup.from_model(model, setup.problem, sets, ratios={"half": 0.5, "small": 0.75})
    task = NodeTask("run", 1, 0, "edge-1", own.initial("full").data, own.settings)
    (result,) = InProcess(own).send([task])
    assert result.kind == "refused" and "no room" in (result.error or "")
    model[2] = torch.nn.Unflatten(1, (3, 3))
    broken = TrainingSetup.from_model(model, setup.problem, sets, ratios={"half": 0.5, "small": 0.75})
    (result,) = InProcess(broken).send([replace(task, checkpoint=broken.initial("full").data)])
    again = NodeResult.from_bytes(result.to_bytes())
    assert again.kind == "user" and (again.error or "").startswith("forward of in_memory:version_0: RuntimeError")


def test_quorum() -> None:
    def without_2(task: NodeTask, result: NodeResult) -> list[NodeResult]:
        return [] if task.node == "edge-2" else [result]

    with pytest.raises(EpochLost, match="expected at least 2"):
        run(without_2)
    done, transport, _ = run(without_2, quorum=0.5)
    assert done.outcome.failed_nodes == ("edge-2",) and [n.node for n in done.nodes] == ["edge-1"]
    assert [(t.node, t.attempt) for t in transport.tasks] == [("edge-1", 0), ("edge-2", 0), ("edge-2", 1)]
    first = small_setup().first_checkpoint()
    updates, _ = open_updates(list(InProcess(small_setup()).send(transport.tasks[:1])), first)
    assert done.checkpoint.digest == average(updates, first).digest


def test_stragglers_are_not_waited_for_twice_once_the_quorum_is_there() -> None:
    def slow(task: NodeTask, result: NodeResult) -> list[NodeResult]:
        return [failed(task, "late", "slow")] if task.node == "edge-2" else [result]

    _, transport, _ = run(slow, quorum=0.5)
    assert len(transport.tasks) == 2


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["weights", "optimizer"])
def test_non_finite_updates_are_rejected(value: float, where: str) -> None:
    def poisoned(task: NodeTask, result: NodeResult) -> list[NodeResult]:
        if task.node != "edge-1":
            return [result]
        update = Checkpoint.from_bytes(result.data or b"")
        tensors = getattr(update, where)
        next(iter(tensors.values())).reshape(-1)[0] = value
        return [replace(result, checkpoint=replace(update).data)]

    with pytest.raises(EpochNonFinite, match="edge-1: non-finite values in") as caught:
        run(poisoned)
    assert caught.value.exit_status == 8
    done = run(poisoned, quorum=0.5)[0]
    assert done.outcome.failed_nodes == ("edge-1",) and done.failures[0].kind == "non-finite"
    assert all(bool(torch.isfinite(t).all()) for t in done.checkpoint.weights.values())


def test_divergence_on_every_node_is_non_finite_training_and_is_not_retried() -> None:
    setup = small_setup().with_settings(lr=1e20)
    transport = Meddling(setup, lambda task, result: [result])
    runner = FederatedEpoch(setup, transport)
    with pytest.raises(EpochNonFinite):
        runner.run_epoch(SILVER, setup.first_checkpoint())
    assert len(transport.tasks) == 2


def test_absurd_and_foreign_updates_are_refused() -> None:
    other = small_setup(width=0.5).first_checkpoint()

    def wrong(task: NodeTask, result: NodeResult) -> list[NodeResult]:
        if task.node == "edge-1":
            return [replace(result, checkpoint=other.data)]
        update = Checkpoint.from_bytes(result.data or b"")
        return [
            replace(result, checkpoint=replace(update, weights={n: t * 1e8 for n, t in update.weights.items()}).data)
        ]

    with pytest.raises(EpochLost) as caught:
        run(wrong)
    assert "edge-1: weights of another version" in str(
        caught.value
    ) and "more than 1000 times the largest before" in str(caught.value)


def test_an_error_target_reads_the_accuracy() -> None:
    scenario = load_scenario(tables(), ["target.metric=error"])
    from relaytrain.training.setup import TrainingSetup

    setup = TrainingSetup.from_scenario(scenario)
    runner = FederatedEpoch(setup, InProcess(setup))
    done = runner.run_epoch(SILVER, setup.first_checkpoint())
    assert done.outcome.loss == 1.0 - done.evaluation.accuracy


def test_the_emulated_clock_adds_the_handover() -> None:
    setup = small_setup()
    scenario = load_scenario(tables())
    runner = FederatedEpoch(setup, InProcess(setup))
    done = runner.run_epoch(SILVER, setup.first_checkpoint())
    done = booked(done, clock_of(setup), scenario, before=Pair("full", "gold"))
    before, now = scenario.problem.index(Pair("full", "gold")), scenario.problem.index(Pair("full", "silver"))
    assert done.outcome.elapsed_s == scenario.costs.epoch_s[before, now]
    assert done.outcome.energy_j == scenario.costs.epoch_j[before, now]


def test_the_measured_clock_reads_its_meter() -> None:
    setup = small_setup(clock="measured")
    meter = ReplayMeter([Reading(12.0, "measured", "replay", 1.0, 1.0)])
    clock = MeasuredClock(meter)
    done = FederatedEpoch(setup, InProcess(setup), clock.meter).run_epoch(SILVER, setup.first_checkpoint())
    done = booked(done, clock, load_scenario(tables(clock="measured")), handover=Spent(0.5, 3.0))
    assert done.outcome.energy_j == 15.0 and done.outcome.provenance == "measured"
    assert done.outcome.elapsed_s == pytest.approx((done.outcome.wall_s or 0) + 0.5)
    assert sum(n.energy_j for n in done.nodes) == pytest.approx(12.0)


class ByTheClock:
    """A transport on a clock of its own: (attempt, node) -> when it answers, how long it worked, whether well."""

    def __init__(self, setup: Any, script: dict[tuple[int, str], tuple[float, float, bool]]) -> None:
        self.inner, self.script, self.now_s = InProcess(setup), script, 0.0

    def monotonic(self) -> float:
        return self.now_s

    def send(self, tasks: Iterable[NodeTask]) -> Iterator[NodeResult]:
        by_time = sorted(tasks, key=lambda task: self.script[task.attempt, task.node][0])
        for task in by_time:
            (result,) = self.inner.send([replace(task, timeout_s=None)])
            self.now_s, wall_s, well = self.script[task.attempt, task.node]
            result = replace(result, cpu_s=wall_s, wall_s=wall_s)
            yield result if well else failed(task, "late", "no answer within 10 s", cpu_s=1.0, wall_s=wall_s)


@pytest.mark.parametrize(
    ("script", "useful_s", "wasted_s"),
    [  # side by side: edge-2 stalls until the deadline, its second attempt takes two seconds
        ({(0, "edge-1"): (2, 2, True), (0, "edge-2"): (10, 0, False), (1, "edge-2"): (12, 2, True)}, 4.0, 8.0),
        # in turn: edge-2 stalls first, then edge-1 trains, then edge-2 again
        ({(0, "edge-2"): (10, 10, False), (0, "edge-1"): (13, 3, True), (1, "edge-2"): (15, 2, True)}, 5.0, 10.0),
        ({(0, "edge-1"): (3, 3, True), (0, "edge-2"): (5, 2, True)}, 5.0, 0.0),
    ],
)
def test_a_stalled_attempt_is_wasted_and_the_good_one_after_it_useful(
    monkeypatch: pytest.MonkeyPatch, script: Any, useful_s: float, wasted_s: float
) -> None:
    setup = small_setup(clock="measured")
    transport = ByTheClock(setup, script)
    monkeypatch.setattr(epoch, "time", transport)
    meter = ReplayMeter([Reading(12.0, "measured", "replay", 1.0, 1.0)])
    done = FederatedEpoch(setup, transport, meter).run_epoch(SILVER, setup.first_checkpoint())
    assert done.checkpoint.digest == run()[0].checkpoint.digest
    charged = MeasuredClock(meter).book(done, None, Spent(0.0, 0.0))  # type: ignore[arg-type]
    assert (charged.outcome.elapsed_s, charged.wasted.elapsed_s) == (useful_s, wasted_s)
    cpu = sum(n.cpu_s for n in done.nodes)
    assert charged.wasted.energy_j == pytest.approx(12.0 * (wasted_s > 0) / (cpu + (wasted_s > 0)))


def test_one_corrupt_update_is_tried_again() -> None:
    def corrupt(task: NodeTask, result: NodeResult) -> list[NodeResult]:
        return [replace(result, checkpoint=b"rot") if task.attempt == 0 and task.node == "edge-1" else result]

    done, transport, _ = run(corrupt)
    assert done.checkpoint.digest == run()[0].checkpoint.digest
    assert [(f.node, f.attempt, f.kind) for f in done.failures] == [("edge-1", 0, "corrupt")]
    assert [(t.node, t.attempt) for t in transport.tasks] == [("edge-1", 0), ("edge-2", 0), ("edge-1", 1)]


@pytest.mark.parametrize(
    ("spoilt", "expected_j"),
    [
        ({"checkpoint": b"rot", "energy_j": 7.0}, 17.0),  # drawn, for nothing
        ({"checkpoint": b"rot", "energy_j": 9e18}, 10.0),  # no node can draw that
        ({"checkpoint": None, "error": "no", "kind": "refused", "energy_j": 7.0}, 17.0),
        ({"checkpoint": None, "error": "no", "kind": "refused", "energy_j": 9e18}, 10.0),
    ],
)
def test_joules_of_an_attempt_that_failed_count_where_they_can_be(spoilt: dict[str, Any], expected_j: float) -> None:
    def metered(task: NodeTask, result: NodeResult) -> list[NodeResult]:
        own = replace(result, energy_j=5.0, provenance="measured")
        return [replace(own, **spoilt) if task.attempt == 0 and task.node == "edge-1" else own]

    setup = small_setup(clock="measured")
    meter = ReplayMeter([Reading(12.0, "modelled", "replay", 1.0, 1.0)])
    done = FederatedEpoch(setup, Meddling(setup, metered), meter).run_epoch(SILVER, setup.first_checkpoint())
    assert [(f.node, f.attempt) for f in done.failures] == [("edge-1", 0)]
    assert done.outcome.energy_j == expected_j and done.outcome.provenance == "measured"


def test_when_every_update_leads_nowhere_it_is_the_training() -> None:
    def far(task: NodeTask, result: NodeResult) -> list[NodeResult]:
        update = Checkpoint.from_bytes(result.data or b"")
        return [replace(result, checkpoint=replace(update, weights={n: 40 * t for n, t in update.weights.items()}))]

    with pytest.raises(EpochImplausible, match=r"edge-1: its update brings the loss from .* to .*edge-2") as caught:
        run(far)
    assert caught.value.exit_status == 8 and caught.value.lost.cpu_s > 0.0


def test_the_first_epoch_has_a_deadline_too() -> None:
    for clock in ("emulated", "measured"):
        runner = job_of(load_scenario(tables(clock=clock))).runner.epochs
        first = runner.deadline_s(SILVER)
        assert first is not None and epoch.FIRST_SLACK_S < first < 2 * epoch.FIRST_SLACK_S
        runner.run_epoch(SILVER, runner.setup.first_checkpoint())
        seen = runner.deadline_s(SILVER)
        assert epoch.SLACK_S < seen < first
    index = load_scenario(tables()).problem.index(Pair("full", "silver"))
    run_s = load_scenario(tables()).costs.run_s[index]
    fresh = job_of(load_scenario(tables(clock="measured"))).runner.epochs
    assert fresh.deadline_s(SILVER) == epoch.FIRST_FACTOR * run_s * 2 + epoch.FIRST_SLACK_S
    asked = job_of(load_scenario(tables(epoch_timeout=7.0))).runner.epochs
    assert asked.deadline_s(SILVER) == 7.0


@pytest.mark.parametrize("kind", [EpochLost, EpochNonFinite])
def test_errors_come_back_whole_from_another_process(kind):
    error = kind("too few nodes", LostEpoch((), 1.0, 2.0, 3.0))
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), back.lost) == (kind, "too few nodes", error.lost)
