"""Versions of a network: spec-driven families, users' factories, how they travel, their cost. torch loads on use.

Read `spec` (a version in words), `rebuild` (from words to a module and back), `travel` (a version as bytes), `adapter`
(LoRA on a frozen base), `flops` (what a version costs). Families: `cnn`, `alexnet`, `vgg`, `resnet`, `mobilenet`, out
of pieces in `layers`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .spec import FactorySpec, FamilySpec, Spec, family_spec

if TYPE_CHECKING:
    from .flops import count
    from .rebuild import build, spec_of
    from .travel import load_version, save_version

_LAZY = {"build": "rebuild", "count": "flops", "load_version": "travel", "save_version": "travel", "spec_of": "rebuild"}

__all__ = [
    "FactorySpec",
    "FamilySpec",
    "Spec",
    "build",
    "count",
    "family_spec",
    "load_version",
    "save_version",
    "spec_of",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
