"""The bounds on updates and losses leave honest training alone, with room: presets, families, optimizers, rates."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from relaytrain.core.outcome import MOST_LOSS  # noqa: E402
from relaytrain.core.plan import Decision  # noqa: E402
from relaytrain.data.source import places  # noqa: E402
from relaytrain.executors import epoch as federated  # noqa: E402
from relaytrain.executors.epoch import FederatedEpoch  # noqa: E402
from relaytrain.executors.inprocess import InProcess  # noqa: E402
from relaytrain.scenario import load_scenario  # noqa: E402
from relaytrain.testing.small_training import small_setup  # noqa: E402
from relaytrain.training import aggregate  # noqa: E402
from relaytrain.training.setup import TrainingSetup  # noqa: E402

pytestmark = pytest.mark.train
ROOM = 5.0
"""Honest training stays below the bounds by this factor."""
NO_FASHION = not any(place.is_dir() for place in places("fashion-mnist"))
PRESETS = (
    "quickstart",
    pytest.param("fashion", marks=pytest.mark.skipif(NO_FASHION, reason="needs Debian's dataset-fashion-mnist")),
    "depl_digits",
    "far_pipeline",
)


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that leave no room."""
    for name in ("MOST_STEP", "MOST_GROWTH", "MOST_DRIFT"):
        monkeypatch.setattr(aggregate, name, getattr(aggregate, name) / ROOM)
    monkeypatch.setattr(federated, "most_plausible", lambda *before: MOST_LOSS / ROOM * max(1.0, *before))


def epochs(setup: TrainingSetup, nodes: str, count: int) -> list[float]:
    runner, checkpoint, losses = FederatedEpoch(setup, InProcess(setup)), setup.first_checkpoint(), []
    for number in range(1, count + 1):
        done = runner.run_epoch(Decision(number, setup.start, nodes), checkpoint)
        assert done.failures == (), [failure.reason for failure in done.failures]
        checkpoint = done.checkpoint
        losses.append(done.outcome.loss)
    return losses


@pytest.mark.parametrize("preset", PRESETS)
def test_presets(tight: None, preset: str) -> None:
    setup = TrainingSetup.from_scenario(load_scenario(preset))
    group = next(group for group in setup.problem.node_sets if group.mode != "pipeline")
    assert all(math.isfinite(loss) for loss in epochs(setup, group.name, 1))


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "sgd", "lr": 0.05},
        {"optimizer": "sgd", "lr": 0.3, "momentum": 0.9, "batch": 4},  # far too high: goes badly, but is training
        {"optimizer": "adam", "lr": 1e-3},
        {"optimizer": "adam", "lr": 0.1},
        {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1},
        {"optimizer": "adam", "lr": 0.01, "precision": "bf16"},
        {"optimizer": "sgd", "lr": 0.05, "precision": "fp16"},
        {"optimizer": "sgd", "lr": 0.05, "family": "resnet8", "width": 0.25},
        {"optimizer": "adam", "lr": 0.01, "family": "mobilenet", "width": 0.25},
    ],
    ids=str,
)
def test_optimizers_rates_and_families(tight: None, settings: dict[str, Any]) -> None:
    epochs(small_setup(**settings), "silver", 3)


def test_weights_that_begin_at_zero(tight: None) -> None:
    setup = small_setup(lr=0.3)
    checkpoint = setup.first_checkpoint()
    for tensor in checkpoint.weights.values():
        tensor.zero_()
    done = FederatedEpoch(setup, InProcess(setup)).run_epoch(Decision(1, "full", "silver"), checkpoint)
    assert done.failures == ()
