"""Domains, and the quickstart's data: built so that a relay is what reaches the target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from relaytrain.core.errors import ScenarioError
from relaytrain.data.dataset import Dataset
from relaytrain.data.domain import Domain, shifted, shrink, standardised
from relaytrain.data.quick import RECIPES, SHARES, quick_data

SIZES = RECIPES["quick"].sizes


def ramp(count: int = 6) -> Dataset:
    images = np.linspace(0, 1, count * 16, dtype=np.float32).reshape(count, 1, 4, 4)
    return Dataset(images, np.arange(count, dtype=np.int64) % 2, 2)


def test_contrast_and_shift_by_hand() -> None:
    data = ramp()
    moved = shifted(data, Domain(inverted=1.0, shift=1, noise=0.0), seed=0)
    assert np.allclose(moved.images[..., 1:], 1.0 - data.images[..., :-1])
    assert np.allclose(moved.images[..., 0], 1.0 - data.images[..., 0])
    assert np.array_equal(moved.labels, data.labels)
    half = shifted(data, Domain(inverted=0.5, shift=0, noise=0.0), seed=0)
    assert sum(np.array_equal(a, b) for a, b in zip(half.images, data.images, strict=True)) == 3


def test_noise_is_seeded_and_stays_within_range() -> None:
    data = ramp(100)
    first, again, other = (shifted(data, Domain(0.0, 0, 0.1), seed=seed) for seed in (1, 1, 2))
    assert first.digest() == again.digest() != other.digest()
    assert first.images.min() >= 0.0 and first.images.max() <= 1.0
    middle = (data.images > 0.4) & (data.images < 0.6)
    assert (first.images - data.images)[middle].std() == pytest.approx(0.1, rel=0.1)
    with pytest.raises(ScenarioError, match="domain"):
        Domain(inverted=1.5)


def test_smaller_and_standardised_images() -> None:
    data = ramp()
    assert np.allclose(shrink(data, 2).images[0, 0, 0, 0], data.images[0, 0, :2, :2].mean())
    assert shrink(data, 4).input == (1, 1, 1)
    with pytest.raises(ScenarioError, match="does not divide 4x4"):
        shrink(data, 3)
    plain = standardised(data, data)
    assert abs(plain.images.mean()) < 1e-5 and abs(plain.images.std() - 1) < 1e-5
    darker = replace(data, images=data.images / 2)
    shift = data.images.mean() / data.images.std()
    assert np.allclose(standardised(data, darker).images, 2 * plain.images + shift, atol=1e-5)


def test_quick_sets_are_disjoint_sized_and_seeded() -> None:
    sets = quick_data(3)
    assert {name: len(data) for name, data in sets.items()} == SIZES
    assert sum(SIZES.values()) == 1797
    again, other = quick_data(3), quick_data(4)
    assert all(sets[name].digest() == again[name].digest() for name in SIZES)
    assert all(sets[name].digest() != other[name].digest() for name in SIZES)
    total = sum(data.histogram() for data in sets.values())
    assert total.sum() == 1797 and total.min() > 170


def test_cameras_differ_by_share_of_images() -> None:
    """The target's camera adds noise, so an image is its own when a pixel of the plain ones has another value."""
    steps = set(np.round(np.arange(17) / 16, 6))
    seen = {
        name: np.mean([not set(np.round(image.ravel(), 6)) <= steps for image in data.images])
        for name, data in quick_data(3).items()
    }
    assert seen == {name: pytest.approx(round(share * SIZES[name]) / SIZES[name]) for name, share in SHARES.items()}


@pytest.mark.train
@pytest.mark.slow
def test_a_relay_reaches_what_no_single_leg_reaches() -> None:
    """The quickstart's own schedules; means over three seeds, for one seed alone may be lucky with its few images."""
    pytest.importorskip("torch")
    from relaytrain.core.plan import Decision
    from relaytrain.core.problem import Pair
    from relaytrain.relay.assembly import job_of
    from relaytrain.relay.runner import TorchRunner
    from relaytrain.scenario import load_scenario

    gold, silver, bronze = Pair("full", "gold"), Pair("medium", "silver"), Pair("small", "bronze")

    def lowest_loss(runner: TorchRunner, path: list[Pair]) -> float:
        checkpoint, before, losses = runner.first(), gold, []
        for epoch, now in enumerate(path, 1):
            decision = Decision(epoch, now.version, now.nodes)
            if now != before:
                checkpoint = runner.hand_over(checkpoint, before, decision, lambda version: None).checkpoint
            result = runner.run_epoch(decision, checkpoint, run="a-relay")
            checkpoint, before = result.checkpoint, now
            losses.append(result.outcome.loss)
        return min(losses)

    lowest = []
    for seed in (10, 11):
        scenario = load_scenario("quickstart", overrides=[f"training.seed={seed}", f"data.seed={seed}"])
        paths = ([gold] * 18, [bronze] * 18, [silver] * 18, [gold] * 16 + [silver] * 6 + [bronze] * 10)
        runner = job_of(scenario).runner
        assert isinstance(runner, TorchRunner)
        lowest.append([lowest_loss(runner, path) for path in paths])
    gold_alone, bronze_alone, silver_alone, relay = np.mean(lowest, axis=0)
    target = load_scenario("quickstart").problem.target.loss
    assert relay < 1.1 * target < gold_alone
    assert min(bronze_alone, silver_alone) > 2 * target
