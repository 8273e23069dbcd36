"""Domains, and the quickstart's data: built so that a relay is what reaches the target."""

from __future__ import annotations

import numpy as np
import pytest

from relaytrain.core.errors import ScenarioError
from relaytrain.data import Dataset
from relaytrain.data.domain import Domain, shifted, shrink, standardised
from relaytrain.data.quick import SIZES, quick_data


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
    plain = standardised(data)
    assert abs(plain.images.mean()) < 1e-5 and abs(plain.images.std() - 1) < 1e-5
    assert np.allclose(standardised(data, like=data).images, plain.images)


def test_quick_sets_are_disjoint_sized_and_seeded() -> None:
    sets = quick_data(3)
    assert {name: len(data) for name, data in sets.items()} == SIZES
    assert sum(SIZES.values()) == 1797
    again, other = quick_data(3), quick_data(4)
    assert all(sets[name].digest() == again[name].digest() for name in SIZES)
    assert all(sets[name].digest() != other[name].digest() for name in SIZES)
    total = sum(data.histogram() for data in sets.values())
    assert total.sum() == 1797 and total.min() > 170
    dark = {name: float(data.images.mean()) for name, data in sets.items()}
    assert dark["gold"] < 0.35 < dark["silver"] < 0.6 < dark["bronze"]


@pytest.mark.train
@pytest.mark.slow
def test_a_relay_reaches_what_no_single_leg_reaches() -> None:
    """Means over three seeds: one seed alone may be lucky with its 120 bronze images."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    from torch import nn

    from relaytrain.compression.prune import prune
    from relaytrain.models import build, family_spec

    example = torch.zeros(2, 1, 8, 8)
    spec = family_spec("cnn", input=(1, 8, 8), classes=10)

    def train(model: nn.Module, name: str, epochs: int) -> float:
        """Lowest validation loss over the epochs."""
        torch.manual_seed(0)
        images, labels = tensors[name]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        lowest = float("inf")
        for _ in range(epochs):
            for chosen in torch.split(torch.randperm(len(images)), 16):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
                optimizer.step()
            with torch.no_grad():
                inputs, wanted = tensors["validation"]
                lowest = min(lowest, float(nn.functional.cross_entropy(model(inputs), wanted)))
        return lowest

    rows = []
    for seed in (10, 11, 12):
        sets = quick_data(seed)
        tensors = {n: (torch.from_numpy(d.images), torch.from_numpy(d.labels)) for n, d in sets.items()}
        full = build(spec, seed=seed)
        small_alone = train(prune(full, example, 0.75).model, "bronze", 50)
        full_alone = train(full, "gold", 5)
        half = prune(full, example, 0.5).model
        half_way = train(half, "silver", 10)
        rows.append([full_alone, small_alone, half_way, train(prune(half, example, 0.5).model, "bronze", 30)])
    full_alone, small_alone, half_way, relay = np.mean(rows, axis=0)
    assert full_alone > 2.0
    assert relay < 0.5 < min(small_alone, half_way)
