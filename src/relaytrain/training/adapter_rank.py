"""An adapter at another rank: the product of its factors stays as far as the rank allows, optimizer state follows."""

from __future__ import annotations

from torch import Tensor

from ..compression.low_rank import at_rank, carry_factors
from ..core.errors import ScenarioError
from ..models.adapter import as_matrices, factor_pairs
from ..models.spec import adapter_of
from .checkpoint import Checkpoint

SECOND_MOMENTS = ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum")
"""Buffers of squared gradients, in torch's optimizers."""


def at_new_rank(checkpoint: Checkpoint, fresh: Checkpoint) -> Checkpoint:
    """What `fresh`, an untrained version of another rank, starts from after `checkpoint`; a server begins anew.

    Raises:
        ScenarioError: they are not adapters of the same base in the same places.
    """
    old, new = adapter_of(checkpoint.spec), adapter_of(fresh.spec)
    if old is None or new is None or old.base != new.base or set(checkpoint.weights) != set(fresh.weights):
        raise ScenarioError(
            f"versions.{fresh.version}: its adapter sits elsewhere than that of {checkpoint.version}; "
            "expected the same factory, targets and train"
        )
    scale = (old.alpha / old.rank) / (new.alpha / new.rank)
    weights, state = dict(checkpoint.weights), dict(checkpoint.optimizer)
    for b, a in factor_pairs(checkpoint.weights):
        changed = at_rank(as_matrices(checkpoint.weights, b, a), as_matrices(fresh.weights, b, a), scale)
        weights |= _shaped(changed.factors, b, a, fresh)
        for buffer in {key.partition("/")[0] for key in state}:
            of_b, of_a = f"{buffer}/{b}", f"{buffer}/{a}"
            if of_b not in state or of_a not in state or not state[of_b].ndim or not state[of_a].ndim:
                continue  # a counter, which stays
            carried = carry_factors(as_matrices(state, of_b, of_a), changed, new.rank, squared=buffer in SECOND_MOMENTS)
            state |= {f"{buffer}/{name}": t for name, t in _shaped(carried, b, a, fresh).items()}
    return Checkpoint(fresh.spec, weights, state, fresh.version, scaler=checkpoint.scaler)


def _shaped(factors: tuple[Tensor, Tensor], b: str, a: str, like: Checkpoint) -> dict[str, Tensor]:
    return {name: t.reshape(like.weights[name].shape).contiguous() for name, t in zip((b, a), factors, strict=True)}
