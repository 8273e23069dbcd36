"""Low-rank factors (LoRA): the average of their products, and the product at another rank.

An adapter adds s B A to a weight, B (out x rank) and A (rank x in). Only the product means anything, so

* **averaging**: the mean of B_i A_i is not the product of the mean B and the mean A. The mean of the products, of rank
  up to nodes x rank, is cut to the rank by its singular values, which no other factors of that rank come nearer to.
* **another rank**: a larger one keeps the product exactly (new columns of B are zero); a smaller one keeps its largest
  singular values.

Of all factors with that product those are taken that lie near the mean A, or where that has no meaning (those of an
embedding begin with A = 0) near the mean B: training goes on at its scale, and the optimizer's averaged state still
belongs to them. Everything in float64, through the small matrices between two QRs: the product itself is never formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

WORST_CONDITION = 1e4
"""Of the small matrix that leads to factors near the mean: beyond it they would be far from one another in size, and
the product's singular values are shared equally between both instead."""

Factors = tuple[Tensor, Tensor]
"""(B, A): out x rank, rank x in."""


@dataclass(frozen=True)
class Changed:
    """Factors at another rank: A' = `rows` A and B' = B `columns` where it shrank, None where it grew."""

    factors: Factors
    rows: Tensor | None = None
    columns: Tensor | None = None


def mean_of_products(parts: Sequence[tuple[float, Factors]]) -> Factors:
    """Factors whose product is the nearest of their rank to the weighted mean of the products; weights sum to one."""
    if len(parts) == 1:
        return parts[0][1]
    rank, kind = parts[0][1][1].shape[0], parts[0][1][0].dtype
    left = torch.cat([weight * b.double() for weight, (b, _) in parts], dim=1)
    right = torch.cat([a.double() for _, (_, a) in parts], dim=0)
    outer, values, inner = _largest(left, right, rank)
    mean_b, mean_a = (torch.stack([w * each[at].double() for w, each in parts]).sum(dim=0) for at in (0, 1))
    near_a, near_b = mean_a @ inner, outer.T @ mean_b
    if len(values) == rank and _condition(near_a) <= WORST_CONDITION:
        b, a = torch.linalg.solve(near_a, outer * values, left=False), near_a @ inner.T
    elif len(values) == rank and _condition(near_b) <= WORST_CONDITION:
        b, a = outer @ near_b, torch.linalg.solve(near_b, values[:, None] * inner.T)
    else:
        root = values.sqrt()
        b, a = _padded(outer * root, rank, 1), _padded((inner * root).T, rank, 0)
    return b.to(kind).contiguous(), a.to(kind).contiguous()


def at_rank(factors: Factors, fresh: Factors, scale: float = 1.0) -> Changed:
    """The product of `factors`, times `scale`, at the rank of `fresh`: exact where that is larger, else the nearest.

    Args:
        factors: what was trained.
        fresh: an untrained pair of the new rank; its A fills the new rows.
        scale: the old alpha / rank over the new one.
    """
    (b, a), rank = factors, fresh[1].shape[0]
    if rank >= a.shape[0]:
        zeros = torch.zeros(b.shape[0], rank - a.shape[0], dtype=b.dtype)
        return Changed((torch.cat([b * scale, zeros], dim=1), torch.cat([a, fresh[1][a.shape[0] :]], dim=0)))
    wide, tall = b.double(), a.double()
    outer, values, inner = _largest(wide, tall, rank)
    outer, values, inner = _padded(outer, rank, 1), _padded(values, rank, 0), _padded(inner, rank, 1)
    # Rows of A' are combinations, with orthonormal weights, of the rows of A that span the directions kept.
    rows = torch.linalg.qr(torch.linalg.pinv(tall.T) @ inner)[0].T
    new_a = rows @ tall
    new_b = (outer * values) @ (inner.T @ torch.linalg.pinv(new_a))
    columns = torch.linalg.pinv(wide) @ new_b
    return Changed(((new_b * scale).to(b.dtype), new_a.to(a.dtype)), rows, columns)


def carry_factors(state: Factors, changed: Changed, rank: int, *, squared: bool) -> Factors:
    """One buffer of the optimizer (of B and of A) at the new rank, by the chain rule; new factors begin at zero.

    A' = R A and B' = B L give the gradients L^T dA and dB R^T; `squared` buffers follow with the squares of both.
    """
    b, a = state
    if changed.rows is None or changed.columns is None:
        return _padded(b, rank, 1), _padded(a, rank, 0)
    rows, columns = changed.rows, changed.columns
    if squared:
        rows, columns = rows.square(), columns.square()
    return (b.double() @ rows.T).to(b.dtype), (columns.T @ a.double()).to(a.dtype)


def _largest(left: Tensor, right: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Left vectors, values and right vectors of the largest `rank` singular values of left @ right."""
    (q_left, r_left), (q_right, r_right) = torch.linalg.qr(left), torch.linalg.qr(right.T)
    u, values, vh = torch.linalg.svd(r_left @ r_right.T, full_matrices=False)
    return q_left @ u[:, :rank], values[:rank], q_right @ vh[:rank].T


def _condition(matrix: Tensor) -> float:
    values = torch.linalg.svdvals(matrix)
    return float(values[0] / values[-1]) if float(values[-1]) > 0 else float("inf")


def _padded(tensor: Tensor, size: int, dim: int) -> Tensor:
    missing = size - tensor.shape[dim]
    if missing <= 0:
        return tensor
    shape = list(tensor.shape)
    shape[dim] = missing
    return torch.cat([tensor, torch.zeros(shape, dtype=tensor.dtype)], dim=dim)
