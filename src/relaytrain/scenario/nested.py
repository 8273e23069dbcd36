"""Which versions of a scenario are slices of which: what `way = "nested"` says about costs and handovers."""

from __future__ import annotations

from collections.abc import Sequence

from .schema import VersionTable


def slices_in(versions: Sequence[VersionTable]) -> dict[str, tuple[str, ...]]:
    """By version: the nested versions inside it, from the largest; those without any are left out.

    The full version is the first one with a network of its own, or just the first; a nested one holds all others that
    have fewer of its parameters.
    """
    if not any(version.way == "nested" for version in versions):
        return {}
    full = next((v for v in versions if v.family is not None or v.factory is not None), versions[0])
    left: dict[str, float] = {full.name: 1.0}
    for version in versions:
        if version.ratio is not None and version.name != full.name:
            left[version.name] = left.get(version.of or full.name, 1.0) * (1.0 - version.ratio)
    nested = sorted((v.name for v in versions if v.way == "nested"), key=lambda name: -left[name])
    inside = {name: tuple(n for n in nested if left[n] < left[name]) for name in (full.name, *nested)}
    return {name: inner for name, inner in inside.items() if inner}
