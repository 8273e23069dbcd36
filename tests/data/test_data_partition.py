"""Who holds which image: disjoint, complete where promised, the same each time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relaytrain.core.errors import ScenarioError
from relaytrain.data.partition import Parts, by_class, by_size, dirichlet, iid, split

SEEDS = st.integers(0, 2**32)
NODES = st.integers(1, 12).map(lambda n: [f"n{i}" for i in range(n)])
LABELS = st.tuples(st.integers(12, 300), st.integers(2, 10), SEEDS).map(
    lambda t: np.random.default_rng(t[2]).integers(0, t[1], t[0])
)


def check(parts: Parts, count: int, *, complete: bool) -> None:
    joined = np.concatenate(list(parts.values()))
    assert len(np.unique(joined)) == len(joined), "an image is held twice"
    assert joined.min() >= 0 and joined.max() < count
    assert all((np.diff(part) > 0).all() for part in parts.values() if len(part) > 1), "not sorted"
    if complete:
        assert len(joined) == count


def same(a: Parts, b: Parts) -> bool:
    return list(a) == list(b) and all(np.array_equal(a[name], b[name]) for name in a)


@given(count=st.integers(12, 500), nodes=NODES, seed=SEEDS)
def test_iid(count: int, nodes: list[str], seed: int) -> None:
    parts = iid(count, nodes, seed=seed)
    check(parts, count, complete=True)
    sizes = [len(part) for part in parts.values()]
    assert max(sizes) - min(sizes) <= 1
    assert same(parts, iid(count, nodes, seed=seed))
    assert count < 50 or len(nodes) == 1 or not same(parts, iid(count, nodes, seed=seed + 1))


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=10), spare=st.integers(0, 30), seed=SEEDS)
def test_by_size(sizes: list[int], spare: int, seed: int) -> None:
    wanted = {f"n{i}": size for i, size in enumerate(sizes)}
    parts = by_size(sum(sizes) + spare, wanted, seed=seed)
    check(parts, sum(sizes) + spare, complete=spare == 0)
    assert {name: len(part) for name, part in parts.items()} == wanted
    assert same(parts, by_size(sum(sizes) + spare, wanted, seed=seed))


@given(labels=LABELS, nodes=NODES, alpha=st.sampled_from([0.01, 0.1, 1.0, 100.0]), seed=SEEDS)
def test_dirichlet(labels: np.ndarray, nodes: list[str], alpha: float, seed: int) -> None:
    parts = dirichlet(labels, nodes, alpha=alpha, seed=seed)
    check(parts, len(labels), complete=True)
    assert min(len(part) for part in parts.values()) >= 1
    assert same(parts, dirichlet(labels, nodes, alpha=alpha, seed=seed))


def test_small_alpha_is_uneven_and_large_alpha_is_even() -> None:
    labels = np.arange(5000) % 10

    def imbalance(alpha: float) -> float:
        parts = dirichlet(labels, [f"n{i}" for i in range(5)], alpha=alpha, seed=3)
        shares = np.array([np.bincount(labels[part], minlength=10) for part in parts.values()]) / 500
        return float(shares.std())

    assert imbalance(0.05) > 0.3 > 0.05 > imbalance(1000.0)


@given(labels=LABELS, seed=SEEDS, shares=st.sampled_from([(0.8, 0.1, 0.1), (0.5, 0.25, 0.25), (0.34, 0.33, 0.33)]))
def test_splits_are_complete_and_alike_in_every_class(labels: np.ndarray, seed: int, shares: tuple[float, ...]) -> None:
    wanted = dict(zip(("train", "validation", "test"), shares, strict=True))
    parts = split(labels, wanted, seed=seed)
    check({name: part for name, part in parts.items() if len(part)}, len(labels), complete=True)
    for label in np.unique(labels):
        for name, share in wanted.items():
            held = int((labels[parts[name]] == label).sum())
            assert abs(held - share * (labels == label).sum()) <= 1.0 + 1e-9
    assert same(parts, split(labels, wanted, seed=seed))


@settings(max_examples=60)
@given(labels=LABELS, seed=SEEDS, data=st.data())
def test_by_class_without_sizes_gives_every_image_of_an_owned_class(
    labels: np.ndarray, seed: int, data: st.DataObject
) -> None:
    present = [int(c) for c in np.unique(labels)]
    owned = st.lists(st.sampled_from(present), min_size=1, unique=True)
    classes = {f"n{i}": data.draw(owned) for i in range(data.draw(st.integers(1, 5)))}
    parts = by_class(labels, classes, seed=seed)
    check(parts, len(labels), complete=False)
    for name, part in parts.items():
        assert set(labels[part]) <= set(classes[name])
    held = np.concatenate(list(parts.values()))
    for label in {c for group in classes.values() for c in group}:
        owners = [name for name in classes if label in classes[name]]
        counts = [int((labels[parts[name]] == label).sum()) for name in owners]
        assert sum(counts) == (labels == label).sum() == (labels[held] == label).sum()
        assert max(counts) - min(counts) <= 1
    assert same(parts, by_class(labels, classes, seed=seed))


def test_node_sets_that_own_more_classes() -> None:
    """As in PACT section VI-A in small: gold knows 4 classes, silver 5, bronze 6; sizes fall."""
    labels = np.arange(600) % 6
    classes = {"gold": [0, 1, 2, 3], "silver": [0, 1, 2, 3, 4], "bronze": [0, 1, 2, 3, 4, 5]}
    sizes = {"gold": 200, "silver": 50, "bronze": 18}
    parts = by_class(labels, classes, seed=1, sizes=sizes)
    check(parts, 600, complete=False)
    assert {name: np.bincount(labels[part], minlength=6).tolist() for name, part in parts.items()} == {
        "gold": [50, 50, 50, 50, 0, 0],
        "silver": [10, 10, 10, 10, 10, 0],
        "bronze": [3, 3, 3, 3, 3, 3],
    }


def test_a_scarce_class_is_made_up_by_the_others() -> None:
    labels = np.array([0] * 2 + [1] * 50 + [2] * 50)
    part = by_class(labels, {"a": [0, 1, 2]}, seed=0, sizes={"a": 30})["a"]
    assert np.bincount(labels[part]).tolist() == [2, 14, 14]


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: iid(2, ["a", "b", "c"], seed=0), "2 images for 3 nodes"),
        (lambda: iid(5, [], seed=0), "at least one"),
        (lambda: iid(5, ["a", "a"], seed=0), "each name once"),
        (lambda: by_size(5, {"a": 6}, seed=0), "want 6 images, there are 5"),
        (lambda: by_size(5, {"a": 0}, seed=0), "above 0"),
        (lambda: by_size(5, {"a": 1.5}, seed=0), "above 0"),
        (lambda: dirichlet(np.arange(4), ["a"], alpha=0.0, seed=0), "alpha"),
        (lambda: dirichlet(np.arange(4), ["a"], alpha=float("nan"), seed=0), "alpha"),
        (lambda: split(np.arange(4), {"a": 0.5, "b": 0.6}, seed=0), "sum to 1"),
        (lambda: by_class(np.arange(4), {"a": [9]}, seed=0), "class 9"),
        (lambda: by_class(np.arange(4), {"a": []}, seed=0), "no classes"),
        (lambda: by_class(np.arange(4), {"a": [1]}, seed=0, sizes={"a": 2}), "wants 2 images"),
    ],
)
def test_what_cannot_be_divided(call: object, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        call()  # type: ignore[operator]
