"""When a run that nothing else ends is given up, on curves made up and trained: which go on, which end, how soon."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import stub

from relaytrain.planners.registry import planner_named
from relaytrain.relay import loop as orchestrator
from relaytrain.relay.giving_up import PATIENCE_OF_A_GUESS, out_of_reach, say_hardly_moved
from relaytrain.store import RunStore

Curve = Callable[[int], float]
TARGET, MOST = 0.5, 5000
DIGITS = (
    2.309, 2.302, 2.295, 2.290, 2.296, 2.293, 2.291, 2.288, 2.286, 2.284, 2.281, 2.279, 2.277, 2.274, 2.272, 2.269,
    2.267, 2.264, 2.262, 2.259, 2.256, 2.253, 2.250, 2.247, 2.244, 2.241, 2.238, 2.234, 2.231, 2.227, 2.223, 2.219,
    2.215, 2.210, 2.206, 2.201, 2.195, 2.190, 2.185, 2.179, 2.173, 2.167, 2.160, 2.153, 2.146, 2.139, 2.131, 2.123,
    2.114, 2.104, 2.095, 2.085, 2.074, 2.063, 2.051, 2.039, 2.025, 2.012, 1.998, 1.983, 1.968, 1.952, 1.936, 1.919,
    1.902, 1.883, 1.865, 1.847, 1.827, 1.806, 1.787, 1.766, 1.745, 1.723, 1.701, 1.679, 1.659, 1.635, 1.613, 1.590,
    1.567, 1.544, 1.521, 1.498, 1.476, 1.454, 1.431, 1.407, 1.385, 1.366, 1.341, 1.321, 1.300, 1.281, 1.257, 1.240,
    1.218, 1.199, 1.179, 1.163, 1.141, 1.124, 1.106, 1.090, 1.075, 1.055, 1.039, 1.025, 1.011, 0.994, 0.980, 0.965,
    0.948, 0.937, 0.924, 0.913, 0.898, 0.880, 0.870, 0.859, 0.844, 0.831, 0.819, 0.807, 0.798, 0.784, 0.770, 0.763,
    0.752, 0.738, 0.729, 0.721, 0.711, 0.702, 0.692, 0.681, 0.675, 0.660, 0.658, 0.646, 0.648, 0.627, 0.619, 0.609,
    0.604, 0.594, 0.590, 0.581, 0.574, 0.568, 0.560, 0.552, 0.543, 0.535, 0.531, 0.522, 0.516, 0.510, 0.506, 0.492,
)  # fmt: skip
"""A small network trained with SGD at 1e-3, first on a plateau: it meets 0.5 after 160 epochs."""


def noisy(curve: Curve, share: float, seed: int) -> Curve:
    rng = np.random.default_rng(seed)
    return lambda epoch: curve(epoch) * math.exp(share * rng.standard_normal())


def ended(curve: Curve, patience: int = PATIENCE_OF_A_GUESS, target: float = TARGET) -> tuple[str, int]:
    """How a run with these losses ends, and after how many epochs."""
    losses: list[float] = []
    for epoch in range(1, MOST + 1):
        losses.append(curve(epoch))
        if losses[-1] <= target:
            return "met", epoch
        if out_of_reach(losses, target, patience):
            return "given up", epoch
    return "goes on", MOST


def plateau(epochs: float) -> Curve:
    return lambda epoch: 0.2 + 2.1 / (1.0 + math.exp((epoch - epochs) / (0.15 * epochs)))


def power(floor: float, drop: float, power: float, scale: float = 1.0) -> Curve:
    return lambda epoch: floor + drop * (1.0 + epoch / scale) ** -power


FALLING = {
    "a plateau first": plateau(100.0),
    "a slow power law": power(0.2, 2.1, 0.3),
    "a very slow one": power(0.1, 2.1, 0.2),
    "a floor just below the target": power(0.45, 2.0, 0.7),
    "a slow exponential": lambda epoch: 0.4 + 1.9 * math.exp(-epoch / 200.0),
    "a line": lambda epoch: 2.3 - 1e-3 * epoch,
}
HOPELESS = {
    "a floor above the target": power(0.6, 1.7, 1.0, 4.0),
    "a floor that is neared slowly": power(0.6, 1.7, 0.5),
    "an exponential to a floor above": lambda epoch: 0.6 + 1.7 * math.exp(-epoch / 30.0),
    "flat": lambda epoch: 2.3,
    "rising": lambda epoch: 2.3 + 0.01 * epoch,
    "falling, then rising": lambda epoch: 0.6 + 1.7 * math.exp(-epoch / 10.0) + 0.002 * epoch,
    "creeping": lambda epoch: 2.3 - 1e-5 * epoch,
}


@pytest.mark.parametrize("name", FALLING)
def test_losses_that_still_fall_are_not_given_up(name):
    assert ended(FALLING[name])[0] == "met"


@pytest.mark.parametrize("name", [name for name in FALLING if name not in ("a very slow one", "a line")])
def test_nor_under_noise_smaller_than_the_fall(name):
    assert [ended(noisy(FALLING[name], 0.02, seed))[0] for seed in range(6)] == ["met"] * 6


@pytest.mark.parametrize("name", HOPELESS)
def test_a_target_out_of_reach_ends_in_a_sensible_number_of_epochs(name):
    verdict, epochs = ended(HOPELESS[name])
    assert verdict == "given up" and 2 * PATIENCE_OF_A_GUESS <= epochs <= 320
    for seed in range(6):
        verdict, epochs = ended(noisy(HOPELESS[name], 0.02, seed))
        assert verdict == "given up" and epochs <= 400


@pytest.mark.parametrize("name", HOPELESS)
def test_where_curves_were_known_it_is_given_up_no_later(name):
    assert ended(HOPELESS[name], 20)[1] <= ended(HOPELESS[name])[1]


def test_the_plateau_of_a_real_run_is_not_given_up():
    assert len(DIGITS) == 160 and min(DIGITS[:-1]) > TARGET > DIGITS[-1]
    assert not any(out_of_reach(DIGITS[:count], TARGET, PATIENCE_OF_A_GUESS) for count in range(160))
    assert out_of_reach([*DIGITS[:40], *[2.2] * 100], TARGET, PATIENCE_OF_A_GUESS), "had it stayed on its plateau"


class Short:
    """Plans without a deadline are long: not in a test."""

    def plan(self, problem, costs, law, state):
        return planner_named("pact").plan(replace(problem, max_epochs=state.epoch + 5), costs, law, state)


@pytest.mark.slow
def test_what_is_said_of_a_run_given_up_is_true_of_it_and_survives_a_resume(tmp_path):
    store = RunStore.open(tmp_path)
    loaded = stub.scenario(target__deadline=None, target__loss=0.01)
    job = replace(stub.job(loaded, noise=0.0), planner=Short())
    whole = orchestrator.start(job, store, run="given-up")
    assert whole.verdict == "missed" and whole.exit_status == 5 and not whole.infeasible
    [words] = [note for note in whole.notes if note.startswith("given up")]
    said = re.search(r"after (\d+) epochs, (\S+) above .* last (\d+) lowered the best loss by (\S+) to (\S+),", words)
    count, above, last, gained, best = (float(figure) for figure in said.groups())
    losses = [outcome.loss for outcome in whole.outcomes]
    assert count == len(losses) and best == pytest.approx(min(losses), rel=1e-3)
    assert above == pytest.approx(min(losses) - 0.01, rel=1e-2)
    assert gained == pytest.approx(min(losses[: -int(last)]) - min(losses), rel=1e-2)
    assert all(key in words for key in ("target.deadline", "target.max_epochs", "training.lr"))

    done: list[int] = []
    stopped = orchestrator.start(job, store, run="stopped-1", told=done.append, stop=lambda: len(done) >= 45)
    assert stopped.verdict == "stopped"
    resumed = orchestrator.resume(job, store, "stopped-1")
    assert [outcome.loss for outcome in resumed.outcomes] == losses and words in resumed.notes


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        ([2.299, 2.295], "hardly moved, from 2.3 before training to 2.295"),
        ([2.4, 2.6], "never fell below 2.3"),
        ([2.1], None),
        ([], None),
    ],
)
def test_a_loss_that_hardly_moved_is_told_with_the_learning_rate(losses, said):
    words = say_hardly_moved(2.3, losses, TARGET)
    assert words is None if said is None else said in words and "training.lr" in words
