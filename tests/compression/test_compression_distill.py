"""Distillation: the loss by hand, the seed decides the bits, the student learns from the teacher alone."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from relaytrain.compression.distill import DistillOptions, distill, distill_loss
from relaytrain.core.errors import NonFiniteTraining, UsageError
from relaytrain.data.batches import batches

pytestmark = pytest.mark.train


def rows() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(65, 6, generator=generator)
    return inputs, (inputs[:, 0] > 0).long()


def net(width: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 2))


def test_the_loss_by_hand() -> None:
    """Student undecided, teacher at odds 3 : 1 after division by T = 2; label 0."""
    teacher, student = torch.tensor([[2 * math.log(3.0), 0.0]]), torch.zeros(1, 2)
    soft = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    for alpha in (0.0, 0.3, 1.0):
        expected = alpha * 4 * soft + (1 - alpha) * math.log(2.0)
        got = distill_loss(student, teacher, torch.tensor([0]), DistillOptions(temperature=2.0, alpha=alpha))
        assert got.item() == pytest.approx(expected, rel=1e-6)


def test_same_seed_same_bits_and_nothing_else_is_touched() -> None:
    inputs, labels = rows()
    teacher, student = net(16, 1), net(4, 2)
    before = [p.clone() for p in (*teacher.parameters(), *student.parameters())]
    torch.manual_seed(8)
    state = torch.get_rng_state()
    first, second = (distill(teacher, student, inputs, labels, DistillOptions(epochs=3, batch=16)) for _ in range(2))
    other = distill(teacher, student, inputs, labels, DistillOptions(epochs=3, batch=16, seed=1))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(
        torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    )
    assert not torch.equal(first[0].weight, other[0].weight)
    assert all(torch.equal(a, b) for a, b in zip(before, (*teacher.parameters(), *student.parameters()), strict=True))
    assert not first.training and student.training


def test_a_student_follows_the_teacher_where_labels_are_wrong() -> None:
    inputs, labels = rows()
    teacher = nn.Linear(6, 2)
    with torch.no_grad():
        teacher.weight.zero_()
        teacher.bias.zero_()
        teacher.weight[1, 0] = 8.0
    options = DistillOptions(alpha=1.0, epochs=30, lr=0.1, batch=16)
    student = distill(teacher, net(8, 3), inputs, 1 - labels, options)
    agreement = (student(inputs).argmax(1) == teacher(inputs).argmax(1)).float().mean()
    assert agreement > 0.9


def test_a_lone_last_image_joins_its_neighbours() -> None:
    assert sorted(len(b) for b in batches(65, 32)) == [32, 33]
    assert sorted(torch.cat(batches(65, 32)).tolist()) == list(range(65))


def test_wrong_use() -> None:
    inputs, labels = rows()
    with pytest.raises(UsageError, match="images"):
        distill(net(4, 1), net(4, 2), inputs, labels[:-1], DistillOptions())
    with pytest.raises(UsageError, match=r"distill\.alpha"):
        DistillOptions(alpha=1.5)
    with pytest.raises(NonFiniteTraining, match="smaller lr"):
        distill(net(4, 1), net(4, 2), inputs.log(), labels, DistillOptions())
