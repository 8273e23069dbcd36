"""Workers that lie: a lie costs its node that attempt, is named, is over by the deadline, and is booked as wasted.

The workers are processes of `lying_worker.py`, which speak the frames and train nothing, so a case takes a moment.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from booking import booked

from relaytrain.core.errors import NonFiniteTraining, WorkerLost
from relaytrain.core.outcome import EpochResult
from relaytrain.core.plan import Decision
from relaytrain.core.problem import Pair
from relaytrain.costs.clock import EmulatedClock, MeasuredClock
from relaytrain.executors import children, epoch, processes
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.processes import Processes
from relaytrain.scenario import load_scenario
from relaytrain.testing.small_training import small_setup, tables
from relaytrain.training.task import NodeTask

pytestmark = pytest.mark.train
SILVER, LIAR = Decision(1, "full", "silver"), "edge-1"
SHORT_S, LONG_S = 0.25, 60.0
"""The deadline of a task whose worker never answers, and of all others: long, so that no honest worker is ever late."""
SOAK = os.environ.get("RELAYTRAIN_TIER") == "soak"
LIMIT_S = 90.0
"""Against a hang only."""


def words(text: str) -> list[str]:
    return text.split()


FRAMES = words("""noise endless-frame frame-above-the-cap empty-frame header-beyond-frame header-no-json header-no-text
    header-a-list header-too-deep kind-unknown kind-missing kind-a-number beat-more-keys beat-fewer-keys beat-text
    beat-nan beat-negative beat-with-body ready-twice result-empty result-noise result-more-keys starts-with-noise
    beats-before-ready answers-unasked""")
RESULTS = words("""no-samples no-run one-key-more epoch-a-text attempt-a-flag samples-a-fraction samples-negative
    samples-huge
    loss-nan loss-a-text cpu-infinite whole-a-number error-and-weights neither kind-of-failure-unknown error-without-end
    joules-of-nowhere joules-by-rumour joules-negative run-a-list anothers-name nobodys-name""")
UPDATES = words("""one-sample-more a-million-samples no-sample years-of-cpu years-of-wall joules-of-a-city
    weights-times-900 weights-times-50
    one-weight-huge truncated longer no-weights a-pickle other-names other-kind momentum-1e30
    state-of-another-optimizer momentum-of-a-kind-without-arithmetic momentum-in-whole-numbers
    momentum-without-shape scale-complex""")
NEVER = words("""silent beats-for-ever beats-without-pause answers-an-older-epoch answers-another-run
    child-holds-the-pipe""")
KINDS = {
    **dict.fromkeys([*FRAMES, *RESULTS, *UPDATES], "corrupt"),
    **dict.fromkeys(["nan", "infinity", "state-nan"], "non-finite"),
    **dict.fromkeys(["dies", "dies-in-a-frame", "hangs-up", "dies-at-once"], "lost"),
    **dict.fromkeys([*NEVER, "says-late"], "late"),
    "one-weight-huge": "non-finite",  # weights without measure
    **dict.fromkeys(["says-refused", "says-broken", "broken-at-once", "says-user", "broken-by-user"], "refused"),
}
"""What each lie is called in the failure that is recorded."""
SAID = {
    "endless-frame": "4611686018427387904 bytes, expected at most",
    "one-key-more": "unknown key 'admin'",
    "no-samples": "no key 'samples'",
    "joules-of-nowhere": "joules with their provenance, or neither",
    "joules-of-a-city": "which no node can draw",
    "samples-a-fraction": "samples is 63.5, expected count",
    "anothers-name": "an answer for node 'edge-2', expected edge-1",
    "one-sample-more": "65 samples, but it holds 64",
    "years-of-cpu": "1e+09 CPU",
    "weights-times-900": "a step of",
    "weights-times-50": "its update brings the loss from",
    "momentum-1e30": "a momentum of 1e+30",
    "momentum-of-a-kind-without-arithmetic": "float8_e4m3fn, of which no mean can be made",
    "momentum-in-whole-numbers": "is torch.int64 [",
    "momentum-without-shape": "is torch.float32 [], expected its weight's torch.float32",
    "scale-complex": "a scale of losses that none of training leaves behind",
    "dies": "status 3",
    "silent": "no answer within 0.25 s",
}


@pytest.fixture(scope="module")
def setup() -> Any:
    return small_setup()


@pytest.fixture(scope="module")
def honest(setup: Any) -> Iterator[EpochResult]:
    with pytest.MonkeyPatch.context() as patch, Processes(setup, workers=3) as crew:
        patch.setattr(children, "COMMAND", command("none", "never", "none"))
        yield Timed("none", setup, crew).run_epoch(SILVER, setup.first_checkpoint())


def command(lie: str, when: str, mark: str) -> list[str]:
    return [sys.executable, "-S", "-E", str(Path(__file__).with_name("lying_worker.py")), lie, LIAR, when, mark]


class Timed(FederatedEpoch):
    """Waits shortly for a liar that will not answer, and long for everybody else."""

    def __init__(self, lie: str, *parts: Any, when: str = "once") -> None:
        super().__init__(*parts)
        self.never, self.when = lie in NEVER, when

    def _task(self, decision: Decision, checkpoint: Any, node: str, run: str, attempt: int) -> NodeTask:
        task = super()._task(decision, checkpoint, node, run, attempt)
        short = self.never and node == LIAR and (attempt == 0 or self.when == "always")
        return replace(task, timeout_s=SHORT_S if short else LONG_S)


@pytest.fixture
def lying(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, setup: Any) -> Any:
    def run(lie: str, when: str) -> EpochResult:
        monkeypatch.setattr(children, "COMMAND", command(lie, when, str(tmp_path / "lied")))
        monkeypatch.setattr(processes, "CLOSE_S", 0.1)
        began = time.monotonic()
        try:
            with Processes(setup, workers=3) as crew:
                runner = Timed(lie, setup, crew, MeasuredClock().meter, when=when)
                return runner.run_epoch(SILVER, setup.first_checkpoint())
        finally:
            assert time.monotonic() - began < LIMIT_S

    return run


ONCE = [lie for place, lie in enumerate(KINDS) if SOAK or place % 2 == 0 or lie in SAID]
"""Half of them, and those whose words are compared; in the soak all."""


@pytest.mark.parametrize("lie", ONCE)
def test_a_lie_costs_its_node_one_attempt(lying: Any, honest: EpochResult, lie: str) -> None:
    done = lying(lie, "once")
    assert done.checkpoint.digest == honest.checkpoint.digest and done.outcome.loss == honest.outcome.loss
    assert [(f.node, f.attempt, f.kind) for f in done.failures] == [(LIAR, 0, KINDS[lie])], done.failures[0].error
    assert SAID.get(lie, "") in done.failures[0].reason
    assert done.outcome.failed_nodes == () and [n.node for n in done.nodes] == ["edge-1", "edge-2"]
    check_booked(done, lie)


@pytest.mark.parametrize("lie", ["years-of-cpu", "years-of-wall", "says-refused"])
def test_impossible_seconds_are_booked_as_the_most_that_are_possible(lying: Any, lie: str) -> None:
    """In an answer that is refused as in one that is an error: to claim more is not to be booked less."""
    failure = lying(lie, "once").failures[0]
    booked_s = failure.wall_s if lie == "years-of-wall" else failure.cpu_s / (os.cpu_count() or 1)
    assert epoch.CLOCK_SLACK_S <= booked_s < LIMIT_S


def check_booked(done: EpochResult, lie: str) -> None:
    scenario = load_scenario(tables())
    run_j = scenario.costs.run_j[scenario.problem.index(Pair("full", "silver"))]
    emulated = booked(done, EmulatedClock(), scenario)
    assert emulated.outcome.wasted_j == pytest.approx(done.outcome.wasted_j + run_j * 64 / 112)
    measured = MeasuredClock().book(done, None, booked_nothing())  # type: ignore[arg-type]
    useful_s, wasted_s = measured.outcome.elapsed_s, measured.wasted.elapsed_s
    assert useful_s + wasted_s == pytest.approx(done.outcome.wall_s) and wasted_s >= 0.0 and useful_s > 0.0
    assert sum(n.cpu_s for n in (*done.nodes, *done.failures)) < LIMIT_S
    if lie in NEVER:
        assert wasted_s >= 0.9 * (SHORT_S - 0.1)  # the stalled attempt is what was wasted, not the good one after it


def booked_nothing() -> Any:
    from booking import NOTHING

    return NOTHING


ALWAYS = {
    "noise": "its process sent what no worker sends",
    "endless-frame": "expected at most",
    "anothers-name": "an answer for node 'edge-2'",
    "one-sample-more": "65 samples, but it holds 64",
    "weights-times-900": "a step of",
    "weights-times-50": "its update brings the loss from",
    "truncated": "safetensors",
    "dies": "status 3",
    "dies-at-once": "status 4",
    "beats-before-ready": "a beat before it was ready",
    "silent": "no answer within 0.25 s",
    "beats-without-pause": "no answer within 0.25 s",
    "momentum-without-shape": "expected its weight's",
    "says-refused": "no",
    "says-user": "names none that is here: net.py:1",
    "broken-by-user": "names none that is here: net.py:1",
}


@pytest.mark.parametrize("lie", ALWAYS)
def test_a_liar_that_goes_on_is_refused_and_the_epoch_is_lost(lying: Any, lie: str) -> None:
    with pytest.raises(WorkerLost, match=r"1 of 2 nodes of silver answered.*edge-1: ") as caught:
        lying(lie, "always")
    assert ALWAYS[lie] in str(caught.value)
    lost = caught.value.lost  # type: ignore[attr-defined]
    assert [(f.node, f.attempt) for f in lost.failures] == [(LIAR, 0), (LIAR, 1)] and lost.elapsed_s > 0.0
    assert lost.energy_j > 0.0 and lost.cpu_s < LIMIT_S


def test_the_first_epoch_ends_by_the_deadline_of_the_cost_model(monkeypatch: pytest.MonkeyPatch, setup: Any) -> None:
    """Signs of life without end, and no figure in the scenario or from an epoch before: it is over all the same."""
    monkeypatch.setattr(children, "COMMAND", command("beats-for-ever", "always", "none"))
    monkeypatch.setattr(epoch, "FIRST_SLACK_S", 0.1)
    with Processes(setup, workers=3) as crew, pytest.raises(WorkerLost, match=r"edge-1: no answer within 0\.3 s"):
        runner = FederatedEpoch(setup, crew, None, lambda decision: 0.01)
        runner.run_epoch(SILVER, setup.first_checkpoint())


@pytest.mark.parametrize("lie", ["nan", "infinity"])
def test_nan_in_every_update_is_non_finite_training(lying: Any, lie: str) -> None:
    with pytest.raises(NonFiniteTraining, match="edge-1: non-finite values in"):
        lying(lie, "always")


def test_an_answer_that_comes_twice_counts_once(lying: Any, honest: EpochResult) -> None:
    done = lying("answers-twice", "always")
    assert done.failures == () and done.checkpoint.digest == honest.checkpoint.digest
    assert done.outcome.wasted_s == 0.0
