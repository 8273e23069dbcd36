"""Ranks of an adapter as versions: only factors are trained, sent and stored; the base is rebuilt and checked."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from relaytrain.core.errors import ScenarioError
from relaytrain.core.plan import Decision
from relaytrain.core.problem import Pair
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.inprocess import InProcess
from relaytrain.models.rebuild import build, only
from relaytrain.models.spec import FactorySpec, read_spec, spec_json
from relaytrain.scenario import load_scenario as load
from relaytrain.training.aggregate import average
from relaytrain.training.checkpoint import Checkpoint
from relaytrain.training.handover import hand_over
from relaytrain.training.settings import seed_of
from relaytrain.training.setup import TrainingSetup

pytestmark = [
    pytest.mark.train,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("peft") is None, reason="needs peft"),
]

HERE = Path(__file__).parent
PLACES = ("body", "mix")
SCENARIO = """
schema = 1
name = "ranks"
target = { loss = 0.5, deadline = "1h" }
start = { loss = 2.3, version = "r4", nodes = "pair" }
versions = [
  { name = "r4", factory = "adapted:make", rank = 4, targets = ["body", "mix"], train = ["head"] },
  { name = "r2", rank = 2, alpha = 4.0 },
  { name = "r8", rank = 8 },
]
nodes = [{ name = "a" }, { name = "b" }]
node_sets = [{ name = "one", nodes = ["a"] }, { name = "pair", nodes = ["a", "b"] }]
law = { kind = "level", curves = [{ floor = 0.1, drop = 2.2, scale = 3, power = 1 }] }
pairs = [
  { version = "r4", nodes = "one", seconds = 1, energy = 1 },
  { version = "r4", nodes = "pair", seconds = 1, energy = 1 },
  { version = "r2", nodes = "pair", seconds = 1, energy = 1 },
  { version = "r8", nodes = "pair", seconds = 1, energy = 1 },
]
training = { optimizer = "adam", lr = 0.01, batch = 64 }
data = { source = "digits", partition = "iid" }
"""


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> TrainingSetup:
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "adapted.py").write_text((HERE / "adapted.py").read_text())
    (folder / "ranks.toml").write_text(SCENARIO)
    return TrainingSetup.from_scenario(load(folder / "ranks.toml"))


def trained(setup: TrainingSetup, nodes: str, checkpoint: Checkpoint, epoch: int = 1) -> Checkpoint:
    runner = FederatedEpoch(setup, InProcess(setup))
    return runner.run_epoch(Decision(epoch, checkpoint.version, nodes), checkpoint).checkpoint


def delta(checkpoint: Checkpoint, place: str) -> torch.Tensor:
    """What the adapter adds to a weight."""
    adapter = checkpoint.spec.adapter
    b, a = (checkpoint.weights[f"{place}.lora_{side}.default.weight"].double() for side in "BA")
    return adapter.alpha / adapter.rank * b @ a


def test_only_factors_and_the_head_travel(setup: TrainingSetup) -> None:
    start = setup.initial("r4")
    sides = [f"{place}.lora_{side}.default.weight" for place in PLACES for side in "AB"]
    assert set(start.weights) == {*sides, "head.weight", "head.bias"}
    facts = setup.version_facts()
    held = sum(t.numel() * 4 for t in start.weights.values())
    assert facts["r4"].weight_bytes == held and facts["r4"].parameters == held // 4
    assert facts["r4"].fixed_bytes == 4 * (64 * 32 + 32 + 32 * 32 + 32)
    assert facts["r2"].weight_bytes < facts["r4"].weight_bytes < facts["r8"].weight_bytes
    assert facts["r2"].flops_per_sample < facts["r8"].flops_per_sample
    spec = read_spec(spec_json(start.spec))
    assert spec == start.spec and isinstance(spec, FactorySpec) and spec.adapter is not None
    assert len(start.data) < held + 4000


def test_one_node_is_the_plain_loop_bit_for_bit(setup: TrainingSetup) -> None:
    """peft, Adam and a loop by hand on one side, the epoch on the other."""
    from peft import LoraConfig, inject_adapter_in_model

    start = setup.initial("r4")
    ours = trained(setup, "one", start)
    import adapted

    torch.manual_seed(0)
    base = adapted.make()
    torch.manual_seed(0)
    net = inject_adapter_in_model(LoraConfig(r=4, lora_alpha=4, target_modules=list(PLACES)), base)
    for name, parameter in net.named_parameters():
        parameter.requires_grad_("lora_" in name or name.startswith("head"))
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=0.01)
    images, labels = (torch.tensor(held) for held in (setup.datasets["a"].images, setup.datasets["a"].labels))
    torch.manual_seed(seed_of(0, 1, "a"))
    order = torch.randperm(len(labels))
    net.train()
    for chosen in torch.split(order, 64):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images[chosen]), labels[chosen]).backward()
        optimizer.step()
    state = net.state_dict()
    for name, tensor in ours.weights.items():
        assert torch.equal(tensor, state[name]), name


def test_the_average_is_of_the_products(setup: TrainingSetup) -> None:
    """The four-rank mean of two nodes lies nearer to the mean of their products than factors averaged apart."""
    start = trained(setup, "pair", setup.initial("r4"))
    sole = {node: trained(setup, node, replace_seed(start)) for node in ("one",)}["one"]
    other = Checkpoint(start.spec, {n: t * 0.5 + 0.01 for n, t in start.weights.items()}, {}, "r4")
    updates = {"a": (30, sole), "b": (10, other)}
    mean = average(updates, start)
    for place in PLACES:
        wanted = 0.75 * delta(sole, place) + 0.25 * delta(other, place)
        names = [f"{place}.lora_{side}.default.weight" for side in "BA"]
        apart = {n: 0.75 * sole.weights[n].double() + 0.25 * other.weights[n].double() for n in names}
        naive = apart[names[0]] @ apart[names[1]]
        assert (delta(mean, place) - wanted).norm() < (naive - wanted).norm()
    head = 0.75 * sole.weights["head.bias"] + 0.25 * other.weights["head.bias"]
    assert torch.allclose(mean.weights["head.bias"], head)


def replace_seed(checkpoint: Checkpoint) -> Checkpoint:
    return replace(checkpoint, optimizer={})


def test_a_handover_keeps_the_product_and_training_goes_on(setup: TrainingSetup) -> None:
    start = trained(setup, "pair", setup.initial("r4"))
    grown = hand_over(setup, start, "r8", "pair")
    assert grown.kind == "rank" and grown.checkpoint.version == "r8"
    shrunk = hand_over(setup, start, "r2", "pair").checkpoint
    images = torch.tensor(setup.datasets["a"].images[:8])
    before = start.model(resolve=setup.resolve)(images)
    assert torch.allclose(grown.checkpoint.model(resolve=setup.resolve)(images), before, atol=1e-5)
    for place in PLACES:
        wanted = delta(start, place)
        u, s, vh = torch.linalg.svd(wanted)
        assert torch.allclose(delta(grown.checkpoint, place), wanted, atol=1e-6)
        cut = u[:, :2] @ torch.diag(s[:2]) @ vh[:2]
        assert torch.allclose(delta(shrunk, place), cut, atol=1e-6)
    for checkpoint in (grown.checkpoint, shrunk):
        again = trained(setup, "pair", Checkpoint.from_bytes(checkpoint.data), epoch=2)
        assert set(again.optimizer) == set(start.optimizer)
    again = hand_over(setup, start, "r8", "pair")
    assert again.checkpoint.data == grown.checkpoint.data


def test_planners_know_that_ranks_go_both_ways() -> None:
    scenario = load(HERE.parents[1] / "examples" / "text_lora" / "notices.toml")
    small, large = (scenario.problem.index(Pair(version, "desks")) for version in ("rank2", "rank8"))
    up, down = scenario.costs.change_j[small, large], scenario.costs.change_j[large, small]
    assert np.isfinite(up) and np.isfinite(down) and up > down > 0.0, "more bytes are sent on the way up"


def test_another_base_is_refused(setup: TrainingSetup) -> None:
    import adapted

    spec = setup.initial("r4").spec
    assert isinstance(build(spec, resolve=only("adapted:make", adapted.make)), nn.Module)
    with pytest.raises(ScenarioError, match="it made a base with the digest"):
        build(spec, resolve=only("adapted:make", adapted.make_other))
    with pytest.raises(ScenarioError, match="only called when you pass resolve="):
        build(spec)


@pytest.mark.parametrize(
    "old, new, why",
    [
        ('targets = ["body", "mix"], ', "", "rank without targets"),
        ('factory = "adapted:make", rank = 4, ', "rank = 4, ", "rank without factory"),
        ("rank = 2, alpha = 4.0", "alpha = 4.0, ratio = 0.5", "alpha without rank"),
        ("rank = 8 }", 'rank = 8, factory = "adapted:make" }', "a second network with an adapter"),
        ("rank = 8 }", "rank = 8, ratio = 0.5 }", "ratio and rank"),
    ],
)
def test_what_makes_no_sense_is_named(tmp_path: Path, old: str, new: str, why: str) -> None:
    (tmp_path / "ranks.toml").write_text(SCENARIO.replace(old, new))
    with pytest.raises(ScenarioError, match=why):
        load(tmp_path / "ranks.toml")


def test_targets_and_parts_that_are_not_there(setup: TrainingSetup) -> None:
    assert setup.folder is not None
    for old, new, why in (
        ('["body", "mix"]', '["query"]', "adapter.targets: Target modules"),
        ('["head"]', '["tail"]', "adapter.train: 'tail' names nothing"),
    ):
        (setup.folder / "wrong.toml").write_text(SCENARIO.replace(old, new))
        with pytest.raises(ScenarioError, match=why):
            TrainingSetup.from_scenario(load(setup.folder / "wrong.toml"))
