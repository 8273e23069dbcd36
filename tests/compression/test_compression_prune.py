"""Pruning: what is asked is reached, what is kept is known, nothing else changes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from relaytrain.compression.carry import carry_optimizer, keep_values
from relaytrain.compression.channels import output_layers, parameter_count
from relaytrain.compression.prune import channel_ratio, prune, reestimate_batchnorm
from relaytrain.core.errors import ScenarioError, UsageError
from relaytrain.models import build, family_spec
from relaytrain.training.optimizer import load_state, read_state

pytestmark = pytest.mark.train

FAMILIES = [
    ("vgg11", 0.125, (3, 16, 16)),
    ("mobilenet", 0.25, (1, 8, 8)),
    ("resnet8", 1.0, (1, 8, 8)),
    ("cnn", 1.0, (1, 8, 8)),
]


def seeded(family: str, width: float, shape: tuple[int, int, int]) -> tuple[nn.Module, Tensor]:
    model = build(family_spec(family, input=shape, classes=10, width=width), seed=4)
    return model, torch.randn(8, *shape, generator=torch.Generator().manual_seed(0))


def step(model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor) -> None:
    model.train()
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), torch.arange(len(images)) % 10).backward()
    optimizer.step()


def test_which_channels_go_is_known_by_hand() -> None:
    """Two layers of four and two channels; L1 of the rows decides; the columns of the next layer follow."""
    net = nn.Sequential(nn.Linear(2, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[5.0, 5.0], [0.1, 0.1], [4.0, 4.0], [0.2, 0.2]]))
        net[2].weight.copy_(torch.tensor([[5.0, 0.1, 4.0, 0.1], [5.0, 0.1, 4.0, 0.1]]))
    pruned = prune(net, torch.zeros(1, 2), 0.5)
    assert pruned.reached == 0.5
    assert pruned.model[0].weight.tolist() == [[5.0, 5.0], [4.0, 4.0]]
    assert pruned.model[2].weight.tolist() == [[5.0, 4.0], [5.0, 4.0]]
    assert pruned.kept["0.weight"].tolist() == [[0, 1], [4, 5]]
    assert pruned.kept["2.weight"].tolist() == [[0, 2], [4, 6]]


@pytest.mark.parametrize("family, width, shape", FAMILIES)
def test_what_is_left_is_what_the_kept_positions_say(family: str, width: float, shape: tuple[int, int, int]) -> None:
    model, images = seeded(family, width, shape)
    before = model.state_dict()
    pruned = prune(model, images, 0.6)
    after = pruned.model.state_dict()
    assert set(pruned.kept) == set(after)
    for name, tensor in after.items():
        assert torch.equal(before[name].flatten()[pruned.kept[name].flatten()].reshape(tensor.shape), tensor), name


def test_the_same_call_gives_the_same_bits_and_leaves_random_state_and_modes() -> None:
    model, images = seeded("resnet8", 1.0, (1, 8, 8))
    model.train()
    torch.manual_seed(9)
    state = torch.get_rng_state()
    first, second = prune(model, images, 0.5), prune(model, images, 0.5)
    assert torch.equal(torch.get_rng_state(), state)
    assert first.model.training and model.training
    ours = second.model.state_dict()
    assert all(torch.equal(ours[name], tensor) for name, tensor in first.model.state_dict().items())


def test_l2_ranks_otherwise_than_l1() -> None:
    """Rows (3, 0) and (2, 2): L1 keeps the second, the square keeps the first."""
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[3.0, 0.0], [2.0, 2.0]]))
        net[2].weight.fill_(0.0)
    kept = {norm: prune(net, torch.zeros(1, 2), 0.5, importance=norm).model[0].weight.tolist() for norm in ("l1", "l2")}
    assert kept == {"l1": [[2.0, 2.0]], "l2": [[3.0, 0.0]]}


def test_ratios_of_the_full_version_and_of_the_current_one() -> None:
    model, images = seeded("vgg11", 0.25, (3, 16, 16))
    full = parameter_count(model)
    half = prune(model, images, 0.5)
    quarter = prune(half.model, images, 0.5)
    same = prune(half.model, images, 0.75, of="full", full_parameters=full)
    assert all(abs(parameter_count(pruned.model) / full - 0.25) < 0.02 for pruned in (quarter, same))
    assert abs(same.reached - 0.75) < 0.02 and abs(quarter.reached - 0.5) < 0.02
    with pytest.raises(UsageError, match="has only"):
        prune(half.model, images, 0.2, of="full", full_parameters=full)
    with pytest.raises(UsageError, match="full_parameters"):
        prune(model, images, 0.5, of="full")


@pytest.mark.parametrize("ratio", [-0.1, 1.0, float("nan"), 2.0])
def test_ratios_out_of_range(ratio: float) -> None:
    with pytest.raises(UsageError, match="ratio"):
        prune(nn.Linear(4, 2), torch.zeros(1, 4), ratio)


def test_channel_ratio_removes_that_share_of_a_square_weight() -> None:
    for ratio in (0.0, 0.5, 0.75, 0.9):
        assert (1 - channel_ratio(ratio)) ** 2 == pytest.approx(1 - ratio)


def test_no_layer_ever_loses_its_last_channel() -> None:
    model, images = seeded("cnn", 0.125, (1, 8, 8))
    pruned = prune(model, images, 0.95)
    assert all(parameter.numel() > 0 for parameter in pruned.model.parameters())
    assert pruned.model(images).shape == (8, 10)


def test_layers_that_make_the_output_and_layers_left_alone() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.middle = nn.Linear(6, 8), nn.Linear(8, 8)
            self.one, self.two = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            x = torch.relu(self.middle(torch.relu(self.body(x))))
            return self.one(x) + torch.relu(self.two(x))

    model, rows = Heads(), torch.randn(2, 6)
    assert output_layers(model, rows) == {"one", "two"}
    pruned = prune(model, rows, 0.4, keep=["body"])
    assert pruned.model.body.out_features == 8 and pruned.model.middle.out_features < 8


def test_a_model_that_no_longer_runs_is_refused_with_advice() -> None:
    class Hard(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.relu(self.hidden(x)).reshape(-1, 8))

    with pytest.raises(ScenarioError, match="doctor"):
        prune(Hard(), torch.randn(4, 6), 0.5)


def test_batch_norm_statistics_are_plain_averages_over_the_batches() -> None:
    norm = nn.BatchNorm1d(3)
    model = nn.Sequential(nn.Linear(3, 3), norm, nn.Dropout(0.5), nn.Linear(3, 2))
    batches = [torch.randn(16, 3, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    weights = model[0].weight.clone()
    model.train()
    model[2].eval()
    reestimate_batchnorm(model, batches)
    outputs = [model[0](batch) for batch in batches]
    assert torch.allclose(norm.running_mean, torch.stack([o.mean(0) for o in outputs]).mean(0), atol=1e-6)
    assert torch.allclose(norm.running_var, torch.stack([o.var(0) for o in outputs]).mean(0), atol=1e-6)
    assert norm.momentum == 0.1 and norm.training and not model[2].training
    assert torch.equal(weights, model[0].weight)
    with pytest.raises(UsageError, match="batches"):
        reestimate_batchnorm(model, [])


OPTIMIZERS = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.001, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.001, momentum=0.5),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("family, width, shape", FAMILIES)
def test_optimizer_state_follows_the_kept_positions(
    family: str, width: float, shape: tuple[int, int, int], kind: str
) -> None:
    """Each buffer afterwards is the buffer before, cut like its weight: checked by hiding the buffer in the weight."""
    model, images = seeded(family, width, shape)
    optimizer = OPTIMIZERS[kind](model.parameters())
    step(model, optimizer, images)
    state = read_state(optimizer, model)
    names = [name for name, _ in model.named_parameters()]
    pruned = prune(model, images, 0.5)
    carried = carry_optimizer(state, pruned.kept)
    shapes = {name: parameter.shape for name, parameter in pruned.model.named_parameters()}
    assert state and {key.partition("/")[2] for key in state} == set(names) and carried.keys() == state.keys()
    for key, buffer in state.items():
        name = key.partition("/")[2]
        if buffer.ndim == 0:
            assert carried[key] == buffer
            continue
        expected = buffer.flatten()[pruned.kept[name].flatten()].reshape(shapes[name])
        assert torch.equal(carried[key], expected), key
    fresh = OPTIMIZERS[kind](pruned.model.parameters())
    load_state(fresh, pruned.model, carried)
    step(pruned.model, fresh, images)
    assert all(torch.isfinite(p).all() for p in pruned.model.parameters())


def test_carrying_through_pruning_that_removes_dead_channels_is_exact() -> None:
    """Channels that are and stay zero: the pruned network with carried momentum takes the very steps of the full
    one."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    with torch.no_grad():
        for dead in (1, 4, 6, 7):
            net[0].weight[dead] = net[0].bias[dead] = 0.0
            net[2].weight[:, dead] = 0.0
    rows, labels = torch.randn(16, 5), torch.arange(16) % 3
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def train(model: nn.Module, steps: int, with_optimizer: torch.optim.Optimizer) -> None:
        for _ in range(steps):
            with_optimizer.zero_grad()
            nn.functional.cross_entropy(model(rows), labels).backward()
            with_optimizer.step()

    train(net, 3, optimizer)
    pruned = prune(net, rows, 0.5)
    assert pruned.model[0].out_features == 4
    after = torch.optim.SGD(pruned.model.parameters(), lr=0.1, momentum=0.9)
    load_state(after, pruned.model, carry_optimizer(read_state(optimizer, net), pruned.kept))
    train(net, 5, optimizer)
    train(pruned.model, 5, after)
    alive = [0, 2, 3, 5]
    assert torch.allclose(net[0].weight[alive], pruned.model[0].weight, atol=1e-6)
    assert torch.allclose(net(rows), pruned.model(rows), atol=1e-6)


def test_values_are_kept_by_their_flat_positions() -> None:
    assert keep_values(torch.arange(6.0).reshape(2, 3), torch.tensor([[0, 5]])).tolist() == [[0.0, 5.0]]
