"""A checkpoint's bytes are those that the safetensors library itself would write."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load, save  # noqa: E402

from relaytrain.training.safetensors_bytes import as_safetensors  # noqa: E402

ONE = {"relaytrain.checkpoint/1": '{"a": "b\\u00e9", "c": 1}'}
KINDS = (torch.float32, torch.int64, torch.float64, torch.int32)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"half": torch.ones(3, dtype=torch.float16), "bits": torch.ones(5, dtype=torch.bool)},
        {"größe": torch.ones(2)},
        {"a\tb": torch.ones(2)},
        {'quoted "x" \\': torch.ones(2), "none": torch.zeros(0, 4), "number": torch.tensor(3)},
    ],
)
def test_bytes_are_the_librarys(more):
    made = torch.Generator().manual_seed(0)
    tensors = {
        f"weights/{i}.{kind}": (10 * torch.randn(3, i + 1, generator=made)).to(kind)
        for i in (1, 10, 2)
        for kind in KINDS
    }
    written = as_safetensors(tensors | more, ONE)
    assert written == bytes(save(tensors | more, metadata=ONE))
    assert all(torch.equal(load(written)[name], tensor) for name, tensor in (tensors | more).items())
