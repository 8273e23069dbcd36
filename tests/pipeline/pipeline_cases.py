"""Small networks, data and comparisons that the tests of the pipeline's processes share."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from equal_shares import equal_size
from torch import nn

from relaytrain.experiments.mcpipe.savings import smallest
from relaytrain.models.rebuild import build
from relaytrain.models.spec import family_spec
from relaytrain.pipeline.networks import chain, published_vgg
from relaytrain.pipeline.pipeline_work import Runtime, Split
from relaytrain.pipeline.unit_counter import measure
from relaytrain.planners.pipeline.partition import Device, split
from relaytrain.planners.pipeline.policy_choice import within_stage
from relaytrain.planners.pipeline.version_lifetimes import steady_peaks

DEVICES = [Device(f"d{i}", 1e9) for i in range(3)]
SIMULATOR = Runtime(where="simulator")


def model_named(name):
    """Model, spec if it needs one, shape of a sample."""
    torch.manual_seed(1)
    if name == "mlp":
        linears = [nn.Linear(a, b) for a, b in ((12, 32), (32, 32), (32, 32), (32, 5))]
        return nn.Sequential(*(part for layer in linears for part in (layer, nn.ReLU())))[:-1], None, (12,)
    if name == "vgg":
        return published_vgg("vgg11", width=1 / 16, hidden=256, input=(3, 16, 16), classes=5), None, (3, 16, 16)
    spec = family_spec("resnet8", input=(3, 8, 8), classes=5, width=0.25)
    return build(spec), spec, (3, 8, 8)


def data_for(shape, count=10, dtype=torch.float32, size=2):
    made = torch.Generator().manual_seed(2)
    return [
        (torch.randn(size, *shape, generator=made, dtype=dtype), torch.randint(0, 5, (size,), generator=made))
        for _ in range(count)
    ]


def best_of(model, batches, stages, m):
    """The split into equal shares with, for every layer, whichever policy stores less."""
    facts = measure(chain(model), batches[0][0], F.cross_entropy, batches[0][1])
    cuts = equal_size([unit.weight_bytes for unit in facts], stages)
    made = []
    for at, part in enumerate(split(facts, cuts)):
        choice = smallest([layer for unit in part for layer in unit.layers], steady_peaks(stages, m)[at])
        made.append(within_stage(choice, (0, *cuts)[at]))
    return Split(cuts, tuple(made), tuple(device.name for device in DEVICES[:stages]))


def assert_same_weights(one, other):
    assert one.weights.keys() == other.weights.keys()
    for name, tensor in one.weights.items():
        assert torch.equal(tensor, other.weights[name]), name
    assert one.states.keys() == other.states.keys()
    for name, state in one.states.items():
        assert state.steps == other.states[name].steps
        assert all(torch.equal(a, b) for a, b in zip(state.tensors, other.states[name].tensors, strict=True)), name


def assert_same(one, other):
    assert one.losses == other.losses
    assert_same_weights(one, other)
