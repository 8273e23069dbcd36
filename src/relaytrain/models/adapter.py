"""Adapters of a frozen network (LoRA, by peft): what is added, what travels, and which base it belongs to.

The base is never sent and never stored: its factory makes it, always with the same seed, and the SHA-256 of its state
in the spec says whether it is the one the adapter was trained on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from ..core.errors import ScenarioError, UsageError
from .spec import AdapterSpec

BASE_SEED = 0
"""torch's seed while a factory makes a base: a factory that draws its weights gives the same ones everywhere."""
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
"""Buffers of batch norms, which change in training though nothing else of the base does."""

_FACTOR_A = re.compile(r"\blora_(embedding_)?A\b")


def add_adapter(model: nn.Module, adapter: AdapterSpec) -> nn.Module:
    """`model`, frozen but for new factors of the adapter's rank in its targets and what `train` names; in place."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise UsageError(
            "versions that are ranks of an adapter need peft: pip install 'relaytrain[transformers]'"
        ) from error
    alpha: Any = adapter.alpha  # declared a whole number, but only ever divided by the rank
    config = LoraConfig(r=adapter.rank, lora_alpha=alpha, target_modules=list(adapter.targets))
    own = {name for name, _ in model.named_parameters() if _named(name, adapter.train)}
    for pattern in adapter.train:
        if not any(_named(name, (pattern,)) for name in own):
            raise ScenarioError(f"adapter.train: {pattern!r} names nothing in the network")
    try:
        adapted: nn.Module = inject_adapter_in_model(config, model)
    except ValueError as error:  # targets that are not there, or of a kind peft has no factors for
        line = (str(error).strip().splitlines() or ["no reason given"])[0][:200]
        raise ScenarioError(f"adapter.targets: {line}") from error
    for name, parameter in adapted.named_parameters():
        parameter.requires_grad_("lora_" in name or name in own)
    return adapted


def travelling(model: nn.Module) -> dict[str, Tensor]:
    """The part of an adapted model's state that training changes: what is sent, averaged and stored."""
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    return {n: t for n, t in model.state_dict().items() if n in trained or n.rpartition(".")[2] in STATISTICS}


def digest_of(model: nn.Module) -> str:
    """SHA-256 of a base: names, kinds, shapes and bytes of its whole state, by name."""
    seen = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        seen.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        seen.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return seen.hexdigest()


def check_base(model: nn.Module, adapter: AdapterSpec, where: str) -> None:
    """Raise unless `model` is the base that the adapter was trained on, to the last bit."""
    digest = digest_of(model)
    if digest != adapter.base:
        raise ScenarioError(
            f"{where}: it made a base with the digest {digest[:12]}, the adapter belongs to {adapter.base[:12]}; "
            "expected the same weights: the same file, the same code"
        )


def factor_pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """The names of B and A of every adapted weight, in order."""
    known = set(names)
    pairs = ((_FACTOR_A.sub(lambda m: f"lora_{m[1] or ''}B", name), name) for name in sorted(known))
    return [(b, a) for b, a in pairs if b != a and b in known]


def as_matrices(tensors: Mapping[str, Tensor], b: str, a: str) -> tuple[Tensor, Tensor]:
    """B and A as matrices; those of a convolution are folded."""
    return tensors[b].reshape(tensors[b].shape[0], -1), tensors[a].reshape(tensors[a].shape[0], -1)


def _named(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*") for pattern in patterns)
