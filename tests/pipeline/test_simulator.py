"""The stage code in one process: all policies train the same weights, and those that plain PyTorch trains."""

from __future__ import annotations

import copy
import functools
import gc
import weakref
from collections import deque

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from equal_shares import corrected_bound, equal_size  # noqa: E402
from torch import nn  # noqa: E402

from relaytrain.core.errors import InfeasibleError, UsageError  # noqa: E402
from relaytrain.experiments.mcpipe.savings import smallest  # noqa: E402
from relaytrain.models.rebuild import build  # noqa: E402
from relaytrain.models.spec import family_spec  # noqa: E402
from relaytrain.pipeline.networks import chain, network, published_vgg  # noqa: E402
from relaytrain.pipeline.simulator import simulate  # noqa: E402
from relaytrain.pipeline.stage import Stage  # noqa: E402
from relaytrain.pipeline.unit_counter import measure  # noqa: E402
from relaytrain.pipeline.update_rules import SGD, Adam  # noqa: E402
from relaytrain.planners.pipeline.actions import ActionKind  # noqa: E402
from relaytrain.planners.pipeline.chain import Policy  # noqa: E402
from relaytrain.planners.pipeline.partition import Device, partition, split  # noqa: E402
from relaytrain.planners.pipeline.policy_choice import within_stage  # noqa: E402
from relaytrain.planners.pipeline.schedules import Window, async_1f1b, gpipe, sync_1f1b  # noqa: E402
from relaytrain.planners.pipeline.stage_memory import stage_bytes  # noqa: E402
from relaytrain.planners.pipeline.version_lifetimes import peak, steady_peaks, timeline  # noqa: E402

pytestmark = pytest.mark.train
RULES = {
    "sgd": (SGD(0.05), functools.partial(torch.optim.SGD, lr=0.05)),
    "momentum": (SGD(0.02, 0.9), functools.partial(torch.optim.SGD, lr=0.02, momentum=0.9)),
    "decay": (SGD(0.02, 0.9, 0.01), functools.partial(torch.optim.SGD, lr=0.02, momentum=0.9, weight_decay=0.01)),
    "adam": (Adam(0.01, weight_decay=0.01), functools.partial(torch.optim.Adam, lr=0.01, weight_decay=0.01)),
}
STEPS = 10
BATCH = 2


def _model(name):
    torch.manual_seed(1)
    if name == "mlp":
        linears = [nn.Linear(a, b) for a, b in ((12, 32), (32, 32), (32, 32), (32, 5))]
        return nn.Sequential(*(part for layer in linears for part in (layer, nn.ReLU())))[:-1], (12,)
    if name == "vgg":
        return published_vgg("vgg11", width=1 / 16, hidden=256, input=(3, 16, 16), classes=5), (3, 16, 16)
    spec = family_spec("resnet8", input=(3, 8, 8), classes=5, width=0.25)
    return build(spec), (3, 8, 8)


def _data(shape, dtype=torch.float32, count=STEPS):
    made = torch.Generator().manual_seed(2)
    return [
        (torch.randn(BATCH, *shape, generator=made, dtype=dtype), torch.randint(0, 5, (BATCH,), generator=made))
        for _ in range(count)
    ]


def _parts(units, cuts):
    return [nn.Sequential(*part) for part in split(units, cuts)]


def _best(facts, cuts, alive, demand=Policy.on_demand):
    chosen, made = [], []
    for at, part in enumerate(split(facts, cuts)):
        choice = smallest([layer for unit in part for layer in unit.layers], alive[at], demand)
        chosen.append(choice)
        made.append(within_stage(choice, (0, *cuts)[at]))
    return chosen, made


def _setup(name, stages, m, window=Window.one_f_one_b):
    model, shape = _model(name)
    units = chain(model)
    data = _data(shape)
    facts = measure(units, data[0][0], F.cross_entropy, data[0][1])
    cuts = equal_size([unit.weight_bytes for unit in facts], stages)
    return units, facts, cuts, data, async_1f1b(stages, STEPS, m, window)


def _same(left, right):
    assert left.losses == right.losses
    for ours, theirs in zip(left.weights, right.weights, strict=True):
        assert ours.keys() == theirs.keys()
        for key, value in ours.items():
            assert torch.equal(value, theirs[key]), key


def _apart(left, right):
    pairs = [(a[k], b[k]) for a, b in zip(left.weights, right.weights, strict=True) for k in a]
    return max(float((x - y).abs().max()) for x, y in pairs)


LARGER = (("vgg", 4), ("resnet", 3))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("name", "stages", "m"),
    [("mlp", 3, 4), ("mlp", 2, 2), *(pytest.param(name, stages, 4, marks=pytest.mark.slow) for name, stages in LARGER)],
)
def test_stash_on_demand_and_best_of_agree_to_the_last_bit(name, stages, m, rule):
    units, facts, cuts, data, schedule = _setup(name, stages, m)
    parts, ours = _parts(units, cuts), RULES[rule][0]
    stash = simulate(parts, schedule, data, F.cross_entropy, ours, [Policy.stash] * stages)
    _same(stash, simulate(parts, schedule, data, F.cross_entropy, ours, [Policy.on_demand] * stages))
    chosen, policies = _best(facts, cuts, steady_peaks(stages, m))
    if name != "mlp":  # both kinds of layers are in play
        assert {p for choice in chosen for p in choice.values()} == {Policy.stash, Policy.on_demand}
    _same(stash, simulate(parts, schedule, data, F.cross_entropy, ours, policies))
    greedy = simulate(parts, schedule, data, F.cross_entropy, ours, [Policy.greedy] * stages)
    assert _apart(stash, greedy) > 0.0


def _delayed(model, schedule, data, optimizer):
    """Delayed updates with nothing but PyTorch: whole copies of the parts, one for each forward of each stage."""
    live = copy.deepcopy(model)
    optimizers = [optimizer(part.parameters()) for part in live]
    copies = [deque() for _ in live]
    sent, back = {}, {}
    for action in schedule.in_order():
        at, k = action.stage, action.index
        last = at == len(live) - 1
        if action.kind is ActionKind.forward:
            twin = copy.deepcopy(live[at])
            entry = (data[k][0] if at == 0 else sent.pop((at, k))).detach().requires_grad_(at > 0)
            out = twin(entry)
            out = F.cross_entropy(out, data[k][1]) if last else out
            copies[at].append((twin, entry, out))
            sent[at + 1, k] = out
        else:
            twin, entry, out = copies[at].popleft()
            out.backward(None if last else back.pop((at, k)))
            back[at - 1, k] = entry.grad
            for ours, theirs in zip(live[at].parameters(), twin.parameters(), strict=True):
                ours.grad = theirs.grad
            optimizers[at].step()
    return [dict(part.named_parameters()) for part in live]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["mlp", "vgg"])
def test_delayed_updates_are_those_of_plain_pytorch(name, rule):
    units, _, cuts, data, schedule = _setup(name, 3, 4)
    parts, (ours, theirs) = _parts(units, cuts), RULES[rule]
    found = simulate(parts, schedule, data, F.cross_entropy, ours, [Policy.on_demand] * 3)
    for mine, plain in zip(found.weights, _delayed(parts, schedule, data, theirs), strict=True):
        for key, value in mine.items():
            torch.testing.assert_close(value, plain[key], rtol=0, atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["mlp", "vgg", "resnet"])
def test_one_stage_is_torch_optim(name, rule):
    model, shape = _model(name)
    data, (ours, theirs) = _data(shape), RULES[rule]
    found = simulate([model], async_1f1b(1, STEPS, 1), data, F.cross_entropy, ours, [Policy.on_demand])
    plain = copy.deepcopy(model).train()
    optimizer = theirs(plain.parameters())
    for inputs, labels in data:
        optimizer.zero_grad()
        F.cross_entropy(plain(inputs), labels).backward()
        optimizer.step()
    for key, value in plain.state_dict().items():
        torch.testing.assert_close(found.weights[0][key], value, rtol=0, atol=2e-7)


@pytest.mark.parametrize("rule", ["sgd", "momentum", "decay"])
@pytest.mark.parametrize(
    ("name", "dtype", "limit"),
    [("mlp", torch.float32, 1e-5), ("vgg", torch.float32, 5e-4), ("vgg", torch.float64, 1e-10)],
)
def test_fused_replay_is_near(name, dtype, limit, rule):
    units, facts, cuts, data, schedule = _setup(name, 4, 4)
    parts = [part.to(dtype) for part in _parts(units, cuts)]
    data = [(inputs.to(dtype), labels) for inputs, labels in data]
    ours = RULES[rule][0]
    exact = simulate(parts, schedule, data, F.cross_entropy, ours, [Policy.stash] * 4)
    _, policies = _best(facts, cuts, steady_peaks(4, 4), Policy.fused)
    for choice in ([Policy.fused] * 4, policies):
        assert _apart(exact, simulate(parts, schedule, data, F.cross_entropy, ours, choice)) <= limit


@pytest.mark.parametrize("make", [sync_1f1b, gpipe])
def test_a_synchronous_step_is_one_large_batch(make):
    model, shape = _model("mlp")
    parts = _parts(chain(model), (1, 3))
    parts = [part.double() for part in parts]
    data = _data(shape, torch.float64, count=8)
    found = simulate(parts, make(3, 2, 4), data, F.cross_entropy, SGD(0.1, 0.9), [Policy.stash] * 3)
    plain = nn.Sequential(*copy.deepcopy(parts))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for step in range(2):
        optimizer.zero_grad()
        inputs, labels = (torch.cat(part) for part in zip(*data[4 * step : 4 * step + 4], strict=True))
        F.cross_entropy(plain(inputs), labels).backward()
        optimizer.step()
    for stage, weights in enumerate(found.weights):
        for key, value in weights.items():
            torch.testing.assert_close(value, plain.state_dict()[f"{stage}.{key}"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("window", list(Window))
@pytest.mark.parametrize(("name", "stages", "m"), [("mlp", 3, 4), ("vgg", 2, 4), ("vgg", 4, 4), ("resnet", 3, 3)])
def test_the_closed_form_is_what_a_run_holds(name, stages, m, window):
    units, facts, cuts, data, schedule = _setup(name, stages, m, window)
    parts = _parts(units, cuts)
    alive = [peak(schedule, stage) for stage in range(stages)]
    rule = RULES["momentum"][0]
    chosen, best = _best(facts, cuts, alive)
    kinds = {
        p: ([dict.fromkeys(c, p) for c in chosen], [p] * stages)
        for p in (Policy.greedy, Policy.stash, Policy.on_demand)
    }
    stored = {}
    for kind, (choices, policies) in {**kinds, "best": (chosen, best)}.items():
        run = simulate(parts, schedule, data, F.cross_entropy, rule, policies)
        for stage, part in enumerate(split(facts, cuts)):
            size = stage_bytes(part, choices[stage], alive[stage], state_tensors=1, last=stage == stages - 1)
            held = run.held[stage]
            top = [max(getattr(h, key) for h in held) for key in ("weights", "optimizer")]
            assert top == [size.weights, size.optimizer]
            stored[kind, stage] = size.stored
            found = [
                max(h.versions for h in held),
                max(h.in_flight for h in held),
                max(h.total - h.optimizer for h in held),
            ]
            moments, asks = timeline(schedule, stage), {"state_tensors": 0, "last": stage == stages - 1}
            between = [stage_bytes(part, choices[stage], moment, **asks) for moment in moments]
            most = max(moment.total - moment.transient for moment in between)
            assert run.peak_total(stage) <= max(moment.total for moment in between) + size.optimizer
            closed = [size.versions, size.in_flight, most]
            if name == "resnet":  # a block's first convolution and its shortcut share their input, counted for both
                assert all(a <= b for a, b in zip(found, closed, strict=True))
            else:
                assert found == closed
            if kind is Policy.on_demand:
                assert max(h.stored for h in held) <= corrected_bound(part, alive[stage]) == size.stored
    for stage in range(stages):
        assert stored["best", stage] <= min(stored[Policy.stash, stage], stored[Policy.on_demand, stage])


def test_a_run_stays_within_the_memory_it_was_planned_for():
    units, facts, _, data, schedule = _setup("vgg", 3, 3)
    cap, plan = 2.0 * sum(unit.weight_bytes for unit in facts), None
    while True:  # the tightest memory that still does
        try:
            plan = partition(facts, [Device(f"d{i}", 1e9, 0.98 * cap) for i in range(3)], m=3, state_tensors=1)
        except InfeasibleError:
            break
        cap *= 0.98
    assert plan is not None
    assert any(Policy.on_demand in stage.policies.values() for stage in plan.stages)
    parts, rule = _parts(units, plan.cuts), RULES["momentum"][0]
    run = simulate(parts, schedule, data, F.cross_entropy, rule, [stage.policies for stage in plan.stages])
    for at, stage in enumerate(plan.stages):
        assert run.peak_total(at) + stage.choice.size.transient == stage.choice.size.total <= cap
    _same(run, simulate(parts, schedule, data, F.cross_entropy, rule, [Policy.stash] * 3))


def test_chains_are_their_networks():
    for name in ("vgg11", "alexnet", "mobilenet", "resnet8", "cnn"):
        model = build(family_spec(name, input=(3, 16, 16), classes=4, width=0.1)).eval()
        inputs = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
        units = chain(model)
        assert len(units) > 3
        assert torch.equal(nn.Sequential(*units)(inputs), model(inputs))
        assert all(p.is_meta for p in network(name, width=0.1).parameters())
    with pytest.raises(UsageError, match=r"nn\.Sequential"):
        chain(nn.Bilinear(2, 2, 2))


class _Twice(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, inputs):
        return self.layer(self.layer(inputs))


def test_what_cannot_be_versioned_is_refused_in_words():
    layer = nn.Linear(4, 4)
    tied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    tied[1].weight = tied[0].weight
    with pytest.raises(UsageError, match="shares a parameter"):
        Stage(tied, SGD(0.1))
    with pytest.raises(UsageError, match="shares a parameter"):
        Stage(nn.Sequential(layer, layer), SGD(0.1))
    with pytest.raises(UsageError, match="used twice"):
        Stage(_Twice(layer), SGD(0.1)).forward(0, torch.zeros(1, 4))
    with pytest.raises(UsageError, match="use on-demand"):
        Stage(layer, Adam(0.1), Policy.fused)
    stage = Stage(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 4)), SGD(0.1))
    stage.forward(0, torch.zeros(1, 4))
    stage.flight(0).calls["0"].inputs.add_(1)
    with pytest.raises(UsageError, match="changed in place"):
        stage.backward(0, torch.ones(1, 4))
    with pytest.raises(UsageError, match="labels"):
        Stage(nn.Sequential(layer), SGD(0.1), loss=F.cross_entropy).forward(0, torch.zeros(1, 4))


def test_a_backward_leaves_nothing_behind():
    model, shape = _model("vgg")
    stage = Stage(model, SGD(0.1), Policy.on_demand, loss=F.cross_entropy)
    inputs, labels = _data(shape)[0]
    gc.collect()
    gc.disable()  # what only the collector would free counts as left behind
    try:
        stage.forward(0, inputs, labels)
        flight = stage.flight(0)
        left = [weakref.ref(flight.output), weakref.ref(flight.calls["3"]), *map(weakref.ref, flight.saved)]
        del flight
        stage.backward(0)
        assert [ref() for ref in left] == [None] * len(left)
    finally:
        gc.enable()


def test_activations_in_place_are_fine():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    quick = copy.deepcopy(plain)
    quick[1] = nn.ReLU(inplace=True)
    data = [(torch.randn(2, 4), torch.tensor([0, 2])) for _ in range(4)]
    runs = [
        simulate([m], async_1f1b(1, 4, 1), data, F.cross_entropy, SGD(0.1), [Policy.on_demand]) for m in (plain, quick)
    ]
    _same(*runs)
