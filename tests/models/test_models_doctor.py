"""What `doctor` finds before any training."""

from __future__ import annotations

import pytest
import torch
from strangers import Branches, Hard, Noisy, Recurrent, Scaled, Tied
from torch import nn

from relaytrain.core.families import FAMILIES
from relaytrain.doctor.network_check import check_network
from relaytrain.models import build, family_spec

pytestmark = pytest.mark.train

IMAGES, ROWS = torch.randn(4, 3, 8, 8), torch.randn(4, 12)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_our_families_are_clean(family: str) -> None:
    spec = family_spec(family, input=(3, 8, 8), classes=10, width=0.5 if family == "cnn" else 0.125)
    found = check_network(build(spec), IMAGES)
    assert [f for f in found if f.level == "error"] == []


def test_an_ordinary_strangers_network_is_clean() -> None:
    assert check_network(Branches(), IMAGES) == []


def test_a_size_fixed_in_forward_is_named() -> None:
    found = check_network(Hard(), IMAGES)
    assert [f.where for f in found] == ["free"]
    assert "flatten(1)" in found[0].remedy


def test_shared_weights_are_named() -> None:
    found = check_network(Tied(), ROWS)
    assert ("error", "second.weight") in {(f.level, f.where) for f in found}


def test_random_output_is_refused() -> None:
    assert [f.where for f in check_network(Noisy(), ROWS)] == ["forward"]


def test_a_parameter_outside_any_layer_is_pruned_and_rebuilt() -> None:
    assert check_network(Scaled(), ROWS) == []


def test_a_layer_that_torch_pruning_cannot_shrink_is_named() -> None:
    """Nothing is left to prune: the head makes the output, the LSTM stays whole, and so does what feeds it."""
    (found,) = check_network(Recurrent(), ROWS)
    assert (found.level, found.where) == ("error", "model")
    assert all(word in found.words for word in ("memory", "LSTM", "enter", "student")), found.words
    assert "doctor" not in found.words, "doctor itself speaks"


def test_nothing_to_train() -> None:
    assert "no trainable parameters" in str(check_network(nn.Flatten(), IMAGES)[0])


def test_an_output_without_rows_or_gradient() -> None:
    class Scalar(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).sum()

    class Detached(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).detach()

    assert "it returns []" in check_network(Scalar(12, 3), ROWS)[0].what
    assert "no gradient" in check_network(Detached(12, 3), ROWS)[0].what
    assert "fails on the example" in check_network(nn.Linear(5, 3), ROWS)[0].what


def test_a_factory_that_rebuilds_something_else() -> None:
    found = check_network(Branches(), IMAGES, factory=lambda: nn.Sequential(nn.Conv2d(3, 8, 3)))
    assert [f.where for f in found] == ["rebuild"]
