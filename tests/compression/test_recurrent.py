"""Networks with recurrent layers: these and what feeds them stay whole, all else is pruned as anywhere."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from relaytrain.compression.channels import parameter_count
from relaytrain.compression.prune import prune
from relaytrain.compression.slices import leading
from relaytrain.core.errors import ScenarioError
from relaytrain.models.flops import count
from relaytrain.models.rebuild import of_module
from relaytrain.models.travel import load_version, save_version

pytestmark = pytest.mark.train


class ConvGru(nn.Module):
    """Two convolutions that are summed feed a GRU; a first one, before them, feeds only those."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(5, 40, 3, padding=1)
        self.one = nn.Conv1d(40, 12, 3, padding=1)
        self.two = nn.Conv1d(40, 12, 1)
        self.gru = nn.GRU(12, 10, batch_first=True)
        self.head = nn.Sequential(nn.Linear(10, 48), nn.GELU(), nn.Linear(48, 2))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x.transpose(1, 2)))
        return self.head(self.gru((self.one(x) + self.two(x)).transpose(1, 2))[0][:, -1])


class EmbeddedLstm(nn.Module):
    """Both directions of two layers, read by their last hidden states, joined with an embedding of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.lstm = nn.LSTM(8, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.side = nn.Linear(8, 20)
        self.head = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, x: Tensor) -> Tensor:
        words = self.words(x)
        hidden = self.lstm(words)[1][0]
        return self.head(torch.cat([hidden[-2], torch.relu(self.side(words.mean(1))), hidden[-1]], 1))


class LinearGru(nn.Module):
    """A residual path around the GRU, whose outputs a linear layer is added to."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(5, 8)
        self.past = nn.Linear(5, 8)
        self.gru = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, x: Tensor) -> Tensor:
        entered = self.enter(x)
        return self.head((self.gru(input=entered)[0] + entered + self.past(x))[:, -1])


class Cells(nn.Module):
    """A cell called step by step, with a state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(5, 8)
        self.cell = nn.LSTMCell(8, 8)
        self.head = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, x: Tensor) -> Tensor:
        hidden = memory = x.new_zeros(len(x), self.cell.hidden_size)
        for step in self.enter(x).unbind(1):
            hidden, memory = self.cell(step, (hidden, memory))
        return self.head(hidden)


SERIES, WORDS = torch.zeros(2, 6, 5), torch.zeros(2, 6, dtype=torch.long)
NETWORKS = [
    (ConvGru, SERIES, {"first", "head.0"}),
    (EmbeddedLstm, WORDS, {"side", "head.0"}),
    (LinearGru, SERIES, {"head.0"}),
    (Cells, SERIES, {"head.0"}),
]


def made(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(3)
    return kind().eval()


def batch_of(example: Tensor) -> Tensor:
    torch.manual_seed(5)
    return torch.randn(7, 6, 5) if example.is_floating_point() else torch.randint(0, 30, (7, 6))


@pytest.mark.parametrize("kind, example, narrower", NETWORKS)
def test_half_of_the_parameters_go_and_the_rest_is_rebuilt(
    kind: type[nn.Module], example: Tensor, narrower: set[str]
) -> None:
    net = made(kind)
    before = copy.deepcopy(net)
    pruned = prune(net, example, 0.5)
    assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), before.state_dict().values(), strict=True))
    assert [type(m) for m in pruned.model.modules()] == [type(m) for m in net.modules()]
    shapes = {name: (t.shape, pruned.model.state_dict()[name].shape) for name, t in net.state_dict().items()}
    rows = {name.rpartition(".")[0] for name, (old, new) in shapes.items() if old[0] != new[0]}
    assert rows == narrower
    assert pruned.reached == 1.0 - parameter_count(pruned.model) / parameter_count(net) > 0.1
    assert count(pruned.model, example).train_flops < count(net, example).train_flops
    for name, tensor in pruned.model.state_dict().items():
        kept = net.state_dict()[name].flatten()[pruned.kept[name].flatten()].reshape(tensor.shape)
        assert torch.equal(kept, tensor), name
    spec, _ = of_module(pruned.model)
    _, rebuilt = load_version(save_version(pruned.model, spec), resolve=lambda _reference: lambda: made(kind))
    batch = batch_of(example)
    with torch.no_grad():
        assert torch.equal(rebuilt.eval()(batch), pruned.model(batch))


@pytest.mark.parametrize("kind, example, narrower", NETWORKS)
def test_channels_that_say_nothing_go_first(kind: type[nn.Module], example: Tensor, narrower: set[str]) -> None:
    """Half of the free layers' channels are dead: with these gone the network gives the same."""
    net = made(kind)
    with torch.no_grad():
        for name in narrower:
            layer = net.get_submodule(name)
            layer.weight[1::2] = 0.0
            layer.bias[1::2] = 0.0
    pruned = prune(net, example, 0.05)
    batch = batch_of(example)
    assert parameter_count(pruned.model) < parameter_count(net)
    with torch.no_grad():
        torch.testing.assert_close(pruned.model(batch), net(batch))


@pytest.mark.parametrize("kind, example, narrower", NETWORKS)
def test_a_slice_has_the_leading_channels(kind: type[nn.Module], example: Tensor, narrower: set[str]) -> None:
    if kind is EmbeddedLstm:
        with pytest.raises(ScenarioError, match=r"head\.0\.weight .* joined"):
            leading(made(kind), example, 0.3)
        return
    assert leading(made(kind), example, 0.3).reached > 0.05


def test_recurrent_layers_and_embeddings_may_be_named() -> None:
    for keep in (["gru"], ["gru", "head"], ["*"]):
        if keep == ["*"]:
            with pytest.raises(ScenarioError, match=r"none of its layers may become narrower: gru.* feeds it"):
                prune(made(ConvGru), SERIES, 0.5, keep=keep)
        else:
            kept = prune(made(ConvGru), SERIES, 0.3, keep=keep).model
            assert kept.first.out_channels < 40 and (kept.head[0].out_features < 48) == ("head" not in keep)
    prune(made(EmbeddedLstm), WORDS, 0.3, keep=["words"])


def test_where_nothing_can_be_pruned_the_message_says_why() -> None:
    net = made(LinearGru)
    net.head = nn.Linear(8, 2)
    with pytest.raises(
        ScenarioError, match=r"none of its layers may become narrower: gru, .* \(GRU\), .* \(enter\) stay whole"
    ):
        prune(net, SERIES, 0.5)
