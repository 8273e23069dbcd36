"""Versions of a network: spec-driven families, users' factories, how they travel, what they cost. torch loads on use.

`versions.versions` is imported from its own file.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .spec import (
    FactorySpec,
    FamilySpec,
    Spec,
    check_reference,
    digest,
    family_spec,
    read_spec,
    spec_json,
    validate_spec,
)

if TYPE_CHECKING:
    from .flops import Counts, count
    from .rebuild import build, from_scenario, of_module, only, shapes_of, spec_of
    from .travel import load_version, read_version_spec, save_version
    from .versions import VersionInfo

_LAZY = {
    "Counts": "flops",
    "VersionInfo": "versions",
    "build": "rebuild",
    "count": "flops",
    "from_scenario": "rebuild",
    "load_version": "travel",
    "of_module": "rebuild",
    "only": "rebuild",
    "read_version_spec": "travel",
    "save_version": "travel",
    "shapes_of": "rebuild",
    "spec_of": "rebuild",
}

__all__ = [
    "Counts",
    "FactorySpec",
    "FamilySpec",
    "Spec",
    "VersionInfo",
    "build",
    "check_reference",
    "count",
    "digest",
    "family_spec",
    "from_scenario",
    "load_version",
    "of_module",
    "only",
    "read_spec",
    "read_version_spec",
    "save_version",
    "shapes_of",
    "spec_json",
    "spec_of",
    "validate_spec",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
