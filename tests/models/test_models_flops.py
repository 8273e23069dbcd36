"""FLOPs against a count written from the architectures' arithmetic, not from their modules."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
import torch
from strangers import Branches
from torch import nn

from relaytrain.compression.prune import prune
from relaytrain.models import FamilySpec, build, count, family_spec, spec_of

pytestmark = pytest.mark.train

RELATIVE = 1e-3  # the promise; the counts below in fact agree exactly


@dataclass
class Macs:
    """Multiply-adds of every layer in order."""

    layers: list[int] = field(default_factory=list)

    def conv(self, size: tuple[int, int], kernel: int, per_output: int, outputs: int) -> None:
        self.layers.append(size[0] * size[1] * kernel * kernel * per_output * outputs)

    def dense(self, inputs: int, outputs: int) -> None:
        self.layers.append(inputs * outputs)

    @property
    def forward(self) -> int:
        return 2 * sum(self.layers)

    def train(self, reads_image: int = 1) -> int:
        """Three products a layer; the first `reads_image` layers need no gradient of their input."""
        return 6 * sum(self.layers) - 2 * sum(self.layers[:reads_image])


def halve(size: tuple[int, int], *, up: bool = False) -> tuple[int, int]:
    if min(size) < 2:
        return size
    return ((size[0] + up) // 2, (size[1] + up) // 2)


def analytic(spec: FamilySpec) -> Macs:
    macs, (channels, height, width), w = Macs(), spec.input, spec.widths
    size = (height, width)
    if spec.family in ("vgg11", "vgg16", "alexnet"):
        pools = {"vgg11": (1, 2, 4, 6, 8), "vgg16": (2, 4, 7, 10, 13), "alexnet": (1, 2, 5)}[spec.family]
        for number, outputs in enumerate(w[: pools[-1]], start=1):
            macs.conv(size, 3, channels, outputs)
            channels = outputs
            size = halve(size) if number in pools else size
        features = channels * size[0] * size[1] if spec.family == "alexnet" else channels
        for hidden in w[pools[-1] :]:
            macs.dense(features, hidden)
            features = hidden
        macs.dense(features, spec.classes)
    elif spec.family == "cnn":
        for outputs in w[:2]:
            macs.conv(size, 3, channels, outputs)
            channels, size = outputs, halve(size)
        macs.dense(channels * size[0] * size[1], w[2])
        macs.dense(w[2], spec.classes)
    elif spec.family == "mobilenet":
        macs.conv(size, 3, channels, w[0])
        for number, (inputs, outputs) in enumerate(pairwise(w)):
            size = halve(size, up=True) if number in (1, 3, 5, 8) else size
            macs.conv(size, 3, 1, inputs)
            macs.conv(size, 1, inputs, outputs)
        macs.dense(w[-1], spec.classes)
    else:
        blocks = {"resnet8": 1, "resnet14": 2, "resnet20": 3}[spec.family]
        macs.conv(size, 3, channels, w[0])
        inputs = w[0]
        for stage in range(3):
            for block in range(blocks):
                middle, outputs = w[3 + stage * blocks + block], w[stage]
                opens = stage > 0 and block == 0
                size = halve(size, up=True) if opens else size
                macs.conv(size, 3, inputs, middle)
                macs.conv(size, 3, middle, outputs)
                if opens:
                    macs.conv(size, 1, inputs, outputs)
                inputs = outputs
        macs.dense(inputs, spec.classes)
    return macs


CASES = [
    ("vgg11", 0.5, (3, 32, 32)),
    ("vgg11", 0.125, (1, 28, 28)),
    pytest.param("vgg16", 0.25, (3, 32, 32), marks=pytest.mark.slow),
    ("vgg16", 0.25, (1, 8, 8)),
    ("alexnet", 0.25, (3, 32, 32)),
    ("alexnet", 0.25, (1, 9, 13)),
    pytest.param("mobilenet", 1.0, (3, 32, 32), marks=pytest.mark.slow),
    ("mobilenet", 0.25, (1, 8, 8)),
    ("resnet8", 1.0, (3, 32, 32)),
    pytest.param("resnet14", 1.0, (1, 28, 28), marks=pytest.mark.slow),
    pytest.param("resnet20", 0.5, (1, 8, 8), marks=pytest.mark.slow),
    ("cnn", 1.0, (1, 8, 8)),
    ("cnn", 1.0, (1, 28, 28)),
]


@pytest.mark.parametrize("family, width, shape", CASES)
def test_families_full_and_pruned(family: str, width: float, shape: tuple[int, int, int]) -> None:
    base = family_spec(family, input=shape, classes=10, width=width)
    model, example = build(base), torch.zeros(2, *shape)
    smaller = prune(model, example, 0.6).model
    for version in (model, smaller):
        spec = spec_of(version, base)
        assert isinstance(spec, FamilySpec)
        expected, counted = analytic(spec), count(version, example)
        assert counted.train_flops == pytest.approx(expected.train(), rel=RELATIVE)
        assert counted.forward_flops == pytest.approx(expected.forward, rel=RELATIVE)


def test_one_depthwise_convolution_is_not_counted_as_a_dense_one() -> None:
    """32 channels on 32x32: torch's own counter gives 16 times the true backward pass."""
    net = nn.Sequential(nn.Conv2d(3, 32, 1), nn.Conv2d(32, 32, 3, padding=1, groups=32))
    macs = Macs()
    macs.conv((32, 32), 1, 3, 32)
    macs.conv((32, 32), 3, 1, 32)
    assert count(net, torch.zeros(1, 3, 32, 32)).train_flops == macs.train()
    assert 3 * 2 * macs.layers[1] == 3 * 589_824


def test_grouped_transposed_and_bare_matrix_products() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.ConvTranspose2d(4, 6, 2, stride=2, groups=2)
            self.weight = nn.Parameter(torch.ones(6, 5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.up(x).mean(dim=(2, 3)) @ self.weight

    macs = Macs([8 * 8 * 2 * 2 * 4 * 3, 6 * 5])  # every input pixel meets 2x2 kernels of 6/2 outputs
    counted = count(Bare(), torch.zeros(3, 4, 8, 8))
    assert (counted.train_flops, counted.forward_flops) == (macs.train(), macs.forward)

    branches = Macs()
    branches.conv((8, 8), 3, 3, 16)
    branches.conv((8, 8), 5, 3, 8)
    branches.conv((8, 8), 3, 6, 24)
    branches.conv((8, 8), 3, 1, 24)
    branches.conv((8, 8), 1, 24, 24)
    branches.dense(24, 5)
    assert count(Branches(), torch.zeros(2, 3, 8, 8)).train_flops == branches.train(reads_image=2)


def test_bytes_kept_for_the_backward_pass() -> None:
    """Two linear layers with a ReLU between: the input (12 floats), the ReLU's output (7 floats) are kept, no more."""
    net = nn.Sequential(nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 3))
    counted = count(net, torch.zeros(5, 12))
    assert counted.activation_bytes == 4 * (12 + 7)
    assert counted.parameters == 12 * 7 + 7 + 7 * 3 + 3
    assert counted.weight_bytes == 4 * counted.parameters


def test_counting_leaves_the_model_as_it_was_and_handles_data_dependent_code() -> None:
    class Depends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.head = nn.BatchNorm1d(6), nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.norm(x) if x.sum().item() >= 0 else x)

    model = Depends().eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert count(model, torch.zeros(1, 6)).train_flops == 6 * 12
    assert not model.training
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
