"""Nested versions: slices are leading channels, the way back up keeps the rest, turns are counted."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from relaytrain.core.errors import ScenarioError
from relaytrain.core.plan import Decision
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.inprocess import InProcess
from relaytrain.models import build
from relaytrain.scenario import load_scenario
from relaytrain.testing.small_training import tables
from relaytrain.training.checkpoint import Checkpoint
from relaytrain.training.handover import hand_over
from relaytrain.training.ordered_widths import ordered_widths, turns
from relaytrain.training.setup import TrainingSetup
from relaytrain.training.task import NodeTask

pytestmark = pytest.mark.train
FAMILIES = [("cnn", 1.0), ("vgg11", 0.06), ("alexnet", 0.06), ("mobilenet", 0.1), ("resnet8", 0.5)]
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def nested_setup(family: str = "cnn", width: float = 1.0, **training: Any) -> TrainingSetup:
    made = tables(family=family, width=width, **training)
    for version in made["versions"][1:]:
        version["way"] = "nested"
    return TrainingSetup.from_scenario(load_scenario(made))


def epochs(runner: FederatedEpoch, checkpoint: Checkpoint, *decided: tuple[int, str, str]) -> Checkpoint:
    for decision in decided:
        checkpoint = runner.run_epoch(Decision(*decision), checkpoint).checkpoint
    return checkpoint


def by_hand(weights: dict[str, Tensor], shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Leading rows, columns and kernels, written out for up to four axes."""
    cut: dict[str, Tensor] = {}
    for name, shape in shapes.items():
        tensor = weights[name]
        for axis, size in enumerate(shape):
            tensor = tensor.narrow(axis, 0, size)
        cut[name] = tensor
    return cut


@pytest.mark.slow
@pytest.mark.parametrize(("family", "width"), FAMILIES)
def test_a_slice_is_the_leading_channels_and_the_way_back_keeps_the_rest(family: str, width: float) -> None:
    setup = nested_setup(family, width)
    runner = FederatedEpoch(setup, InProcess(setup))
    full = epochs(runner, setup.first_checkpoint(), (1, "full", "gold"))
    down = hand_over(setup, full, "half", "silver")
    assert down.kind == "slice" and down.reached_ratio == pytest.approx(0.5, abs=0.06)
    shapes = {name: tuple(t.shape) for name, t in down.checkpoint.weights.items()}
    for name, tensor in by_hand(full.weights, shapes).items():
        assert name.endswith(STATISTICS) or torch.equal(down.checkpoint.weights[name], tensor), name
    for key, tensor in down.checkpoint.optimizer.items():
        assert torch.equal(tensor, by_hand({"t": full.optimizer[key]}, {"t": tuple(tensor.shape)})["t"]), key
    assert Checkpoint.from_bytes(down.checkpoint.data).data == down.checkpoint.data
    lower = hand_over(setup, epochs(runner, down.checkpoint, (2, "half", "silver")), "small", "gold").checkpoint
    trained = epochs(runner, lower, (3, "small", "gold"))
    assert trained.whole is not None and not torch.equal(first(trained.weights), first(lower.weights))
    up = hand_over(setup, Checkpoint.from_bytes(trained.data), "full", "gold")
    assert up.kind == "slice" and up.checkpoint.whole is None and up.checkpoint.spec == full.spec
    back = by_hand(up.checkpoint.weights, {name: tuple(t.shape) for name, t in trained.weights.items()})
    for name, tensor in back.items():
        assert name.endswith(STATISTICS) or torch.equal(trained.weights[name], tensor), name
    untouched = 0
    for name, tensor in up.checkpoint.weights.items():
        if not name.endswith(STATISTICS):
            rest = torch.ones(tensor.shape, dtype=torch.bool)
            by_hand({"t": rest}, {"t": shapes[name]})["t"].fill_(False)
            assert torch.equal(tensor[rest], full.weights[name][rest]), name
            untouched += int(rest.sum())
    assert untouched > 0.3 * sum(t.numel() for t in up.checkpoint.weights.values())


def first(tensors: dict[str, Tensor]) -> Tensor:
    return next(iter(tensors.values()))


def test_down_and_up_again_without_training_changes_no_bit() -> None:
    setup = nested_setup()
    full = epochs(FederatedEpoch(setup, InProcess(setup)), setup.first_checkpoint(), (1, "full", "gold"))
    back = full
    for version in ("small", "half", "full"):
        back = hand_over(setup, back, version, "silver").checkpoint
    assert back.data == full.data


def test_one_version_is_plain_training_bit_for_bit() -> None:
    made = tables()
    made["versions"] = made["versions"][:1]
    plain, share = load_scenario(made), {**made, "training": {**made["training"], "slice_share": 0.8}}
    digests = []
    for scenario in (plain, load_scenario(share)):
        setup = TrainingSetup.from_scenario(scenario)
        runner = FederatedEpoch(setup, InProcess(setup))
        digests.append(epochs(runner, setup.first_checkpoint(), (1, "full", "gold"), (2, "full", "silver")).digest)
    assert digests[0] == digests[1]
    smallest = nested_setup()
    start = smallest.initial("small")
    runner = FederatedEpoch(smallest, InProcess(smallest))
    trained = epochs(runner, start, (1, "small", "gold"))
    alone = epochs(runner, replace(start, whole=None), (1, "small", "gold"))
    assert trained.for_nodes.digest == alone.digest, "the full version beside a slice takes no part in its training"


def test_a_pass_trains_widths_in_turns_as_plain_pytorch_would() -> None:
    setup = nested_setup()
    half, small = (setup.version_facts()[name].spec for name in ("half", "small"))
    assert setup.slices_of("full") == (half, small) and setup.slices_of("half") == (small,)
    assert setup.slices_of("small") == ()
    start = setup.first_checkpoint()
    done = epochs(FederatedEpoch(setup, InProcess(setup)), start, (1, "full", "gold"))
    task = NodeTask("run", 1, 0, "cloud", start, setup.settings, slices=(half, small))
    data = setup.datasets["cloud"]
    images, labels = torch.from_numpy(data.images), torch.from_numpy(data.labels)
    model = build(start.spec, seed=setup.settings.seed)
    narrow = [build(spec) for spec in (half, small)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    torch.manual_seed(task.seed)
    order = torch.randperm(len(labels)).split(16)
    for chosen, width in zip(order, turns(0.5, 2, task.seed), strict=False):
        optimizer.zero_grad()
        network = model if width == 0 else narrow[width - 1]
        for name, parameter in network.named_parameters() if width else ():
            whole = model.get_parameter(name)
            parameter.data.copy_(by_hand({"t": whole.data}, {"t": tuple(parameter.shape)})["t"])
            parameter.grad = None
        functional.cross_entropy(network(images[chosen]), labels[chosen]).backward()
        for name, parameter in network.named_parameters() if width else ():
            whole = model.get_parameter(name)
            whole.grad = torch.zeros_like(whole)
            by_hand({"t": whole.grad}, {"t": tuple(parameter.shape)})["t"].copy_(parameter.grad)
        optimizer.step()
    for name, tensor in model.state_dict().items():
        assert torch.equal(done.weights[name], tensor), name


def test_turns_are_even_and_reach_every_width() -> None:
    for share in (0.25, 0.5, 0.6):
        taken = list(islice(turns(share, 2, 123_457), 400))
        assert abs(sum(width > 0 for width in taken) - 400 * share) <= 1
        assert abs(taken.count(1) - taken.count(2)) <= 1
    assert {next(turns(0.5, 2, seed * 7919)) for seed in range(50)} == {0, 1, 2}


def test_the_model_is_as_before_once_its_widths_were_trained() -> None:
    setup = nested_setup("resnet8", 0.5)
    model = setup.first_checkpoint().model().train()
    forward, images = model.forward, torch.randn(4, *setup.validation.input)
    statistics = {name: tensor.clone() for name, tensor in model.named_buffers()}
    with ordered_widths(model, setup.slices_of("full"), 0.9, 999):
        assert next(turns(0.9, 2, 999)) > 0
        model(images).sum().backward()
    assert model.forward == forward
    assert all(torch.equal(tensor, statistics[name]) for name, tensor in model.named_buffers())


class Joined(nn.Module):
    """Two branches joined: narrower ones are not the leading part of what follows."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(64, 8), nn.Linear(64, 8)
        self.hidden, self.head = nn.Linear(16, 8), nn.Linear(8, 10)

    def forward(self, images: Tensor) -> Tensor:
        flat = images.flatten(1)
        joined = torch.cat([self.left(flat), self.right(flat)], dim=1).relu()
        logits: Tensor = self.head(self.hidden(joined).relu())
        return logits


class Own(nn.Module):
    """A user's network with a residual sum, a norm and a weight of no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.inner, self.norm = nn.Linear(64, 24), nn.Linear(24, 24), nn.LayerNorm(24)
        self.scale, self.head = nn.Parameter(torch.ones(24)), nn.Linear(24, 10)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.enter(images.flatten(1)).relu()
        logits: Tensor = self.head(self.norm(hidden + self.inner(hidden)) * self.scale)
        return logits


def own_setup(model: nn.Module) -> TrainingSetup:
    small = nested_setup()
    from relaytrain.training.datasets import Sets

    sets = Sets(dict(small.datasets), small.validation, small.test)
    ratios = {"half": 0.5, "small": 0.75}
    return TrainingSetup.from_model(
        model, small.problem, sets, ratios=ratios, nested=("half", "small"), settings=small.settings
    )


def test_a_network_of_ones_own_is_sliced_too() -> None:
    torch.manual_seed(0)
    setup = own_setup(Own())
    runner = FederatedEpoch(setup, InProcess(setup))
    full = epochs(runner, setup.first_checkpoint(), (1, "full", "gold"))
    half = epochs(runner, hand_over(setup, full, "half", "silver").checkpoint, (2, "half", "silver"))
    again = hand_over(setup, half, "full", "gold").checkpoint
    assert again.spec == full.spec and not torch.equal(again.weights["head.weight"], full.weights["head.weight"])
    assert torch.equal(again.weights["inner.weight"][-1], full.weights["inner.weight"][-1])


class Grouped(nn.Module):
    """A group norm between two convolutions."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.enter, self.norm = nn.Conv2d(1, 12, 3), nn.GroupNorm(groups, 12)
        self.inner, self.head = nn.Conv2d(12, 8, 1), nn.Linear(8, 10)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.inner(self.norm(self.enter(images)).relu()).mean((2, 3)))
        return logits


def test_a_group_norm_of_several_groups_is_named() -> None:
    """Its groups keep their first channels each; one group is no hindrance, nor is a norm that stays whole."""
    with pytest.raises(ScenarioError, match=r"norm \(GroupNorm of 4 groups\) would keep .* each group.*keep.*pruned"):
        own_setup(Grouped(4)).version_facts()
    assert own_setup(Grouped(1)).version_facts()["half"].reached_ratio > 0.3
    whole = own_setup(Grouped(4)).with_settings(keep=("enter",)).version_facts()["half"]
    assert whole.reached_ratio > 0.1 and whole.astray


def test_joined_branches_are_refused_with_the_tensor() -> None:
    with pytest.raises(ScenarioError, match=r"hidden\.weight .* leading part"):
        own_setup(Joined()).version_facts()
