"""Splits and policies against every possibility, Theorem 1, and the figures of VGG16."""

from __future__ import annotations

import itertools
import random

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from equal_shares import corrected_bound, equal_size  # noqa: E402
from torch import nn  # noqa: E402

from relaytrain.core.errors import InfeasibleError, UsageError  # noqa: E402
from relaytrain.experiments.mcpipe.savings import saving, smallest  # noqa: E402
from relaytrain.experiments.mcpipe.theorem import theorem_1  # noqa: E402
from relaytrain.pipeline.networks import chain, network  # noqa: E402
from relaytrain.pipeline.unit_counter import measure  # noqa: E402
from relaytrain.planners.pipeline.chain import Layer, Policy, Unit  # noqa: E402
from relaytrain.planners.pipeline.partition import Device, partition, split  # noqa: E402
from relaytrain.planners.pipeline.policy_choice import Keeping  # noqa: E402
from relaytrain.planners.pipeline.stage_memory import (  # noqa: E402
    all_by,
    replay_flops,
    stage_bytes,
)
from relaytrain.planners.pipeline.version_lifetimes import steady_peaks  # noqa: E402

pytestmark = pytest.mark.train
FLOAT = 4


def _facts(model, batch, shape):
    return measure(chain(model), torch.empty(batch, *shape), F.cross_entropy, torch.zeros(batch, dtype=torch.long))


def _random_units(dice, count):
    units = []
    for index in range(count):
        layers = tuple(
            Layer(
                f"{index}.{i}",
                dice.randint(1, 40),
                dice.choice([None, dice.randint(1, 60)]),
                dice.randint(1, 30),
                *blocks,
            )
            for i, blocks in enumerate([(dice.randint(1, 12), dice.randint(0, 9)) for _ in range(dice.randint(1, 2))])
        )
        saved = frozenset({(2 * index, dice.randint(1, 9)), (2 * index + 1, dice.randint(1, 9))})
        flops = dice.randint(5, 60)
        output, end = (2 * index + 1, 9), frozenset({(99, 2)})
        units.append(
            Unit(f"{index}", layers, dice.randint(0, 3), flops, 2 * flops, saved, output, end, dice.randint(1, 5))
        )
    return units


def _every(units, devices, m, state_tensors, policies, again):
    """The least step over all splits and all choices of policies, and of computing activations again."""
    best, count = None, len(devices)
    alive = steady_peaks(count, m)
    for cuts in itertools.combinations(range(1, len(units)), count - 1):
        slowest = 0.0
        for at, (part, device) in enumerate(zip(split(units, cuts), devices, strict=True)):
            layers = [layer for unit in part for layer in unit.layers]
            times = []
            for chosen, checkpoint in itertools.product(itertools.product(policies, repeat=len(layers)), again):
                choice = {layer.name: policy for layer, policy in zip(layers, chosen, strict=True)}
                ask = {"state_tensors": state_tensors, "last": at == count - 1, "checkpoint": checkpoint}
                if stage_bytes(part, choice, alive[at], **ask).total <= device.memory_bytes:
                    flops = sum(u.train_flops + checkpoint * u.forward_flops for u in part)
                    flops += sum(replay_flops(x, choice[x.name], alive[at]) for x in layers)
                    times.append(flops / device.flops_per_s)
            link = 0.0 if at == count - 1 else 2 * part[-1].output[1] / device.link_bytes_per_s
            slowest = max(slowest, min(times, default=float("inf")), link)
        best = slowest if best is None else min(best, slowest)
    return best


@pytest.mark.parametrize("seed", range(40))
def test_the_split_is_the_best_of_all(seed):
    dice = random.Random(seed)
    units = _random_units(dice, 5)
    count = dice.randint(1, 3)
    devices = [Device(f"d{i}", dice.randint(1, 5), dice.randint(60, 420), dice.randint(1, 20)) for i in range(count)]
    m, state = dice.randint(1, 4), dice.randint(0, 2)
    for keeping, policies, again in (
        (Keeping.best_of, (Policy.stash, Policy.on_demand), (False,)),
        (Keeping.best_of, (Policy.stash, Policy.on_demand), (False, True)),
        (Keeping.stash, (Policy.stash,), (False, True)),
        (Keeping.on_demand, (Policy.on_demand,), (False,)),
    ):
        expected = _every(units, devices, m, state, policies, again)
        try:
            plan = partition(units, devices, m=m, keeping=keeping, state_tensors=state, checkpoint=True in again)
        except InfeasibleError:
            assert expected == float("inf")
            continue
        assert plan.step_s == pytest.approx(expected, rel=1e-12)
        assert [s.first for s in plan.stages] == [0, *plan.cuts] and plan.stages[-1].end == len(units)
        assert all(s.choice.size.total <= d.memory_bytes for s, d in zip(plan.stages, devices, strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_a_share_of_the_saving_is_saved(seed):
    dice = random.Random(seed)
    units, alive = _random_units(dice, 5), steady_peaks(2, dice.randint(1, 4))[0]
    ask = {"state_tensors": dice.randint(0, 2), "last": False}
    layers = [layer for unit in units for layer in unit.layers]
    most, least = (stage_bytes(units, p, alive, **ask) for p in (all_by(Policy.stash, layers), smallest(layers, alive)))
    room = max(0, least.transient - most.transient)
    flops = []
    for share in (0.0, 0.5, 1.0):
        choice = saving(units, alive, share, **ask)
        flops.append(choice.extra_flops)
        assert choice.size.total <= most.total - share * (most.versions - least.versions) + room
    assert flops[0] == 0 and flops == sorted(flops)


@pytest.mark.parametrize("seed", range(20))
def test_equal_size_is_the_most_even_of_all(seed):
    dice = random.Random(seed)
    weights = [dice.randint(1, 9) for _ in range(7)]
    for stages in range(1, 6):

        def sizes(cuts, weights=weights):
            return sorted((sum(part) for part in split(weights, cuts)), reverse=True)

        options = itertools.combinations(range(1, 7), stages - 1)
        assert sizes(equal_size(weights, stages)) == min(sizes(cuts) for cuts in options)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_theorem_1_is_met_exactly_by_square_layers_and_single_samples(m):
    units = _facts(nn.Sequential(*(nn.Linear(16, 16, bias=False) for _ in range(m))), 1, (16,))
    alive = steady_peaks(m, m)
    choice = {layer.name: Policy.on_demand for unit in units for layer in unit.layers}
    sizes = [
        stage_bytes([unit], choice, alive[at], state_tensors=0, last=at == m - 1).stored
        for at, unit in enumerate(units)
    ]
    bound = FLOAT * theorem_1(m * 16 * 16, m, m)
    assert sizes[0] == bound and all(size < bound for size in sizes[1:])


@pytest.mark.parametrize(
    ("model", "batch", "shape"),
    [
        (nn.Sequential(nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)), 8, (16,)),  # a minibatch
        (nn.Sequential(nn.Linear(256, 2, bias=False), nn.Linear(2, 256, bias=False)), 1, (256,)),  # not square
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 3)), 1, (3, 8, 8)),  # a convolution
    ],
)
def test_theorem_1_fails_elsewhere_and_the_corrected_bound_holds(model, batch, shape):
    units = _facts(model, batch, shape)
    alive = steady_peaks(2, 2)
    first = units[:1]
    choice = all_by(Policy.on_demand, first[0].layers)
    stored = stage_bytes(first, choice, alive[0], state_tensors=0, last=False).stored
    assert stored > FLOAT * theorem_1(2 * first[0].weight_bytes / FLOAT, 2, 2)
    assert stored == corrected_bound(first, alive[0])


def test_vgg16_stores_what_was_promised():
    units = _facts(network("vgg16-4096"), 8, (3, 32, 32))
    assert sum(unit.weight_bytes for unit in units) == FLOAT * 33_638_218
    cuts = equal_size([unit.weight_bytes for unit in units], 4)
    alive = steady_peaks(4, 4)
    part = split(units, cuts)[0]
    layers = [layer for unit in part for layer in unit.layers]
    choices = all_by(Policy.stash, layers), all_by(Policy.on_demand, layers), smallest(layers, alive[0])
    stash, demand, best = (stage_bytes(part, c, alive[0], state_tensors=0, last=False).stored for c in choices)
    assert best <= 0.382 * stash and best <= 0.633 * demand


@pytest.mark.parametrize("name", ["vgg11-4096", "vgg16-4096"])
@pytest.mark.parametrize("batch", [1, 8, 64])
def test_best_of_never_stores_more_than_either(name, batch):
    units = _facts(network(name), batch, (3, 32, 32))
    for stages, m in {(n, m) for n in (2, 3, 4) for m in (n, 4)}:
        cuts, alive = equal_size([unit.weight_bytes for unit in units], stages), steady_peaks(stages, m)
        for at, part in enumerate(split(units, cuts)):
            layers = [layer for unit in part for layer in unit.layers]
            choices = smallest(layers, alive[at]), all_by(Policy.stash, layers), all_by(Policy.on_demand, layers)
            best, *others = (
                stage_bytes(part, c, alive[at], state_tensors=0, last=at == stages - 1).stored for c in choices
            )
            assert best <= min(others)


def test_a_cap_that_a_stash_cannot_meet():
    units = _facts(network("vgg16-4096"), 8, (3, 32, 32))
    devices = [Device(f"d{i}", 1e10, 80 * 2**20) for i in range(3)]
    with pytest.raises(InfeasibleError, match="no split of 16 units fits d0 80 MiB"):
        partition(units, devices, m=3, keeping=Keeping.stash)
    plain, best = (partition(units, devices, m=3, keeping=k) for k in (Keeping.on_demand, Keeping.best_of))
    assert best.speedup >= 1.8 and best.speedup > 1.3 * plain.speedup
    assert all(stage.choice.size.total <= 80 * 2**20 for stage in best.stages)
    with pytest.raises(UsageError, match="expected 1 to 16"):
        partition(units, devices * 6, m=3)
    with pytest.raises(UsageError, match="memory: got 0"):
        Device("small", 1.0, 0.0)
