"""Low-rank factors: held against the product itself, formed and cut by brute force."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from relaytrain.compression.low_rank import Factors, at_rank, carry_factors, mean_of_products

pytestmark = pytest.mark.train
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
"""Factors are float32."""


def pair(seed: int, rank: int = 3, out: int = 9, inner: int = 7) -> Factors:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(out, rank, generator=generator), torch.randn(rank, inner, generator=generator)


def product(factors: Factors) -> Tensor:
    return factors[0].double() @ factors[1].double()


def cut(matrix: Tensor, rank: int) -> Tensor:
    u, s, vh = torch.linalg.svd(matrix)
    return u[:, :rank] @ torch.diag(s[:rank]) @ vh[:rank]


def naive_mean(parts: list[tuple[float, Factors]]) -> Factors:
    """Factors averaged apart, for comparison: their product is not the mean of the products."""
    b = torch.stack([weight * b.double() for weight, (b, _) in parts]).sum(dim=0)
    a = torch.stack([weight * a.double() for weight, (_, a) in parts]).sum(dim=0)
    return b.to(parts[0][1][0].dtype), a.to(parts[0][1][1].dtype)


def test_the_average_is_the_nearest_of_its_rank_to_the_mean_of_the_products() -> None:
    parts = [(0.5, pair(1)), (0.2, pair(2)), (0.3, pair(3))]
    mean = sum(weight * product(factors) for weight, factors in parts)
    best = cut(mean, 3)
    ours, naive = mean_of_products(parts), naive_mean(parts)
    assert torch.allclose(product(ours), best, **CLOSE)
    assert (product(naive) - mean).norm() > 1.2 * (best - mean).norm()
    assert ours[0].shape == (9, 3) and ours[1].shape == (3, 7) and ours[0].dtype == torch.float32


def test_one_node_is_left_alone_and_equal_nodes_agree() -> None:
    factors = pair(4)
    assert mean_of_products([(1.0, factors)]) is factors
    b, a = mean_of_products([(0.25, factors), (0.75, factors)])
    assert torch.allclose(b, factors[0], **CLOSE) and torch.allclose(a, factors[1], **CLOSE)


def test_factors_stay_near_the_mean_after_a_first_short_step() -> None:
    """B from zero, A hardly moved: where the naive mean is nearly right, ours is near it in both factors."""
    b, a = pair(5)
    parts = []
    for seed in (6, 7):
        db, da = pair(seed)
        parts.append((0.5, (0.01 * (b + 0.3 * db), a + 1e-4 * da)))
    ours, naive = mean_of_products(parts), naive_mean(parts)
    assert (ours[1] - naive[1]).norm() < 0.01 * naive[1].norm()
    assert (ours[0] - naive[0]).norm() < 0.05 * naive[0].norm()


def test_where_the_mean_a_says_nothing_factors_stay_near_the_mean_b() -> None:
    """The factors of an embedding begin with A = 0."""
    (one, a), (other, _) = pair(5), pair(6)
    parts = [(0.5, (one, a)), (0.5, (other, -a))]
    ours, span = mean_of_products(parts), torch.linalg.qr((one - other).double())[0]
    assert torch.allclose(product(ours), sum(weight * product(factors) for weight, factors in parts), **CLOSE)
    assert torch.allclose(ours[0].double(), span @ span.T @ (one + other).double() / 2, **CLOSE)


def test_whatever_way_was_taken_factors_can_be_stored() -> None:
    for scale in (1.0, 1e-9, 0.0):
        parts = [(0.5, (b * scale, a)) for b, a in (pair(8), pair(9))] + [(0.0, pair(10))]
        assert all(factor.is_contiguous() for factor in mean_of_products(parts))
    wide = [(0.5, pair(seed, rank=9)) for seed in (11, 12)]
    assert all(factor.is_contiguous() for factor in mean_of_products(wide))


def test_an_adapter_that_adds_nothing_yet_keeps_its_a() -> None:
    b, a = torch.zeros(9, 3), pair(8)[1]
    mean = mean_of_products([(0.5, (b, a)), (0.5, (b, a))])
    assert torch.allclose(mean[1], a, **CLOSE) and not mean[0].any()


def test_a_rank_beyond_the_weight_and_broken_alignment_still_give_the_mean() -> None:
    wide = [(0.5, pair(1, rank=8, out=5, inner=6)), (0.5, pair(2, rank=8, out=5, inner=6))]
    assert torch.allclose(product(mean_of_products(wide)), sum(0.5 * product(f) for _, f in wide), **CLOSE)
    (b, a), other = pair(9), pair(10)
    against = [(0.5, (b, a)), (0.5, (other[0], -a))]  # the mean A is zero
    assert torch.allclose(product(mean_of_products(against)), 0.5 * product((b - other[0], a)), **CLOSE)


def test_a_larger_rank_keeps_the_product_and_a_smaller_one_its_largest_part() -> None:
    factors = pair(11, rank=4)
    grown = at_rank(factors, pair(12, rank=6))
    assert torch.equal(grown.factors[0][:, :4], factors[0]) and not grown.factors[0][:, 4:].any()
    assert torch.equal(grown.factors[1][:4], factors[1])
    assert torch.equal(product(grown.factors), product(factors))
    shrunk = at_rank(factors, pair(13, rank=2), scale=2.0)
    assert torch.allclose(product(shrunk.factors), 2.0 * cut(product(factors), 2), **CLOSE)
    again = at_rank(grown.factors, pair(14, rank=4))
    assert torch.allclose(product(again.factors), product(factors), **CLOSE)


def test_the_optimizers_state_follows_the_chain_rule() -> None:
    """With the gradient of the old factors as momentum, the new one's is the gradient of the new factors."""
    b, a = pair(15, rank=4)
    shrunk = at_rank((b, a), pair(16, rank=2))
    slope = torch.randn(9, 7, generator=torch.Generator().manual_seed(1))
    momentum = carry_factors((slope @ a.T, b.T @ slope), shrunk, 2, squared=False)
    new_b, new_a = shrunk.factors
    assert torch.allclose(momentum[1], new_b.T @ slope, **CLOSE)
    assert torch.allclose(momentum[0], slope @ new_a.T, **CLOSE)
    squares = carry_factors((torch.rand(9, 4), torch.rand(4, 7)), shrunk, 2, squared=True)
    assert all((tensor >= 0).all() for tensor in squares)
    grown = carry_factors((torch.ones(9, 4), torch.ones(4, 7)), at_rank((b, a), pair(17, rank=6)), 6, squared=True)
    assert grown[0][:, 4:].sum() == 0 and grown[1][4:].sum() == 0 and grown[0].shape == (9, 6)


def test_an_adapter_that_adds_nothing_shrinks_to_nothing() -> None:
    changed = at_rank((torch.zeros(9, 4), pair(18, rank=4)[1]), pair(19, rank=2))
    assert not changed.factors[0].any() and torch.isfinite(changed.factors[1]).all()
    assert changed.factors[1].abs().sum() > 0
