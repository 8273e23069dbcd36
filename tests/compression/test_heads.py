"""Attention: heads go whole, the residual stream stays, the rebuilt version gives the same bits."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from relaytrain.compression.carry import carry_optimizer
from relaytrain.compression.channels import Surgeon
from relaytrain.compression.prune import prune, prune_to
from relaytrain.core.errors import ScenarioError, UsageError
from relaytrain.data.nested import called, tensors
from relaytrain.models.flops import count, weight_bytes
from relaytrain.models.rebuild import of_module, shapes_of, spec_of
from relaytrain.models.spec import FactorySpec, validate_spec
from relaytrain.models.travel import load_version, save_version
from relaytrain.training.optimizer import load_state, read_state

pytestmark = pytest.mark.train
DIM, HEADS = 24, 4


class Attention(nn.Module):
    """Attention as people write it; the sizes in its forward are attributes."""

    def __init__(self, *, fused: bool) -> None:
        super().__init__()
        self.num_heads, self.all_head_size, self.fused = HEADS, DIM, fused
        self.norm = nn.LayerNorm(DIM)
        if fused:
            self.qkv = nn.Linear(DIM, 3 * DIM)
        else:
            self.q, self.k, self.v = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, _ = x.shape
        size, normed = self.all_head_size // self.num_heads, self.norm(x)
        if self.fused:
            parts = self.qkv(normed).reshape(rows, length, 3, self.num_heads, size).permute(2, 0, 3, 1, 4).unbind(0)
        else:
            made = (self.q(normed), self.k(normed), self.v(normed))
            parts = tuple(t.view(rows, length, self.num_heads, size).transpose(1, 2) for t in made)
        mixed = functional.scaled_dot_product_attention(*parts)
        return x + self.out(mixed.transpose(1, 2).reshape(rows, length, self.all_head_size))


class Small(nn.Module):
    def __init__(self, *, fused: bool = False) -> None:
        super().__init__()
        self.embed = nn.Linear(6, DIM)
        self.attention = Attention(fused=fused)
        self.mlp = nn.Sequential(nn.Linear(DIM, 64), nn.GELU(), nn.Linear(64, DIM))
        self.head = nn.Linear(DIM, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(self.embed(x))
        return self.head((x + self.mlp(x)).mean(dim=1))


def small(fused: bool = False) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(3)
    return Small(fused=fused), torch.randn(2, 7, 6)


def rebuilt(model: nn.Module, pruned: nn.Module) -> tuple[FactorySpec, nn.Module]:
    """What arrives when the pruned version is sent to a place that has only the factory."""
    base, resolve = of_module(model)
    spec, arrived = load_version(save_version(pruned, spec_of(pruned, base)), resolve=resolve)
    assert isinstance(spec, FactorySpec)
    return spec, arrived


@pytest.mark.parametrize("fused", [False, True])
def test_heads_go_whole_and_the_rebuilt_version_is_the_same(fused: bool) -> None:
    model, rows = small(fused)
    pruned = prune(model, rows, 0.4)
    attention = pruned.model.attention
    assert isinstance(attention, Attention)
    assert attention.num_heads < HEADS and attention.all_head_size == attention.num_heads * (DIM // HEADS)
    assert pruned.model.mlp[0].out_features < 64
    assert pruned.model.embed.out_features == attention.out.out_features == DIM
    assert pruned.reached == pytest.approx(0.4, abs=0.1)
    spec, arrived = rebuilt(model, pruned.model)
    assert dict(spec.heads)["attention.num_heads"] == attention.num_heads
    assert torch.equal(arrived.eval()(rows), pruned.model.eval()(rows))
    again = prune_to(model, rows, shapes_of(pruned.model))
    assert again is not None
    assert torch.equal(again.model.eval()(rows), pruned.model.eval()(rows))


def test_the_least_head_is_the_one_that_goes() -> None:
    """Head 2 is made smallest by hand: its rows are gone, the others' are as they were."""
    model, rows = small()
    size = DIM // HEADS
    with torch.no_grad():
        for layer in (model.attention.q, model.attention.k, model.attention.v):
            layer.weight[2 * size : 3 * size] *= 1e-3
        model.attention.out.weight[:, 2 * size : 3 * size] *= 1e-3
    trial = Surgeon.of(model, rows).cut(0.25)
    left = [row for row in range(DIM) if not 2 * size <= row < 3 * size]
    for name in ("q", "k", "v"):
        before, after = getattr(model.attention, name), getattr(trial.model.attention, name)
        assert torch.equal(after.weight, before.weight[left]) and torch.equal(after.bias, before.bias[left])
    assert torch.equal(trial.model.attention.out.weight, model.attention.out.weight[:, left])


def test_the_optimizers_state_follows_the_heads() -> None:
    model, rows = small()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    functional.cross_entropy(model(rows), torch.tensor([1, 2])).backward()
    optimizer.step()
    pruned = prune(model, rows, 0.4)
    carried = carry_optimizer(read_state(optimizer, model), pruned.kept)
    for key, tensor in carried.items():
        assert not tensor.ndim or tensor.shape == pruned.model.get_parameter(key.partition("/")[2]).shape
    fresh = torch.optim.Adam(pruned.model.parameters(), lr=1e-2)
    load_state(fresh, pruned.model, carried)
    functional.cross_entropy(pruned.model(rows), torch.tensor([1, 2])).backward()
    fresh.step()


def test_layers_that_are_kept_keep_all_heads_and_widths() -> None:
    model, rows = small()
    body = prune(model, rows, 0.3, keep=["attention"]).model
    assert body.attention.num_heads == HEADS and body.mlp[0].out_features < 64
    heads = prune(model, rows, 0.2, keep=["mlp.*"]).model
    assert heads.attention.num_heads < HEADS and heads.mlp[0].out_features == 64
    with pytest.raises(UsageError, match=r"keep: 'nothing' names no layer of the network, expected such as embed"):
        prune(model, rows, 0.3, keep=["nothing"])


@pytest.mark.parametrize("ratio_in", ["flops", "bytes"])
def test_a_ratio_may_be_asked_in_flops_or_bytes(ratio_in: str) -> None:
    model, rows = small()
    size = weight_bytes if ratio_in == "bytes" else lambda m: count(m, rows).train_flops
    pruned = prune(model, rows, 0.3, measure=size)
    assert pruned.reached == 1.0 - size(pruned.model) / size(model)
    assert pruned.reached == pytest.approx(0.3, abs=0.08)


def test_rotary_positions_are_refused_and_not_searched_for_ever() -> None:
    class RotaryEmbedding(nn.Module):
        pass

    model, rows = small()
    model.attention.rotary = RotaryEmbedding()
    with pytest.raises(ScenarioError, match=r"attention\.rotary turns queries and keys by position"):
        prune(model, rows, 0.3)


def test_a_spec_may_say_nothing_but_counts_of_heads() -> None:
    model, _ = small()
    base, resolve = of_module(model)
    good = json.loads(json.dumps(base.to_dict()))
    assert validate_spec(good) == base
    for heads, why in (
        ({"attention.training": 0}, "expected a module's attribute such as"),
        ({"attention.forward": 1}, "expected a module's attribute such as"),
        ({"attention.num_heads": "4"}, "expected an integer"),
        ({"attention.num_heads": 0}, "expected an integer"),
        ({"attention.__class__.num_heads": 2}, None),
        ([1], "expected an object"),
    ):
        if why is None:
            spec = validate_spec({**good, "heads": heads})
            with pytest.raises(ScenarioError, match="does not have"):
                load_version(save_version(model, spec), resolve=resolve)
            continue
        with pytest.raises(ScenarioError, match=why):
            validate_spec({**good, "heads": heads})
    foreign = validate_spec({**good, "heads": {"mlp.num_heads": 2}})
    with pytest.raises(ScenarioError, match=r"mlp\.num_heads, which is no count of heads"):
        load_version(save_version(model, foreign), resolve=resolve)


@pytest.mark.slow
def test_networks_of_transformers() -> None:
    """ViT and BERT from a config: pruned in FLOPs and in parameters, rebuilt bit for bit, input by keyword."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    vit = transformers.ViTForImageClassification(
        transformers.ViTConfig(**size, image_size=8, patch_size=4, num_channels=1, num_labels=10)
    )
    bert = transformers.BertForSequenceClassification(
        transformers.BertConfig(**size, vocab_size=60, max_position_embeddings=16, num_labels=3)
    )
    tokens = {"input_ids": torch.ones(2, 8, dtype=torch.long), "attention_mask": torch.ones(2, 8, dtype=torch.long)}
    for model, example in ((vit, torch.randn(2, 1, 8, 8)), (bert, tokens)):
        flops = prune(model, example, 0.4, measure=lambda m, e=example: count(m, e).train_flops)
        assert flops.reached == pytest.approx(0.4, abs=0.05)
        pruned = prune(model, example, 0.4)
        assert pruned.reached == pytest.approx(0.4, abs=0.03)
        spec, arrived = rebuilt(model, pruned.model)
        assert sum(name.endswith("num_attention_heads") and value < 4 for name, value in spec.heads) == 2
        here, there = (next(tensors(called(m.eval(), example))) for m in (arrived, pruned.model))
        assert torch.equal(here, there)
