"""What a stage needs only while an action runs: blocks of rows, and activations computed a second time."""

from __future__ import annotations

import weakref
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from equal_shares import equal_size  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from relaytrain.models.rebuild import build  # noqa: E402
from relaytrain.models.spec import family_spec  # noqa: E402
from relaytrain.pipeline import factors  # noqa: E402
from relaytrain.pipeline.factors import Factors, blocks, input_errors, outputs  # noqa: E402
from relaytrain.pipeline.networks import chain  # noqa: E402
from relaytrain.pipeline.simulator import simulate  # noqa: E402
from relaytrain.pipeline.unit_counter import measure  # noqa: E402
from relaytrain.pipeline.update_rules import SGD, Adam  # noqa: E402
from relaytrain.pipeline.weight_versions import versions_of  # noqa: E402
from relaytrain.planners.pipeline.chain import Policy  # noqa: E402
from relaytrain.planners.pipeline.partition import split  # noqa: E402
from relaytrain.planners.pipeline.schedules import async_1f1b  # noqa: E402
from relaytrain.planners.pipeline.stage_memory import replay_bytes, saved_bytes, stage_bytes, update_bytes  # noqa: E402
from relaytrain.planners.pipeline.version_lifetimes import Alive, peak  # noqa: E402

pytestmark = pytest.mark.train
RULES = {
    "sgd": SGD(0.1),
    "momentum": SGD(0.1, 0.9),
    "decay": SGD(0.1, 0.9, 0.01),
    "adam": Adam(0.01, weight_decay=0.01),
}
LAYERS = {
    "linear": (nn.Linear(24, 100, bias=False), (3, 24)),
    "conv": (nn.Conv2d(6, 80, 3, padding=1, bias=False), (2, 6, 5, 5)),
    "conv with few positions": (nn.Conv2d(6, 80, 3, padding=1, bias=False), (2, 6, 2, 2)),
}


class _Peak(TorchDispatchMode):
    """The most bytes alive at once of tensors made while it is on; `known` are there already."""

    def __init__(self, known):
        super().__init__()
        self.now = self.most = 0
        self._known = {tensor.untyped_storage()._cdata for tensor in known}
        self._seen = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for tensor in found if isinstance(found, tuple | list) else [found]:
            if isinstance(tensor, torch.Tensor):
                self._note(tensor.untyped_storage())
        return found

    def _note(self, storage):
        key = storage._cdata
        if key in self._seen or key in self._known:
            return
        size = storage.nbytes()
        self._seen[key] = size
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._gone, key)

    def _gone(self, key):
        self.now -= self._seen.pop(key, 0)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(factors, "BLOCK_BYTES", 2048)
    monkeypatch.setattr(factors, "LARGE_BYTES", 0)


def _random(layer, shape, seed):
    dice = torch.Generator().manual_seed(seed)
    inputs = torch.randn(*shape, generator=dice)
    return Factors(inputs, torch.randn(layer(inputs).shape, generator=dice))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("pending", [1, 3])
def test_updates_and_replays_need_the_blocks_they_were_said_to(small_blocks, kind, rule, pending):
    layer, shape = LAYERS[kind]
    ours = RULES[rule]
    weights = {"weight": layer.weight.detach().clone()}
    store = versions_of(Policy.on_demand, layer, weights, ours, factors=True)
    assert len(store.blocks) > 3
    (unit,) = measure([nn.Sequential(layer)], torch.empty(*shape), lambda out, _: out.sum(), torch.empty(0))
    updates = [_random(layer, shape, seed) for seed in range(pending + 2)]
    there = [layer.weight, *(tensor for update in updates for tensor in (update.inputs, update.errors))]
    facts, slack = unit.layers[0], unit.layers[0].slice_bytes
    store.push(updates[0], set())  # the optimizer's state is there from now on
    with torch.no_grad(), _Peak([*there, *store.live(), *store.optimizer()]) as push:
        store.push(updates[1], set())
    said = update_bytes(unit.layers)
    assert said - slack <= push.most <= said  # only convolutions copy the errors of a block
    for update in updates[2:]:
        store.push(update, {2})
    assert store.pending == pending
    replayed = store.replay()
    with torch.no_grad(), _Peak([*there, *store.live(), *store.optimizer()]) as forward:
        for rows in store.blocks:
            outputs(layer, updates[0].inputs, replayed(rows))
    said = replay_bytes(facts, Policy.on_demand, Alive(1, 1, pending), ours.state_tensors)
    assert said - slack <= forward.most <= said
    assert facts.block_bytes < facts.weight_bytes / 3  # far from the whole layer


@pytest.mark.parametrize("kind", LAYERS)
def test_block_by_block_is_the_whole(small_blocks, kind):
    layer, shape = LAYERS[kind]
    weights = {"weight": layer.weight.detach()}
    rows = blocks(layer, weights)
    assert rows[0].start == 0 and all(a.stop == b.start for a, b in pairwise(rows))
    assert rows[-1].stop == len(layer.weight)
    sample = _random(layer, shape, 1)
    inputs = sample.inputs.clone().requires_grad_()
    layer(inputs).backward(sample.errors)
    parts = [factors.gradients(layer, sample, weights, part)["weight"] for part in rows]
    torch.testing.assert_close(torch.cat(parts), layer.weight.grad, rtol=1e-6, atol=1e-5)
    assert torch.equal(input_errors(layer, sample, weights), inputs.grad)
    layer.weight.grad = None


@pytest.mark.parametrize(
    ("layer", "side"),
    [
        (nn.Conv2d(4, 6, 3, padding=1), 1),
        (nn.Conv2d(4, 6, (3, 2), padding=(1, 0), bias=False), 2),
        (nn.Conv2d(4, 6, 3, stride=2, padding=1), 4),
        (nn.Conv2d(4, 6, 3, padding=1, dilation=2), 4),
        (nn.Conv2d(4, 6, 1), 2),
    ],
)
def test_few_positions_give_the_gradients_of_autograd(small_blocks, layer, side):
    sample = _random(layer, (3, 4, side, side), 1)
    assert sample.errors[0, 0].numel() <= factors.FEW_POSITIONS
    layer(sample.inputs).backward(sample.errors)
    weights = {name: parameter.detach() for name, parameter in layer.named_parameters()}
    found = factors.gradients(layer, sample, weights, slice(2, 5))
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad[2:5], rtol=1e-5, atol=1e-5)


def _network(dropout=0.0):
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Dropout(dropout), nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 4),
    )  # fmt: skip


def _data(count, side=8):
    dice = torch.Generator().manual_seed(4)
    return [
        (torch.randn(2, 3, side, side, generator=dice), torch.randint(0, 4, (2,), generator=dice)) for _ in range(count)
    ]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["vgg11", "resnet8"])
def test_forwards_by_blocks_are_exact(small_blocks, name, rule):
    spec = family_spec(name, input=(3, 16, 16), classes=4, width=0.25)
    units = chain(build(spec))
    facts = measure(units, torch.empty(2, 3, 16, 16), F.cross_entropy, torch.zeros(2, dtype=torch.long))
    parts = [nn.Sequential(*part) for part in split(units, equal_size([unit.weight_bytes for unit in facts], 3))]
    data, schedule = _data(6, 16), async_1f1b(3, 6, 3)
    runs = [
        simulate(parts, schedule, data, F.cross_entropy, RULES[rule], [p] * 3) for p in (Policy.stash, Policy.on_demand)
    ]
    assert runs[0].losses == runs[1].losses
    for stash, demand in zip(runs[0].weights, runs[1].weights, strict=True):
        assert all(torch.equal(stash[key], demand[key]) for key in stash)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("policy", [Policy.stash, Policy.on_demand])
def test_activations_computed_again_change_nothing(small_blocks, policy, rule):
    parts = [nn.Sequential(*part) for part in split(chain(_network()), (1, 2, 3))]
    data, schedule = _data(8), async_1f1b(4, 8, 4)
    runs = [
        simulate(parts, schedule, data, F.cross_entropy, RULES[rule], [policy] * 4, checkpoint=again)
        for again in (None, (True, True, False, True))
    ]
    assert runs[0].losses == runs[1].losses
    for plain, again in zip(runs[0].weights, runs[1].weights, strict=True):
        assert all(torch.equal(plain[key], again[key]) for key in plain)  # running statistics too


def test_random_numbers_are_the_same_again():
    model, data = _network(dropout=0.5), _data(6)
    found = []
    for again in (False, True):
        torch.manual_seed(9)
        run = simulate(
            [model], async_1f1b(1, 6, 1), data, F.cross_entropy, SGD(0.1), [Policy.stash], checkpoint=[again]
        )
        found.append((run.losses, torch.rand(1)))
    assert found[0] == found[1]


def test_the_closed_form_of_checkpoints_is_what_a_run_holds():
    units = chain(_network())
    data, schedule, cuts = _data(8), async_1f1b(3, 8, 4), (1, 2)
    facts = measure(units, data[0][0], F.cross_entropy, data[0][1])
    parts = [nn.Sequential(*part) for part in split(units, cuts)]
    run = simulate(parts, schedule, data, F.cross_entropy, SGD(0.1), [Policy.stash] * 3, checkpoint=(True, True, False))
    for at, part in enumerate(split(facts, cuts)):
        layers = [layer for unit in part for layer in unit.layers]
        choice, alive = {layer.name: Policy.stash for layer in layers}, peak(schedule, at)
        asks = {"state_tensors": 0, "last": at == 2}
        size = stage_bytes(part, choice, alive, **asks, checkpoint=at < 2)
        assert max(held.in_flight for held in run.held[at]) == size.in_flight
        if at < 2:
            plain = stage_bytes(part, choice, alive, **asks)
            assert size.in_flight < plain.in_flight and size.transient >= saved_bytes(part, last=False)
