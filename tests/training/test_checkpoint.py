"""Checkpoints: equal bytes for equal state, nothing believed that is not checked, no pickle ever."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save

from relaytrain.core.errors import ScenarioError
from relaytrain.models import build, family_spec
from relaytrain.training.checkpoint import METADATA_KEY, Checkpoint

pytestmark = pytest.mark.train
SPEC = family_spec("resnet8", input=(1, 8, 8), classes=10, width=0.25)


def checkpoint() -> Checkpoint:
    model = build(SPEC, seed=1)
    momentum = {f"momentum_buffer/{name}": torch.randn_like(p) for name, p in model.named_parameters()}
    return Checkpoint.of_model(model, SPEC, "half", momentum)


def test_round_trip_is_bit_equal() -> None:
    one = checkpoint()
    other = Checkpoint.from_bytes(one.data)
    assert other.data == one.data and other.digest == one.digest
    assert (other.spec, other.version) == (SPEC, "half")
    model = other.model()
    assert all(torch.equal(tensor, one.weights[name]) for name, tensor in model.state_dict().items())
    assert not model.training


def test_bytes_do_not_depend_on_the_order_of_tensors() -> None:
    one = checkpoint()
    turned = replace(
        one,
        weights=dict(reversed(one.weights.items())),
        optimizer=dict(reversed(one.optimizer.items())),
    )
    assert turned.data == one.data


def test_a_checkpoint_is_a_copy() -> None:
    model = build(SPEC, seed=1)
    kept = Checkpoint.of_model(model, SPEC, "full")
    before = kept.digest
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    assert Checkpoint.from_bytes(kept.data).digest == before == replace(kept).digest


class Trap:
    opened = False

    def __reduce__(self) -> tuple[type[setattr], tuple[object, ...]]:  # type: ignore[valid-type]
        return setattr, (Trap, "opened", True)


def hostile() -> dict[str, bytes]:
    good = checkpoint()
    header = json.dumps({"spec": SPEC.to_dict(), "version": "half"})
    weights = {f"weights/{name}": tensor for name, tensor in good.weights.items()}
    first = next(iter(weights))
    other = family_spec("cnn", input=(1, 8, 8), classes=10)

    def made(tensors: dict[str, torch.Tensor], text: str = header) -> bytes:
        return bytes(save(tensors, metadata={METADATA_KEY: text}))

    return {
        "empty": b"",
        "pickle": pickle.dumps({"weights": Trap()}),
        "cut": good.data[:-10],
        "cut in the header": good.data[:20],
        "huge header": (2**60).to_bytes(8, "little") + b"{}",
        "no spec": bytes(save(weights)),
        "another spec": made(weights, json.dumps({"spec": other.to_dict(), "version": "half"})),
        "a version that is no name": made(weights, json.dumps({"spec": SPEC.to_dict(), "version": ["half"]})),
        "one tensor less": made({name: t for name, t in weights.items() if name != first}),
        "one tensor more": made({**weights, "weights/extra": torch.zeros(2)}),
        "neither weight nor state": made({**weights, "other/thing": torch.zeros(2)}),
        "another shape": made({**weights, first: torch.zeros(3)}),
        "another kind": made({**weights, first: weights[first].double()}),
        "state of nothing": made({**weights, "optimizer/momentum_buffer/nowhere": torch.zeros(2)}),
        "state of another shape": made({**weights, f"optimizer/momentum_buffer/{first[8:]}": torch.zeros(2)}),
    }


@pytest.mark.parametrize("name", hostile())
def test_hostile_bytes_are_refused_in_words(name: str) -> None:
    with pytest.raises(ScenarioError, match="upload"):
        Checkpoint.from_bytes(hostile()[name], where="upload")
    assert not Trap.opened


def test_every_cut_is_refused() -> None:
    data = Checkpoint.of_model(build(SPEC), SPEC, "full").data
    for end in range(0, len(data), max(1, len(data) // 97)):
        with pytest.raises(ScenarioError):
            Checkpoint.from_bytes(data[:end])
