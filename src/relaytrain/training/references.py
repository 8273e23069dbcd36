"""Several references as one: what a run may call of the user's own code."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import nn

from ..core.errors import ScenarioError
from ..models.rebuild import Resolve


def either(known: Mapping[str, Resolve]) -> Resolve:
    """One `resolve` out of several; references that none of them is for are refused."""

    def follow(reference: str) -> Callable[[], nn.Module]:
        if reference not in known:
            raise ScenarioError(f"factory: the version asks for {reference!r}, which this scenario does not name")
        return known[reference](reference)

    return follow
